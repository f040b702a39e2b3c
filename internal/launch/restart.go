package launch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coppice-go/coppice/internal/control"
)

// A job may be restarted as a whole, which is what a job script does for a program that
// does not survive crashes: as soon as one of its processes has died or failed, the
// launcher kills the others, and starts all again, in the same way. In between it waits for nothing
// but their ends. The new start is another job: nothing of the first one's views,
// directory or key is left.

// Restart is a start of a job that was followed by another.
type Restart struct {
	Killed  []int   `json:"killed"`  // as in the report
	Cause   string  `json:"cause"`   // what went wrong first
	Seconds float64 `json:"seconds"` // from the start of the first process to the end of the last
}

func (p *Plan) checkRestart() error {
	switch {
	case p.Restart < 0:
		return fmt.Errorf("%d restarts; allowed: 0 or more", p.Restart)
	case p.Restart > 0 && p.respawns():
		return errors.New("a job that is restarted as a whole, and whose processes are respawned; allowed: one of them")
	case p.Restart > 0 && p.StdinRank >= 0:
		return fmt.Errorf("standard input for task %d of a job that is restarted, though it can be read once; allowed: none", p.StdinRank)
	}
	return nil
}

// Run carries the plan out and waits until all processes have ended. An error
// means that the job could not be started, and was not. The report says how the job went,
// even if it could not be started again. When ctx ends, the processes are killed.
// The timeout ends the job in any case, whatever hangs.
func (p *Plan) Run(ctx context.Context) (*Report, error) {
	if err := p.checkLimits(); err != nil {
		return nil, err
	}
	type outcome struct {
		report *Report
		err    error
	}
	dog, done := newWatchdog(p.Timeout, p.Abrupt), make(chan outcome, 1)
	go func() {
		report, err := p.runAll(ctx, dog)
		done <- outcome{report, err}
	}()
	select {
	case o := <-done:
		if struck := dog.end(); struck && o.err != nil {
			return dog.report("before all processes were started"), nil
		}
		return o.report, o.err
	case <-dog.gone:
		return dog.report("and the launcher did not come to its end: what became of the tasks is not known"), nil
	}
}

// runAll carries the plan out as often as needed.
func (p *Plan) runAll(ctx context.Context, dog *watchdog) (*Report, error) {
	j, err := p.run(ctx, dog, time.Time{}, nil)
	if err != nil {
		return nil, err
	}
	for j.restarts() {
		past := append(j.report.Restarts, j.attempt())
		if p.Notice != nil {
			p.Notice(fmt.Sprintf("restarted, %d of %d: %s", len(past), p.Restart, j.report.Cause))
		}
		again := *p
		again.Kills, again.Kill = nil, nil
		next, err := again.run(ctx, dog, j.first, past)
		if err != nil {
			why := fmt.Sprintf("it could not be started again: %v", err)
			if j.report.Timeout = dog.hasStruck(); j.report.Timeout {
				why = fmt.Sprintf("time-out after %v, before all processes were started again", p.Timeout)
			}
			j.report.Cause = why + "; before that " + j.report.Cause
			break
		}
		j = next
	}
	return &j.report, nil
}

// restarts reports whether the job, which is over, is started again.
func (j *job) restarts() bool {
	r := &j.report
	return r.givenUp && len(r.Restarts) < j.Restart && !r.Timeout && r.Signal == "" && r.cancelled == nil && r.broke == nil
}

// attempt returns the start that is over.
func (j *job) attempt() Restart {
	return Restart{Killed: j.report.Killed, Cause: j.report.Cause, Seconds: time.Since(j.began).Seconds()}
}

// bystander reports whether a process was killed only because another had died or failed.
func (t *TaskReport) bystander() bool { return t.Why == whyRestart && t.Failure == "" }

// hearFailure gives up on the job when a task has returned an error: its process may
// wait for the others.
func (j *job) hearFailure(e control.Event) {
	if failure, _ := e.Attrs["failure"].(string); j.Restart == 0 || e.Type != control.EventReturned || failure == "" {
		return
	}
	offer(j.failed, struct{}{}) // one is enough
}

// outlasted reports whether a process that has died had nothing left to do: the job had finished successfully.
func (j *job) outlasted(rank int) bool {
	had := false
	for _, s := range j.server.Status() {
		if s.Failure != "" {
			return false
		}
		had = had || s.Rank == rank && j.left(s)
	}
	return had
}

// left reports whether the job had finished when a process ended, which the coordinator may not know yet.
func (j *job) left(s control.Status) bool {
	return j.finished() && (s.Left || s.State == control.Returned)
}

// giveUp kills the running processes, because one of them has died or failed.
func (j *job) giveUp() {
	if j.Restart == 0 || j.ending() {
		return
	}
	j.report.givenUp = true
	j.hangUp()
	known := j.server.Status()
	j.killAll(whyRestart)
	for _, s := range known {
		i, started := j.entry[s.Rank]
		if !started || s.State != control.Dead || s.Left {
			continue
		}
		if j.why[s.Rank] == whyRestart { // it died by itself, and its end has not been reported
			delete(j.why, s.Rank)
		}
		j.report.Tasks[i].failed = j.began // before those that fail because of it
	}
}
