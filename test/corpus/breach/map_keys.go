package breach

import (
	"context"
	"strings"

	"github.com/coppice-go/coppice"
)

// mapKeys gathers the words of all tasks.
func mapKeys(ctx context.Context, t *coppice.Task) (any, error) {
	counts := map[string]int{}
	for i, word := range strings.Fields("the quick brown fox jumps over the lazy dog") {
		if i%t.Size() == t.Rank() {
			counts[word]++
		}
	}
	var words []string
	for word := range counts {
		words = append(words, word)
	}
	all, err := coppice.Gather(ctx, t, words)
	if err != nil {
		return nil, err
	}
	return all, coppice.Barrier(ctx, t)
}
