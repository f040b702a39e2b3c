package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/bench/clock"
)

// benchRecoveryProcessCmd is what `coppice bench recovery` starts: one process of a job
// in which others, or itself, are killed one after the other. Each death has an
// operation of its own, in which all others wait for the one that is to die.
type benchRecoveryProcessCmd struct {
	Mode    string `arg:""`
	Op      string `arg:""`
	Bytes   int    `arg:""`
	Victims []int  `arg:""`

	Work    time.Duration
	Backups string
}

func (b *benchRecoveryProcessCmd) Run(c *console) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	p := newRecoveryProcess(*b, slog.NewTextHandler(c.stderr, nil), c.stdout)
	job := coppice.Job{Recovery: coppice.Replay, Logger: slog.New(p)}
	return job.Run(ctx, p.task)
}

// recoveryProcess is the slog.Handler of a process, too: the library logs what happens
// to it, and that is when.
type recoveryProcess struct {
	benchRecoveryProcessCmd
	noticed []atomic.Int64  // by death: when a connection to the dead broke, last; 0: not yet
	learned []atomic.Int64  // by death: when the library first knew of it
	opened  []atomic.Int64  // by death: when the view without the dead was open here
	views   []chan struct{} // by death: closed when that view is open
	errors  slog.Handler    // of all else only errors are shown

	mu  sync.Mutex
	out *json.Encoder
}

func newRecoveryProcess(b benchRecoveryProcessCmd, errors slog.Handler, out io.Writer) *recoveryProcess {
	p := &recoveryProcess{benchRecoveryProcessCmd: b, errors: errors, out: json.NewEncoder(out)}
	for _, times := range []*[]atomic.Int64{&p.noticed, &p.learned, &p.opened} {
		*times = make([]atomic.Int64, len(b.Victims))
	}
	for range b.Victims {
		p.views = append(p.views, make(chan struct{}))
	}
	return p
}

// recoveryLine is what a task writes: that it is ready for a death, or what it saw of
// it. Times are those of the common clock.
type recoveryLine struct {
	Rank    int   `json:"rank"`
	Death   int   `json:"death"`
	Ready   bool  `json:"ready,omitempty"`
	PID     int   `json:"pid,omitempty"`     // of the process that the task began in
	Noticed int64 `json:"noticed,omitempty"` // by its process; absent: it had no connection
	Learned int64 `json:"learned,omitempty"` // by its process; absent: only by the view
	Opened  int64 `json:"opened,omitempty"`  // by its process
	Started int64 `json:"started,omitempty"` // the task, if this death is why it was run again
	Entered int64 `json:"entered,omitempty"` // the operation
	Done    int64 `json:"done,omitempty"`
}

// warmups are the operations before the first in which somebody dies: a task that is
// run again has to pass them, too.
const warmups = 3

// task is the program. A task that is run again says nothing of the deaths before its
// own, and loses no time there.
func (p *recoveryProcess) task(ctx context.Context, t *coppice.Task) error {
	began := clock.Now()
	own := -1 // the death of this task
	if t.Attempt() > 0 {
		own = p.deaths() - 1
	}
	root := 0
	if p.Work > 0 {
		root = p.Victims[len(p.Victims)-1] // it has something to combine again
	}
	for i := range warmups {
		if err := p.operate(ctx, t, i, root); err != nil {
			return err
		}
	}
	for i, victim := range p.Victims {
		if i > own {
			if err := p.await(ctx, t, i); err != nil {
				return err
			}
		}
		line := recoveryLine{Rank: t.Rank(), Death: i, Entered: clock.Now()}
		if err := p.operate(ctx, t, warmups+i, victim); err != nil {
			return err
		}
		line.Done = clock.Now()
		if i == own {
			line.Started = began
		}
		if i >= own {
			if err := p.tell(ctx, line); err != nil {
				return err
			}
		}
	}
	return nil
}

// await says that a task is ready for a death. The one that is to die waits for it.
func (p *recoveryProcess) await(ctx context.Context, t *coppice.Task, i int) error {
	line := recoveryLine{Rank: t.Rank(), Death: i, Ready: true}
	if t.Attempt() == 0 {
		line.PID = os.Getpid()
	}
	if err := p.write(line); err != nil {
		return err
	}
	if t.Attempt() == 0 && t.Rank() == p.Victims[i] {
		<-ctx.Done()
		return fmt.Errorf("task %d was to be killed: %w", t.Rank(), ctx.Err())
	}
	return nil
}

// tell writes what a task saw of a death, when all are over it: to report is not to get
// in the way of those who are not.
func (p *recoveryProcess) tell(ctx context.Context, line recoveryLine) error {
	select { // a task that needed nobody is done before the death
	case <-p.views[line.Death]:
	case <-ctx.Done():
		return ctx.Err()
	}
	time.Sleep(reportAfter)
	line.Noticed, line.Learned, line.Opened = p.noticed[line.Death].Load(), p.learned[line.Death].Load(), p.opened[line.Death].Load()
	return p.write(line)
}

func (p *recoveryProcess) write(line recoveryLine) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Encode(line)
}

// deaths is how many the process has a view without.
func (p *recoveryProcess) deaths() (n int) {
	for i := range p.opened {
		if p.opened[i].Load() != 0 {
			n = i + 1
		}
	}
	return n
}

// What the library logs of a connection, and of a view.
const (
	brokenMessage = "connection broken"
	viewMessage   = "view"
	viewMembers   = "members"
)

// Enabled implements slog.Handler.
func (p *recoveryProcess) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo
}

// Handle implements slog.Handler.
func (p *recoveryProcess) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelError {
		return p.errors.Handle(ctx, r)
	}
	switch r.Message {
	case brokenMessage:
		if i := p.victim(r); i >= 0 { // two that call each other at first drop one of two
			p.noticed[i].Store(clock.Now())
		}
	case deathMessage:
		if i := p.victim(r); i >= 0 {
			p.learned[i].CompareAndSwap(0, clock.Now())
		}
	case viewMessage:
		missing := max(0, p.all()-intOf(r, viewMembers))
		if i := missing - 1; i >= 0 && i < len(p.Victims) && p.opened[i].CompareAndSwap(0, clock.Now()) {
			close(p.views[i])
		}
	}
	return nil
}

// victim is which of the victims a record speaks of, −1 if of none.
func (p *recoveryProcess) victim(r slog.Record) int {
	return slices.Index(p.Victims, intOf(r, deathOf))
}

// all is how many processes there are: the first to die is the last of them.
func (p *recoveryProcess) all() int { return p.Victims[0] + 1 }

// intOf is a number in a record, −1 if it has none of that name.
func intOf(r slog.Record, key string) int {
	n := -1
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == key && a.Value.Kind() == slog.KindInt64 {
			n = int(a.Value.Int64())
		}
		return true
	})
	return n
}

// WithAttrs implements slog.Handler.
func (p *recoveryProcess) WithAttrs([]slog.Attr) slog.Handler { return p }

// WithGroup implements slog.Handler.
func (p *recoveryProcess) WithGroup(string) slog.Handler { return p }
