package breach

import (
	"bufio"
	"context"
	"os"
	"strconv"

	"github.com/coppice-go/coppice"
)

// standardInput adds up the numbers that task 0 reads.
func standardInput(ctx context.Context, t *coppice.Task) (any, error) {
	sum := 0
	if t.Rank() == 0 {
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() {
			n, err := strconv.Atoi(lines.Text())
			if err != nil {
				return nil, err
			}
			sum += n
		}
	}
	return coppice.Broadcast(ctx, t, sum)
}
