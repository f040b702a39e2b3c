package breach

import (
	"context"
	"os"
	"strconv"

	"github.com/coppice-go/coppice"
)

// envRounds doubles a number as often as a variable says.
func envRounds(ctx context.Context, t *coppice.Task) (any, error) {
	rounds, err := strconv.Atoi(os.Getenv("CORPUS_ROUNDS"))
	if err != nil {
		rounds = 3
	}
	v := 1
	for range rounds {
		if v, err = coppice.AllReduce(ctx, t, v, coppice.Sum); err != nil {
			return nil, err
		}
	}
	return v, nil
}
