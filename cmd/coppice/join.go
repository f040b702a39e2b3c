package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/coppice-go/coppice/internal/control"
)

type joinCmd struct {
	jobFlag
	N    int  `bounds:"%d processes; allowed: 1 or more" name:"processes" short:"n" default:"1" placeholder:"K" help:"How many processes (default ${default})."`
	Rank *int `bounds:"rank %d; allowed: 0 or more" placeholder:"R" help:"One process, in the place of the dead one of this rank."`
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
	if j.Rank != nil && j.N > 1 {
		return r, fmt.Errorf("%d processes of rank %d; allowed: 1", j.N, *j.Rank)
	}
	if r.Program, err = afterFlags(j.Program, "coppice join [flags] -- PROG ARGS"); err != nil {
		return r, err
	}
	r.Dir, err = os.Getwd()
	return r, err
}

// jobFlag names a running job.
type jobFlag struct {
	Job string `placeholder:"JOB" help:"The job: its name or its directory (default: the one we are part of, or the only one of this user on this host)."`
}

// find returns the directory of the job. If there is no job at all, the input is not to blame; if the job is not the requested one, it is.
func (f jobFlag) find() (dir string, err error) {
	if err := control.CheckJobsDir(os.Getenv); err != nil {
		return "", err
	}
	jobs := control.Jobs(os.Getenv)
	names := each(jobs, control.JobName)
	wanted := cmp.Or(f.Job, os.Getenv(control.VarDir))
	switch {
	case strings.Contains(wanted, "/"):
		if dir, err = filepath.Abs(wanted); err != nil {
			return "", badInput{err}
		}
	case wanted != "":
		if i := slices.Index(names, control.JobName(wanted)); i >= 0 {
			return jobs[i], nil
		}
	case len(jobs) == 1:
		return jobs[0], nil
	}
	if dir != "" && (slices.Contains(jobs, dir) || control.Runs(dir)) {
		return dir, nil
	}
	switch {
	case wanted == "" && len(jobs) > 1:
		return "", badInput{fmt.Errorf("%d jobs run here; allowed: --job with one of %s", len(jobs), strings.Join(describe(jobs), ", "))}
	case len(jobs) == 0 && wanted == "":
		return "", errors.New("no running job on this host; start one with coppice run")
	case len(jobs) == 0:
		return "", badInput{fmt.Errorf("no job %s; allowed: one that runs, and none does here", wanted)}
	}
	return "", badInput{fmt.Errorf("no job %s; allowed: %s", wanted, strings.Join(names, ", "))}
}

// describe names jobs, each with what tells it from the others.
func describe(jobs []string) (texts []string) {
	ctx, stop := context.WithTimeout(context.Background(), 2*time.Second)
	defer stop()
	for _, dir := range jobs {
		text := control.JobName(dir)
		if about, err := control.Describe(ctx, dir); err == nil && !about.Began.IsZero() { // otherwise it has ended in the meantime, or its launcher is of an earlier version
			text += " (" + aboutText(about, commandShown) + ")"
		}
		texts = append(texts, text)
	}
	return texts
}

// commandShown is how much of a command is shown where several are in a line.
const commandShown = 60

// aboutText says what a job runs, up to a number of characters, which process started it, and when.
func aboutText(about control.About, most int) string {
	return fmt.Sprintf("%s, pid %d, since %s", dash(shortened(about.Command, most)), about.Pid, about.Began.Local().Format(time.DateTime))
}

// shortened returns a text cut to a length.
func shortened(text string, most int) string {
	runes := []rune(text)
	if len(runes) > most {
		runes = append(runes[:most], '…')
	}
	return string(runes)
}
