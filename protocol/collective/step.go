package collective

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/coppice-go/coppice/protocol"
)

// Op is a collective operation.
type Op uint8

// The operations that have schedules.
const (
	Broadcast Op = iota + 1
	Scatter
	Gather
	AllGather
	AllToAll
	Reduce
	AllReduce
	Scan
	ExScan
	ReduceScatter
)

var opNames = [...]string{"", "broadcast", "scatter", "gather", "allgather", "alltoall", "reduce", "allreduce", "scan", "exscan", "reducescatter"}

func (o Op) String() string {
	if o > 0 && int(o) < len(opNames) {
		return opNames[o]
	}
	return fmt.Sprintf("Op(%d)", uint8(o))
}

// StepKind is what a step does.
type StepKind uint8

// The kinds of steps.
const (
	SendStep      StepKind = iota // send what the slots hold
	RecvStep                      // receive into the slots
	FoldStep                      // combine slots with others
	DeliverStep                   // the result is there
	UnreachedStep                 // there will be none: more tasks have died than the schedule survives
)

// Step is one step of a task. A slot holds a piece of data; see Program.
type Step struct {
	Slots  []int32 // Send: what goes; Recv: where it goes; Fold: one operand, replaced by the result
	With   []int32 // Fold: the other operand
	Peer   Rank    // Send: the receiver; Recv: the sender
	Lane   uint16  // Send, Recv: tells the messages from one task to another apart
	Kind   StepKind
	Before bool // Fold: the other operand is the left one
	Keep   bool // Fold: the other operand is needed again

	// In schedules that survive deaths; see corrected.go.
	May   bool // Recv: if it cannot be, since its peers are dead, its slots stay absent
	Or    bool // Recv: the next step is an alternative to this one
	Whole bool // left out once the task's part is void; Recv: if it cannot be, that is what the part becomes
	Void  bool // left out unless it is void; Recv: its peer's part is
	Any   bool // Recv: from any task, at any time: all steps before are left out then
	Fix   bool // Send: a correction, left out if the peer sent what Any received

	free  int32 // Recv: the step from which on nothing before it needs its slots
	lasts bool  // Send: nothing takes the place of what goes
	goes  bool  // Fold: what it makes is sent, and no part of the result
	to    Rank  // the first receiver
}

// Program is what one task does in an operation: steps in order, each of which
// works on slots. There are two kinds of data.
//
// Vectors (broadcasts and reductions): the operation's value, the same length
// at all tasks, cut into Segments pieces of about the same length. A task may
// hold several versions of it, its own and what it received, of which version v
// has the slots v·Segments … (v+1)·Segments−1. In and Out are versions.
//
// Blocks (all else): values of any length, one a slot. In and Out are slots.
//
// What is received may be put into its slots before the task is at that step, as soon as
// no step before it needs them (StepState.Fits). A message that another attempt of the
// task has made possible may come before that.
type Program struct {
	Steps    []Step
	In       []int32 // where the task's input is at the beginning, in order
	Out      []int32 // where its result is at the end, in order; nil: it has none
	Slots    int
	Segments int // of a vector; 0: blocks

	lastFold int  // the number of the last Fold
	exposed  bool // version 0 is sent, and combined with something afterwards
}

// Schedule is an algorithm of a collective operation among the tasks 0 … P−1, as
// one protocol for all of them: a task does its program's steps one after the
// other, waits where what it is to receive has not come, and keeps what comes
// early. What is sent and received is the driver's: it moves what the steps name.
//
// Fold is answered as Work, Deliver as Deliver; both carry the number of the step.
//
// None survives a failure, except those of corrected.go: a task that dies before its last send may make others wait, and
// none of them delivers a wrong result.
type Schedule struct {
	P       int
	Program func(self Rank) Program
	// Unasked: tasks that only pass on what they receive act before their user has come to the operation.
	Unasked bool
}

// StepMessage is a message between tasks: the lane. Step is the number of the step at the sender, of no meaning to others.
type StepMessage struct {
	Lane uint16
	Step int32
}

// StepState is a task's progress.
type StepState struct {
	steps []Step
	came  []uint64 // bit i: what step i receives is here
	lost  []uint64 // bit i: it will not come, since its peer is dead; nil: no peer is

	// Patient: the task leaves out no step because the result has come. Where tasks
	// are run again, those of others need what it sends.
	Patient bool

	at      int32 // the present step
	any     int32 // the step that receives from any task; 0: none does
	from    Rank  // the task from which it did
	begun   bool
	working bool
	void    bool // the task's part in a whole
}

// Init implements protocol.Protocol.
func (c *Schedule) Init(s *StepState, self Rank, _ uint64) { s.Reset(c.Program(self).Steps) }

// Reset makes s the initial state of a task with these steps.
func (s *StepState) Reset(steps []Step) {
	came := s.came[:0]
	for range (len(steps) + 63) / 64 {
		came = append(came, 0)
	}
	*s = StepState{steps: steps, came: came, from: -1}
	for i := range steps {
		if steps[i].Any {
			s.any = int32(i)
		}
	}
}

// Notify implements protocol.Protocol: Begin, WorkDone after a Fold, and Death, which matters to schedules that survive
// it.
func (c *Schedule) Notify(s *StepState, _ Time, n protocol.Notice) {
	switch n.Kind {
	case protocol.Begin:
		s.begun = true
	case protocol.WorkDone:
		if s.working {
			s.working = false
			s.at++
		}
	case protocol.Death:
		s.bury(n.Rank)
	}
}

// Receive implements protocol.Protocol. It ignores what no step waits for.
func (c *Schedule) Receive(s *StepState, _ Time, from Rank, m StepMessage) {
	if i := s.Match(from, m.Lane); i >= 0 {
		s.came[i/64] |= 1 << (i % 64)
		if s.steps[i].Any {
			s.from = from
		}
	}
}

// Match returns the number of the step that waits for a message; −1: none does.
func (s *StepState) Match(from Rank, lane uint16) int {
	for i := int(s.at); i < len(s.steps); i++ {
		if st := &s.steps[i]; st.Kind == RecvStep && (st.Peer == from || st.Any) && st.Lane == lane && !s.has(i) && !s.chosen(i) {
			return i
		}
	}
	return -1
}

// Waits reports whether step i is still due and receives what has not arrived.
func (s *StepState) Waits(i int) bool {
	return i >= int(s.at) && i < len(s.steps) && !s.has(i) && !s.chosen(i)
}

// Fits reports whether what step i receives can be put into its slots now.
func (s *StepState) Fits(i int) bool { return s.at >= s.steps[i].free }

func (s *StepState) has(i int) bool { return s.came[i/64]>>(i%64)&1 == 1 }

// At is the number of the present step.
func (s *StepState) At() int { return int(s.at) }

// Next implements protocol.Protocol.
func (c *Schedule) Next(s *StepState, _ Time) protocol.Action[StepMessage] {
	for int(s.at) < len(s.steps) {
		if !c.acts(s) {
			return protocol.Action[StepMessage]{Kind: protocol.Idle}
		}
		if s.skips() {
			continue
		}
		st := &s.steps[s.at]
		msg := StepMessage{Lane: st.Lane, Step: s.at}
		switch st.Kind {
		case SendStep:
			s.at++
			kind := protocol.Send
			if st.Fix {
				kind = protocol.Correct
			}
			return protocol.Action[StepMessage]{Kind: kind, To: st.Peer, Msg: msg}
		case FoldStep:
			if s.working {
				return protocol.Action[StepMessage]{Kind: protocol.Idle}
			}
			s.working = true
			return protocol.Action[StepMessage]{Kind: protocol.Work, Msg: msg}
		case DeliverStep, UnreachedStep:
			s.at++
			return protocol.Action[StepMessage]{Kind: protocol.Deliver, Msg: msg}
		}
		if !s.received() {
			return protocol.Action[StepMessage]{Kind: protocol.Idle}
		}
	}
	return protocol.Action[StepMessage]{Kind: protocol.Done}
}

// acts reports whether a task takes part: its user has come, or is not needed.
func (c *Schedule) acts(s *StepState) bool {
	return s.begun || c.Unasked && s.steps[0].Kind == RecvStep
}

// Awaits lists the task whose message this one needs before it does anything more; none if it waits for no task. As with
// Barrier.Awaits, a caller that follows the lists comes to tasks that are dead or must begin and have not.
func (c *Schedule) Awaits(s *StepState) []Rank {
	if int(s.at) == len(s.steps) || !c.acts(s) || s.working {
		return nil
	}
	if st := &s.steps[s.at]; st.Kind == RecvStep && !s.has(int(s.at)) {
		return s.awaited()
	}
	return nil
}

// Clone returns a copy that shares nothing that changes.
func (s *StepState) Clone() StepState {
	c := *s
	c.came, c.lost = slices.Clone(s.came), slices.Clone(s.lost)
	return c
}

// Fingerprint tells states of one task apart.
func (s *StepState) Fingerprint() [2]uint64 {
	h := uint64(s.at)<<3 | uint64(uint32(s.from))<<32
	if s.begun {
		h |= 1
	}
	if s.working {
		h |= 2
	}
	if s.void {
		h |= 4
	}
	a, b := protocol.Mix(h, 1), protocol.Mix(h, 2)
	for _, words := range [][]uint64{s.came, s.lost} {
		for _, w := range words {
			a, b = protocol.Mix(a, w), protocol.Mix(b, bits.Reverse64(w))
		}
	}
	return [2]uint64{a, b}
}
