package breach

import (
	"context"

	"github.com/coppice-go/coppice"
)

// mapRanks broadcasts each table from the task that has it.
func mapRanks(ctx context.Context, t *coppice.Task) (any, error) {
	owners := map[string]int{"orders": 0, "lines": 1, "parts": 2, "nations": 3}
	rows := map[string]int{}
	for table, owner := range owners {
		n, err := coppice.Broadcast(ctx, t, len(table), coppice.Root(owner))
		if err != nil {
			return nil, err
		}
		rows[table] = n
	}
	return rows, nil
}
