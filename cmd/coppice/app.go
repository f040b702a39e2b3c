package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/coppice-go/coppice/internal/control"
	"github.com/coppice-go/coppice/internal/launch"
)

// appFlags are those of an application that runs as a job, as of coppice run.
type appFlags struct {
	N       int            `name:"processes" short:"n" default:"2" placeholder:"N" help:"Number of processes (default ${default})."`
	Kill    []control.Kill `placeholder:"TASK@WHEN" sep:"none" help:"SIGKILL the process of a task, as in coppice run. May be repeated."`
	Timeout *time.Duration `bounds:"time-out of %v; allowed: a duration above 0, such as 30s" placeholder:"D" help:"End the run after so long."`
	JSON    bool           `name:"json" help:"Print JSON."`

	respawnFlags
}

// self is this program: it starts its own processes.
func self() string {
	path, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return path
}

// appJob is the job of an application: processes of this program.
type appJob struct {
	appFlags
	args   []string
	line   func(line []byte) error // takes what a process writes
	stderr io.Writer
	notice func(line string)   // what the launcher says; nil: nobody hears it
	events func(control.Event) // what the coordinator tells; nil: nobody hears it
}

// plan checks what is asked for, before anything starts.
func (j *appJob) plan() (*launch.Plan, error) {
	config := launch.Config{
		N: j.N, Program: self(), Args: j.args, Kills: j.Kill, StdinRank: -1,
		Abrupt: true, // nobody who runs these programs is to read their goroutines, and they have no more to do than their tasks
		Output: launch.Output{Stdout: &lineWriter{take: j.line}, Stderr: j.stderr, Prefix: true},
		Notice: j.notice, Events: j.events, Timeout: given(j.Timeout, 0),
	}
	if err := j.replace(&config); err != nil {
		return nil, badInput{err}
	}
	for _, k := range j.Kill { // each process has one task
		if k.Task >= j.N {
			return nil, badInput{fmt.Errorf("kill %v: task %d of %d; allowed: 0 to %d", k, k.Task, j.N, j.N-1)}
		}
	}
	plan, err := launch.New(config)
	if err != nil {
		return nil, badInput{err}
	}
	return plan, nil
}

// run starts the job and waits for it. Deaths that it has survived the launcher tells of, as coppice run does.
func (j *appJob) run(ctx context.Context) (*launch.Report, error) {
	plan, err := j.plan()
	if err != nil {
		return nil, err
	}
	report, err := plan.Run(ctx)
	switch {
	case err == nil && report.Exit != 0:
		err = report.Err()
		if said := report.Failure(); said != "" { // their processes keep silent
			err = fmt.Errorf("%w: %s", err, said)
		}
	case err == nil && report.Cause != "" && j.notice != nil:
		j.notice(report.Cause)
	}
	return report, err
}

// writeSurvived ends a line of a report with who was killed, and how often all began again.
func writeSurvived(w io.Writer, killed []int, restarts []launch.Restart) {
	if len(killed) > 0 {
		fmt.Fprintf(w, "; killed: %s", joined(killed))
	}
	if n := len(restarts); n > 0 {
		fmt.Fprintf(w, "; restarted %s", count(n, "time"))
	}
	fmt.Fprintln(w)
}

// lineWriter hands over the lines of processes, without the rank that they begin with.
type lineWriter struct {
	rest []byte // of an unfinished line
	take func(line []byte) error
}

// Write takes the lines that a text completes: each is a JSON document.
func (w *lineWriter) Write(text []byte) (int, error) {
	w.rest = append(w.rest, text...)
	for {
		line, rest, ok := bytes.Cut(w.rest, []byte("\n"))
		if !ok {
			return len(text), nil
		}
		w.rest = rest
		if err := w.take(line[max(0, bytes.IndexByte(line, '{')):]); err != nil {
			return 0, err
		}
	}
}

// takeJSON reads what a process tells.
func takeJSON[L any](heed func(L)) func(line []byte) error {
	return func(line []byte) error {
		var l L
		d := json.NewDecoder(bytes.NewReader(line))
		d.UseNumber() // as it was written
		if err := d.Decode(&l); err != nil {
			return fmt.Errorf("line %q of a process: %w", line, err)
		}
		heed(l)
		return nil
	}
}
