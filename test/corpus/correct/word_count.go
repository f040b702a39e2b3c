package correct

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	"github.com/coppice-go/coppice"
)

// wordCount counts the words of a text: each word goes to the task that its hash says, which counts it.
func wordCount(ctx context.Context, t *coppice.Task) (any, error) {
	text, err := coppice.Once(ctx, t, func(context.Context) (string, error) {
		return fmt.Sprintf("the fox %d and the dog and the %d birds of task %d", t.Rank(), t.Size(), t.Rank()), nil
	})
	if err != nil {
		return nil, err
	}
	counts := map[string]int{}
	for _, word := range strings.Fields(text) {
		counts[word]++
	}
	parts := make([]map[string]int, t.Size())
	for i := range parts {
		parts[i] = map[string]int{}
	}
	for word, n := range counts {
		h := fnv.New32a()
		h.Write([]byte(word))
		parts[int(h.Sum32())%t.Size()][word] = n
	}
	got, err := coppice.AllToAll(ctx, t, parts)
	if err != nil {
		return nil, err
	}
	mine := map[string]int{}
	for _, part := range got {
		for word, n := range part {
			mine[word] += n
		}
	}
	words := slices.Sorted(maps.Keys(mine))
	lines := make([]string, 0, len(words))
	for _, word := range words {
		lines = append(lines, fmt.Sprint(word, " ", mine[word]))
	}
	return coppice.Gather(ctx, t, lines)
}
