package breach

import (
	"context"
	"math/rand/v2"

	"github.com/coppice-go/coppice"
)

// randomGroup divides the tasks into two teams, which count their members.
func randomGroup(ctx context.Context, t *coppice.Task) (any, error) {
	team, err := t.Split(ctx, rand.IntN(2), t.Rank())
	if err != nil {
		return nil, err
	}
	return coppice.AllReduce(ctx, team, 1, coppice.Sum)
}
