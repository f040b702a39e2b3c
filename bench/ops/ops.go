// Package ops implements the operations of bench/loop on Coppice's public API: one task's part of each,
// with memory that is allocated once. openmpi/loop.c is the same in C: change both together. Its API may change.
package ops

import (
	"context"
	"fmt"
	"slices"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/bench/loop"
)

// How says how operations are carried out.
type How struct {
	Mode       coppice.Option     // Replayed, Plain or Agreed
	Correction coppice.Correction // of Broadcast, Reduce and AllReduce, which then are Corrected; zero: none
	Along      []coppice.Option   // of Broadcast: at most its tree
}

// Measure runs the loop of a job at one task, after a barrier, and returns its spans. The barriers
// are alive's: alive is t itself, or the group of the live tasks.
//
// With Twice there is an Agree before each operation, in the measured time: with
// Agreed and Recovery Report that is one agreement before it and one after it.
func Measure(ctx context.Context, t, alive *coppice.Task, job loop.Job, how How) ([]loop.Span, error) {
	if err := coppice.Barrier(ctx, alive); err != nil || job.Op == loop.Start {
		return nil, err
	}
	o := &operation{ctx: ctx, t: t, alive: alive, bytes: job.Bytes, copies: job.Copies, how: how}
	steps, err := o.steps(job.Op)
	if err != nil {
		return nil, err
	}
	if timed := steps.Timed; job.Twice {
		steps.Timed = func() error {
			if _, _, err := coppice.Agree(ctx, alive, true, func(a, b bool) bool { return a && b }); err != nil {
				return err
			}
			return timed()
		}
	}
	return job.Measure(t.Rank(), steps)
}

// Once runs one task's part of an operation once, as the i-th of a program: no memory is lent. The
// source is the root of a broadcast or a scatter. Once reports whether the data that came is what was
// sent.
func Once(ctx context.Context, t *coppice.Task, op string, bytes, i, source int, how How) (intact bool, err error) {
	o := &operation{ctx: ctx, t: t, alive: t, bytes: bytes, how: how, source: source, once: true}
	s, err := o.steps(op)
	if err != nil {
		return false, err
	}
	if s.Mark != nil {
		s.Mark(i)
	}
	err = s.Timed()
	return err == nil && (s.Intact == nil || s.Intact(i)), err
}

// operation is one task's part of a loop.
type operation struct {
	ctx    context.Context
	t      *coppice.Task
	alive  *coppice.Task
	bytes  int
	copies int
	how    How
	source int  // the root of broadcasts and scatters
	once   bool // there is no loop: memory is not used again
}

// options returns the options of a loop: its memory is lent, and used again.
func options[E any](o *operation, mode coppice.Option, into []E) []coppice.Option {
	if o.once {
		return []coppice.Option{mode}
	}
	return []coppice.Option{mode, coppice.Shared(), coppice.Into(into)}
}

// fromSource adds the root option of an operation that has a source.
func (o *operation) fromSource(opts []coppice.Option) []coppice.Option {
	if o.source == 0 {
		return opts
	}
	return append(opts, coppice.Root(o.source))
}

// steps returns the steps of the operation with this name.
func (o *operation) steps(op string) (s loop.Steps, err error) {
	switch op {
	case loop.Barrier:
		return loop.Steps{Timed: func() error { return coppice.Barrier(o.ctx, o.alive, o.how.Mode) }}, nil
	case loop.PingPong:
		if o.t.Size() != 2 {
			return s, fmt.Errorf("%d processes in a ping-pong; allowed: 2", o.t.Size())
		}
		return o.pingPong(), nil
	case loop.Broadcast:
		s = o.broadcast()
	case loop.Reduce:
		s = o.sum(coppice.Reduce[[]float64], o.atRoot(o.t.Size()), o.correctable())
	case loop.AllReduce:
		s = o.sum(coppice.AllReduce[[]float64], o.t.Size(), o.correctable())
	case loop.Scan:
		s = o.sum(coppice.Scan[[]float64], o.t.Rank()+1, o.how.Mode)
	case loop.ExScan:
		s = o.sum(coppice.ExScan[[]float64], o.t.Rank(), o.how.Mode)
	case loop.ReduceScatter:
		s = o.reduceScatter()
	case loop.Scatter:
		s = o.scatter()
	case loop.Gather:
		s = o.collect(coppice.Gather[[]byte], o.atRoot(o.t.Size()))
	case loop.AllGather:
		s = o.collect(coppice.AllGather[[]byte], o.t.Size())
	case loop.AllToAll:
		s = o.allToAll()
	case loop.Agree:
		s = o.sum(agree, o.t.Size(), o.how.Mode)
	case loop.Save:
		s = o.save()
	case loop.Sends:
		s = o.sends()
	default:
		return s, fmt.Errorf("operation %q is not one of Coppice's", op)
	}
	s.Untimed = o.barrier
	return s, nil
}

// correctable returns the mode of operations that can be corrected.
func (o *operation) correctable() coppice.Option {
	if o.how.Correction == (coppice.Correction{}) {
		return o.how.Mode
	}
	return coppice.Corrected(o.how.Correction)
}

func (o *operation) barrier() error { return coppice.Barrier(o.ctx, o.alive) }

// atRoot returns n at rank 0, else 0.
func (o *operation) atRoot(n int) int {
	if o.t.Rank() == 0 {
		return n
	}
	return 0
}

func (o *operation) pingPong() loop.Steps {
	const tag = 0
	other := 1 - o.t.Rank()
	data := loop.Block(o.bytes)
	var got []byte
	s := loop.Steps{Intact: func(i int) bool { return loop.Marked(got, o.bytes, i, 0, 0) }}
	if o.t.Rank() == 0 {
		s.Mark = func(i int) { loop.Mark(data, i, 0, 0) }
		s.Timed = func() (err error) {
			if err = coppice.Send(o.ctx, o.t, other, tag, data); err == nil {
				got, err = coppice.Recv[[]byte](o.ctx, o.t, other, tag)
			}
			return err
		}
		return s
	}
	s.Timed = func() (err error) {
		if got, err = coppice.Recv[[]byte](o.ctx, o.t, other, tag); err != nil {
			return err
		}
		return coppice.Send(o.ctx, o.t, other, tag, got)
	}
	return s
}

// broadcast lends its memory only where it may: correction continues after all tasks have the value,
// and the next iteration changes it.
func (o *operation) broadcast() loop.Steps {
	data := loop.Block(o.bytes)
	mode := o.correctable()
	opts := options(o, mode, loop.Block(o.bytes))
	if !o.once && (mode != o.how.Mode || len(o.how.Along) > 0) {
		opts = []coppice.Option{mode, coppice.Into(loop.Block(o.bytes))}
	}
	opts = o.fromSource(append(opts, o.how.Along...))
	var got []byte
	return loop.Steps{
		Mark: func(i int) {
			if o.t.Rank() == o.source { // the others must get it from there
				loop.Mark(data, i, o.source, 0)
			}
		},
		Timed: func() (err error) {
			got, err = coppice.Broadcast(o.ctx, o.t, data, opts...)
			return err
		},
		Intact: func(i int) bool { return loop.Marked(got, o.bytes, i, o.source, 0) },
	}
}

// reduction is a reduction of numbers.
type reduction func(context.Context, *coppice.Task, []float64, coppice.Op, ...coppice.Option) ([]float64, error)

// agree is a reduction whose result all tasks agree on; it adds, and has no options.
func agree(ctx context.Context, t *coppice.Task, v []float64, _ coppice.Op, _ ...coppice.Option) ([]float64, error) {
	sum, failed, err := coppice.Agree(ctx, t, v, func(a, b []float64) []float64 {
		for i := range a {
			a[i] += b[i]
		}
		return a
	})
	if err == nil && len(failed) > 0 {
		err = fmt.Errorf("agreement without %v", failed)
	}
	return sum, err
}

// sum adds numbers: a task gets the sum over the lowest ranks, as many as ranks says; 0 means none.
// Rank r has i+r at both ends of its numbers.
func (o *operation) sum(reduce reduction, ranks int, mode coppice.Option) loop.Steps {
	n := o.bytes / 8
	ones := func() []float64 { return slices.Repeat([]float64{1}, n) }
	data, opts := ones(), options(o, mode, ones())
	var got []float64
	s := loop.Steps{
		Mark: func(i int) {
			data[0] = float64(i + o.t.Rank())
			data[n-1] = data[0]
		},
		Timed: func() (err error) {
			got, err = reduce(o.ctx, o.t, data, coppice.Sum, opts...)
			return err
		},
	}
	if ranks > 0 {
		s.Intact = func(i int) bool {
			want := float64(ranks*i + ranks*(ranks-1)/2)
			return len(got) == n && got[0] == want && got[n-1] == want
		}
	}
	return s
}

// reduceScatter adds numbers for each task. What rank r has for rank d has i+r+d at both ends.
func (o *operation) reduceScatter() loop.Steps {
	p, n, me := o.t.Size(), o.bytes/8, o.t.Rank()
	parts := make([][]float64, p)
	for d := range parts {
		parts[d] = slices.Repeat([]float64{1}, n)
	}
	opts := options(o, o.how.Mode, slices.Repeat([]float64{1}, n))
	var got []float64
	return loop.Steps{
		Mark: func(i int) {
			for d, part := range parts {
				part[0] = float64(i + me + d)
				part[n-1] = part[0]
			}
		},
		Timed: func() (err error) {
			got, err = coppice.ReduceScatter(o.ctx, o.t, parts, coppice.Sum, opts...)
			return err
		},
		Intact: func(i int) bool {
			want := float64(p*(i+me) + p*(p-1)/2)
			return len(got) == n && got[0] == want && got[n-1] == want
		},
	}
}

func (o *operation) scatter() loop.Steps {
	var parts [][]byte
	if o.t.Rank() == o.source {
		parts = o.blocks(o.t.Size())
	}
	opts := o.fromSource(options(o, o.how.Mode, loop.Block(o.bytes)))
	var got []byte
	return loop.Steps{
		Mark: func(i int) { mark(parts, i, o.source) },
		Timed: func() (err error) {
			got, err = coppice.Scatter(o.ctx, o.t, parts, opts...)
			return err
		},
		Intact: func(i int) bool { return loop.Marked(got, o.bytes, i, o.source, o.t.Rank()) },
	}
}

// collection is an operation that brings the blocks of all tasks to one.
type collection func(context.Context, *coppice.Task, []byte, ...coppice.Option) ([][]byte, error)

// collect brings every task's block to the tasks that want this many blocks.
func (o *operation) collect(gather collection, want int) loop.Steps {
	data := loop.Block(o.bytes)
	opts := options(o, o.how.Mode, o.blocks(want))
	var got [][]byte
	return loop.Steps{
		Mark: func(i int) { loop.Mark(data, i, o.t.Rank(), 0) },
		Timed: func() (err error) {
			got, err = gather(o.ctx, o.t, data, opts...)
			return err
		},
		Intact: func(i int) bool { return o.intact(got, want, i, 0) },
	}
}

func (o *operation) allToAll() loop.Steps {
	parts := o.blocks(o.t.Size())
	opts := options(o, o.how.Mode, o.blocks(o.t.Size()))
	var got [][]byte
	return loop.Steps{
		Mark: func(i int) { mark(parts, i, o.t.Rank()) },
		Timed: func() (err error) {
			got, err = coppice.AllToAll(o.ctx, o.t, parts, opts...)
			return err
		},
		Intact: func(i int) bool { return o.intact(got, o.t.Size(), i, o.t.Rank()) },
	}
}

// save saves a block, as often as the job has copies.
func (o *operation) save() loop.Steps {
	state := loop.Block(o.bytes)
	return loop.Steps{
		Mark:   func(i int) { loop.Mark(state, i, o.t.Rank(), 0) },
		Timed:  func() error { return coppice.Save(o.ctx, o.t, &state) },
		Intact: func(i int) bool { return loop.Marked(state, o.bytes, i, o.t.Rank(), 0) },
	}
}

// sends does on the wire what Save does, without Save: a task's block goes to the tasks after it, and
// all wait for all.
func (o *operation) sends() loop.Steps {
	const tag = 0
	p, me := o.t.Size(), o.t.Rank()
	data, got := loop.Block(o.bytes), make([][]byte, min(o.copies, p-1))
	return loop.Steps{
		Mark: func(i int) { loop.Mark(data, i, me, 0) },
		Timed: func() (err error) {
			for k := range got {
				if err := coppice.Send(o.ctx, o.t, (me+1+k)%p, tag, data); err != nil {
					return err
				}
			}
			for k := range got {
				if got[k], err = coppice.Recv[[]byte](o.ctx, o.t, (me+p-1-k)%p, tag); err != nil {
					return err
				}
			}
			return o.barrier()
		},
		Intact: func(i int) bool {
			for k, block := range got {
				if !loop.Marked(block, o.bytes, i, (me+p-1-k)%p, 0) {
					return false
				}
			}
			return true
		},
	}
}

// blocks returns n blocks, consecutive as in a buffer of MPI.
func (o *operation) blocks(n int) [][]byte {
	if n == 0 {
		return nil
	}
	all, blocks := loop.Block(n*o.bytes), make([][]byte, n)
	for k := range blocks {
		blocks[k] = all[k*o.bytes : (k+1)*o.bytes : (k+1)*o.bytes]
	}
	return blocks
}

// mark marks a block for each task.
func mark(parts [][]byte, i, from int) {
	for to, part := range parts {
		loop.Mark(part, i, from, to)
	}
}

// intact reports whether a block of each task arrived, meant for task to.
func (o *operation) intact(got [][]byte, want, i, to int) bool {
	if len(got) != want {
		return false
	}
	for from, block := range got {
		if !loop.Marked(block, o.bytes, i, from, to) {
			return false
		}
	}
	return true
}
