package chaos

import (
	"errors"
	"fmt"
	"slices"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/agreement"
	"github.com/coppice-go/coppice/protocol/membership"
)

// Agreement is a group whose members of the first view call agreements, one after the other, each at any
// moment, under all the faults that a Membership can have. Processes that join or come back take no part in
// the agreements.
type Agreement struct {
	Membership

	// Instances is the number of agreements (default 1). Cancels is how often, at most, a process votes
	// to abort one, at any moment.
	Instances, Cancels int
}

type (
	agreementWorld  = World[callerState, callerMessage]
	agreementConfig = Config[callerState, callerMessage]
)

// Random runs the group under random schedules.
func (a Agreement) Random(seed uint64, runs, workers int) (Report, error) {
	return explore(a.Config, func(cfg agreementConfig) (Report, error) { return Random(cfg, seed, runs, workers) })
}

// Exhaustive runs the group under every schedule.
func (a Agreement) Exhaustive() (Report, error) { return explore(a.Config, Exhaustive) }

// DelayBounded runs the group under every schedule with at most that many delays.
func (a Agreement) DelayBounded(delays int) (Report, error) {
	return explore(a.Config, func(cfg agreementConfig) (Report, error) { return DelayBounded(cfg, delays) })
}

// Config returns the world that the group runs in.
func (a Agreement) Config() (agreementConfig, error) {
	a.Instances = max(a.Instances, 1)
	if a.Cancels < 0 || a.Instances > InstancesMax {
		return agreementConfig{}, fmt.Errorf("chaos: %d agreements and %d votes to abort, allowed are up to %d, 0 and more", a.Instances, a.Cancels, InstancesMax)
	}
	of, err := a.Membership.Config()
	if err != nil {
		return agreementConfig{}, err
	}
	m := of.Protocol.(*membership.Protocol)
	cfg := agreementConfig{
		Protocol: caller{m, a.participants()}, P: of.P, Detect: true, Inputs: a.calls(),
		Crashes: of.Crashes, LossyCrashes: of.LossyCrashes, Restarts: of.Restarts, Suspicions: of.Suspicions,
		Cuts: of.Cuts, CutTicks: of.CutTicks, CutsStay: of.CutsStay, DetectCuts: true,
		EagerTimers: of.EagerTimers, ExtraNext: of.ExtraNext, KeepGoing: of.KeepGoing, Progress: of.Progress,
		StatesMax: of.StatesMax, StepsMax: of.StepsMax,
		Fence: wishedDead, Claim: claimDecision, Witness: a.witness, Check: a.check,
	}
	cfg.Inputs = append(cfg.Inputs, of.Inputs...)
	if a.Cancels > 0 {
		cfg.Vary = a.vary
	}
	if !a.Agentless {
		cfg.Testament = func(s *callerState) (callerMessage, bool) {
			return callerMessage{Letter: membership.Testament(&s.members)}, true
		}
	}
	return cfg, nil
}

func (a Agreement) participants() (ranks []protocol.Rank) {
	for r := range protocol.Rank(a.P) {
		ranks = append(ranks, r)
	}
	return ranks
}

// calls returns the calls of all members: every instance, in order.
func (a Agreement) calls() (inputs []Input) {
	for _, r := range a.participants() {
		for op := range uint64(a.Instances) {
			inputs = append(inputs, Input{r, protocol.Notice{Kind: protocol.Begin, Value: call | (op + 1)}})
		}
	}
	return inputs
}

// vary lets some processes vote to abort, before or after they call.
func (a Agreement) vary(s *Setup[callerState, callerMessage]) {
	for range s.Choose(a.Cancels + 1) {
		r, op, after := protocol.Rank(s.Choose(a.P)), uint64(s.Choose(a.Instances)), s.Choose(2)
		at := slices.IndexFunc(s.Inputs, func(in Input) bool { return in.Rank == r && in.Notice.Value == call|(op+1) })
		vote := Input{r, protocol.Notice{Kind: protocol.Cancel, Value: op + 1}}
		s.Inputs = slices.Insert(slices.Clone(s.Inputs), at+after, vote)
	}
}

// wishedDead returns the process that a Work asks to kill: for the membership, or for an exit.
func wishedDead(f callerMessage) (protocol.Rank, uint64, bool) {
	l := f.Letter.Letter
	if l == nil || l.Kind != membership.Fence {
		return 0, 0, false
	}
	return l.Who.ID, uint64(l.Who.Incarnation), true
}

// What must hold of agreements.
var (
	errReturnsAgain = errors.New("an agreement returns twice")
	errInvalid      = errors.New("a decision is not what was contributed")
	errUnbound      = errors.New("a decision does not bind those it should")
	errDisagree     = errors.New("those who live disagree")
	errNoReturn     = errors.New("an agreement does not return")
	errKept         = errors.New("a process keeps agreements that are over")
)

// claimDecision claims that an instance has one decision in a view, whichever process passes it on. Views are
// claimed as in Membership.
func claimDecision(f callerMessage) (key, value uint64, ok bool) {
	m, op := f.Body, f.Number
	switch {
	case op == 0:
		return claimView(f.Letter)
	case m.Decided == 0:
		return 0, 0, false
	}
	m.Kind, m.View = 0, 0
	return op<<32 | m.Decided, m.Fingerprint()[0], true
}

// witness says what is wrong with what r has just delivered.
func (a Agreement) witness(w *agreementWorld, r protocol.Rank) error {
	all := w.Delivered(r)
	last := &all[len(all)-1]
	m, op := last.Msg.Body, last.Msg.Number
	if op == 0 {
		return nil
	}
	for i := range all[:len(all)-1] {
		if all[i].Msg.Number == op {
			return fmt.Errorf("%w: number %d at p%d", errReturnsAgain, op, r)
		}
	}
	if err := a.valid(w, op, m); err != nil {
		return fmt.Errorf("%w: p%d returns from number %d with %v", err, r, op, m)
	}
	for q := range protocol.Rank(a.P) {
		for i := range w.Delivered(q) {
			d := &w.Delivered(q)[i].Msg
			if o := d.Body; d.Number == op && !o.Same(m) && a.bound(w, r, m.View, q, o.View) {
				return fmt.Errorf("%w: p%d returns in view %d with %v, p%d in view %d with %v", errUnbound, r, m.View, m, q, o.View, o)
			}
		}
	}
	return nil
}

// bound reports whether p and q, which return in views n and m, must return the same result: the one in the
// earlier view must be a member of the later view.
func (a Agreement) bound(w *agreementWorld, p protocol.Rank, n uint64, q protocol.Rank, m uint64) bool {
	if n > m {
		p, n, q, m = q, m, p, n
	}
	return n == m || slices.Contains(a.inView(w, m), p)
}

// inView lists the participants that are members of a view.
func (a Agreement) inView(w *agreementWorld, number uint64) []protocol.Rank {
	if number == 1 {
		return a.participants()
	}
	for r := range protocol.Rank(w.P()) {
		for i := range w.Delivered(r) {
			f := &w.Delivered(r)[i].Msg
			if v := f.Letter.Letter; f.Number == 0 && v.Kind == membership.Opened && v.Base.Number == number {
				return slices.DeleteFunc(firstLives(v.Base), func(r protocol.Rank) bool { return int(r) >= a.P })
			}
		}
	}
	return nil
}

// valid returns an error unless a decision is what the members of its view contributed.
func (a Agreement) valid(w *agreementWorld, op uint64, m agreement.Message) error {
	in := a.inView(w, m.Decided)
	var failed []protocol.Rank
	for _, r := range a.participants() {
		if !slices.Contains(in, r) {
			failed = append(failed, r)
		}
	}
	want := ""
	if m.Abort {
		if !slices.ContainsFunc(w.setup.Inputs, func(i Input) bool {
			return i.Notice == protocol.Notice{Kind: protocol.Cancel, Value: op} && slices.Contains(in, i.Rank)
		}) {
			return fmt.Errorf("%w, nobody voted to abort", errInvalid)
		}
	} else if len(in) > 0 {
		want = combined(op, in)
	}
	if string(m.Value) != want || !slices.Equal(m.Failed, failed) {
		return fmt.Errorf("%w, %q without %v", errInvalid, want, failed)
	}
	return nil
}

// check returns what is wrong at the end of a run: a live process that is neither excluded nor without a
// quorum must have returned from every instance, with the result that the others have.
func (a Agreement) check(w *agreementWorld) error {
	type result struct {
		of protocol.Rank
		m  agreement.Message
	}
	first := make(map[uint64]result)
	for r := range protocol.Rank(a.P) {
		if !w.Alive(r) || w.Life(r) != 1 || w.Cut() {
			continue
		}
		s := w.State(r)
		switch {
		case s.over:
			continue
		case s.returned < uint64(a.Instances):
			return fmt.Errorf("%w: number %d at p%d, in %v", errNoReturn, s.returned+1, r, s.members.View())
		case len(s.series.Open()) > 1:
			return fmt.Errorf("%w: p%d", errKept, r)
		}
		for i := range w.Delivered(r) {
			m, op := w.Delivered(r)[i].Msg.Body, w.Delivered(r)[i].Msg.Number
			if op == 0 {
				continue
			}
			if f, ok := first[op]; ok && !f.m.Same(m) {
				return fmt.Errorf("%w: on number %d, p%d has %v, p%d %v", errDisagree, op, f.of, f.m, r, m)
			}
			first[op] = result{r, m}
		}
	}
	return nil
}
