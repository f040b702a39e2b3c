package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	source := c.source()
	job := coppice.Job{LogBytes: sortLog(source.Count * 8)}
	sort := func(ctx context.Context, t *coppice.Task) (sortLine, error) {
		_, line, err := sorted(ctx, t, samplesort.Keys{}, source.Load)
		return line, err
	}
	if c.Input != "" {
		files, wrong := c.open()
		if wrong == nil {
			defer files.Close()
		}
		// A task that is run again may have read something else although no file seems to have changed.
		job = coppice.Job{LogBytes: sortLog(files.Count * files.Size), Check: true}
		sort = func(ctx context.Context, t *coppice.Task) (sortLine, error) {
			if wrong != nil {
				return sortLine{}, wrong
			}
			part, line, err := sorted(ctx, t, files.Layout, files.Load)
			if err != nil {
				return line, err
			}
			return line, samplesort.WritePart(c.Output, t, part)
		}
	}
	return job.Run(context.Background(), func(ctx context.Context, t *coppice.Task) error {
		line, err := sort(ctx, t)
		if err == nil && t.Rank() == 0 {
			err = json.NewEncoder(con.stdout).Encode(line)
		}
		return returned(err)
	})
}

// sortLog is room for so many bytes in the log: they are lent, and take no memory of its own.
func sortLog(bytes int) int64 { return 1<<30 + int64(bytes) }

// open opens the files, which must be as the launcher has found them. What is wrong with them is an error of the tasks, which
// ends the job: a process that ended by itself would have died, and others would do its work.
func (c *sortProcessCmd) open() (*samplesort.Files, error) {
	files, err := samplesort.OpenFiles(c.Input, c.layout())
	if err != nil {
		return &samplesort.Files{}, err
	}
	if files.Mark != c.Mark {
		return &samplesort.Files{}, errors.Join(fmt.Errorf("files of %s have changed since the job began", c.Input), files.Close())
	}
	return files, nil
}

// returned is the error of a task, which the launcher learns of, and says.
func returned(err error) error {
	if err == nil {
		return nil
	}
	return told{err}
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
