package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/coppice-go/coppice/internal/spool"
)

type attachCmd struct {
	Job       string `arg:"" placeholder:"JOB" help:"The job: what coppice run --detach has printed."`
	FromStart bool   `help:"Show all of the output that is kept, also what was shown before."`
	JSON      bool   `name:"json" help:"Print the report as JSON; the output goes to standard error."`
}

func (a *attachCmd) Run(c *console) error {
	job, err := found(a.Job)
	if err != nil {
		return err
	}
	detach, err := job.Attach()
	if errors.Is(err, spool.ErrAttached) {
		return badInput{fmt.Errorf("job %s is %w; allowed: one coppice attach at a time, and coppice wait beside it", job.Name, err)}
	}
	if err != nil {
		return err
	}
	defer detach()
	s := &show{console: c, job: job, json: a.JSON, at: job.Seen()}
	if a.FromStart {
		s.at = map[string]int64{}
	}
	result, err := s.follow()
	if result != nil && a.JSON && result.Report != nil {
		if err := c.printJSON(result.Report); err != nil {
			return err
		}
	}
	return concluded(job, result, err, s.passed)
}

// show shows the output of a job.
type show struct {
	*console
	job    *spool.Job
	json   bool
	at     map[string]int64 // by host: how far it was shown
	saved  time.Time        // when the job's directory was told that
	passed syscall.Signal   // the latest that was passed on; 0: none
}

// follow shows the output until the job ends. Signals that end a run are passed on; one that says that the terminal is gone, or that
// comes again and again after the job's keeper has gone, ends this command only.
func (s *show) follow() (*spool.Result, error) {
	ctx, stop := context.WithCancelCause(context.Background())
	defer stop(nil)
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGHUP)
	defer signal.Stop(signals)
	type end struct {
		result *spool.Result
		err    error
	}
	ended := make(chan end, 1)
	go func() {
		result, err := s.job.Follow(ctx, s.at[""], func(stream int, data []byte, next int64) error { return s.emit("", stream, data, next) })
		ended <- end{result, errors.Join(err, s.save())}
	}()
	for {
		select {
		case e := <-ended:
			return e.result, e.err
		case sig := <-signals:
			if sig == syscall.SIGHUP {
				stop(errors.New("the terminal is gone"))
				<-ended
				endBy(syscall.SIGHUP)
				return nil, context.Cause(ctx)
			}
			s.passed = sig.(syscall.Signal)
			_ = s.job.Signal(s.passed) // who is gone needs none
		}
	}
}

// saveEvery is how often the directory is told how far the output was shown.
const saveEvery = 100 * time.Millisecond

// emit shows some output.
func (s *show) emit(host string, stream int, data []byte, next int64) error {
	to := s.stdout
	if stream == spool.Stderr || s.json {
		to = s.stderr
	}
	if _, err := to.Write(data); err != nil {
		return err
	}
	s.at[host] = next
	if time.Since(s.saved) < saveEvery {
		return nil
	}
	return s.save()
}

func (s *show) save() error {
	s.saved = time.Now()
	return s.job.SetSeen(s.at)
}

type waitCmd struct {
	Job  string `arg:"" placeholder:"JOB" help:"The job: what coppice run --detach has printed."`
	JSON bool   `name:"json" help:"Print the report as JSON."`
}

func (w *waitCmd) Run(c *console) error {
	job, err := found(w.Job)
	if err != nil {
		return err
	}
	result, err := job.Follow(context.Background(), 0, nil)
	if result != nil && w.JSON && result.Report != nil {
		if err := c.printJSON(result.Report); err != nil {
			return err
		}
	}
	return concluded(job, result, err, 0)
}
