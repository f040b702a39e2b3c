package correct

import (
	"context"

	"github.com/coppice-go/coppice"
)

// breadthFirst finds how far the vertices of a graph are from vertex 0. Vertex v belongs to task v modulo the number of
// tasks.
func breadthFirst(ctx context.Context, t *coppice.Task) (any, error) {
	const vertices = 30
	s := struct {
		Level    int
		Distance map[int]int
		Frontier []int
	}{Distance: map[int]int{}}
	if t.Rank() == 0 {
		s.Distance[0] = 0
		s.Frontier = []int{0}
	}
	for left := 1; left > 0; s.Level++ {
		if err := coppice.Save(ctx, t, &s); err != nil {
			return nil, err
		}
		parts := make([][]int, t.Size())
		for _, v := range s.Frontier {
			for _, w := range []int{(v*3 + 1) % vertices, (v + 7) % vertices} {
				parts[w%t.Size()] = append(parts[w%t.Size()], w)
			}
		}
		got, err := coppice.AllToAll(ctx, t, parts)
		if err != nil {
			return nil, err
		}
		s.Frontier = nil
		for _, part := range got {
			for _, v := range part {
				if _, seen := s.Distance[v]; !seen {
					s.Distance[v] = s.Level + 1
					s.Frontier = append(s.Frontier, v)
				}
			}
		}
		if left, err = coppice.AllReduce(ctx, t, len(s.Frontier), coppice.Sum); err != nil {
			return nil, err
		}
	}
	return s.Distance, nil
}
