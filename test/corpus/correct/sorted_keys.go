package correct

import (
	"context"
	"sort"

	"github.com/coppice-go/coppice"
)

// sortedKeys sends the entries of a map in the order of its keys.
func sortedKeys(ctx context.Context, t *coppice.Task) (any, error) {
	if t.Rank() > 0 {
		entries := map[string]int{}
		for range 4 {
			key, err := coppice.Recv[string](ctx, t, 0, 0)
			if err != nil {
				return nil, err
			}
			entries[key] = len(key) * t.Rank()
		}
		return entries, nil
	}
	sizes := map[string]int{"ash": 3, "beech": 5, "maple": 6, "elm": 2}
	var keys []string
	most, total := 0, 0
	for key, size := range sizes {
		keys = append(keys, key)
		total += size
		most = max(most, size)
		if size > most {
			most = size
		}
	}
	sort.Strings(keys)
	for _, key := range keys {
		for to := 1; to < t.Size(); to++ {
			if err := coppice.Send(ctx, t, to, 0, key); err != nil {
				return nil, err
			}
		}
	}
	return total + most, nil
}
