package silence

import (
	"context"
	"time"

	"github.com/coppice-go/coppice"
)

func silenced(ctx context.Context, t *coppice.Task) error {
	_, err := coppice.Broadcast(ctx, t, time.Now().Unix()) //coppice:ok all clocks are set by one
	if err != nil {
		return err
	}
	//coppice:ok the line below
	_, err = coppice.Broadcast(ctx, t, time.Now().Unix())
	if err != nil {
		return err
	}
	_, err = coppice.Broadcast(ctx, t, time.Now().Unix()) // want `the clock .*\[input\]`
	return err
}

func unreasoned(ctx context.Context, t *coppice.Task) error {
	/* want `gives no reason` */                           //coppice:ok
	_, err := coppice.Broadcast(ctx, t, time.Now().Unix()) // want `Broadcast gets a value`
	return err
}
