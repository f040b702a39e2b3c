package membership

import (
	"strings"
	"testing"

	"github.com/coppice-go/coppice/protocol"
)

// halves cuts a cluster with an arbiter in two halves that suspect each other.
func halves(t *testing.T, n int) *cluster {
	c := newCluster(t, n, 0, func(cfg *Config) { cfg.Arbiter = true })
	low := func(r protocol.Rank) bool { return int(r) < n/2 }
	c.cut = func(a, b protocol.Rank) bool { return low(a) != low(b) }
	for a := range protocol.Rank(n) {
		for b := range protocol.Rank(n) {
			if low(a) != low(b) {
				c.suspect(a, b)
			}
		}
	}
	c.settle()
	return c
}

// answer passes the arbiter's answer to a process.
func (c *cluster) answer(r protocol.Rank, kind Kind, view uint64) {
	c.p.Receive(&c.states[r], c.now, r, Message{Letter: &Letter{Kind: kind, Number: view}, From: 1})
	c.settle()
}

func TestOfTwoHalvesTheOneThatIsNamedGoesOn(t *testing.T) {
	for n, want := range map[int]string{2: "view 2 {1}", 4: "view 2 {2 3}"} {
		c := halves(t, n)
		if len(c.fenced) > 0 {
			t.Errorf("%d: the end of %v is asked for while the arbiter decides", n, c.fenced)
		}
		upper := protocol.Rank(n / 2)
		c.answer(upper, Granted, 1)
		c.answer(0, Denied, 1)
		c.run()
		if got := c.opened[upper]; got == nil || got.String() != want {
			t.Errorf("%d: the upper half opens %v, want %s", n, got, want)
		}
		for r := range upper {
			if s := &c.states[r]; !s.Hopeless() || s.view.Number != 1 {
				t.Errorf("%d: process %d is in %v, hopeless %v", n, r, s.view, s.Hopeless())
			}
		}
		c.cut = nil
		c.run()
		for r := range upper {
			if s := &c.states[r]; !s.Out() {
				t.Errorf("%d: after the cut process %d is in %v", n, r, s.view)
			}
		}
	}
}

// TestOneSuspicionIsEnoughForTheArbiter: if one process of a half suspects one of the other half, its half asks the
// arbiter before its members give up.
func TestOneSuspicionIsEnoughForTheArbiter(t *testing.T) {
	c := newCluster(t, 8, 0, func(cfg *Config) { cfg.Arbiter = true })
	c.cut = func(a, b protocol.Rank) bool { return a < 4 != (b < 4) }
	c.suspect(2, 6)
	early := c.now + c.p.cfg.Patience*2/5
	c.runUntil(early)
	if a := c.states[0].arbitration; a != asking {
		t.Fatalf("after 2/5 of the patience: arbitration %d", a)
	}
	c.answer(0, Granted, 1)
	c.run()
	for r := range protocol.Rank(4) {
		if got := c.opened[r]; got == nil || !strings.HasSuffix(got.String(), " {0 1 2 3}") {
			t.Errorf("process %d opens %v", r, got)
		}
	}
}

func TestAnswersThatAreNotTheArbitersCountForNothing(t *testing.T) {
	c := halves(t, 2)
	c.p.Receive(&c.states[0], c.now, 1, Message{Letter: &Letter{Kind: Granted, Number: 1}, From: 1}) // from another process
	c.answer(0, Granted, 2)                                                                          // for another view
	if v := c.opened[0]; v != nil {
		t.Errorf("opens %v", v)
	}
	c.answer(0, Denied, 1)
	c.answer(0, Granted, 1) // it has answered
	if v := c.opened[0]; v != nil {
		t.Errorf("opens %v", v)
	}
}

func TestWithoutAnAnswerTheOtherOfTwoIsFenced(t *testing.T) {
	c := halves(t, 2)
	c.answer(0, NoArbiter, 1)
	if len(c.fenced) != 1 || c.fenced[0].ID != 1 {
		t.Fatalf("fenced %v", c.fenced)
	}
}

func TestTheArbiterIsNotAskedByAMajorityOrAMinority(t *testing.T) {
	c := newCluster(t, 5, 0, func(cfg *Config) { cfg.Arbiter = true })
	c.cut = func(a, b protocol.Rank) bool { return a < 2 != (b < 2) }
	for r := range protocol.Rank(5) {
		for o := range protocol.Rank(5) {
			if r < 2 != (o < 2) {
				c.suspect(r, o)
			}
		}
	}
	c.run()
	for r := range c.states {
		if a := c.states[r].arbitration; a != unasked {
			t.Errorf("process %d: arbitration %d", r, a)
		}
	}
	c.agreed("view 2 {2 3 4}", 0, 1)
}
