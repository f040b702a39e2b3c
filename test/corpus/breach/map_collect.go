package breach

import (
	"context"
	"maps"
	"slices"

	"github.com/coppice-go/coppice"
)

// mapCollect shares out the vertices that a task has seen.
func mapCollect(ctx context.Context, t *coppice.Task) (any, error) {
	seen := map[int]bool{}
	for i := range 40 {
		seen[i*(t.Rank()+2)%41] = true
	}
	vertices := slices.Collect(maps.Keys(seen))
	parts := make([][]int, t.Size())
	for i := range parts {
		parts[i] = vertices[i*len(vertices)/t.Size() : (i+1)*len(vertices)/t.Size()]
	}
	return coppice.AllToAll(ctx, t, parts)
}
