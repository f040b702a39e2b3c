package replay

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/collective"
	"github.com/coppice-go/coppice/protocol/credit"
	"github.com/coppice-go/coppice/protocol/recovery"
)

// Program is what every task of a job does: operations, one after the other. It plays the user's function.
// What a task gives to an operation follows from the seed, the operation, the task and all results that the
// task has got before, so a wrong bit in one of them spoils everything after it. It is immutable and shared.
type Program struct {
	Tasks int
	Seed  uint64
	Calls []Call

	limits credit.Limits // of how far tasks run ahead; zero: there are none
	memory *Memory       // that it runs in
	agreed bool          // some operations are
	onces  int           // operations before which tasks call Once
	starts []int         // by epoch, its first operation
	serial [][]uint64    // Serial, if nothing is aborted; nil: the program calls Once
}

// Call is a call of an operation in a program, or a part of an agreed one.
type Call struct {
	*Plan
	Elems  int  // length of a vector; the longest length of a block
	Agreed bool // it may be aborted; see Plan.Agreeable
	Once   bool // every task calls Once before it, and its input depends on the value

	part, last int // of an agreed operation: the number of this part, and of the last
}

// Begins reports whether a call begins an agreed operation.
func (g *Program) Begins(at int) bool { return g.Calls[at].Agreed && g.Calls[at].part == 0 }

// calls appends the call of an operation to a list: each part of an agreed one. Parts that only say that all
// tasks take part carry next to nothing.
func (c Call) calls(list []Call) []Call {
	if !c.Agreed {
		return append(list, c)
	}
	for i, plan := range c.parts {
		one := Call{Plan: plan, Elems: 1 - i, Agreed: true, Once: c.Once && i == 0, part: i, last: len(c.parts) - 1}
		if plan == c.Plan {
			one.Elems = c.Elems
		}
		list = append(list, one)
	}
	return list
}

// NewProgram returns a program, with its results computed without messages.
func NewProgram(tasks int, seed uint64, calls ...Call) *Program {
	var all []Call
	for _, c := range calls {
		all = c.calls(all)
	}
	return newProgram(new(Memory), tasks, seed, all)
}

func newProgram(memory *Memory, tasks int, seed uint64, calls []Call) *Program {
	g := memory.programs.one()
	*g = Program{Tasks: tasks, Seed: seed, Calls: calls, starts: memory.ints.zeros(1), memory: memory}
	g.agreed = slices.ContainsFunc(calls, func(c Call) bool { return c.Agreed })
	for _, c := range calls {
		if c.Once {
			g.onces++
		}
	}
	if g.onces == 0 {
		g.serial = g.compute(nil, nil)
	}
	return g
}

// Saved returns the program with Saves: each before the operation of a number, or after the last operation.
// What tasks get does not depend on them.
func (g *Program) Saved(before ...int) *Program {
	c := g.memory.programs.one()
	*c = *g
	c.starts = append(g.memory.ints.zeros(len(before) + 1)[:1], before...)
	slices.Sort(c.starts)
	for i, op := range c.starts {
		c.starts[i] = g.call(op)
	}
	return c
}

// call returns the number of the call with which an operation begins.
func (g *Program) call(op int) int {
	for at := range g.Calls {
		if g.Calls[at].part > 0 {
			continue
		}
		if op == 0 {
			return at
		}
		op--
	}
	return len(g.Calls)
}

// Saves returns how often a task calls Save.
func (g *Program) Saves() int { return len(g.starts) - 1 }

// Onces returns how often a task calls Once.
func (g *Program) Onces() int { return g.onces }

// keeps reports whether there are copies of anything.
func (g *Program) keeps() bool { return g.Saves() > 0 || g.onces > 0 }

// index returns the number in the whole program of an operation that a message names by its epoch and its
// number there.
func (g *Program) index(n Name) int {
	if int(n.Epoch) >= len(g.starts) {
		return len(g.Calls)
	}
	return g.starts[n.Epoch] + int(n.Op)
}

// Serial computes without messages, by task, the digests after each operation, given which operations are
// aborted and the values of Once, by task and in order.
func (g *Program) Serial(aborted []int, onces [][]uint64) [][]uint64 {
	if len(aborted) == 0 && g.onces == 0 {
		return g.serial
	}
	return g.compute(aborted, onces)
}

func (g *Program) compute(aborted []int, onces [][]uint64) [][]uint64 {
	all, digests := g.memory.lists.list(g.Tasks), g.memory.words.zeros(g.Tasks)
	for t := range all {
		all[t] = g.memory.words.list(len(g.Calls))[:0]
	}
	drawn := 0
	for at := range g.Calls {
		if g.Calls[at].Once {
			for t := range digests {
				digests[t] = onceOf(digests[t], onces[t][drawn])
			}
			drawn++
		}
		off := slices.Contains(aborted, at)
		var results [][][]byte
		if !off {
			results = g.results(at, digests)
		}
		for t := range digests {
			if off {
				digests[t] = abortedOf(digests[t])
			} else {
				digests[t] = digestOf(digests[t], results[t])
			}
			all[t] = append(all[t], digests[t])
		}
	}
	return all
}

// Menu is what random programs are drawn from.
type Menu struct {
	// Agreed makes two thirds of the operations agreed that can be: in a quarter of the programs all that
	// can be, in the others the symmetric ones.
	Agreed bool

	// Once makes tasks call Once before a third of the operations.
	Once bool

	// Memory is the memory that programs run in.
	Memory *Memory

	tasks     int
	plans     [][]*Plan // by operation
	streams   []*Plan   // half of the operations, in a quarter of the programs
	corrected []*Plan   // likewise
}

// NewMenu returns the menu of all plans among the given number of tasks, or of the plans of some operations.
// The menu of all keeps streams and corrected operations apart: programs without them are the ones that the
// same seeds drew before the two existed.
func NewMenu(tasks int, some ...Op) (*Menu, error) {
	if tasks < 1 {
		return nil, fmt.Errorf("%d tasks; allowed: 1 or more", tasks)
	}
	m := &Menu{tasks: tasks, Memory: new(Memory)}
	if len(some) == 0 {
		var err error
		if m.corrected, err = corrected(tasks); err != nil {
			return nil, err
		}
		some, m.streams = Ops()[:Stream], streams(tasks)
	}
	for _, op := range some {
		plans, err := Plans(op, tasks)
		if err != nil {
			return nil, err
		}
		m.plans = append(m.plans, plans)
	}
	return m, nil
}

// Some returns the menu of only those operations whose bits are set, by their place, in some memory.
func (m *Menu) Some(set uint64, memory *Memory) (some Menu) {
	some = *m
	some.Memory, some.plans = memory, memory.plans.list(len(m.plans))[:0]
	for i, plans := range m.plans {
		if set>>i&1 == 1 {
			some.plans = append(some.plans, plans)
		}
	}
	return some
}

// Random returns a program of n operations drawn from a seed: most operations are equally likely, each with
// any algorithm, root and size.
func (m *Menu) Random(seed uint64, n int) *Program {
	calls, flows := m.Memory.calls.list(partsMax * n)[:0], m.streams != nil && protocol.Mix(seed, streamsSalt)%4 == 0
	corrects := m.corrected != nil && protocol.Mix(seed, correctedSalt)%4 == 0
	parts := m.Agreed && protocol.Mix(seed, partsSalt)%4 == 0
	for i := range n {
		x := protocol.Mix(seed, uint64(i))
		plans := m.plans[protocol.Below(protocol.Mix(x, 1), uint64(len(m.plans)))]
		if flows && protocol.Mix(x, 6)%2 == 0 {
			plans = m.streams
		}
		if corrects && protocol.Mix(x, 7)%2 == 0 {
			plans = m.corrected
		}
		plan := plans[protocol.Below(protocol.Mix(x, 2), uint64(len(plans)))]
		agreed := m.Agreed && (plan.Symmetric() || parts && plan.Agreeable()) && protocol.Mix(x, 4)%3 > 0
		once := m.Once && protocol.Mix(x, 5)%3 == 0
		calls = Call{Plan: plan, Elems: plan.elems(protocol.Mix(x, 3), m.tasks), Agreed: agreed, Once: once}.calls(calls)
	}
	g := newProgram(m.Memory, m.tasks, seed, calls)
	if x := protocol.Mix(seed, creditSalt); x%4 == 0 {
		g.limits = credit.Limits{Operations: 1 + x>>32%2, Bytes: aheadBytes << (x >> 40 % 2 * 20)}
	}
	return g
}

// streamsSalt is mixed with a seed to draw whether there are streams: none in the runs whose seeds .ci/run
// has.
const streamsSalt = 0x737472656175

// correctedSalt is the same for corrected operations.
const correctedSalt = 0x636f727265ae

// creditSalt is the same for limits on how far tasks run ahead of each other.
const (
	creditSalt = 0x637265646974
	aheadBytes = 40 // in half of these programs; in the others there are so many that nothing needs a grant
)

// partsSalt is the same for agreed operations in parts, of which an operation has up to partsMax.
const (
	partsSalt = 0x70617274730c
	partsMax  = 2
)

// MessagesMax returns how many messages there are, at most, in a program of n operations.
func (m *Menu) MessagesMax(n int) int {
	most := 0
	for _, plans := range append(slices.Clip(m.plans), m.streams, m.corrected) {
		for _, p := range plans {
			most = max(most, p.Messages())
		}
	}
	return n*most*4 + m.tasks*m.tasks // see Program.Messages
}

// elems draws a size: mostly small, sometimes nothing, sometimes so large that the log does not copy a block
// or each task's part of a vector.
func (p *Plan) elems(x uint64, tasks int) int {
	switch n := int(x % 64); {
	case n == 0 && (p.schedule == nil || p.programs[0].Segments == 0):
		return recovery.Inline/8 + 5
	case n == 0:
		return (recovery.Inline/8 + 1) * tasks
	case n < 8:
		return 0
	default:
		return 1 + n%6
	}
}

// Messages returns how many messages the tasks send each other, at most. Where a limit holds on running
// ahead, each message may be answered with its receiver's count, and be in two parts, the second of which is
// granted; and each task may tell all others that it leaves an operation.
func (g *Program) Messages() (n int) {
	for i := range g.Calls {
		n += g.Calls[i].messages
	}
	if g.limits.Operations > 0 {
		n += 3*n + g.Tasks*g.Tasks
	}
	return n
}

func (g *Program) stream(at int, task protocol.Rank, digest uint64) uint64 {
	return protocol.Mix(protocol.Mix(g.Seed, uint64(at)), protocol.Mix(digest, uint64(task)))
}

// vector returns what a task gives to an operation on vectors.
func (g *Program) vector(at int, task protocol.Rank, digest uint64) []byte {
	seed, c := g.stream(at, task, digest), &g.Calls[at]
	return c.numbers(g.memory.bytes.list(8*c.Elems), seed)
}

// numbers fills b with numbers.
func (p *Plan) numbers(b []byte, seed uint64) []byte {
	for i, rest := uint64(0), b; len(rest) >= 8; i, rest = i+1, rest[8:] {
		x := protocol.Mix(seed, i)
		if !p.exact {
			x = float(x)
		}
		binary.LittleEndian.PutUint64(rest, x)
	}
	return b
}

// parts returns what a task gives to a reduce-scatter among n tasks: numbers, of different lengths, which are the same at
// all tasks.
func (g *Program) parts(at int, seed uint64, n int) [][]byte {
	c, all := &g.Calls[at], g.memory.blocks.list(n)
	for d := range all {
		x := protocol.Mix(protocol.Mix(g.Seed, uint64(at)), uint64(d))
		all[d] = present(c.numbers(g.memory.bytes.list(8*int(x%uint64(c.Elems+1))), protocol.Mix(seed, uint64(d))))
	}
	return all
}

// float returns a number of any sign, of a magnitude that makes sums depend on the association.
func float(x uint64) uint64 {
	return math.Float64bits(float64(int64(x)>>12) * float64(uint64(1)<<(x%16)) / (1 << 8))
}

// blocks returns what a task gives to an operation on n blocks: of different lengths, some empty, some
// absent.
func (g *Program) blocks(at int, task protocol.Rank, digest uint64, n int) [][]byte {
	seed := g.stream(at, task, digest)
	if g.Calls[at].Op == ReduceScatter {
		return g.parts(at, seed, n)
	}
	all, most := g.memory.blocks.list(n), g.Calls[at].Elems
	room := g.memory.bytes.list(8 * most * n)
	for d := range all {
		x := protocol.Mix(seed, uint64(d))
		if all[d] = nil; x%7 == 0 {
			continue
		}
		end := 8 * (x >> 8 % uint64(most+1))
		b := room[:end:end]
		all[d], room = b, room[end:]
		for i := uint64(0); len(b) >= 8; i, b = i+1, b[8:] {
			binary.LittleEndian.PutUint64(b, protocol.Mix(x, i))
		}
	}
	return all
}

// add combines two values.
func (p *Plan) add(dst, left, right []byte) ([]byte, error) {
	if len(left) != len(right) {
		return nil, collective.ErrSize
	}
	if len(dst) != len(left) || dst == nil {
		dst = make([]byte, len(left))
	}
	for i := 0; i+8 <= len(left); i += 8 {
		l, r := binary.LittleEndian.Uint64(left[i:]), binary.LittleEndian.Uint64(right[i:])
		sum := l + r
		if !p.exact {
			sum = math.Float64bits(math.Float64frombits(l) + math.Float64frombits(r))
		}
		binary.LittleEndian.PutUint64(dst[i:], sum)
	}
	return dst, nil
}

// canonical combines values in the canonical association: 0 with 1, 2 with 3, then
// the pairs, and so on.
func (p *Plan) canonical(m *Memory, values [][]byte) []byte {
	if len(values) == 1 {
		return values[0]
	}
	half := 1
	for 2*half < len(values) {
		half *= 2
	}
	left, right := p.canonical(m, values[:half]), p.canonical(m, values[half:])
	sum, _ := p.add(m.bytes.list(len(left)), left, right)
	return sum
}

// results returns what every task gets from an operation, given the tasks' digests before.
func (g *Program) results(at int, digests []uint64) [][][]byte {
	c, n := &g.Calls[at], g.Tasks
	all := g.memory.results.zeros(n)
	switch c.Op {
	case Barrier:
		return all
	case Broadcast, Reduce, AllReduce, Scan, ExScan:
		values := g.memory.blocks.list(n)
		for t := range values {
			values[t] = g.vector(at, protocol.Rank(t), digests[t])
		}
		for t := range all {
			if all[t] = all[0]; t == 0 || c.Op == Reduce || c.Op == Scan || c.Op == ExScan { // otherwise all get the same
				all[t] = c.reduced(g.memory, values, protocol.Rank(t))
			}
		}
		return all
	}
	given := g.memory.results.list(n)
	for t := range given {
		given[t] = g.blocks(at, protocol.Rank(t), digests[t], c.given(protocol.Rank(t), n))
	}
	for t := range all {
		all[t] = c.moved(g.memory, given, protocol.Rank(t))
	}
	return all
}

// given returns how many blocks a task gives.
func (p *Plan) given(task protocol.Rank, tasks int) int {
	switch {
	case p.Op == Scatter && task != p.Root:
		return 0
	case p.Op == Scatter || p.Op == AllToAll || p.Op == ReduceScatter:
		return tasks
	case p.Op == Stream:
		return p.Spans
	}
	return 1
}

// reduced returns what a task gets from an operation on vectors.
func (p *Plan) reduced(m *Memory, values [][]byte, task protocol.Rank) [][]byte {
	switch p.Op {
	case Broadcast:
		return values[p.Root : p.Root+1]
	case Reduce:
		if task != p.Root {
			return nil
		}
	case Scan:
		values = values[:task+1]
	case ExScan:
		if task == 0 {
			return nil
		}
		values = values[:task]
	}
	return append(m.blocks.list(1)[:0], present(p.canonical(m, values)))
}

// present returns a vector, which is never absent.
func present(v []byte) []byte {
	if v == nil {
		return []byte{}
	}
	return v
}

// moved returns what a task gets from an operation on blocks.
func (p *Plan) moved(m *Memory, given [][][]byte, task protocol.Rank) (got [][]byte) {
	n := protocol.Rank(len(given))
	switch p.Op {
	case Scatter:
		return given[p.Root][task : task+1]
	case Send, Stream:
		return given[(task-p.Root+n)%n]
	case Gather:
		if task != p.Root {
			return nil
		}
	case ReduceScatter:
		values := m.blocks.list(int(n))
		for t := range values {
			values[t] = given[t][task]
		}
		return append(m.blocks.list(1)[:0], present(p.canonical(m, values)))
	}
	got = m.blocks.list(int(n))[:0]
	for _, blocks := range given {
		if p.Op == AllToAll {
			got = append(got, blocks[task])
		} else {
			got = append(got, blocks[0])
		}
	}
	return got
}

// digestOf adds a result to a digest.
func digestOf(digest uint64, result [][]byte) uint64 {
	digest = protocol.Mix(digest, uint64(len(result)))
	for _, b := range result {
		digest = hash(protocol.Mix(digest, absentOr(b)), b)
	}
	return digest
}

// abortedOf adds to a digest that an operation was aborted.
func abortedOf(digest uint64) uint64 { return protocol.Mix(digest, math.MaxUint64) }

// onceOf adds a value of Once to a digest.
func onceOf(digest, value uint64) uint64 { return protocol.Mix(digest, value) }

// absentOr distinguishes nil, an absent block, from others.
func absentOr(b []byte) uint64 {
	if b == nil {
		return math.MaxUint64
	}
	return uint64(len(b))
}

func hash(h uint64, b []byte) uint64 {
	for ; len(b) >= 8; b = b[8:] {
		h = protocol.Mix(h, binary.LittleEndian.Uint64(b))
	}
	for _, c := range b {
		h = protocol.Mix(h, uint64(c))
	}
	return h
}
