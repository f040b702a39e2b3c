package breach

import (
	"context"
	"os"
	"strconv"

	"github.com/coppice-go/coppice"
)

// hostName lists the hosts of all tasks.
func hostName(ctx context.Context, t *coppice.Task) (any, error) {
	name, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	all, err := coppice.AllGather(ctx, t, name+strconv.Itoa(t.Rank()))
	return len(all), err
}
