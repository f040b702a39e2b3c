package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/coppice-go/coppice/internal/control"
	"github.com/coppice-go/coppice/internal/launch"
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
	signals := make(chan os.Signal, 16) // before the command is visible as attached
	notifyOfEnds(signals)
	defer signal.Stop(signals)
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
	if s.about, err = job.About(); err != nil {
		return err
	}
	result, err := s.follow(signals)
	if err == nil {
		err = tellResult(c, result, s.about.Hosts != nil, a.JSON) // the output of a job that had its keeper here ends with the line
	}
	return concluded(job, result, err, s.passed)
}

// tellResult reports how a job ended, in a line and as JSON.
func tellResult(c *console, result *spool.Result, inLine, asJSON bool) error {
	if inLine && result.Error != "" {
		c.notice(result.Error)
	}
	if asJSON && result.Report != nil {
		return c.printJSON(result.Report)
	}
	return nil
}

// attachment returns what follows a job on other hosts.
func attachment(c *console, job *spool.Job, about spool.About) *launch.Attachment {
	a := &launch.Attachment{Job: job.Name, Hosts: about.Hosts, SSH: about.SSH, Agent: about.Agent, Notice: c.notice}
	if job.Result() != nil { // its hosts were asked before
		a.Patience = briefPatience
	}
	return a
}

// briefPatience is the patience with hosts of a job that is known to have ended.
const briefPatience = 3 * time.Second

// show shows the output of a job.
type show struct {
	*console
	job    *spool.Job
	about  spool.About
	json   bool
	at     map[string]int64 // by host: how much of its output was shown
	saved  time.Time        // when the job's directory last recorded that
	passed syscall.Signal   // the latest signal that was forwarded; 0: none
}

// follow shows the output until the job ends. It forwards signals that end a run. A signal that says that the terminal is gone, or that
// no host can take, ends this command only.
func (s *show) follow(signals <-chan os.Signal) (*spool.Result, error) {
	ctx, stop := context.WithCancelCause(context.Background())
	defer stop(nil)
	type end struct {
		result *spool.Result
		err    error
	}
	follow, pass := s.followHere, func(sig syscall.Signal) bool { return s.job.Signal(sig) == nil }
	if s.about.Hosts != nil {
		there := attachment(s.console, s.job, s.about)
		there.From, there.Emit = maps.Clone(s.at), s.emit
		follow = func(ctx context.Context) (*spool.Result, error) { return followHosts(ctx, s.job, there) }
		pass = func(sig syscall.Signal) bool {
			heard := there.Signal(sig)
			if heard {
				s.notice(control.SignalName(sig) + ": passed on to all hosts; once more kills")
			}
			return heard
		}
	}
	ended := make(chan end, 1)
	go func() {
		result, err := follow(ctx)
		ended <- end{result, errors.Join(err, s.save())}
	}()
	for {
		select {
		case e := <-ended:
			return e.result, e.err
		case sig := <-signals:
			got := sig.(syscall.Signal)
			if got != syscall.SIGHUP {
				if pass(got) {
					s.passed = got
					continue
				}
				select {
				case e := <-ended: // just now
					return e.result, e.err
				case <-time.After(lastWords):
				}
			}
			stop(launch.Interrupted{Signal: got})
			e := <-ended
			return e.result, e.err
		}
	}
}

// followHere follows a job of this host.
func (s *show) followHere(ctx context.Context) (*spool.Result, error) {
	return s.job.Follow(ctx, s.at[""], func(stream int, data []byte, next int64) error { return s.emit("", stream, data, next) })
}

// followHosts follows a job of other hosts, and keeps how it ended.
func followHosts(ctx context.Context, job *spool.Job, a *launch.Attachment) (*spool.Result, error) {
	result, err := a.Follow(ctx)
	switch known := job.Result(); {
	case known != nil && ctx.Err() == nil: // by a command that could perhaps ask more of its hosts
		return known, nil
	case err != nil:
		return nil, err
	}
	return result, job.SetResult(result)
}

// saveEvery is how often the directory records how much output was shown.
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
	if err := s.job.SetSeen(s.at); !errors.Is(err, syscall.ENOSPC) { // without it something is shown again
		return err
	}
	return nil
}

type waitCmd struct {
	Job  string `arg:"" placeholder:"JOB" help:"The job: what coppice run --detach has printed."`
	JSON bool   `name:"json" help:"Print the report as JSON."`
}

func (w *waitCmd) Run(c *console) error {
	ctx, stop := untilFirstSignal() // which ends this command only
	defer stop()
	job, err := found(w.Job)
	if err != nil {
		return err
	}
	about, err := job.About()
	if err != nil {
		return err
	}
	result := job.Result()
	switch {
	case result != nil:
	case about.Hosts != nil:
		result, err = followHosts(ctx, job, attachment(c, job, about))
	default:
		result, err = job.Follow(ctx, 0, nil)
	}
	if err == nil {
		err = tellResult(c, result, true, w.JSON)
	}
	return concluded(job, result, err, 0)
}
