package launch

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"time"

	"github.com/coppice-go/coppice/internal/control"
	"github.com/coppice-go/coppice/internal/spool"
)

// follow sends the caller what a keeper of this host has spooled, and how its processes ended. It ends when everything is
// sent, or when the caller is gone or has been silent for a while.
func (a *agent) follow(caller context.Context, said *bufio.Scanner) error {
	ctx, stop := context.WithCancelCause(caller)
	defer stop(nil)
	job, err := a.kept()
	if err != nil {
		return a.to.say(notice{Type: noticeGone, Text: "it keeps nothing of the job"})
	}
	if a.orders.Follow.Remove {
		return a.removeKept(job)
	}
	silence := time.AfterFunc(patienceMin, func() { os.Exit(1) }) // writes may block for ever
	defer silence.Stop()
	go func() {
		defer stop(errors.New("nobody asks any more"))
		for said.Scan() {
			silence.Reset(patienceMin)
			var c command
			if json.Unmarshal(said.Bytes(), &c) != nil {
				return
			}
			if c.Signal != 0 {
				_ = job.Signal(c.Signal) // a process that is gone needs none
			}
		}
	}()
	go func() {
		for ctx.Err() == nil && (job.Stopped() || a.to.say(notice{Type: noticeAlive}) == nil) { // who does not work is not alive // who does not work is not alive
			time.Sleep(patienceMin / 6)
		}
	}()
	emit := func(stream int, data []byte, next int64) error {
		return a.to.say(notice{Type: noticeSpool, Stream: stream, Data: data, At: next})
	}
	if a.orders.Follow.Wait {
		emit = nil
	}
	result, err := job.Follow(ctx, a.orders.Follow.From, emit)
	switch {
	case errors.Is(err, spool.ErrKilled):
		control.Sweep(os.Getenv) // what the job has left
		return a.to.say(notice{Type: noticeGone, Text: "its agent was killed, and its processes with it"})
	case err != nil:
		return err
	}
	return a.to.say(notice{Type: noticeResult, Result: result})
}

// kept finds what is kept of the job on this host.
func (a *agent) kept() (*spool.Job, error) {
	root, err := spool.Root()
	if err != nil {
		return nil, err
	}
	return spool.Open(root, KeptName(a.orders.Follow.Job, a.orders.Follow.Host))
}

// removeKept removes what is kept of a job that has ended.
func (a *agent) removeKept(job *spool.Job) error {
	if job.Runs() {
		return a.to.say(notice{Type: noticeRefused, Text: "it runs there; allowed: a job that has ended (Ctrl-C in coppice attach ends it)"})
	}
	control.Sweep(os.Getenv)
	if err := forget(job, a.orders.Follow.Job); err != nil {
		return a.to.say(notice{Type: noticeRefused, Text: err.Error()})
	}
	return a.to.say(notice{Type: noticeGone, Text: "removed"})
}
