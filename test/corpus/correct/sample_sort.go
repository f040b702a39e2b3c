package correct

import (
	"context"
	"slices"

	"github.com/coppice-go/coppice"
)

// sampleSort sorts numbers by splitters that task 0 chooses.
func sampleSort(ctx context.Context, t *coppice.Task) (any, error) {
	mine := make([]int, 12)
	for i := range mine {
		mine[i] = (t.Rank()*101 + i*i*37) % 211
	}
	slices.Sort(mine)
	samples, err := coppice.Gather(ctx, t, []int{mine[3], mine[7], mine[11]})
	if err != nil {
		return nil, err
	}
	var splitters []int
	if t.Rank() == 0 {
		all := slices.Concat(samples...)
		slices.Sort(all)
		for i := 1; i < t.Size(); i++ {
			splitters = append(splitters, all[i*len(all)/t.Size()])
		}
	}
	if splitters, err = coppice.Broadcast(ctx, t, splitters); err != nil {
		return nil, err
	}
	parts := make([][]int, t.Size())
	for _, x := range mine {
		to := 0
		for to < len(splitters) && x >= splitters[to] {
			to++
		}
		parts[to] = append(parts[to], x)
	}
	got, err := coppice.AllToAll(ctx, t, parts, coppice.Shared())
	if err != nil {
		return nil, err
	}
	sorted := slices.Concat(got...)
	slices.Sort(sorted)
	return sorted, nil
}
