package membership

import (
	"fmt"
	"strings"
	"testing"

	"github.com/coppice-go/coppice/protocol"
)

// cluster is a small driver for directed tests: messages arrive in the order they
// were sent, unless a test says otherwise.
type cluster struct {
	t        *testing.T
	p        *Protocol
	states   []State
	alive    []bool
	now      protocol.Time
	mail     []letterTo
	opened   []*View // the last, by process
	events   []string
	cut      func(from, to protocol.Rank) bool
	messages int
	fenced   []Member
}

type letterTo struct {
	from, to protocol.Rank
	m        Message
}

func newCluster(t *testing.T, n, more int, change ...func(*Config)) *cluster {
	t.Helper()
	cfg := Config{First: First(n, nil)}
	for _, f := range change {
		f(&cfg)
	}
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, p: p, states: make([]State, n+more), alive: make([]bool, n+more), opened: make([]*View, n+more)}
	for r := range c.states {
		p.Init(&c.states[r], protocol.Rank(r), 7)
		c.alive[r] = true
	}
	return c
}

func (c *cluster) log(format string, args ...any) {
	c.events = append(c.events, fmt.Sprintf(format, args...))
}

// act lets a process do all it can now.
func (c *cluster) act(r protocol.Rank) {
	for range 10_000 {
		if !c.alive[r] || !c.do(r) {
			return
		}
	}
	c.t.Fatalf("process %d does not rest", r)
}

// do lets a process act once; false: it has nothing to do.
func (c *cluster) do(r protocol.Rank) bool {
	s := &c.states[r]
	switch a := c.p.Next(s, c.now); a.Kind {
	case protocol.Send:
		c.messages++
		c.log("%d→%d %v", r, a.To, a.Msg)
		c.mail = append(c.mail, letterTo{r, a.To, a.Msg})
	case protocol.Deliver:
		c.log("%d tells %v", r, a.Msg)
		if a.Msg.Kind == Opened {
			c.opened[r] = a.Msg.Base
		}
	case protocol.Work:
		if a.Msg.Kind == Fence {
			c.log("%d asks for the end of %v", r, a.Msg.Who)
			c.fenced = append(c.fenced, a.Msg.Who)
			if err := a.Msg.Condemns(a.Msg.Who, s.view); err != nil {
				c.t.Errorf("%d asks for the end of %v: %v", r, a.Msg.Who, err)
			}
		}
		c.p.Notify(s, c.now, protocol.Notice{Kind: protocol.WorkDone})
	default:
		return false
	}
	return true
}

func (c *cluster) actAll() {
	for r := range c.states {
		c.act(protocol.Rank(r))
	}
}

// deliver delivers the first message that can arrive; false: there is none.
func (c *cluster) deliver() bool {
	for i, l := range c.mail {
		if c.cut != nil && c.cut(l.from, l.to) {
			continue
		}
		c.mail = append(c.mail[:i:i], c.mail[i+1:]...)
		if c.alive[l.to] {
			c.p.Receive(&c.states[l.to], c.now, l.from, l.m)
			c.act(l.to)
		}
		return true
	}
	return false
}

// settle runs all that can happen without time passing.
func (c *cluster) settle() {
	c.actAll()
	for range 1_000_000 {
		if !c.deliver() {
			return
		}
	}
	c.t.Fatal("no end")
}

// run runs all that can happen, time included.
func (c *cluster) run() { c.runUntil(protocol.Never) }

// runUntil runs all that can happen before a moment.
func (c *cluster) runUntil(end protocol.Time) {
	for range 1000 {
		c.settle()
		next := protocol.Never
		for r := range c.states {
			if c.alive[r] {
				if a := c.p.Next(&c.states[r], c.now); a.Kind == protocol.Wait {
					next = min(next, a.At)
				}
			}
		}
		if next >= end {
			return
		}
		if next <= c.now {
			c.t.Fatalf("waits until %d at %d", next, c.now)
		}
		c.now = next
	}
	c.t.Fatal("timers without end")
}

func (c *cluster) kill(ranks ...protocol.Rank) {
	for _, r := range ranks {
		c.alive[r] = false
	}
}

// notice reports a death to some processes, to all live ones if none are named.
func (c *cluster) notice(dead protocol.Rank, to ...protocol.Rank) {
	if to == nil {
		for r := range c.states {
			to = append(to, protocol.Rank(r))
		}
	}
	will := Testament(&c.states[dead])
	for _, r := range to {
		if c.alive[r] {
			c.p.Receive(&c.states[r], c.now, dead, will)
			c.p.Notify(&c.states[r], c.now, protocol.Notice{Kind: protocol.Death, Rank: dead, Value: uint64(will.From)})
		}
	}
}

func (c *cluster) suspect(by, whom protocol.Rank) {
	c.p.Notify(&c.states[by], c.now, protocol.Notice{Kind: protocol.Suspect, Rank: whom, Value: uint64(c.states[whom].self.Incarnation)})
}

func (c *cluster) begin(r protocol.Rank, incarnation uint64) {
	c.alive[r] = true
	c.p.Notify(&c.states[r], c.now, protocol.Notice{Kind: protocol.Begin, Value: incarnation})
}

// agreed checks that the live processes, apart from some, are in the same open view with these members.
func (c *cluster) agreed(want string, apart ...protocol.Rank) {
	c.t.Helper()
	for r := range c.states {
		if !c.alive[r] || c.states[r].stage == outside || contains(apart, protocol.Rank(r)) {
			continue
		}
		if s := &c.states[r]; !s.Open() || s.view.String() != want {
			c.t.Errorf("process %d: %v, open %v; want %s", r, s.view, s.Open(), want)
		}
	}
	if c.t.Failed() {
		c.t.Log("\n" + strings.Join(c.events, "\n"))
		c.t.FailNow()
	}
}

func contains(list []protocol.Rank, r protocol.Rank) bool {
	for _, x := range list {
		if x == r {
			return true
		}
	}
	return false
}
