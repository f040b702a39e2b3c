package breach

import (
	"context"
	"strings"

	"github.com/coppice-go/coppice"
)

// countsCombines counts how many values were combined where.
func countsCombines(ctx context.Context, t *coppice.Task) (any, error) {
	combined := 0
	longest, err := coppice.AllReduceFunc(ctx, t, strings.Repeat("x", t.Rank()), func(a, b string) string {
		combined++
		return max(a, b)
	})
	if err != nil {
		return nil, err
	}
	n, err := coppice.AllReduce(ctx, t, combined, coppice.Sum)
	return n + len(longest), err
}
