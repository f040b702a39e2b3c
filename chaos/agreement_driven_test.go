package chaos

import (
	"fmt"
	"slices"
	"testing"

	"github.com/coppice-go/coppice/internal/extent"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/agreement"
)

// Agreement driven directly: messages as bytes, views from an oracle, user code that takes its time. A new
// view lacks one participant and reaches each process at any moment, some never. The removed participant
// stays in the view before.

// driven is the protocol. The views differ from run to run.
type driven struct {
	p     int
	views [][]protocol.Rank // view n is at n−1
	votes []protocol.Rank   // processes that vote to abort
}

type drivenState struct {
	agreement.State
	self  protocol.Rank
	works []string // results of the Works that are not done
}

// Clone returns a copy that shares nothing that changes.
func (s *drivenState) Clone() drivenState {
	return drivenState{s.State.Clone(), s.self, slices.Clone(s.works)}
}

// Fingerprint implements Fingerprinter.
func (s *drivenState) Fingerprint() [2]uint64 {
	f := s.State.Fingerprint()
	p := fingerprint{f[0], f[1]}
	for i := range s.works {
		p = p.and(printOf(&s.works[i]))
	}
	return [2]uint64{p.a, p.b}
}

func (d driven) Init(s *drivenState, self protocol.Rank, _ uint64) {
	*s = drivenState{self: self}
	s.State.Init(self, Agreement{Membership: Membership{P: d.p}}.participants())
}

func (d driven) Receive(s *drivenState, _ protocol.Time, from protocol.Rank, b string) {
	m, err := agreement.Decode([]byte(b))
	if err != nil {
		panic(err)
	}
	s.State.Receive(from, m)
}

func (d driven) Notify(s *drivenState, _ protocol.Time, n protocol.Notice) {
	switch n.Kind {
	case protocol.Begin:
		s.Begin(contribution(1, s.self))
	case protocol.Cancel:
		s.Cancel()
	case protocol.NewView:
		s.NewView(n.Value, d.views[n.Value-1])
	case protocol.WorkDone:
		s.Folded([]byte(s.works[0]))
		s.works = s.works[1:]
	}
}

func (d driven) Next(s *drivenState, _ protocol.Time) protocol.Action[string] {
	a := s.State.Next()
	b := protocol.Action[string]{Kind: a.Kind, To: a.To}
	switch {
	case a.Kind == protocol.Work:
		s.works = append(slices.Clip(s.works), string(combine(s.Operands())))
	case a.Kind == protocol.Deliver || a.Kind.Sends():
		b.Msg = string(a.Msg.Append(nil))
	}
	return b
}

// drivenWorld has p participants and at most the given number of views.
func drivenWorld(p, views int, cancels bool) Config[drivenState, string] {
	return Config[drivenState, string]{
		P: p, Protocol: driven{p: p}, Check: checkDriven,
		Vary: func(s *Setup[drivenState, string]) {
			d := driven{p: p, views: [][]protocol.Rank{Agreement{Membership: Membership{P: p}}.participants()}}
			for range s.Choose(views) {
				last := d.views[len(d.views)-1]
				out := s.Choose(len(last))
				d.views = append(d.views, slices.Delete(slices.Clone(last), out, out+1))
			}
			s.Inputs = nil
			for r := range protocol.Rank(p) {
				s.Inputs = append(s.Inputs, d.inputs(s, r, cancels)...)
			}
			s.Protocol = d
		},
	}
}

// inputs returns the inputs of r: its views, of which it may miss any but the first and the last, and among
// them its call and perhaps its vote to abort.
func (d *driven) inputs(s *Setup[drivenState, string], r protocol.Rank, cancels bool) (inputs []Input) {
	for i, v := range d.views {
		if slices.Contains(v, r) && (i == 0 || i == len(d.views)-1 || s.Choose(2) == 0) {
			inputs = append(inputs, Input{r, protocol.Notice{Kind: protocol.NewView, Value: uint64(i + 1)}})
		}
	}
	add := func(kind protocol.NoticeKind) {
		inputs = slices.Insert(inputs, s.Choose(len(inputs)+1), Input{r, protocol.Notice{Kind: kind}})
	}
	add(protocol.Begin)
	if cancels && s.Choose(8) == 1 { // rare, so that values are agreed on, too
		add(protocol.Cancel)
		d.votes = append(d.votes, r)
	}
	return inputs
}

// returns gives the result that a participant has returned, if any.
func returns(w *World[drivenState, string], r protocol.Rank) (m agreement.Message, ok bool) {
	all := w.Delivered(r)
	if len(all) == 0 {
		return m, false
	}
	m, err := agreement.Decode([]byte(all[0].Msg))
	return m, err == nil
}

func checkDriven(w *World[drivenState, string]) error {
	d := w.Protocol().(driven)
	last := d.views[len(d.views)-1]
	for r := range protocol.Rank(d.p) {
		m, ok := returns(w, r)
		switch {
		case len(w.Delivered(r)) > 1:
			return fmt.Errorf("%w: p%d", errReturnsAgain, r)
		case !ok && slices.Contains(last, r):
			return fmt.Errorf("%w: p%d in view %d, awaits %v", errNoReturn, r, len(d.views), w.State(r).Awaits())
		case !ok:
			continue
		}
		if err := d.valid(m); err != nil {
			return fmt.Errorf("%w: p%d returns %v", err, r, m)
		}
		for q := range r {
			o, ok := returns(w, q)
			first, second, who := m, o, r
			if o.View < m.View {
				first, second, who = o, m, q
			}
			if ok && !o.Same(m) && (first.View == second.View || slices.Contains(d.views[second.View-1], who)) {
				return fmt.Errorf("%w: p%d returns in view %d with %v, p%d in view %d with %v", errUnbound, r, m.View, m, q, o.View, o)
			}
		}
	}
	return nil
}

// valid returns an error unless a decision is what the members of its view contributed.
func (d driven) valid(m agreement.Message) error {
	in := d.views[m.Decided-1]
	voted := slices.ContainsFunc(d.votes, func(r protocol.Rank) bool { return slices.Contains(in, r) })
	var failed []protocol.Rank
	for r := range protocol.Rank(d.p) {
		if !slices.Contains(in, r) {
			failed = append(failed, r)
		}
	}
	want := combined(1, in)
	if m.Abort && voted {
		want = ""
	}
	if string(m.Value) != want || !slices.Equal(m.Failed, failed) {
		return fmt.Errorf("%w, %q without %v", errInvalid, want, failed)
	}
	return nil
}

// drivenWorlds are the worlds that test agreement without a group.
var drivenWorlds = []struct {
	name     string
	p, views int
	cancels  bool
	runs     int
}{
	{"three in two views", 3, 2, false, 10_000},
	{"four in three views", 4, 3, false, 20_000},
	{"five with votes to abort", 5, 3, true, 20_000},
	{"nine in six views", 9, 6, false, 5_000},
}

func TestAgreementDrivenDirectlyKeepsItsPromises(t *testing.T) {
	for _, c := range drivenWorlds {
		t.Run(c.name, func(t *testing.T) {
			cfg := drivenWorld(c.p, c.views, c.cancels)
			cfg.ExtraNext = c.p == 3
			report, err := Random(cfg, 1, orFewer(t, c.runs), 0)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d schedules in %.1f s", report.Schedules, report.Seconds)
		})
	}
}

func TestAgreementDrivenDirectlyKeepsItsPromisesInEverySchedule(t *testing.T) {
	for _, c := range []struct {
		p, views int
		cancels  bool
	}{{2, 2, true}, {4, 2, false}, {3, 3, false}}[:extent.Of(t, 1, 3)] {
		report, err := Exhaustive(drivenWorld(c.p, c.views, c.cancels))
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d participants: %d schedules, %d states in %.1f s", c.p, report.Schedules, report.States, report.Seconds)
	}
}
