package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/coppice-go/coppice/internal/control"
)

type joinCmd struct {
	jobFlag
	N    int  `name:"processes" short:"n" default:"1" placeholder:"K" help:"How many processes (default ${default})."`
	Rank *int `placeholder:"R" help:"One process, in the place of the dead one of this rank."`
	JSON bool `name:"json" help:"Print JSON."`

	Program []string `arg:"" optional:"" name:"prog" placeholder:"[-- PROG ARGS]" passthrough:"partial" help:"The program and its arguments, after -- (default: the job's own)."`
}

// joinReport is the result of a request.
type joinReport struct {
	Job    string           `json:"job"`
	Joined []control.Joiner `json:"joined"`
}

func (j *joinCmd) Run(c *console) error {
	request, err := j.request()
	if err != nil {
		return badInput{err}
	}
	dir, err := j.find()
	if err != nil {
		return err
	}
	joined, err := control.RequestJoin(context.Background(), dir, request)
	switch {
	case errors.As(err, new(control.Refused)):
		return badInput{err}
	case err != nil:
		return fmt.Errorf("job %s: %w", control.JobName(dir), err)
	}
	return c.show(j.JSON, joinReport{control.JobName(dir), joined}, func(w *bufio.Writer) {
		for _, p := range joined {
			fmt.Fprintf(w, "process %v joins job %s: pid %d", control.Identity{uint64(p.Rank), p.Incarnation}, control.JobName(dir), p.Pid)
			if p.Host != "" {
				fmt.Fprintf(w, " on %s", p.Host)
			}
			fmt.Fprintln(w)
		}
	})
}

func (j *joinCmd) request() (r control.JoinRequest, err error) {
	r = control.JoinRequest{Count: j.N, Rank: given(j.Rank, -1)}
	switch {
	case j.N < 1:
		return r, fmt.Errorf("%d processes; allowed: 1 or more", j.N)
	case j.Rank != nil && *j.Rank < 0:
		return r, fmt.Errorf("rank %d; allowed: 0 or more", *j.Rank)
	case j.Rank != nil && j.N > 1:
		return r, fmt.Errorf("%d processes of rank %d; allowed: 1", j.N, *j.Rank)
	}
	if r.Program, err = afterFlags(j.Program, "coppice join [flags] -- PROG ARGS"); err != nil {
		return r, err
	}
	r.Dir, err = os.Getwd()
	return r, err
}
