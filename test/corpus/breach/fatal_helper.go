package breach

import (
	"context"
	"log"

	"github.com/coppice-go/coppice"
)

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// fatalHelper adds up ranks.
func fatalHelper(ctx context.Context, t *coppice.Task) (any, error) {
	sum, err := coppice.AllReduce(ctx, t, t.Rank(), coppice.Sum)
	must(err)
	return sum, nil
}
