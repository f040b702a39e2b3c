package membership_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/coppice-go/coppice/internal/extent"
	"github.com/coppice-go/coppice/logp"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
)

// localStates records the states of a simulation.
type localStates struct {
	*membership.LocalWatched
	states []*membership.LocalWatchedState
}

func (p *localStates) Init(s *membership.LocalWatchedState, self protocol.Rank, seed uint64) {
	p.states[self] = s
	p.LocalWatched.Init(s, self, seed)
}

// localCount counts messages and keeps answers.
type localCount struct {
	sent    map[membership.LocalKind]int
	answers []membership.LocalMessage
}

func (c *localCount) Sent(_ protocol.Time, _, _ protocol.Rank, _ protocol.Kind, m membership.LocalMessage) {
	c.sent[m.Kind]++
}

func (c *localCount) Delivered(_ protocol.Time, _ protocol.Rank, m membership.LocalMessage) {
	if m.Kind == membership.LocalAnswer {
		c.answers = append(c.answers, m)
	}
}

// simulateLocal runs n processes, some of them dead, and returns how they end.
func simulateLocal(t *testing.T, n, fanout int, dead []protocol.Rank, inputs ...logp.Input) (*membership.Localized, *localStates, *localCount) {
	t.Helper()
	l := newLocal(t, membership.LocalConfig{Members: n, Fanout: fanout})
	w, err := l.Watched(dead...)
	if err != nil {
		t.Fatal(err)
	}
	p := &localStates{w, make([]*membership.LocalWatchedState, n)}
	e, err := logp.NewEngine(p, logp.Network{P: n, L: 2, O: 1, Detect: 1})
	if err != nil {
		t.Fatal(err)
	}
	count := &localCount{sent: map[membership.LocalKind]int{}}
	e.Observe(logp.Observer[membership.LocalMessage]{Sent: count.Sent, Delivered: count.Delivered})
	if _, err := e.Run(1, logp.Faults{Failed: dead}, inputs...); err != nil {
		t.Fatal(err)
	}
	for _, r := range dead {
		p.states[r] = nil
	}
	return l, p, count
}

func ranksBelow(n int) (list []protocol.Rank) {
	for r := range n {
		list = append(list, protocol.Rank(r))
	}
	return list
}

func TestLocalTreeIsWholeAndBoundedAfterManyDeaths(t *testing.T) {
	n := extent.Of(t, 2000, 6000)
	random := rand.New(rand.NewPCG(1, 2))
	scattered := map[protocol.Rank]bool{}
	for len(scattered) < 100 {
		scattered[protocol.Rank(random.IntN(n))] = true
	}
	var many []protocol.Rank
	for r := range scattered {
		many = append(many, r)
	}
	for _, a := range []int{2, 4} {
		l := newLocal(t, membership.LocalConfig{Members: n, Fanout: a})
		var branch []protocol.Rank
		for r := range protocol.Rank(n) {
			if l.Contains(300, r) {
				branch = append(branch, r)
			}
		}
		for name, dead := range map[string][]protocol.Rank{"scattered": many, "the top": ranksBelow(127), "a branch": branch} {
			t.Run(fmt.Sprintf("%s, %d children", name, a), func(t *testing.T) {
				l, p, _ := simulateLocal(t, n, a, dead)
				err := checkLocalTree(l, n-len(dead), func(r protocol.Rank) *membership.LocalState {
					if p.states[r] == nil {
						return nil
					}
					return &p.states[r].LocalState
				}, n)
				if err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

// TestLocalDegreeReachesItsBound: with every process above level 7 dead, the first process there stands in for seven,
// with a−1 children for each and its own a.
func TestLocalDegreeReachesItsBound(t *testing.T) {
	l, p, _ := simulateLocal(t, 1023, 2, ranksBelow(127))
	_, below := l.Neighbours(&p.states[127].LocalState)
	if len(below) != 7*1+2 || len(below) != l.DegreeMax(128) {
		t.Errorf("%d below, by the bound %d; want 9", len(below), l.DegreeMax(128))
	}
}

func TestLocalQuestionsTakeLogarithmicallyManyMessages(t *testing.T) {
	const n, levels = 4095, 12
	dead := []protocol.Rank{1, 3, 500, 4000}
	for _, c := range []struct {
		by, about protocol.Rank
		alive     bool
	}{
		{4094, 2047, true},
		{4094, 0, true},
		{0, 4093, true},
		{7, 7, true},
		{2500, 1, false},
		{2500, 500, false},
		{0, 4000, false},
		{9, 5000, false},
	} {
		ask := logp.Input{At: 1000, Rank: c.by, Notice: protocol.Notice{Kind: protocol.Begin, Value: uint64(c.about)}}
		_, _, count := simulateLocal(t, n, 2, dead, ask)
		if len(count.answers) != 1 || (count.answers[0].Size > 0) != c.alive {
			t.Errorf("%d about %d: %v, want one answer, %v", c.by, c.about, count.answers, c.alive)
		}
		if sent := count.sent[membership.LocalAsk] + count.sent[membership.LocalTell]; sent > 2*(levels-1)+1 {
			t.Errorf("%d about %d: %d messages", c.by, c.about, sent)
		}
	}
}
