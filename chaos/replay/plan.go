package replay

import (
	"fmt"
	"slices"
	"strings"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
	"github.com/coppice-go/coppice/protocol/collective"
)

// Op is an operation of a program.
type Op uint8

// The operations.
const (
	Barrier Op = iota
	Broadcast
	Scatter
	Gather
	AllGather
	AllToAll
	Reduce
	AllReduce
	Scan
	Send   // to a task some ranks on, and receive from the task as far back
	Stream // the same with a few messages, at most a window of them in flight

	Corrected // stands for the corrected versions of the others

	ExScan // the two from here on are only in programs that name them: what seeds mean depends on the others
	ReduceScatter
	ops
)

var opNames = [ops]string{"barrier", "broadcast", "scatter", "gather", "allgather", "alltoall", "reduce", "allreduce", "scan", "send", "stream", "corrected", "exscan", "reducescatter"}

func (o Op) String() string {
	if o < ops {
		return opNames[o]
	}
	return fmt.Sprintf("Op(%d)", uint8(o))
}

// Ops lists the operations, without those that only programs have that name them.
func Ops() (all []Op) {
	for o := range ExScan {
		all = append(all, o)
	}
	return all
}

// ParseOp reads the name of an operation.
func ParseOp(name string) (Op, error) {
	i := slices.Index(opNames[:], name)
	if i < 0 {
		return 0, fmt.Errorf("operation %q; allowed: %s", name, strings.Join(opNames[:], ", "))
	}
	return Op(i), nil
}

// Plan is a way to carry out an operation: an algorithm, a root, a number of pieces. It does not depend on
// which process owns which task. It is immutable and shared.
type Plan struct {
	Op        Op
	Algorithm string
	Root      protocol.Rank // Send, Stream: the distance
	Spans     int           // Stream: the messages

	failures int                     // that a corrected operation survives where crashed processes stay dead
	exact    bool                    // sums of integers, in any order; otherwise of floats
	runners  func() broadcast.Runner // for a broadcast by package broadcast
	barrier  *collective.Barrier
	schedule *collective.Schedule
	programs []collective.Program // by task
	kind     collective.Kind      // of the values
	messages int                  // that the tasks send each other
	parts    []*Plan              // the parts of which it is made if it is agreed, itself included; nil: it cannot be agreed
}

func (p *Plan) String() string {
	s := fmt.Sprintf("%v by %s", p.Op, p.Algorithm)
	switch p.Op {
	case Broadcast, Scatter, Gather, Reduce:
		s += fmt.Sprintf(" root %d", p.Root)
	case Send:
		return fmt.Sprintf("send %d on", p.Root)
	case Stream:
		return fmt.Sprintf("stream of %d messages %d on", p.Spans, p.Root)
	}
	if p.failures > 0 {
		s += fmt.Sprintf(" root %d against %d failures", p.Root, p.failures)
	}
	if p.Spans > 1 {
		s += fmt.Sprintf(" in %d pieces", p.Spans)
	}
	return s
}

// Plans lists every way to carry out an operation among the given number of tasks.
func Plans(op Op, tasks int) ([]*Plan, error) {
	switch op {
	case Barrier:
		return barriers(tasks)
	case Send:
		return shifts(tasks), nil
	case Stream:
		return streams(tasks), nil
	case Corrected:
		return corrected(tasks)
	}
	var all []*Plan
	of := op.scheduled()
	for _, a := range collective.Algorithms(collective.Spec{Op: of, P: tasks, AnyOrder: true}) {
		spans := []int{1}
		if collective.Spans(of, a) {
			spans = append(spans, 3)
		}
		for _, n := range spans {
			for root := range roots(op, tasks) {
				p, err := scheduled(collective.Spec{Op: of, Algorithm: a, P: tasks, Root: root, Spans: n})
				if err == nil {
					err = p.agreeable(tasks, len(all))
				}
				if err != nil {
					return nil, err
				}
				all = append(all, p)
			}
		}
	}
	return all, nil
}

// scheduled returns the operation of which there are schedules.
func (o Op) scheduled() collective.Op {
	switch o {
	case ExScan:
		return collective.ExScan
	case ReduceScatter:
		return collective.ReduceScatter
	}
	return collective.Op(o)
}

func opOf(op collective.Op) Op {
	for _, o := range []Op{ExScan, ReduceScatter} {
		if o.scheduled() == op {
			return o
		}
	}
	return Op(op)
}

// scheduled returns the plan of an operation by schedule.
func scheduled(spec collective.Spec) (*Plan, error) {
	spec.AnyOrder = spec.Op == collective.AllReduce && spec.Algorithm == collective.Ring // keeps no association
	schedule, err := collective.New(spec)
	if err != nil {
		return nil, err
	}
	p := &Plan{
		Op: opOf(spec.Op), Algorithm: spec.Algorithm.String(), Root: spec.Root, Spans: spec.Spans,
		exact: spec.AnyOrder, failures: spec.Failures, schedule: schedule,
	}
	return p.programmed(spec.P), nil
}

// roots returns how many tasks may be the root of an operation.
func roots(op Op, tasks int) protocol.Rank {
	switch op {
	case Broadcast, Scatter, Gather, Reduce:
		return protocol.Rank(tasks)
	}
	return 1
}

func (p *Plan) programmed(tasks int) *Plan {
	for t := range protocol.Rank(tasks) {
		p.programs = append(p.programs, p.schedule.Program(t))
	}
	p.kind = collective.Kind{Elem: 8, Fold: p.add}
	for _, g := range p.programs {
		for _, st := range g.Steps {
			if st.Kind == collective.SendStep {
				p.messages++
			}
		}
	}
	return p
}

func barriers(tasks int) (all []*Plan, err error) {
	for _, shape := range []collective.Shape{collective.Dissemination, collective.UpDown, collective.Star} {
		if shape == collective.Star && tasks > collective.StarMax {
			continue
		}
		b, err := collective.NewBarrier(tasks, shape)
		if err != nil {
			return nil, err
		}
		p := &Plan{Op: Barrier, Algorithm: shape.String(), Spans: 1, barrier: b, messages: barrierMessages(b)}
		p.parts = []*Plan{p}
		all = append(all, p)
	}
	return all, nil
}

// shifts returns plans that send from every task to the task some ranks on.
func shifts(tasks int) (all []*Plan) {
	n := protocol.Rank(tasks)
	for k := range n {
		if k == 0 && n > 1 {
			continue // to itself only if it is alone
		}
		schedule := &collective.Schedule{P: tasks, Program: func(self protocol.Rank) collective.Program {
			return collective.Program{Slots: 2, In: []int32{0}, Out: []int32{1}, Steps: []collective.Step{
				{Kind: collective.SendStep, Peer: (self + k) % n, Slots: []int32{0}},
				{Kind: collective.RecvStep, Peer: (self - k + n) % n, Slots: []int32{1}},
				{Kind: collective.DeliverStep},
			}}
		}}
		p := &Plan{Op: Send, Algorithm: "direct", Root: k, Spans: 1, schedule: schedule}
		all = append(all, p.programmed(tasks))
	}
	return all
}

// agreeable gives an operation the parts of which it is made if it is agreed. number selects their
// algorithms.
func (p *Plan) agreeable(tasks, number int) error {
	for _, part := range collective.Parts(p.Op.scheduled()) {
		one, err := p.part(part, tasks, number)
		if err != nil {
			return err
		}
		p.parts = append(p.parts, one)
	}
	return nil
}

func (p *Plan) part(part collective.Part, tasks, number int) (*Plan, error) {
	op := Broadcast
	switch part {
	case collective.PartItself:
		return p, nil
	case collective.PartMeet:
		all, err := barriers(tasks)
		return all[number%len(all)], err
	case collective.PartUp:
		op = Reduce
	}
	algorithms := collective.Algorithms(collective.Spec{Op: collective.Op(op), P: tasks, AnyOrder: true})
	return scheduled(collective.Spec{Op: collective.Op(op), Algorithm: algorithms[number%len(algorithms)], P: tasks, Root: p.Root, Spans: 1})
}

// Agreeable reports whether the operation can be agreed.
func (p *Plan) Agreeable() bool { return p.parts != nil }

// Symmetric reports whether the operation can be agreed and has only one part then: every task's result
// requires that all tasks have entered the operation.
func (p *Plan) Symmetric() bool { return len(p.parts) == 1 }

// Messages returns how many messages the tasks send each other, at most.
func (p *Plan) Messages() int {
	if p.parts == nil {
		return p.messages
	}
	sum := 0
	for _, part := range p.parts {
		sum += part.messages
	}
	return sum
}

func barrierMessages(b *collective.Barrier) int {
	if b.Shape != collective.Dissemination {
		return 2 * (b.P - 1)
	}
	rounds := 0
	for 1<<rounds < b.P {
		rounds++
	}
	return b.P * rounds
}
