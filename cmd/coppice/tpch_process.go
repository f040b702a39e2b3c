package main

import (
	"context"
	"encoding/json"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/apps/tpch"
)

// tpchProcessCmd is what `coppice tpch` starts: one process of the job.
type tpchProcessCmd struct{ tpchCmd }

// tpchLine is what task 0 tells.
type tpchLine struct {
	tpch.Answer
	Load float64 `json:"load"` // seconds
	Ask  float64 `json:"ask"`
}

func (c *tpchProcessCmd) Run(con *console) error {
	q, err := c.question()
	if err != nil {
		return badInput{err}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	source := tpch.Generated(c.Sf)
	return coppice.Run(ctx, func(ctx context.Context, t *coppice.Task) error {
		began := time.Now()
		tables, err := source.Load(ctx, t.Rank(), t.Size(), q.Columns())
		if err != nil {
			return err
		}
		if err := coppice.Barrier(ctx, t); err != nil {
			return err
		}
		loaded := time.Now()
		answer, err := q.Ask(ctx, t, tables, source.Bounds())
		if err != nil || t.Rank() != 0 {
			return err
		}
		return json.NewEncoder(con.stdout).Encode(tpchLine{answer, loaded.Sub(began).Seconds(), time.Since(loaded).Seconds()})
	})
}
