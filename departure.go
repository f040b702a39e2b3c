package coppice

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coppice-go/coppice/internal/control"
	"github.com/coppice-go/coppice/internal/node"
)

// departure is how a process without a launcher ends before its job does: it hands over what it has, if it has the time, and
// leaves.
type departure struct {
	p        *node.Process
	client   *control.Client
	finished <-chan struct{} // closed when the job is over
	log      *slog.Logger
	grace    time.Duration
	jointly  bool // if all are to leave, the context of their tasks ends, as if they were interrupted

	begun atomic.Bool // it waits, or leaves
	left  atomic.Bool // it leaves
}

// leaves has this process leave its job; nil: it cannot, without harm to the job.
var leaves atomic.Pointer[departure]

// terminated says that SIGTERM has come. A process that learns of it before it can leave does so as soon as it can.
var terminated atomic.Bool

// errTerminated: SIGTERM came before the process had joined its job, which is as well off without it.
var errTerminated = errors.New("coppice: terminated before it had joined its job")

// leaveTime is how long it may take to leave: who is gone by then without a word is found out, too.
const leaveTime = time.Second

// exitTerminated is the exit code of a process that has left, as of one that SIGTERM has killed.
const exitTerminated = 128 + int(syscall.SIGTERM)

// graceVariable is how long a process that is to end waits for a Save in which it hands its tasks over.
const graceVariable = "COPPICE_GRACE"

// graceTime fits the 30 s between SIGTERM and SIGKILL that Kubernetes and Slurm give by default.
const graceTime = 20 * time.Second

// grace is the time that a text says.
func grace(text string) (time.Duration, error) {
	if text == "" {
		return graceTime, nil
	}
	t, err := time.ParseDuration(text)
	if err != nil || t < 0 {
		return 0, fmt.Errorf("%s=%q; allowed: a time such as 20s, or 0s to leave at once", graceVariable, text)
	}
	return t, nil
}

// drain leaves the job, after what the process has is handed over, the grace is over, or a second signal comes. It returns only if
// the job is about to end by itself, or all are to leave and do so by the end of their contexts.
func (d *departure) drain(again <-chan os.Signal) {
	d.begun.Store(true)
	d.log.Info("terminated: hands over what it has", "grace", d.grace)
	timer := time.NewTimer(d.grace)
	why := "terminated"
	select {
	case <-d.finished:
		return
	case how := <-d.p.Drain():
		switch {
		case how == node.Disbanded && d.jointly:
			d.begun.Store(false)
			return
		case how == node.HandedOver:
			why = "terminated, and has handed over what it had"
		}
	case <-d.p.Out():
	case <-timer.C:
		if d.grace > 0 {
			why = fmt.Sprintf("terminated, and no Save came within %v in which to hand its tasks over", d.grace)
		}
	case <-again:
	}
	d.leave(why)
}

// leave ends the process, unless its job is about to.
func (d *departure) leave(why string) {
	select {
	case <-d.finished:
		return
	default:
	}
	d.left.Store(true)
	d.log.Warn("leaves the job: " + why)
	time.AfterFunc(leaveTime, func() { os.Exit(exitTerminated) }) // it is dead for the others, then
	_ = d.p.Leave()
	d.client.Close()
	os.Exit(exitTerminated)
}
