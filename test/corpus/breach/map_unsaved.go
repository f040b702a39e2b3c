package breach

import (
	"context"

	"github.com/coppice-go/coppice"
)

// mapUnsaved visits the vertices of a graph level by level.
func mapUnsaved(ctx context.Context, t *coppice.Task) (any, error) {
	s := struct{ Level, At int }{}
	visited := map[int]bool{}
	for ; s.Level < 5; s.Level++ {
		if err := coppice.Save(ctx, t, &s); err != nil {
			return nil, err
		}
		fresh := 0
		if at := (s.At + t.Rank()) % 4; !visited[at] {
			visited[at] = true
			fresh = 1
		}
		n, err := coppice.AllReduce(ctx, t, fresh, coppice.Sum)
		if err != nil {
			return nil, err
		}
		s.At += n
	}
	return s.At, nil
}
