package main

import (
	"context"
	"fmt"
	"time"

	"github.com/coppice-go/coppice"
	benchloop "github.com/coppice-go/coppice/bench/loop"
)

// operate carries out the i-th operation once, as one task, and checks what it gives.
// Values come from the victim where the operation has one source, so that all others
// need it.
func (p *recoveryProcess) operate(ctx context.Context, t *coppice.Task, i, victim int) error {
	o := recoveryOperation{ctx, t, p.Bytes, i, victim, recoveryOptions[p.Mode]}
	run := o.run
	if p.Work > 0 {
		run = func(op string) (bool, error) { return o.combine(op, p.Work, p.Backups) }
	}
	ok, err := run(p.Op)
	if err == nil && !ok {
		err = fmt.Errorf("wrong data in operation %d, %s", i, p.Op)
	}
	return err
}

// recoveryOptions are the modes as the library has them.
var recoveryOptions = map[string]coppice.Option{
	replayMode: coppice.Mode(coppice.Replayed),
	agreedMode: coppice.Mode(coppice.Agreed),
}

// recoveryOperation is one task's part of one operation.
type recoveryOperation struct {
	ctx    context.Context
	t      *coppice.Task
	bytes  int
	i      int // which it is in the program
	victim int // who is to die in it
	mode   coppice.Option
}

// run tells whether what came is what was sent.
func (o *recoveryOperation) run(op string) (ok bool, err error) {
	switch rank, n := o.t.Rank(), o.t.Size(); op {
	case benchloop.Broadcast:
		return o.broadcast()
	case benchloop.Scatter:
		return o.scatter()
	case benchloop.Gather:
		got, err := coppice.Gather(o.ctx, o.t, o.block(rank, 0), o.mode)
		return rank != 0 || o.intact(got, 0), err
	case benchloop.AllGather:
		got, err := coppice.AllGather(o.ctx, o.t, o.block(rank, 0), o.mode)
		return o.intact(got, 0), err
	case benchloop.AllToAll:
		got, err := coppice.AllToAll(o.ctx, o.t, o.blocks(rank), o.mode)
		return o.intact(got, rank), err
	case benchloop.Reduce:
		got, err := coppice.Reduce(o.ctx, o.t, o.numbers(), coppice.Sum, o.mode)
		return rank != 0 || o.sum(got, n), err
	case benchloop.AllReduce:
		got, err := coppice.AllReduce(o.ctx, o.t, o.numbers(), coppice.Sum, o.mode)
		return o.sum(got, n), err
	case benchloop.Scan:
		got, err := coppice.Scan(o.ctx, o.t, o.numbers(), coppice.Sum, o.mode)
		return o.sum(got, rank+1), err
	case benchloop.Barrier:
		return true, coppice.Barrier(o.ctx, o.t, o.mode)
	default:
		return false, fmt.Errorf("operation %q is not one to die in", op)
	}
}

// What --backups may be.
const backupsAuto, backupsOn, backupsOff = "auto", "on", "off"

// combine adds by a function that takes long. The victim is the root: it combines most.
func (o *recoveryOperation) combine(op string, work time.Duration, backups string) (ok bool, err error) {
	opts := []coppice.Option{o.mode}
	if backups != backupsAuto {
		opts = append(opts, coppice.Backups(backups == backupsOn))
	}
	add := func(a, b []float64) []float64 {
		time.Sleep(work)
		for i := range a {
			a[i] += b[i]
		}
		return a
	}
	var got []float64
	switch rank, n := o.t.Rank(), o.t.Size(); op {
	case benchloop.Reduce:
		got, err = coppice.ReduceFunc(o.ctx, o.t, o.numbers(), add, append(opts, coppice.Root(o.victim))...)
		return rank != o.victim || o.sum(got, n), err
	case benchloop.AllReduce:
		got, err = coppice.AllReduceFunc(o.ctx, o.t, o.numbers(), add, opts...)
		return o.sum(got, n), err
	default:
		got, err = coppice.ScanFunc(o.ctx, o.t, o.numbers(), add, opts...)
		return o.sum(got, rank+1), err
	}
}

func (o *recoveryOperation) broadcast() (bool, error) {
	var data []byte
	if o.t.Rank() == o.victim {
		data = o.block(o.victim, 0)
	}
	got, err := coppice.Broadcast(o.ctx, o.t, data, o.mode, coppice.Root(o.victim))
	return benchloop.Marked(got, o.bytes, o.i, o.victim, 0), err
}

func (o *recoveryOperation) scatter() (bool, error) {
	var parts [][]byte
	if o.t.Rank() == o.victim {
		parts = o.blocks(o.victim)
	}
	got, err := coppice.Scatter(o.ctx, o.t, parts, o.mode, coppice.Root(o.victim))
	return benchloop.Marked(got, o.bytes, o.i, o.victim, o.t.Rank()), err
}

func (o *recoveryOperation) block(from, to int) []byte {
	b := benchloop.Block(o.bytes)
	benchloop.Mark(b, o.i, from, to)
	return b
}

// blocks has one for each task.
func (o *recoveryOperation) blocks(from int) (all [][]byte) {
	for to := range o.t.Size() {
		all = append(all, o.block(from, to))
	}
	return all
}

// intact tells whether a block of each task came.
func (o *recoveryOperation) intact(got [][]byte, to int) bool {
	for from, b := range got {
		if !benchloop.Marked(b, o.bytes, o.i, from, to) {
			return false
		}
	}
	return len(got) == o.t.Size()
}

// numbers are those that the task adds: its rank and the operation's number.
func (o *recoveryOperation) numbers() []float64 {
	all := make([]float64, o.bytes/8)
	for k := range all {
		all[k] = float64(o.i + o.t.Rank())
	}
	return all
}

// sum tells whether numbers are the sums of those of the first so many ranks.
func (o *recoveryOperation) sum(got []float64, ranks int) bool {
	want := float64(ranks*o.i + ranks*(ranks-1)/2)
	for _, v := range got {
		if v != want {
			return false
		}
	}
	return len(got) == o.bytes/8
}
