package membership

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-go/coppice/protocol"
)

// leave lets a process announce that it leaves, or that it is free as of its view.
func (c *cluster) leave(r protocol.Rank, free bool) {
	view := uint64(0)
	if free {
		view = c.states[r].view.Number
	}
	c.p.Leave(&c.states[r], c.now, view)
}

func TestWhoLeavesIsAnnouncedAndThenRemoved(t *testing.T) {
	for _, leavers := range [][]protocol.Rank{{3}, {0}, {0, 1}, {1, 2, 4}, {0, 1, 2, 3}} {
		c := newCluster(t, 5, 0, func(cfg *Config) { cfg.First, cfg.Adopt = First(5, []protocol.Rank{4}), true })
		for _, r := range leavers {
			c.leave(r, false)
		}
		c.run()
		var left []protocol.Rank
		for r := range c.states {
			v := c.states[r].view
			if !c.states[r].Open() || !slices.Equal(v.Leaving, leavers) || len(v.Members) != 5 {
				t.Fatalf("%v leave: process %d is in %v, in which %v leave", leavers, r, v, v.Leaving)
			}
			if !slices.Contains(leavers, protocol.Rank(r)) {
				left = append(left, protocol.Rank(r))
			}
		}
		for _, r := range leavers {
			c.leave(r, true)
		}
		c.run()
		want := fmt.Sprint(left)
		for r := range c.states {
			s := &c.states[r]
			switch leaves := slices.Contains(leavers, protocol.Rank(r)); {
			case leaves && !s.Out():
				t.Errorf("%v leave: process %d is still in %v", leavers, r, s.view)
			case !leaves && (!s.Open() || fmt.Sprint(s.view.Members) != want || len(s.view.Leaving) > 0):
				t.Errorf("%v leave: process %d is in %v, open %v, %v leave", leavers, r, s.view, s.Open(), s.view.Leaving)
			}
		}
		if last := left[0]; c.states[last].view.Number > 5 {
			t.Errorf("%v leave: it takes them until %v", leavers, c.states[last].view)
		}
		if len(c.fenced) > 0 || c.now > 100 {
			t.Errorf("%v leave: %v are fenced, at %d", leavers, c.fenced, c.now)
		}
	}
}

// TestWhoLeavesLingersUntilTheViewIsOpen: six of eight leave, and decide the view without them before the two that stay
// hear of it. If the six were gone then, the two could not find out.
func TestWhoLeavesLingersUntilTheViewIsOpen(t *testing.T) {
	c := newCluster(t, 8, 0)
	for r := range protocol.Rank(6) {
		c.leave(r, false)
	}
	c.run()
	gone := func() (n int) {
		for _, e := range c.events {
			if strings.Contains(e, "tells excluded") {
				n++
			}
		}
		return n
	}
	c.cut = func(_, to protocol.Rank) bool { return to >= 6 }
	for r := range protocol.Rank(6) {
		c.leave(r, true)
	}
	for end := c.now; !c.states[0].Out() && end < c.now+c.p.cfg.Patience; end += c.p.cfg.Retry / 4 {
		c.runUntil(end)
	}
	if !c.states[0].Out() || gone() > 0 {
		t.Fatalf("process 0 is out: %v; %d have gone", c.states[0].Out(), gone())
	}
	c.mail = slices.DeleteFunc(c.mail, func(l letterTo) bool { return l.to >= 6 }) // lost
	c.cut = nil
	c.run()
	for r := range 2 {
		if v := c.opened[6+r]; v == nil || !strings.HasSuffix(v.String(), " {6 7}") {
			t.Errorf("process %d opens %v", 6+r, v)
		}
	}
	if gone() != 6 {
		t.Errorf("%d have gone", gone())
	}
}

// That no process needs one any more as of one view says nothing of the next.
func TestWhoIsFreeInAnotherViewStays(t *testing.T) {
	c := newCluster(t, 4, 0)
	c.leave(2, false)
	c.run()
	c.leave(2, true)
	c.kill(3)
	c.notice(3, 0)
	c.actAll() // the view without 3 is on its way, and the letter of 2 as well
	c.run()
	c.agreed("view 3 {0 1 2}")
	c.leave(2, true)
	c.run()
	c.agreed("view 4 {0 1}", 2)
	if !c.states[2].Out() {
		t.Error("process 2 is in")
	}
}

// The proposer that was notified dies, or another one joins below it: the leaving process notifies the next one.
func TestTheNextProposerIsTold(t *testing.T) {
	for steps := range 12 {
		c := newCluster(t, 5, 0)
		c.leave(4, false)
		c.actAll()
		for range steps {
			c.deliver()
		}
		c.kill(0)
		c.notice(0)
		c.run()
		for r := 1; r < 5; r++ {
			if v := c.states[r].view; !c.states[r].Open() || !v.Leaves(4) || len(v.Members) != 4 {
				t.Fatalf("after %d steps process %d is in %v, in which %v leave", steps, r, v, v.Leaving)
			}
		}
	}
}

// Tasks of leaving members go to others with an epoch, and those of dead ones to leaving members only if no other can
// own them.
func TestOwnersOfThoseWhoLeave(t *testing.T) {
	leave := func(n int, owners []protocol.Rank, who ...protocol.Rank) *View {
		return First(n, owners).announced(who)
	}
	limit := func(most ...int) func(Member) int { return func(m Member) int { return most[m.ID] } }
	free := limit(9, 9, 9, 9)
	for _, c := range []struct {
		name string
		got  *View
		want string
	}{
		{"one of three", leave(3, []protocol.Rank{0, 1, 2}, 1).Balanced(4, free), "[0 0 2]"},
		{"two of four", leave(4, []protocol.Rank{0, 1, 2, 3}, 0, 2).Balanced(4, free), "[1 1 3 3]"},
		{"none with tasks", leave(3, []protocol.Rank{0, 2, 2}, 1).Balanced(4, free), "nothing"},
		{"no room", leave(3, []protocol.Rank{0, 1, 2}, 1).Balanced(4, limit(1, 9, 1)), "nothing"},
		{"some room", leave(3, []protocol.Rank{0, 1, 1, 2}, 1).Balanced(4, limit(1, 9, 2)), "[0 1 2 2]"},
		{"all", leave(2, []protocol.Rank{0, 1}, 0, 1).Balanced(4, free), "nothing"},
		{"no tasks", leave(2, []protocol.Rank{}, 0).Balanced(4, free), "nothing"},
		{"a death", leave(3, []protocol.Rank{0, 1, 2}, 0).without(func(m Member) bool { return m.ID == 2 }, true, free, []protocol.Rank{0}), "[0 1 1]"},
		{"a death, and no room", leave(3, []protocol.Rank{0, 1, 2}, 0).without(func(m Member) bool { return m.ID == 2 }, true, limit(9, 1, 9), []protocol.Rank{0}), "[0 1 0]"},
		{"a death, and all leave", leave(2, []protocol.Rank{0, 1}, 0, 1).without(func(m Member) bool { return m.ID == 1 }, true, free, []protocol.Rank{0, 1}), "[0 0]"},
	} {
		got := "nothing"
		if c.got != nil {
			got = fmt.Sprint(c.got.Owners)
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
