package group_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/coppice-go/coppice/chaos"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/group"
	"github.com/coppice-go/coppice/protocol/membership"
)

// rollCall is an operation: every member tells every other in which view it is,
// and delivers when all have. A new view begins it anew.
type rollCall struct {
	self  protocol.Rank
	at    *membership.View
	owed  []protocol.Rank
	heard map[protocol.Rank]uint64
	done  bool
}

// answer is what a member says, or, delivered, what it has heard.
type answer struct{ views []uint64 }

func (a answer) Fingerprint() [2]uint64 { return printOf(a.views) }

func printOf(x any) (f [2]uint64) {
	for _, c := range fmt.Sprint(x) {
		f[0], f[1] = protocol.Mix(f[0], uint64(c)), protocol.Mix(f[1]^7, uint64(c))
	}
	return f
}

func (r *rollCall) begin(v *membership.View) {
	r.at, r.owed, r.heard = v, nil, map[protocol.Rank]uint64{}
	for _, m := range v.Members {
		if m.ID != r.self {
			r.owed = append(r.owed, m.ID)
		}
	}
}

func (r *rollCall) Receive(_ protocol.Time, from protocol.Rank, b group.Body) {
	r.heard[from] = b.(answer).views[0]
}

func (r *rollCall) Notify(protocol.Time, protocol.Notice) {}

func (r *rollCall) NewView(_ protocol.Time, v *membership.View) { r.begin(v) }

func (r *rollCall) Next(protocol.Time) protocol.Action[group.Body] {
	if len(r.owed) > 0 {
		to := r.owed[0]
		r.owed = r.owed[1:]
		return protocol.Action[group.Body]{Kind: protocol.Send, To: to, Msg: answer{[]uint64{r.at.Number}}}
	}
	if r.done || len(r.heard) < len(r.at.Members)-1 {
		return protocol.Action[group.Body]{Kind: protocol.Idle}
	}
	r.done = true
	var views []uint64
	for _, v := range r.heard {
		views = append(views, v)
	}
	slices.Sort(views)
	return protocol.Action[group.Body]{Kind: protocol.Deliver, Msg: answer{views}}
}

func (r *rollCall) Clone() group.Operation {
	c := *r
	c.owed, c.heard = slices.Clone(r.owed), map[protocol.Rank]uint64{}
	for k, v := range r.heard {
		c.heard[k] = v
	}
	return &c
}

func (r *rollCall) Fingerprint() [2]uint64 {
	return printOf([]any{r.at.Number, r.owed, r.heard, r.done})
}

// world is a group in which processes begin operations 1 and 2 at any moment, and
// crash.
func world(t *testing.T, n, crashes int, wrap func(*group.Group) protocol.Protocol[group.State, group.Frame]) chaos.Config[group.State, group.Frame] {
	t.Helper()
	m, err := membership.New(membership.Config{First: membership.First(n, nil)})
	if err != nil {
		t.Fatal(err)
	}
	g, err := group.New(group.Config{Membership: m, Begin: func(op uint64, self protocol.Rank, v *membership.View) group.Operation {
		r := &rollCall{self: self}
		r.begin(v)
		return r
	}})
	if err != nil {
		t.Fatal(err)
	}
	cfg := chaos.Config[group.State, group.Frame]{
		Protocol: g, P: n, Detect: true, Crashes: crashes,
		Testament: func(s *group.State) (group.Frame, bool) { return group.Testament(s), true },
		Check:     check,
	}
	if wrap != nil {
		cfg.Protocol = wrap(g)
	}
	for r := range n {
		for op := range uint64(2) {
			cfg.Inputs = append(cfg.Inputs, chaos.Input{Rank: protocol.Rank(r), Notice: protocol.Notice{Kind: protocol.Begin, Value: op + 1}})
		}
	}
	return cfg
}

func check(w *chaos.World[group.State, group.Frame]) error {
	for r := range protocol.Rank(w.P()) {
		var got [3]int
		for _, d := range w.Delivered(r) {
			if d.Msg.Op == 0 {
				continue
			}
			a := d.Msg.Body.(answer)
			got[d.Msg.Op]++
			for _, in := range a.views {
				if in != d.Msg.View {
					return fmt.Errorf("p%d delivers in view %d what was sent in view %d", r, d.Msg.View, in)
				}
			}
		}
		if w.Alive(r) && (got[1] != 1 || got[2] != 1) {
			return errors.New("a live process has not delivered both operations once")
		}
		if w.Alive(r) && w.State(r).Holds() > 0 {
			return fmt.Errorf("p%d holds frames at the end", r)
		}
	}
	return nil
}

func TestOperationsSurviveViewChanges(t *testing.T) {
	for n := 2; n <= 6; n++ {
		if _, err := chaos.Random(world(t, n, n-1, nil), 1, 3000, 2); err != nil {
			t.Fatalf("%d processes: %v", n, err)
		}
	}
}

func TestOperationsSurviveViewChangesInEverySchedule(t *testing.T) {
	cfg := world(t, 2, 1, nil)
	report, err := chaos.Exhaustive(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d schedules, %d states", report.Schedules, report.States)
}

// forgetful is a group that drops what comes too early.
type forgetful struct{ *group.Group }

func (g forgetful) Receive(s *group.State, now protocol.Time, from protocol.Rank, f group.Frame) {
	if f.Op != 0 && !slices.Contains(s.Running(), f.Op) {
		return
	}
	g.Group.Receive(s, now, from, f)
}

// timeless is a group that does not look at the view of a frame.
type timeless struct{ *group.Group }

func (g timeless) Receive(s *group.State, now protocol.Time, from protocol.Rank, f group.Frame) {
	f.View = s.View().Number
	g.Group.Receive(s, now, from, f)
}

// hasty is a group that drops what comes from a later view.
type hasty struct{ *group.Group }

func (g hasty) Receive(s *group.State, now protocol.Time, from protocol.Rank, f group.Frame) {
	if f.View > s.View().Number {
		return
	}
	g.Group.Receive(s, now, from, f)
}

func TestMistakesInAGroupAreFound(t *testing.T) {
	for name, wrap := range map[string]func(*group.Group) protocol.Protocol[group.State, group.Frame]{
		"early frames dropped":      func(g *group.Group) protocol.Protocol[group.State, group.Frame] { return forgetful{g} },
		"views of frames ignored":   func(g *group.Group) protocol.Protocol[group.State, group.Frame] { return timeless{g} },
		"frames of later views out": func(g *group.Group) protocol.Protocol[group.State, group.Frame] { return hasty{g} },
	} {
		_, err := chaos.Random(world(t, 4, 2, wrap), 1, 5000, 2)
		if found := new(chaos.Violation); !errors.As(err, &found) {
			t.Errorf("%s: not found: %v", name, err)
		}
	}
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		frame, own uint64
		want       group.Judgement
	}{{1, 1, group.Now}, {2, 1, group.Later}, {1, 2, group.Never}} {
		if got := group.Judge(c.frame, c.own); got != c.want {
			t.Errorf("a frame of view %d in view %d: %v, want %v", c.frame, c.own, got, c.want)
		}
	}
}
