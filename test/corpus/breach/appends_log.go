package breach

import (
	"context"
	"fmt"
	"os"

	"github.com/coppice-go/coppice"
)

// appendsLog writes its result into a file of all tasks.
func appendsLog(ctx context.Context, t *coppice.Task) (any, error) {
	f, err := os.OpenFile(os.DevNull, os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	sum, err := coppice.AllReduce(ctx, t, t.Rank(), coppice.Sum)
	if err != nil {
		return nil, err
	}
	_, err = fmt.Fprintln(f, t.Rank(), sum)
	return sum, err
}
