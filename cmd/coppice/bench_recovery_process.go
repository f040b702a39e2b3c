package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/bench/clock"
	benchloop "github.com/coppice-go/coppice/bench/loop"
	"github.com/coppice-go/coppice/bench/ops"
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
	p := &recoveryProcess{benchRecoveryProcessCmd: *b, deathLog: newDeathLog(b.Victims, c.stderr), out: json.NewEncoder(c.stdout)}
	job := coppice.Job{Recovery: coppice.Replay, Logger: slog.New(p.deathLog)}
	return job.Run(ctx, p.task)
}

// recoveryProcess is one of the processes.
type recoveryProcess struct {
	benchRecoveryProcessCmd
	*deathLog

	mu  sync.Mutex
	out *json.Encoder
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
		line := deathLine{Rank: t.Rank(), Death: i, Entered: clock.Now()}
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
	line := deathLine{Rank: t.Rank(), Death: i, Ready: true}
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
func (p *recoveryProcess) tell(ctx context.Context, line deathLine) error {
	select { // a task that needed nobody is done before the death
	case <-p.views[line.Death]:
	case <-ctx.Done():
		return ctx.Err()
	}
	time.Sleep(reportAfter)
	line.Noticed, line.Learned, line.Opened = p.noticed[line.Death].Load(), p.learned[line.Death].Load(), p.opened[line.Death].Load()
	return p.write(line)
}

func (p *recoveryProcess) write(line deathLine) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Encode(line)
}

// operate carries out the i-th operation once, as one task, and checks what it gives.
// Values come from the victim where the operation has one source, so that all others
// need it.
func (p *recoveryProcess) operate(ctx context.Context, t *coppice.Task, i, victim int) (err error) {
	ok := false
	if p.Work > 0 {
		ok, err = p.combine(ctx, t, i, victim)
	} else {
		ok, err = ops.Once(ctx, t, p.Op, p.Bytes, i, victim, recoveryProtections[p.Mode])
	}
	if err == nil && !ok {
		err = fmt.Errorf("wrong data in operation %d, %s", i, p.Op)
	}
	return err
}

// recoveryProtections are the modes as the library has them.
var recoveryProtections = map[string]coppice.Protection{replayMode: coppice.Replayed, agreedMode: coppice.Agreed}

// What --backups may be.
const backupsAuto, backupsOn, backupsOff = "auto", "on", "off"

// combine adds by a function that takes long. The victim is the root: it combines most. A task adds its rank and
// the operation's number.
func (p *recoveryProcess) combine(ctx context.Context, t *coppice.Task, i, victim int) (ok bool, err error) {
	opts := []coppice.Option{coppice.Mode(recoveryProtections[p.Mode])}
	if p.Backups != backupsAuto {
		opts = append(opts, coppice.Backups(p.Backups == backupsOn))
	}
	add := func(a, b []float64) []float64 {
		time.Sleep(p.Work)
		for i := range a {
			a[i] += b[i]
		}
		return a
	}
	numbers := slices.Repeat([]float64{float64(i + t.Rank())}, p.Bytes/8)
	var got []float64
	switch ranks := t.Size(); p.Op {
	case benchloop.Reduce:
		got, err = coppice.ReduceFunc(ctx, t, numbers, add, append(opts, coppice.Root(victim))...)
		return t.Rank() != victim || sums(got, p.Bytes, i, ranks), err
	case benchloop.AllReduce:
		got, err = coppice.AllReduceFunc(ctx, t, numbers, add, opts...)
		return sums(got, p.Bytes, i, ranks), err
	default:
		got, err = coppice.ScanFunc(ctx, t, numbers, add, opts...)
		return sums(got, p.Bytes, i, t.Rank()+1), err
	}
}

// sums reports whether so many bytes of numbers are the sums of those of the first so many ranks in the i-th operation.
func sums(got []float64, bytes, i, ranks int) bool {
	want := float64(ranks*i + ranks*(ranks-1)/2)
	return slices.Equal(got, slices.Repeat([]float64{want}, bytes/8))
}
