package programs_test

import (
	"math"
	"slices"

	"github.com/coppice-go/coppice/protocol"
)

// Random programs of collective operations and messages, and what each task of a program gets, computed
// without any message.
//
// A task's inputs follow from the program's seed, the step, the task and a digest of all results that
// it has got so far. A wrong bit in one result changes everything that the task gives and gets
// afterwards, so the last digest proves all results. To run a program, call Value or Blocks for what a
// task gives, carry out the operation, and call Digest with what the task got.

// The operations of steps.
const (
	Barrier       = "barrier"
	Broadcast     = "broadcast"     // of Value at Root
	Scatter       = "scatter"       // of Blocks at Root
	Gather        = "gather"        // of Value, at Root; elsewhere the result is no block
	AllGather     = "allgather"     // of Value
	AllToAll      = "alltoall"      // of Blocks
	Reduce        = "reduce"        // sums of Value, at Root; elsewhere the result is an empty block
	AllReduce     = "allreduce"     // sums of Value
	Scan          = "scan"          // sums of Value of the tasks up to this one
	ExScan        = "exscan"        // sums of Value of the tasks before this one; at task 0 the result is an empty block
	ReduceScatter = "reducescatter" // sums of Blocks, whose lengths are the same at all tasks
	Agree         = "agree"         // on sums of Value
	Shift         = "shift"         // Value to the task Shift ranks on, with Tag; one from as far back
	Split         = "split"         // Shift groups (Color, Key), and a scan of Value in each
	Fork          = "fork"          // ForkSteps beside what follows, awaited after Shift further steps
)

// The operations that Saved adds, which are not among Ops.
const (
	Save = "save" // of the task's digest before it, and whatever else the task goes on with; the result is no block
	Once = "once" // of Value, at every task for itself
)

// Ops lists the operations that random programs are made of.
func Ops() []string {
	return []string{Barrier, Broadcast, Scatter, Gather, AllGather, AllToAll, Reduce, AllReduce, Scan, Agree, Shift, Split, Fork, ExScan, ReduceScatter}
}

// Step is one operation, the same at all tasks.
type Step struct {
	Op    string
	Root  int  `json:",omitempty"` // where there is one
	Shift int  `json:",omitempty"` // see Shift, Split and Fork
	Tag   int  `json:",omitempty"` // of messages
	Size  int  `json:",omitempty"` // numbers in a value; where lengths may differ, the longest
	Float bool `json:",omitempty"` // numbers of very different magnitude, whose sums depend on the association

	Agreed bool `json:",omitempty"` // all tasks complete it or none
	Backed bool `json:",omitempty"` // sums are made by a function, and kept at other processes
}

// Program is what all tasks of a job do, in order. It is a plain value: a copy shares its steps, which
// nothing changes.
type Program struct {
	Tasks int
	Seed  uint64
	Steps []Step
}

// largeSize is the number of float64s in 200 KiB: more than a sender may send without the receiver's
// grant.
const largeSize = 200 << 10 / 8

// Random returns a random program with this many steps.
func Random(seed uint64, tasks, steps int) Program {
	p := Program{Tasks: tasks, Seed: seed, Steps: make([]Step, steps)}
	ops := Ops()
	for i := range p.Steps {
		d := draws{protocol.Mix(seed, uint64(i)), 0}
		s := Step{Op: ops[d.below(len(ops))], Root: d.below(tasks), Tag: d.below(3), Size: size(&d), Float: d.below(2) == 0}
		switch s.Op {
		case Shift:
			s.Shift = d.below(tasks)
		case Split:
			s.Shift = 1 + d.below(3)
		case Fork:
			s.Shift = d.below(8)
		}
		s.Agreed = d.below(4) == 0
		s.Backed = d.below(2) == 0
		p.Steps[i] = s
	}
	return p
}

// Saved returns the program with this many Saves at random places, and Once before a fifth of its
// steps. Forks are awaited before the next Save. The inputs of steps depend on their numbers, so the
// results differ from the original program's.
func (p Program) Saved(saves int) Program {
	d := draws{protocol.Mix(p.Seed, math.MaxUint64), 0}
	before := make([]int, saves)
	for i := range before {
		before[i] = d.below(len(p.Steps) + 1)
	}
	slices.Sort(before)
	steps := p.Steps
	p.Steps = nil
	for i := range len(steps) + 1 {
		for len(before) > 0 && before[0] == i {
			p.Steps = append(p.Steps, Step{Op: Save})
			before = before[1:]
		}
		if i == len(steps) {
			break
		}
		if d.below(5) == 0 {
			p.Steps = append(p.Steps, Step{Op: Once, Size: size(&d), Float: true})
		}
		p.Steps = append(p.Steps, steps[i])
	}
	p.awaitForks()
	return p
}

// awaitForks moves the end of each fork before the next Save.
func (p *Program) awaitForks() {
	next := len(p.Steps)
	for i := len(p.Steps) - 1; i >= 0; i-- {
		switch s := &p.Steps[i]; s.Op {
		case Save:
			next = i
		case Fork:
			s.Shift = min(s.Shift, next-1-i)
		}
	}
}

// Resumes returns the step at which a task continues from an epoch: the one after that many Saves.
func (p *Program) Resumes(epoch int) int {
	for i, s := range p.Steps {
		if epoch == 0 {
			return i
		}
		if s.Op == Save {
			epoch--
		}
	}
	return len(p.Steps)
}

// size draws a size: small more often than not.
func size(d *draws) int {
	switch k := d.below(100); {
	case k < 2:
		return 1 + d.below(largeSize)
	case k < 12:
		return 1 + d.below(2000)
	case k < 20:
		return 0
	}
	return 1 + d.below(20)
}

// draws is a stream of random numbers.
type draws struct{ seed, n uint64 }

func (d *draws) below(n int) int {
	d.n++
	return int(protocol.Below(protocol.Mix(d.seed, d.n), uint64(n)))
}

// ForkSteps are the operations of a fork, in order: sums, then messages.
func (s Step) ForkSteps() []Step {
	sum, ring := s, s
	sum.Op, ring.Op, ring.Shift = AllReduce, Shift, 1
	return []Step{sum, ring}
}

// Color returns a task's color in a split; Key reverses the order of tasks.
func (s Step) Color(task int) int { return task % max(s.Shift, 1) }

// Key returns a task's key in a split among n tasks.
func (s Step) Key(task, n int) int { return n - task }

// Value returns what a task gives in a step, if that is one value.
func (p *Program) Value(step, task int, digest uint64) []float64 {
	s := p.Steps[step]
	n := s.Size
	switch s.Op {
	case Gather, AllGather, Shift:
		n = length(protocol.Mix(p.Seed^uint64(step), uint64(task)), s.Size)
	}
	return p.numbers(s, n, protocol.Mix(digest, uint64(task)))
}

// Blocks returns what a task gives in a step, if that is a value for each task.
func (p *Program) Blocks(step, task int, digest uint64) [][]float64 {
	s := p.Steps[step]
	all := make([][]float64, p.Tasks)
	for to := range all {
		pair := uint64(task)<<32 | uint64(to)
		n := length(protocol.Mix(p.Seed^uint64(step), pair), s.Size)
		if s.Op == ReduceScatter {
			n = length(protocol.Mix(p.Seed^uint64(step), uint64(to)), s.Size)
		}
		all[to] = p.numbers(s, n, protocol.Mix(digest, pair))
	}
	return all
}

// length draws the length, up to most, of a value whose length may differ.
func length(random uint64, most int) int {
	switch random % 8 {
	case 0:
		return 0
	case 1:
		return min(1, most)
	case 2, 3, 4:
		return most
	}
	return int(protocol.Below(protocol.Mix(random, 1), uint64(most)+1))
}

// numbers makes n numbers: integers whose sums are exact or, with Float, numbers of full precision and
// of magnitudes from 2^−40 to 2^40.
func (p *Program) numbers(s Step, n int, seed uint64) []float64 {
	seed = protocol.Mix(p.Seed, seed)
	all := make([]float64, n)
	for i := range all {
		r := protocol.Mix(seed, uint64(i))
		if s.Float {
			all[i] = float64(int64(r)>>11) / (1 << 52) * scales[r%uint64(len(scales))]
		} else {
			all[i] = float64(int64(r) >> 43) // 21 bits with a sign
		}
	}
	return all
}

// scales are few, so that numbers also meet others of their magnitude.
var scales = [...]float64{1.0 / (1 << 40), 1.0 / (1 << 12), 1, 1 << 12, 1 << 40}
