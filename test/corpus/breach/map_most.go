package breach

import (
	"context"

	"github.com/coppice-go/coppice"
)

// mapMost finds the most frequent word of each task.
func mapMost(ctx context.Context, t *coppice.Task) (any, error) {
	counts := map[string]int{}
	for _, word := range []string{"oak", "elm", "ash", "oak", "elm", "ash", "fir"} {
		counts[word]++
	}
	best, most := "", 0
	for word, n := range counts {
		if n > most {
			best, most = word, n
		}
	}
	return coppice.AllGather(ctx, t, best)
}
