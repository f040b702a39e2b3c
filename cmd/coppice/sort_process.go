package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/apps/samplesort"
)

// sortProcessCmd is what `coppice sort` starts: one process of the job.
type sortProcessCmd struct {
	sortCmd
	Mark string `help:"Of the input."`
}

// sortLine is what task 0 tells.
type sortLine struct {
	samplesort.Sorted
	Load float64 // seconds
	Sort float64
}

func (c *sortProcessCmd) Run(con *console) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	source := c.source()
	load, bytes := source.Load, source.Count*8
	sort := func(ctx context.Context, t *coppice.Task) (sortLine, error) {
		_, line, err := sorted(ctx, t, samplesort.Keys{}, load)
		return line, err
	}
	if c.Input != "" {
		files, err := samplesort.OpenFiles(c.Input, c.layout())
		if err != nil {
			return err
		}
		if files.Mark != c.Mark {
			return fmt.Errorf("files of %s have changed", c.Input)
		}
		bytes = files.Count * files.Size
		sort = func(ctx context.Context, t *coppice.Task) (sortLine, error) {
			part, line, err := sorted(ctx, t, files.Layout, files.Load)
			if err != nil {
				return line, err
			}
			return line, samplesort.WritePart(c.Output, t, part)
		}
	}
	job := coppice.Job{LogBytes: 1<<30 + int64(bytes)} // the log is of what was lent: it takes no memory of its own
	return job.Run(ctx, func(ctx context.Context, t *coppice.Task) error {
		line, err := sort(ctx, t)
		if err != nil || t.Rank() != 0 {
			return err
		}
		return json.NewEncoder(con.stdout).Encode(line)
	})
}

// sorted loads, sorts and verifies the part of a task. Barriers are there for the clock.
func sorted[E any](ctx context.Context, t *coppice.Task, f samplesort.Form[E], load func(ctx context.Context, i, n int) ([]E, error)) ([]E, sortLine, error) {
	var line sortLine
	began := time.Now()
	mine, err := load(ctx, t.Rank(), t.Size())
	if err != nil {
		return nil, line, err
	}
	before := samplesort.Count(f, mine)
	if err := coppice.Barrier(ctx, t); err != nil {
		return nil, line, err
	}
	loaded := time.Now()
	part, err := samplesort.Sort(ctx, t, f, mine)
	if err != nil {
		return nil, line, err
	}
	if err := coppice.Barrier(ctx, t); err != nil {
		return nil, line, err
	}
	line.Load, line.Sort = loaded.Sub(began).Seconds(), time.Since(loaded).Seconds()
	line.Sorted, err = samplesort.Verify(ctx, t, f, before, part)
	return part, line, err
}
