package programs_test

import (
	"math"

	"github.com/coppice-go/coppice/protocol"
)

// Digest folds a result into a task's digest: the blocks that it got, none after a barrier. Nil and
// empty blocks make no difference.
func Digest(digest uint64, result ...[]float64) uint64 {
	digest = protocol.Mix(digest, uint64(len(result)))
	for _, block := range result {
		digest = protocol.Mix(digest, uint64(len(block)))
		for _, x := range block {
			digest = protocol.Mix(digest, math.Float64bits(x))
		}
	}
	return digest
}

// Await folds the digest of a fork, which began with that of its task, into the task's.
func Await(digest, fork uint64) uint64 { return protocol.Mix(digest, fork) }

// First returns a task's digest before the first step.
func (p *Program) First(task int) uint64 { return protocol.Mix(p.Seed, uint64(task)) }

// Due lists the forks that are awaited after a step, in the order of their steps; after the last step,
// all that remain.
func (p *Program) Due(step int) (forks []int) {
	for i := 0; i <= step; i++ {
		s := p.Steps[i]
		if s.Op == Fork && (i+s.Shift == step || i+s.Shift > step && step == len(p.Steps)-1) {
			forks = append(forks, i)
		}
	}
	return forks
}

// Serial computes what the tasks get, one step after the other. For each task it returns the digest
// after each step and what is awaited after it. Sums have the canonical association of a group's size.
func (p *Program) Serial() [][]uint64 {
	after := make([][]uint64, p.Tasks)
	digests := make([]uint64, p.Tasks)
	for task := range after {
		after[task] = make([]uint64, len(p.Steps))
		digests[task] = p.First(task)
	}
	forks := map[int][]uint64{}
	for i, s := range p.Steps {
		if s.Op == Fork {
			forks[i] = p.fork(i, digests)
		} else {
			digests = p.step(i, s, digests)
		}
		for _, f := range p.Due(i) {
			for task, d := range forks[f] {
				digests[task] = Await(digests[task], d)
			}
			delete(forks, f)
		}
		for task, d := range digests {
			after[task][i] = d
		}
	}
	return after
}

// fork returns the digests at the end of a fork that begins with these digests.
func (p *Program) fork(step int, digests []uint64) []uint64 {
	for _, s := range p.Steps[step].ForkSteps() {
		digests = p.step(step, s, digests)
	}
	return digests
}

// step returns the digests after an operation of the given step.
func (p *Program) step(step int, s Step, digests []uint64) []uint64 {
	next := make([]uint64, p.Tasks)
	for task, result := range p.results(step, s, digests) {
		next[task] = Digest(digests[task], result...)
	}
	return next
}

// results returns what each task gets in an operation.
func (p *Program) results(step int, s Step, digests []uint64) [][][]float64 {
	n := p.Tasks
	value := func(task int) []float64 { return p.Value(step, task, digests[task]) }
	all := make([][][]float64, n)
	switch s.Op {
	case Barrier, Save:
	case Once:
		each(all, func(task int) [][]float64 { return [][]float64{value(task)} })
	case Broadcast:
		v := value(s.Root)
		each(all, func(int) [][]float64 { return [][]float64{v} })
	case Scatter:
		parts := p.Blocks(step, s.Root, digests[s.Root])
		each(all, func(task int) [][]float64 { return parts[task : task+1] })
	case Gather:
		all[s.Root] = values(n, value)
	case AllGather:
		got := values(n, value)
		each(all, func(int) [][]float64 { return got })
	case AllToAll:
		for from := range n {
			for to, block := range p.Blocks(step, from, digests[from]) {
				all[to] = append(all[to], block)
			}
		}
	case Reduce:
		each(all, func(int) [][]float64 { return [][]float64{nil} })
		all[s.Root] = [][]float64{sum(values(n, value))}
	case AllReduce, Agree:
		got := [][]float64{sum(values(n, value))}
		each(all, func(int) [][]float64 { return got })
	case Scan:
		v := values(n, value)
		each(all, func(task int) [][]float64 { return [][]float64{sum(v[:task+1])} })
	case ExScan:
		v := values(n, value)
		each(all, func(task int) [][]float64 { return [][]float64{sum(v[:task])} })
	case ReduceScatter:
		given := make([][][]float64, n)
		each(given, func(task int) [][]float64 { return p.Blocks(step, task, digests[task]) })
		each(all, func(to int) [][]float64 {
			return [][]float64{sum(values(n, func(task int) []float64 { return given[task][to] }))}
		})
	case Shift:
		each(all, func(task int) [][]float64 { return [][]float64{value((task - s.Shift%n + n) % n)} })
	case Split:
		p.split(s, value, all)
	default:
		panic("operation " + s.Op)
	}
	return all
}

// split computes a scan in every group. Keys put the tasks of a group in falling order.
func (p *Program) split(s Step, value func(task int) []float64, all [][][]float64) {
	for color := range max(s.Shift, 1) {
		var v [][]float64
		for task := p.Tasks - 1; task >= 0; task-- {
			if s.Color(task) == color {
				v = append(v, value(task))
				all[task] = [][]float64{sum(v)}
			}
		}
	}
}

func each(all [][][]float64, result func(task int) [][]float64) {
	for task := range all {
		all[task] = result(task)
	}
}

func values(n int, value func(task int) []float64) [][]float64 {
	all := make([][]float64, n)
	for task := range all {
		all[task] = value(task)
	}
	return all
}

// sum adds values element by element in the canonical association of that many tasks: the largest power
// of two of them that is less than all, and the rest.
func sum(values [][]float64) []float64 {
	n := len(values)
	switch n {
	case 0:
		return nil
	case 1:
		return values[0]
	}
	half := 1
	for 2*half < n {
		half *= 2
	}
	left, right := sum(values[:half]), sum(values[half:])
	total := make([]float64, len(left))
	for i := range total {
		total[i] = left[i] + right[i]
	}
	return total
}
