package correct

import (
	"context"

	"github.com/coppice-go/coppice"
)

// bestOfAll finds the task with the smallest value, and has it broadcast.
func bestOfAll(ctx context.Context, t *coppice.Task) (any, error) {
	mine := coppice.At[int]{Value: (t.Rank()*7 + 3) % 5, Rank: t.Rank()}
	best, err := coppice.AllReduceFunc(ctx, t, mine, coppice.MinAt[int])
	if err != nil {
		return nil, err
	}
	list, err := coppice.Broadcast(ctx, t, []int{t.Rank(), mine.Value}, coppice.Root(best.Rank))
	if err != nil {
		return nil, err
	}
	longest, err := coppice.AllReduceFunc(ctx, t, list, func(a, b []int) []int {
		if len(b) > len(a) {
			return b
		}
		return a
	})
	return longest, err
}
