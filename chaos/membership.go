package chaos

import (
	"errors"
	"fmt"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
)

// Membership is a group that agrees on views, to attack: processes crash, are suspected, cut off, killed by
// those that suspect them, join and come back.
type Membership struct {
	// P is the number of members of the first view. Joiners is the number of processes that get a notice
	// to join, at any moment. Their ranks follow.
	P, Joiners int

	// Crashes, Suspicions, Cuts and Restarts are upper bounds, as in Config; CutTicks and CutsStay are as
	// there.
	Crashes, Suspicions, Cuts, Restarts int
	CutTicks                            int
	CutsStay                            bool

	// LossyCrashes is as in Config.
	LossyCrashes bool

	// Agentless leaves out what host agents do: no record outlives a process, no process is killed, and a
	// quorum is always a majority.
	Agentless bool

	// Arbiter adds an arbiter, which a process asks when half of a view cannot be reached. Random only.
	Arbiter bool

	// Fanout is the fanout of the tree. Report is as in membership.Config.
	Fanout int
	Report protocol.Time

	EagerTimers, ExtraNext, KeepGoing bool // as in Config
	StatesMax, StepsMax               int
	Progress                          func(runs int) // as in Config
}

type (
	memberState   = membership.State
	memberMessage = membership.Message
	memberWorld   = World[memberState, memberMessage]
	memberConfig  = Config[memberState, memberMessage]
)

// Random runs the group under random schedules. In half of them, a process that learns that it is excluded,
// or that there is no quorum, exits.
func (m Membership) Random(seed uint64, runs, workers int) (Report, error) {
	cfg, err := m.Config()
	if err != nil {
		return Report{}, err
	}
	cfg.Vary = func(s *Setup[memberState, memberMessage]) {
		if m.Arbiter {
			withArbiter(s, false)
		}
		if !m.Agentless {
			leaveOrStay(s)
		}
	}
	return Random(cfg, seed, runs, workers)
}

// Exhaustive runs the group under every schedule.
func (m Membership) Exhaustive() (Report, error) { return explore(m.Config, Exhaustive) }

// DelayBounded runs the group under every schedule with at most that many delays.
func (m Membership) DelayBounded(delays int) (Report, error) {
	return explore(m.Config, func(cfg memberConfig) (Report, error) { return DelayBounded(cfg, delays) })
}

// explore builds a world and explores it.
func explore[S, M any](config func() (Config[S, M], error), by func(Config[S, M]) (Report, error)) (Report, error) {
	cfg, err := config()
	if err != nil {
		return Report{}, err
	}
	return by(cfg)
}

// Config returns the world that the group runs in.
func (m Membership) Config() (memberConfig, error) {
	if m.P < 1 || m.Joiners < 0 {
		return memberConfig{}, fmt.Errorf("chaos: %d members and %d joiners, allowed are 1 and more, 0 and more", m.P, m.Joiners)
	}
	p, err := membership.New(membership.Config{
		First: membership.First(m.P, nil), Fanout: m.Fanout, Report: m.Report, MajorityOnly: m.Agentless, Arbiter: m.Arbiter,
	})
	if err != nil {
		return memberConfig{}, err
	}
	return m.world(p), nil
}

// world returns the world of m, with any machine.
func (m Membership) world(p protocol.Protocol[memberState, memberMessage]) memberConfig {
	cfg := memberConfig{
		Protocol: p, P: m.P + m.Joiners, Detect: true,
		Crashes: m.Crashes, LossyCrashes: m.LossyCrashes, Restarts: m.Restarts, Suspicions: m.Suspicions,
		Cuts: m.Cuts, CutTicks: m.CutTicks, CutsStay: m.CutsStay, DetectCuts: true,
		EagerTimers: m.EagerTimers, ExtraNext: m.ExtraNext, KeepGoing: m.KeepGoing, Progress: m.Progress,
		StatesMax: m.StatesMax, StepsMax: m.StepsMax,
		Claim:   claimView,
		Witness: witnessMembership,
		Check:   m.check,
	}
	for r := m.P; r < cfg.P; r++ {
		cfg.Inputs = append(cfg.Inputs, Input{protocol.Rank(r), protocol.Notice{Kind: protocol.Begin, Value: 1}})
	}
	if m.Agentless {
		return cfg
	}
	cfg.Testament = func(s *memberState) (memberMessage, bool) { return membership.Testament(s), true }
	cfg.Fence = func(msg memberMessage) (protocol.Rank, uint64, bool) {
		if msg.Letter == nil || msg.Kind != membership.Fence {
			return 0, 0, false
		}
		if msg.Base != nil && msg.Condemns(msg.Who, nil) != nil { // the agent refuses; without a view, the process exits by itself
			return 0, 0, false
		}
		return msg.Who.ID, uint64(msg.Who.Incarnation), true
	}
	return cfg
}

// leaving is the machine with users that exit, as real ones do, once the group has ended for them: instead of
// delivering that, the process asks to be killed, which happens at any later moment.
type leaving struct {
	protocol.Protocol[memberState, memberMessage]
}

// Next implements protocol.Protocol. The machine gets a WorkDone notice for a Work that it has not asked for,
// which does no harm: what it records is kept as soon as it asks.
func (l leaving) Next(s *memberState, now protocol.Time) protocol.Action[memberMessage] {
	a := l.Protocol.Next(s, now)
	if a.Kind == protocol.Deliver && (a.Msg.Kind == membership.Excluded || a.Msg.Kind == membership.NoQuorum) {
		exit := &membership.Letter{Kind: membership.Fence, Who: s.Self()}
		return protocol.Action[memberMessage]{Kind: protocol.Work, Msg: memberMessage{Letter: exit}}
	}
	return a
}

// leaveOrStay draws whether users exit in a run. Where they stay, Check sees what each process delivered.
func leaveOrStay(s *Setup[memberState, memberMessage]) {
	if s.Choose(2) == 1 {
		s.Protocol = leaving{s.Protocol}
	}
}

// What must hold. An opened view stays opened when its members crash: their users have worked in it.
var (
	errTwoViews = errors.New("two opened views of one number")
	errLineage  = errors.New("an opened view does not follow another")
	errShrinks  = errors.New("view numbers do not grow")
	errSelf     = errors.New("a process opens a view without itself")
	errAccepted = errors.New("a live member has not accepted an open view")
	errStuck    = errors.New("a live process is stuck")
	errApart    = errors.New("live processes end in different views")
	errNobody   = errors.New("a process is excluded though nobody was suspected")
)

// claimView claims that a view was chosen, for a process that builds on it.
func claimView(msg memberMessage) (key, value uint64, ok bool) {
	if msg.Letter == nil || msg.Base == nil {
		return 0, 0, false
	}
	for _, list := range [][]membership.Member{msg.Base.Members, msg.Base.Gone} {
		for _, m := range list {
			value = mix(value ^ uint64(uint32(m.ID))<<32 ^ uint64(m.Incarnation))
		}
		value = mix(value + 1)
	}
	return msg.Base.Number, value, true
}

// opened returns the view that a delivery opens, or nil.
func opened(d *Delivery[memberMessage]) *membership.View {
	if d.Msg.Letter == nil || d.Msg.Kind != membership.Opened {
		return nil
	}
	return d.Msg.Base
}

// witnessMembership returns what is wrong with what r has just delivered.
func witnessMembership(w *memberWorld, r protocol.Rank) error {
	all := w.Delivered(r)
	last := &all[len(all)-1]
	v := opened(last)
	if v == nil {
		return nil
	}
	if !v.Has(membership.Member{ID: r, Incarnation: last.Life}) {
		return fmt.Errorf("%w: p%d, %v", errSelf, r, v)
	}
	for i := range all[:len(all)-1] {
		if d := &all[i]; opened(d) != nil && d.Life == last.Life && opened(d).Number >= v.Number {
			return fmt.Errorf("%w: p%d opens %v after %v", errShrinks, r, v, opened(d))
		}
	}
	if err := checkLineage(w, r, v); err != nil {
		return err
	}
	for _, m := range v.Members {
		if w.Alive(m.ID) && w.Life(m.ID) == m.Incarnation && !hasAccepted(w.State(m.ID), v) {
			return fmt.Errorf("%w: p%d opens %v, p%d is at %v", errAccepted, r, v, m.ID, w.State(m.ID).View())
		}
	}
	return nil
}

// hasAccepted reports whether a process has accepted v, or gone beyond it.
func hasAccepted(s *memberState, v *membership.View) bool {
	_, value := s.Accepted()
	if value.Same(v) {
		return true
	}
	at := s.View()
	return at != nil && (at.Same(v) || at.Number > v.Number)
}

// checkLineage compares v, which r opens, with every view that was ever opened.
func checkLineage(w *memberWorld, r protocol.Rank, v *membership.View) error {
	for other := range protocol.Rank(w.P()) {
		for i := range w.Delivered(other) {
			o := opened(&w.Delivered(other)[i])
			switch {
			case o == nil || o == v:
			case o.Number == v.Number:
				if !o.Same(v) {
					return fmt.Errorf("%w: p%d opens %v, p%d %v", errTwoViews, r, v, other, o)
				}
			case o.Number < v.Number:
				if !follows(o, v) {
					return fmt.Errorf("%w: p%d opens %v, p%d %v", errLineage, r, v, other, o)
				}
			case !follows(v, o):
				return fmt.Errorf("%w: p%d opens %v, p%d %v", errLineage, r, v, other, o)
			}
		}
	}
	return nil
}

// follows reports whether b can descend from a: every member of a is in b or gone, and what is gone in a does
// not come back.
func follows(a, b *membership.View) bool {
	for _, m := range a.Members {
		if b.Last(m.ID) < m.Incarnation {
			return false
		}
	}
	for _, m := range a.Gone {
		if b.Last(m.ID) < m.Incarnation || b.Has(m) {
			return false
		}
	}
	return true
}

// check returns what is wrong at the end of a run, when every process has been notified of all crashes.
func (m Membership) check(w *memberWorld) error {
	calm := w.Doubts() == 0 && w.Cuts() == 0 && !m.EagerTimers
	var group *membership.View
	var first protocol.Rank
	for r := range protocol.Rank(w.P()) {
		if !w.Alive(r) {
			continue
		}
		s := w.State(r)
		switch {
		case s.Out():
			if calm {
				return fmt.Errorf("%w: p%d, by %v", errNobody, r, s.View())
			}
		case s.Hopeless():
			if calm && !m.Agentless && m.someMember(w) {
				return fmt.Errorf("%w: p%d has no hope", errStuck, r)
			}
		case w.Cut(): // it never heals, and not all processes have the news yet
		case !s.Open():
			return fmt.Errorf("%w: p%d, at %v", errStuck, r, s.View())
		case group != nil && !group.Same(s.View()):
			return fmt.Errorf("%w: p%d %v, p%d %v", errApart, first, group, r, s.View())
		default:
			group, first = s.View(), r
			if err := inGoodHealth(w, r, group); err != nil {
				return err
			}
		}
	}
	return nil
}

// someMember reports whether a process of the first view is alive in its first life.
func (m Membership) someMember(w *memberWorld) bool {
	for r := range protocol.Rank(m.P) {
		if w.Alive(r) && w.Life(r) == 1 {
			return true
		}
	}
	return false
}

// inGoodHealth returns an error if the view that r ends in has a dead member.
func inGoodHealth(w *memberWorld, r protocol.Rank, v *membership.View) error {
	for _, m := range v.Members {
		if !w.Alive(m.ID) || w.Life(m.ID) != m.Incarnation {
			return fmt.Errorf("%w: p%d ends in %v with the dead %v", errStuck, r, v, m)
		}
	}
	return nil
}
