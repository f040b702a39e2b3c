package main

import (
	"context"
	"fmt"
	"time"

	"github.com/coppice-go/coppice"
	benchloop "github.com/coppice-go/coppice/bench/loop"
	"github.com/coppice-go/coppice/bench/ops"
)

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
	numbers := make([]float64, p.Bytes/8)
	for k := range numbers {
		numbers[k] = float64(i + t.Rank())
	}
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
	for _, v := range got {
		if v != want {
			return false
		}
	}
	return len(got) == bytes/8
}
