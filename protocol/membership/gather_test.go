package membership

import (
	"slices"
	"testing"

	"github.com/coppice-go/coppice/protocol"
)

// late returns a cluster in which the members from first on have not begun.
func late(t *testing.T, n, first protocol.Rank) *cluster {
	t.Helper()
	c := newCluster(t, int(n), 0, func(cfg *Config) { cfg.Gather = true })
	for r := range n {
		c.alive[r] = r < first
	}
	for r := range first {
		c.begun(r)
	}
	return c
}

// begun lets a member begin: all live processes hear of it, and it of them.
func (c *cluster) begun(r protocol.Rank) {
	c.alive[r] = true
	for other := range c.states {
		if c.alive[other] {
			c.p.Heard(&c.states[other], c.now, Member{r, 1})
			c.p.Heard(&c.states[r], c.now, Member{protocol.Rank(other), 1})
		}
	}
}

// TestDeathWhileTooFewHaveBegun: the processes that have begun wait for the others without limit, then go on without the
// one that crashed.
func TestDeathWhileTooFewHaveBegun(t *testing.T) {
	for dead := range protocol.Rank(4) {
		c := late(t, 6, 4)
		c.kill(dead)
		c.notice(dead)
		c.runUntil(50 * c.p.cfg.Patience)
		c.now = 50 * c.p.cfg.Patience
		for r := range c.states {
			if s := &c.states[r]; s.Hopeless() || len(s.Failed()) > 1 {
				t.Fatalf("process %d waits for those that have not begun: hopeless %v, failed %v", r, s.Hopeless(), s.Failed())
			}
		}
		for _, r := range []protocol.Rank{5, 4} {
			c.begun(r)
			c.notice(dead, r)
		}
		c.run()
		want := map[protocol.Rank]string{0: "view 2 {1 2 3 4 5}", 1: "view 2 {0 2 3 4 5}", 2: "view 2 {0 1 3 4 5}", 3: "view 2 {0 1 2 4 5}"}
		c.agreed(want[dead], dead)
		if len(c.fenced) > 0 {
			t.Errorf("fenced: %v", c.fenced)
		}
	}
}

// TestMembersThatBeginLateAreAskedAgainSoon: although the proposer has asked them ever more rarely for long, it soon asks again if what
// it sends when they begin does not arrive.
func TestMembersThatBeginLateAreAskedAgainSoon(t *testing.T) {
	c := late(t, 6, 4)
	c.kill(0)
	c.notice(0)
	begin := 50 * c.p.cfg.Patience
	c.runUntil(begin)
	c.now = begin
	c.begun(4)
	c.begun(5)
	c.notice(0, 4, 5)
	toLate := func(l letterTo) bool { return l.to >= 4 }
	c.cut = func(_, to protocol.Rank) bool { return to >= 4 }
	c.settle()
	if !slices.ContainsFunc(c.mail, toLate) {
		t.Error("they are not asked when they begin")
	}
	c.mail, c.cut = slices.DeleteFunc(c.mail, toLate), nil
	c.runUntil(begin + 4*c.p.cfg.Retry)
	c.agreed("view 2 {1 2 3 4 5}", 0)
}

// TestTheOthersNeverBegin: when the members that have not begun are suspected, patience runs, from then on.
func TestTheOthersNeverBegin(t *testing.T) {
	c := late(t, 6, 3)
	c.kill(0)
	c.notice(0)
	given := 10 * c.p.cfg.Patience
	c.runUntil(given)
	c.now = given
	for _, r := range []protocol.Rank{1, 2} {
		for absent := protocol.Rank(3); absent < 6; absent++ {
			c.suspect(r, absent)
		}
	}
	c.runUntil(given + c.p.cfg.Patience)
	for _, r := range []protocol.Rank{1, 2} {
		if c.states[r].Hopeless() {
			t.Errorf("process %d has lost patience before %d", r, given+c.p.cfg.Patience)
		}
	}
	c.runUntil(given + 2*c.p.cfg.Patience)
	for _, r := range []protocol.Rank{1, 2} {
		if !c.states[r].Hopeless() {
			t.Errorf("process %d still hopes", r)
		}
	}
}

// TestDeathBeforeTheSecondViewIsOpen: a view decided by the processes that have begun is not open before the others
// have begun, and one more dies meanwhile.
func TestDeathBeforeTheSecondViewIsOpen(t *testing.T) {
	c := late(t, 7, 5)
	c.kill(4)
	c.notice(4)
	c.runUntil(c.p.cfg.Patience / 2)
	if s := &c.states[0]; s.view.Number != 2 || s.Open() {
		t.Fatalf("%v, open %v; want a view without the dead, not open", s.view, s.Open())
	}
	c.kill(1)
	c.notice(1)
	c.runUntil(20 * c.p.cfg.Patience)
	c.now = 20 * c.p.cfg.Patience
	for _, r := range []protocol.Rank{0, 2, 3} {
		if s := &c.states[r]; s.Hopeless() {
			t.Fatalf("process %d has lost patience in %v", r, s.view)
		}
	}
	for _, r := range []protocol.Rank{5, 6} {
		c.begun(r)
		c.notice(4, r)
		c.notice(1, r)
	}
	c.run()
	c.agreed("view 3 {0 2 3 5 6}")
}

// TestJoinerWaitsForThoseThatHaveNotBegun: a joiner cannot be let in before enough members have begun.
func TestJoinerWaitsForThoseThatHaveNotBegun(t *testing.T) {
	c := late(t, 5, 2)
	c.kill(1)
	c.notice(1)
	c.begin(1, 2)
	c.p.Heard(&c.states[1], c.now, Member{0, 1})
	c.runUntil(20 * c.p.cfg.Patience)
	c.now = 20 * c.p.cfg.Patience
	for r := range c.states[:2] {
		if c.states[r].Hopeless() {
			t.Fatalf("process %d has lost patience", r)
		}
	}
	for r := protocol.Rank(2); r < 5; r++ {
		c.begun(r)
		c.p.Receive(&c.states[r], c.now, 1, Message{Letter: noWill, From: 1})
		c.p.Notify(&c.states[r], c.now, protocol.Notice{Kind: protocol.Death, Rank: 1, Value: 1})
	}
	c.run()
	c.agreed("view 3 {0 1.2 2 3 4}")
}

// TestJoinerWhoseWaitEndsByAView: the joiner's patience begins with the view.
func TestJoinerWhoseWaitEndsByAView(t *testing.T) {
	c := late(t, 5, 2)
	c.kill(1)
	c.begin(1, 2)
	s := &c.states[1]
	c.p.Heard(s, c.now, Member{0, 1})
	c.p.Heard(s, c.now, Member{2, 1})
	c.kill(0)
	c.runUntil(20 * c.p.cfg.Patience)
	c.now = 20 * c.p.cfg.Patience
	c.p.learn(s, c.now, NewView(2, []Member{{0, 1}, {2, 1}, {4, 1}}, []Member{{1, 1}, {3, 1}}, nil), false)
	c.runUntil(c.now + c.p.cfg.Patience)
	if s.Hopeless() {
		t.Error("it gives up at once")
	}
}
