// Package reduction checks corrected reductions against their promise: it attacks those of package collective
// with the schedules and crashes of package chaos. Its API may change.
package reduction

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/coppice-go/coppice/chaos"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/collective"
)

// Attack is a corrected reduction to attack. Processes come to it at any moment, any of them may crash, the
// root included, and the survivors are notified of every crash at any later moment, possibly before messages
// from the crashed process arrive.
//
// Whatever happens, a result must have the inputs of all processes that are alive at the end, each once and
// in the canonical association, and must be the same wherever it is delivered. While the root is alive and no
// more than Spec.Failures processes are dead (with CorrectedFlat: any number), every live process delivers
// and comes to an end.
type Attack struct {
	// Spec describes the reduction: Reduce or AllReduce. Its Algorithm is ignored: both corrected
	// algorithms are attacked.
	Spec collective.Spec

	// Failed is how many processes, at most, are dead from the start. Crashes is how many crash during
	// the run.
	Failed, Crashes int

	LossyCrashes, Reorder, ExtraNext, KeepGoing bool           // as in chaos.Config
	StatesMax                                   int            // as in chaos.Config
	Progress                                    func(runs int) // as in chaos.Config
}

// Random attacks the reduction with random schedules.
func (r Attack) Random(seed uint64, runs, workers int) (chaos.Report, error) {
	cfg, err := r.config()
	if err != nil {
		return chaos.Report{}, err
	}
	return chaos.Random(cfg, seed, runs, workers)
}

// Exhaustive explores all schedules.
func (r Attack) Exhaustive() (chaos.Report, error) {
	cfg, err := r.config()
	if err != nil {
		return chaos.Report{}, err
	}
	return chaos.Exhaustive(cfg)
}

func (r Attack) config() (chaos.Config[reducingState, reducingMessage], error) {
	var both []*reducing
	for _, a := range []collective.Algorithm{collective.Corrected, collective.CorrectedFlat} {
		r.Spec.Algorithm = a
		p, err := newReducing(r.Spec)
		if err != nil {
			return chaos.Config[reducingState, reducingMessage]{}, err
		}
		both = append(both, p)
	}
	return r.of(both...), nil
}

// of returns the world of these protocols, one of which each run draws.
func (r Attack) of(protocols ...*reducing) chaos.Config[reducingState, reducingMessage] {
	var inputs []chaos.Input
	for rank := range protocol.Rank(r.Spec.P) {
		inputs = append(inputs, chaos.Input{Rank: rank, Notice: protocol.Notice{Kind: protocol.Begin}})
	}
	return chaos.Config[reducingState, reducingMessage]{
		Protocol: protocols[0], P: r.Spec.P, Inputs: inputs, Crashes: r.Crashes, LossyCrashes: r.LossyCrashes,
		Detect: true, Reorder: r.Reorder, ExtraNext: r.ExtraNext, KeepGoing: r.KeepGoing, Progress: r.Progress, StatesMax: r.StatesMax,
		Vary: func(s *chaos.Setup[reducingState, reducingMessage]) {
			s.Protocol = protocols[s.Choose(len(protocols))]
			s.FailUpTo(r.Failed)
		},
		Check: checkReduction,
	}
}

// folded stands for a value: the inputs in it, and a hash of the expression whose value it is. The zero value
// is an absent value.
type folded struct{ ranks, hash uint64 }

func inputOf(r protocol.Rank) folded {
	return folded{1 << r, protocol.Mix(1, uint64(r))}
}

// fold is neither commutative nor associative, and leaves out absent values.
func fold(a, b folded) folded {
	switch {
	case a == folded{}:
		return b
	case b == folded{}:
		return a
	}
	return folded{a.ranks | b.ranks, protocol.Mix(protocol.Mix(a.hash, 2), b.hash)}
}

// canonical is the value of the inputs of some ranks, those from lo on that are in a block of n.
func canonical(ranks uint64, lo, n, p int) folded {
	switch {
	case lo >= p:
		return folded{}
	case n > 1:
		return fold(canonical(ranks, lo, n/2, p), canonical(ranks, lo+n/2, n/2, p))
	case ranks>>lo&1 == 0:
		return folded{}
	}
	return inputOf(protocol.Rank(lo))
}

// reducing is a schedule whose messages carry folded values.
type reducing struct {
	*collective.Schedule
	spec     collective.Spec
	programs []collective.Program
}

func newReducing(spec collective.Spec) (*reducing, error) {
	if spec.P > bits.UintSize {
		return nil, fmt.Errorf("chaos: a reduction among %d processes; allowed: up to %d", spec.P, bits.UintSize)
	}
	schedule, err := collective.New(spec)
	if err != nil {
		return nil, err
	}
	c := &reducing{Schedule: schedule, spec: spec}
	for r := range protocol.Rank(spec.P) {
		c.programs = append(c.programs, schedule.Program(r))
	}
	return c, nil
}

// reducingMessage carries what the slots of a send hold. In a Deliver, Unreached says that there is no
// result.
type reducingMessage struct {
	collective.StepMessage
	values    []folded
	unreached bool
}

// Fingerprint distinguishes messages. The sender's step means nothing to other processes.
func (m *reducingMessage) Fingerprint() [2]uint64 {
	h := uint64(m.Lane) << 1
	if m.unreached {
		h |= 1
	}
	return printed(m.values, h, 0)
}

func (m reducingMessage) String() string {
	text := fmt.Sprintf("lane %d:", m.Lane)
	for _, v := range m.values {
		text += fmt.Sprintf(" %b", v.ranks)
	}
	return text
}

type reducingState struct {
	collective.StepState
	self  protocol.Rank
	slots []folded
}

// Clone copies the state.
func (s *reducingState) Clone() reducingState {
	return reducingState{s.StepState.Clone(), s.self, slices.Clone(s.slots)}
}

// Fingerprint distinguishes states of one process.
func (s *reducingState) Fingerprint() [2]uint64 {
	of := s.StepState.Fingerprint()
	return printed(s.slots, of[0], of[1])
}

// printed returns a fingerprint of values and two numbers.
func printed(values []folded, a, b uint64) [2]uint64 {
	for _, v := range values {
		a = protocol.Mix(protocol.Mix(a, v.ranks), v.hash)
		b = protocol.Mix(protocol.Mix(b, v.hash), v.ranks)
	}
	return [2]uint64{a, b}
}

// Init implements protocol.Protocol.
func (c *reducing) Init(s *reducingState, self protocol.Rank, _ uint64) {
	g := &c.programs[self]
	*s = reducingState{self: self, slots: make([]folded, g.Slots)}
	s.Reset(g.Steps)
	s.slots[g.In[0]] = inputOf(self)
}

// Receive implements protocol.Protocol.
func (c *reducing) Receive(s *reducingState, now protocol.Time, from protocol.Rank, m reducingMessage) {
	i := s.Match(from, m.Lane)
	if i < 0 {
		return
	}
	for k, at := range c.programs[s.self].Steps[i].Slots {
		s.slots[at] = m.values[k]
	}
	c.Schedule.Receive(&s.StepState, now, from, m.StepMessage)
}

// Notify implements protocol.Protocol.
func (c *reducing) Notify(s *reducingState, now protocol.Time, n protocol.Notice) {
	if n.Kind == protocol.WorkDone {
		st := &c.programs[s.self].Steps[s.At()]
		left, right := &s.slots[st.Slots[0]], &s.slots[st.With[0]]
		if st.Before {
			*left = fold(*right, *left)
		} else {
			*left = fold(*left, *right)
		}
	}
	c.Schedule.Notify(&s.StepState, now, n)
}

// Next implements protocol.Protocol.
func (c *reducing) Next(s *reducingState, now protocol.Time) protocol.Action[reducingMessage] {
	a := c.Schedule.Next(&s.StepState, now)
	out := protocol.Action[reducingMessage]{Kind: a.Kind, To: a.To, At: a.At, Msg: reducingMessage{StepMessage: a.Msg}}
	g := &c.programs[s.self]
	var slots []int32
	switch {
	case a.Kind.Sends():
		slots = g.Steps[a.Msg.Step].Slots
	case a.Kind == protocol.Deliver:
		if out.Msg.unreached = g.Steps[a.Msg.Step].Kind == collective.UnreachedStep; !out.Msg.unreached {
			slots = g.Out
		}
	}
	for _, at := range slots {
		out.Msg.values = append(out.Msg.values, s.slots[at])
	}
	return out
}

type reducedWorld = chaos.World[reducingState, reducingMessage]

// checkReduction returns what is wrong with a finished run.
func checkReduction(w *reducedWorld) error {
	spec := w.Protocol().(*reducing).spec
	var result *folded
	for r := range protocol.Rank(w.P()) {
		got, err := delivered(w, r)
		switch {
		case err != nil:
			return err
		case got == nil:
		case result == nil:
			if result, err = got, checkResult(w, r, *got); err != nil {
				return err
			}
		case *got != *result:
			return fmt.Errorf("p%d delivered another result than others", r)
		}
	}
	dead := 0
	for r := range protocol.Rank(w.P()) {
		if !w.Alive(r) {
			dead++
		}
	}
	outlived := w.Alive(spec.Root) && (dead <= spec.Failures || spec.Algorithm == collective.CorrectedFlat)
	for r := range protocol.Rank(w.P()) {
		if err := checkEnd(w, r, outlived); w.Alive(r) && err != nil {
			return err
		}
	}
	return nil
}

// delivered returns the result that a process delivered, dead or alive; nil: none.
func delivered(w *reducedWorld, r protocol.Rank) (*folded, error) {
	switch all := w.Delivered(r); {
	case len(all) > 1:
		return nil, fmt.Errorf("p%d delivered %d times", r, len(all))
	case len(all) == 0 || len(all[0].Msg.values) == 0:
		return nil, nil
	default:
		return &all[0].Msg.values[0], nil
	}
}

// checkResult returns what is wrong with the result that a process delivered.
func checkResult(w *reducedWorld, r protocol.Rank, got folded) error {
	n := 1 << bits.Len(uint(w.P()-1))
	if got != canonical(got.ranks, 0, n, w.P()) {
		return fmt.Errorf("p%d delivered %b, not in the canonical association", r, got.ranks)
	}
	for q := range protocol.Rank(w.P()) {
		switch in := got.ranks>>q&1 == 1; {
		case w.Alive(q) && !in:
			return fmt.Errorf("p%d delivered a result without the input of p%d, who lives", r, q)
		case w.Failed(q) && in:
			return fmt.Errorf("p%d delivered a result with an input of p%d, who has never lived", r, q)
		}
	}
	return nil
}

// checkEnd returns what is wrong with the end of a live process. If the root or too many processes are dead,
// an AllReduce may leave the process without a result, but not uncertain whether it has one.
func checkEnd(w *reducedWorld, r protocol.Rank, outlived bool) error {
	spec := w.Protocol().(*reducing).spec
	all := w.Delivered(r)
	switch {
	case len(all) == 1 && all[0].Msg.unreached && outlived:
		return fmt.Errorf("p%d takes the result for lost, with no more than %d dead", r, spec.Failures)
	case len(all) == 1 && w.Rest(r) != chaos.Done:
		return fmt.Errorf("p%d has delivered and does not come to an end", r)
	case len(all) == 1:
		return nil
	case outlived || spec.Op == collective.Reduce || r == spec.Root:
		return fmt.Errorf("p%d lives and did not deliver", r)
	case w.Rest(r) != chaos.Idle:
		return errors.New("who has no result does not rest")
	}
	return nil
}
