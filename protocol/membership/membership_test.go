package membership

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-go/coppice/protocol"
)

// Section 3.1.3: the detector notifies the root, the root all others, and all have the same view without the failed
// process.
func TestOneFailureGivesOneNewView(t *testing.T) {
	for _, a := range []int{2, 4, 8} {
		c := newCluster(t, 12, 0, func(cfg *Config) { cfg.Fanout = a })
		c.kill(4)
		c.notice(4, 11)
		c.run()
		c.agreed("view 2 {0 1 2 3 5 6 7 8 9 10 11}")
		if want := 2 + 3*10; c.messages != want { // the report, its note, then down, up and down again
			t.Errorf("fan-out %d: %d messages, want %d", a, c.messages, want)
		}
	}
}

func TestTheFirstViewNeedsNoMessages(t *testing.T) {
	c := newCluster(t, 5, 0)
	c.run()
	c.agreed("view 1 {0 1 2 3 4}")
	if c.messages != 0 || c.now != 0 {
		t.Errorf("%d messages, time %d", c.messages, c.now)
	}
}

// Section 3.1.4: several failures, at once and while the tree stabilizes.
func TestSeveralFailuresAtOnce(t *testing.T) {
	c := newCluster(t, 12, 0)
	c.kill(4, 5, 9)
	for _, r := range []protocol.Rank{4, 5, 9} {
		c.notice(r)
	}
	c.run()
	c.agreed("view 2 {0 1 2 3 6 7 8 10 11}")
}

func TestAFailureWhileTheTreeStabilizes(t *testing.T) {
	for steps := range 40 {
		c := newCluster(t, 8, 0)
		c.kill(7)
		c.notice(7)
		c.actAll()
		for range steps {
			c.deliver()
		}
		c.kill(1) // an inner node
		c.notice(1)
		c.run()
		for r, s := range c.states {
			if c.alive[r] && (!s.Open() || len(s.view.Members) != 6) {
				t.Fatalf("after %d steps process %d is in %v, open %v", steps, r, s.view, s.Open())
			}
		}
	}
}

// Section 3.1.5: the next process in the list takes the root's place; here without asking first, so that it costs no
// more.
func TestTheRootAndThoseAfterItFail(t *testing.T) {
	c := newCluster(t, 9, 0, func(cfg *Config) { cfg.Report = 10 })
	c.kill(0, 1, 2)
	for _, r := range []protocol.Rank{0, 1, 2} {
		c.notice(r)
	}
	c.run()
	c.agreed("view 2 {3 4 5 6 7 8}")
	if want := 3 * 5; c.messages != want {
		t.Errorf("%d messages, want %d", c.messages, want)
	}
}

func TestTheRootFailsWhileItProposes(t *testing.T) {
	for steps := range 40 {
		c := newCluster(t, 6, 0)
		c.kill(5)
		c.notice(5)
		c.actAll()
		for range steps {
			c.deliver()
		}
		c.kill(0)
		c.notice(0)
		c.run()
		for r, s := range c.states {
			if c.alive[r] && (!s.Open() || len(s.view.Members) != 4) {
				t.Fatalf("after %d steps process %d is in %v, open %v", steps, r, s.view, s.Open())
			}
		}
	}
}

func TestOneSurvivorGoesOnAlone(t *testing.T) {
	c := newCluster(t, 5, 0)
	c.kill(0, 1, 3, 4)
	for _, r := range []protocol.Rank{0, 1, 3, 4} {
		c.notice(r)
		c.run()
	}
	if s := &c.states[2]; !s.Open() || len(s.view.Members) != 1 {
		t.Errorf("%v, open %v", s.view, s.Open())
	}
}

// Section 3.1.6.
func TestProcessesJoinAndComeBack(t *testing.T) {
	c := newCluster(t, 3, 2)
	c.begin(4, 1)
	c.run()
	c.agreed("view 2 {0 1 2 4}")
	c.kill(1)
	c.notice(1)
	c.run()
	c.agreed("view 3 {0 2 4}")
	c.p.Init(&c.states[1], 1, 7)
	c.begin(1, 2)
	c.run()
	c.agreed("view 4 {0 1.2 2 4}")
	c.begin(3, 1)
	c.kill(0)
	c.notice(0)
	c.run()
	c.agreed("view 6 {1.2 2 3 4}")
}

func TestAJoinerThatComesBackBeforeItsDeathIsKnown(t *testing.T) {
	c := newCluster(t, 3, 0)
	c.kill(2)
	c.p.Init(&c.states[2], 2, 7)
	c.begin(2, 2)
	c.run()
	c.agreed("view 3 {0 1 2.2}")
}

// p2 dies after it has accepted the view that lets it in, and its next incarnation asks before the view is chosen.
func TestAJoinerThatComesBackBeforeItIsIn(t *testing.T) {
	c := newCluster(t, 2, 1)
	c.cut = func(from, _ protocol.Rank) bool { return from == 1 }
	c.begin(2, 1)
	c.settle()
	c.kill(2)
	c.p.Init(&c.states[2], 2, 7)
	c.begin(2, 2)
	c.settle()
	c.cut = nil
	c.run()
	for _, e := range c.events {
		if strings.Contains(e, "2 2.2}") {
			t.Fatalf("both lives are in a view: %s", e)
		}
	}
	c.agreed("view 4 {0 1 2.2}")
}

// p0 lets p1 and p2 in, notifies p2 that the view is stable, and falls silent. Only p1 can propose a view without it, and
// knows other processes only as members of the view that it has accepted.
func TestAJoinerWhoseProposerFallsSilentAsksThoseInTheViewThatItAccepted(t *testing.T) {
	c := newCluster(t, 1, 2)
	c.begin(1, 1)
	c.begin(2, 1)
	c.actAll()
	for _, l := range c.mail {
		c.p.Receive(&c.states[0], c.now, l.from, l.m)
	}
	c.mail = nil
	c.act(0)
	for c.states[1].value == nil && c.deliver() {
	}
	c.cut = func(from, to protocol.Rank) bool { return from == 0 && to == 1 }
	c.settle()
	if c.states[1].Member() || c.opened[2].String() != "view 2 {0 1 2}" {
		t.Fatalf("p1 is in: %v; p2 in %v", c.states[1].Member(), c.opened[2])
	}
	c.cut = func(from, to protocol.Rank) bool { return from == 0 || to == 0 }
	c.suspect(1, 0)
	c.suspect(2, 0)
	c.run()
	c.agreed("view 3 {1 2}", 0)
}

// A joiner that would be the next to propose has not heard that it is a member, and knows only one member, which has
// fallen silent: the others report that to the joiner, which then asks them.
func TestAJoinerThatIsReportedToAsksWhoReports(t *testing.T) {
	c := newCluster(t, 4, 2)
	c.begin(4, 1)
	c.begin(5, 1)
	c.run()
	c.kill(0, 1, 2)
	for r := range protocol.Rank(3) {
		c.notice(r)
	}
	c.run()
	c.begin(1, 2)
	c.run()
	c.begin(0, 2)
	for r := protocol.Rank(1); r < 3; r++ {
		c.p.Notify(&c.states[0], c.now, protocol.Notice{Kind: protocol.Death, Rank: r, Value: 1})
	}
	before := c.states[1].view.Number
	c.act(0)
	for c.states[1].view.Number == before {
		c.mail = slices.DeleteFunc(c.mail, func(l letterTo) bool { return l.to == 0 })
		if !c.deliver() {
			t.Fatalf("no view lets p0 in: %v", c.states[1].view)
		}
	}
	c.cut = func(from, to protocol.Rank) bool { return from == 3 || to == 3 }
	c.mail = slices.DeleteFunc(c.mail, func(l letterTo) bool { return l.to == 0 })
	for _, r := range []protocol.Rank{0, 1, 4, 5} {
		c.suspect(r, 3)
	}
	c.run()
	c.agreed(fmt.Sprintf("view %d {0.2 1.2 4 5}", before+2), 3)
}

// The only member proposes to let p1 in and dies. p1 hears of the death before the proposal comes.
func TestAJoinerGoesOnAloneWhenTheProposalComesAfterTheNewsOfTheDeath(t *testing.T) {
	c := newCluster(t, 1, 1)
	c.begin(1, 1)
	c.act(1)
	c.deliver()
	c.kill(0)
	c.notice(0, 1)
	c.run()
	c.agreed("view 3 {1}")
	if c.now > 0 {
		t.Errorf("at %d", c.now)
	}
}

func TestALifeThatIsOutNeverComesBack(t *testing.T) {
	c := newCluster(t, 3, 0)
	c.kill(2)
	c.notice(2)
	c.run()
	c.alive[2] = true // the notice was wrong, as with a mistaken detector
	s := &c.states[2]
	s.stage, s.join = joining, joinState{began: c.now}
	c.run()
	if !s.Out() {
		t.Errorf("process 2 is in %v", s.view)
	}
	c.agreed("view 2 {0 1}", 2)
}

func TestAMinorityHasNoQuorumAndTheMajorityGoesOn(t *testing.T) {
	c := newCluster(t, 5, 0)
	small := func(r protocol.Rank) bool { return r < 2 }
	c.cut = func(a, b protocol.Rank) bool { return small(a) != small(b) }
	for a := range protocol.Rank(5) {
		for b := range protocol.Rank(5) {
			if small(a) != small(b) {
				c.suspect(a, b)
			}
		}
	}
	c.run()
	c.agreed("view 2 {2 3 4}", 0, 1)
	for r := range 2 {
		if s := &c.states[r]; !s.Hopeless() || s.view.Number != 1 {
			t.Errorf("process %d is in %v, hopeless %v", r, s.view, s.Hopeless())
		}
	}
	c.cut = nil
	c.run()
	for r := range 2 {
		if s := &c.states[r]; !s.Out() {
			t.Errorf("after the cut process %d is in %v", r, s.view)
		}
	}
	c.agreed("view 2 {2 3 4}", 0, 1)
}

func TestTwoLeftAndOneSilentIsFenced(t *testing.T) {
	c := newCluster(t, 2, 0)
	c.cut = func(a, b protocol.Rank) bool { return true }
	c.suspect(0, 1)
	c.settle()
	if len(c.fenced) != 1 || c.fenced[0].ID != 1 {
		t.Fatalf("fenced %v", c.fenced)
	}
	c.kill(1)
	c.notice(1)
	c.run()
	c.agreed("view 2 {0}")
}

func TestASuspectThatIsHeardAgainStays(t *testing.T) {
	c := newCluster(t, 4, 0, func(cfg *Config) { cfg.Report = 10 })
	c.suspect(2, 3)
	c.actAll()
	c.p.Receive(&c.states[2], c.now, 3, Message{Letter: &Letter{Kind: Noted}, From: 1})
	c.run()
	c.agreed("view 1 {0 1 2 3}")
}

// What is heard of a process may be old: it fails all the same, and its first accuser was right.
func TestWhoAccusesRightlyStays(t *testing.T) {
	c := newCluster(t, 5, 0)
	c.cut = func(a, b protocol.Rank) bool { return a == 0 || b == 0 }
	c.suspect(3, 0)
	c.suspect(3, 1)
	c.kill(1)
	c.p.Receive(&c.states[2], c.now, 3, Message{Letter: &Letter{Kind: Failure, Who: Member{0, 1}, Number: 1}, From: 1})
	c.p.Heard(&c.states[2], c.now, Member{0, 1}) // it was delayed
	for r := protocol.Rank(2); r < 5; r++ {
		c.suspect(r, 0)
		c.suspect(r, 1)
	}
	c.run()
	c.agreed("view 2 {2 3 4}", 0, 1)
}

// A process that is found silent while it joins is silent in the view that lets it in, too: no further Suspect comes.
func TestSilentJoinerIsSuspectedInTheView(t *testing.T) {
	c := newCluster(t, 3, 0)
	s, joiner := &c.states[1], Member{7, 1}
	c.p.failed(s, c.now, failure{who: joiner})
	c.p.install(s, c.now, s.view.Without(func(m Member) bool { return m.ID == 0 }, false))
	c.p.install(s, c.now, s.view.With([]Member{joiner}, false))
	if failed := s.Failed(); len(failed) != 1 || failed[0] != joiner {
		t.Errorf("failed: %v, want the joiner", failed)
	}
}

// One of two has to go, the accused or the accuser, and not both.
func TestAccuserStaysWhenTheAccusedIsOut(t *testing.T) {
	c := newCluster(t, 5, 0)
	s := &c.states[1]
	c.p.Receive(s, c.now, 4, Message{Letter: &Letter{Kind: Failure, Who: Member{0, 1}, Number: 1}, From: 1})
	c.p.Heard(s, c.now, Member{0, 1})
	if failed := s.Failed(); len(failed) != 1 || failed[0].ID != 4 {
		t.Fatalf("failed: %v, want the accuser", failed)
	}
	second := s.view.Without(func(m Member) bool { return m.ID == 0 }, false)
	c.p.Receive(s, c.now, 2, Message{Letter: &Letter{Kind: Decided, Base: second}, From: 1})
	if failed := s.Failed(); s.view.Number != 2 || len(failed) != 0 {
		t.Errorf("in view %d failed: %v, want nobody", s.view.Number, failed)
	}
}

func TestOwnersFollowTheView(t *testing.T) {
	for _, adopt := range []bool{false, true} {
		c := newCluster(t, 4, 1, func(cfg *Config) {
			cfg.First = First(4, []protocol.Rank{0, 0, 1, 2, 3, 3, 3})
			cfg.Adopt = adopt
		})
		c.kill(3)
		c.notice(3)
		c.run()
		c.begin(4, 1)
		c.run()
		want := []protocol.Rank{0, 0, 1, 2, nobody, nobody, nobody}
		if adopt {
			want = []protocol.Rank{0, 0, 1, 2, 1, 2, 0}
		}
		got := c.states[4].view.Owners
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("adopt %v: owners %v, want %v", adopt, got, want)
			}
		}
	}
}

// The degree stays bounded whichever process dies, and a death moves at most two members: those around it and around the
// last one have new links, the others keep theirs.
func TestADeathMakesFewLinksNew(t *testing.T) {
	for _, a := range []int{2, 4} {
		c := newCluster(t, 40, 1, func(cfg *Config) { cfg.Fanout = a })
		links := func() map[[2]protocol.Rank]bool {
			all := map[[2]protocol.Rank]bool{}
			for r := range c.states {
				if c.alive[r] && c.states[r].Open() {
					children := c.p.Children(&c.states[r])
					if len(children) > a {
						t.Fatalf("fan-out %d: process %d has the children %v", a, r, children)
					}
					for _, child := range children {
						all[[2]protocol.Rank{protocol.Rank(r), child}] = true
					}
				}
			}
			return all
		}
		before := links()
		for i, victim := range []protocol.Rank{7, 0, 39, 3, 1, 20, 12, 2} {
			c.kill(victim)
			c.notice(victim)
			c.run()
			after, fresh := links(), 0
			for l := range after {
				if !before[l] {
					fresh++
				}
			}
			if len(after) != 38-i {
				t.Fatalf("fan-out %d: %d links among %d members", a, len(after), 39-i)
			}
			leaf := victim != 0
			for l := range before {
				leaf = leaf && l[0] != victim
			}
			if leaf && fresh > 0 || fresh > 2*(a+1) {
				t.Errorf("fan-out %d: the death of %d makes %d links new", a, victim, fresh)
			}
			before = after
		}
	}
}

// TestAChosenViewIsDecidedUntilItIsOpen: a caller that waits for a view that moves tasks must not take it that there will be none.
func TestAChosenViewIsDecidedUntilItIsOpen(t *testing.T) {
	c := newCluster(t, 3, 0)
	s := &c.states[0]
	c.settle()
	if s.Decides() {
		t.Error("nothing is to be decided")
	}
	c.p.learn(s, c.now, s.view.Without(is(2), false), false)
	if !s.Decides() || s.Open() {
		t.Errorf("%v is chosen: decides %v, open %v", s.view, s.Decides(), s.Open())
	}
}
