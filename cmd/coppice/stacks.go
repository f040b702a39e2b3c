package main

import (
	"bufio"
	"context"
	"fmt"
	"time"

	"github.com/coppice-go/coppice/internal/control"
)

type stacksCmd struct {
	Job  string `arg:"" optional:"" placeholder:"JOB" help:"The job: its name or its directory (default: the one we are part of, or the only one of this user on this host)."`
	JSON bool   `name:"json" help:"Print JSON."`
}

func (s *stacksCmd) Run(c *console) error {
	dir, err := jobFlag{Job: s.Job}.find()
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(context.Background(), stacksTime)
	defer stop()
	states, err := control.States(ctx, dir)
	if err != nil {
		return fmt.Errorf("job %s: %w", control.JobName(dir), err)
	}
	if s.JSON {
		return c.printJSON(states)
	}
	return c.print(func(w *bufio.Writer) {
		for _, line := range control.StateLines(states) {
			fmt.Fprintln(w, line)
		}
	})
}

// stacksTime is how long the coordinator has to answer; it gives the processes less.
const stacksTime = 10 * time.Second
