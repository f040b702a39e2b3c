package membership

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/coppice-go/coppice/protocol"
)

func TestOrphansGoWhereTheyCan(t *testing.T) {
	twelve := []protocol.Rank{0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3}
	for _, c := range []struct {
		name   string
		owners []protocol.Rank
		limits map[protocol.Rank]int
		want   string // of the tasks of process 3
	}{
		{"no limits", twelve, nil, "[0 1 2]"},
		{"all have room", twelve, map[protocol.Rank]int{0: 9, 1: 9, 2: 9}, "[0 1 2]"},
		{"one has room", twelve, map[protocol.Rank]int{0: 3, 1: 12, 2: 3}, "[1 1 1]"},
		{"one has a little", twelve, map[protocol.Rank]int{0: 3, 1: 4, 2: 9}, "[1 2 2]"},
		{"one is unknown", twelve, map[protocol.Rank]int{0: 3, 1: 3}, "[2 2 2]"},
		{"not for all", twelve, map[protocol.Rank]int{0: 4, 1: 3, 2: 4}, "[0 2 -1]"},
		{"nobody", twelve, map[protocol.Rank]int{0: 3, 1: 0, 2: 2}, "[-1 -1 -1]"},
		{"the least loaded is full", []protocol.Rank{0, 0, 0, 1, 1, 2, 3, 3, 3}, map[protocol.Rank]int{2: 1}, "[1 0 1]"},
	} {
		v := First(4, c.owners).without(func(m Member) bool { return m.ID == 3 }, true, func(m Member) int {
			if most, known := c.limits[m.ID]; known {
				return most
			}
			return unlimited
		}, nil)
		var got []protocol.Rank
		for task, o := range c.owners {
			if o == 3 {
				got = append(got, v.Owners[task])
			} else if v.Owners[task] != o {
				t.Errorf("%s: task %d has moved from %d to %d", c.name, task, o, v.Owners[task])
			}
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("%s: %v, want %s", c.name, got, c.want)
		}
	}
}

// Whatever the limits, no member gets more tasks than it can own, a task is lost only if no member has room, and no
// member gets one while another with room has two fewer.
func TestOwnersRespectLimits(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 5000 {
		n := 1 + rng.IntN(6)
		owners := make([]protocol.Rank, rng.IntN(20))
		for i := range owners {
			owners[i] = protocol.Rank(rng.IntN(n+2)) - 1 // also without an owner, and of one that leaves
		}
		most := make([]int, n)
		for i := range most {
			if most[i] = rng.IntN(12); rng.IntN(3) == 0 {
				most[i] = unlimited
			}
		}
		members := First(n, nil).Members
		next := assign(owners, members, true, limits{of: func(m Member) int { return most[m.ID] }})
		had, has := make([]int, n), make([]int, n)
		for task, o := range owners {
			if o >= 0 && int(o) < n {
				had[o]++
			}
			switch now := next[task]; {
			case now != nobody:
				has[now]++
			case o >= 0 && slices.ContainsFunc(members, func(m Member) bool { return assigned(next, m.ID) < most[m.ID] }):
				t.Fatalf("%v, at most %v: %v: task %d is lost", owners, most, next, task)
			}
			if o == nobody && next[task] != nobody {
				t.Fatalf("%v: %v: task %d was lost", owners, next, task)
			}
		}
		for a := range n {
			if has[a] > had[a] && has[a] > most[a] {
				t.Fatalf("%v, at most %v: %v", owners, most, next)
			}
			for b := range n {
				if has[a] > had[a] && has[b] < most[b] && has[b]+1 < has[a] {
					t.Fatalf("%v, at most %v: %v: %d has more than %d", owners, most, next, a, b)
				}
			}
		}
	}
}

// assigned returns the number of a member's tasks.
func assigned(owners []protocol.Rank, id protocol.Rank) (n int) {
	for _, o := range owners {
		if o == id {
			n++
		}
	}
	return n
}

// Processes that know of different limits decide the same owners, whichever process dies.
func TestOwnersAreDecidedWithTheView(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for round := range 300 {
		n := 3 + rng.IntN(4)
		owners := make([]protocol.Rank, 12)
		for i := range owners {
			owners[i] = protocol.Rank(i % n)
		}
		c := newCluster(t, n, 0, func(cfg *Config) { cfg.First, cfg.Adopt = First(n, owners), true })
		for r := range c.states {
			for id := range n {
				if rng.IntN(2) == 0 {
					c.p.Limit(&c.states[r], Member{protocol.Rank(id), 1}, rng.IntN(8)-1)
				}
			}
		}
		c.actAll()
		for i, victim := range rng.Perm(n)[:1+rng.IntN(n-1)] {
			c.kill(protocol.Rank(victim))
			c.notice(protocol.Rank(victim))
			c.actAll()
			for range rng.IntN(8) * (1 - i%2) { // the next dies in the midst of it
				c.deliver()
			}
		}
		c.run()
		var first *State
		for r := range c.states {
			if s := &c.states[r]; c.alive[r] {
				if first == nil {
					first = s
				}
				if !s.Open() || !s.view.Same(first.view) {
					t.Fatalf("round %d: process %d has %v, owners %v; the first %v, %v", round, r, s.view, s.view.Owners, first.view, first.view.Owners)
				}
			}
		}
		for _, l := range first.limits {
			if !first.view.Has(l.who) {
				t.Fatalf("round %d: the limit of %v is still known", round, l.who)
			}
		}
	}
}

func TestLimitsAreToldApart(t *testing.T) {
	c := newCluster(t, 3, 0)
	s := &c.states[0]
	none := s.Fingerprint()
	c.p.Limit(s, Member{1, 1}, 3)
	three := s.Fingerprint()
	copied := s.Clone()
	c.p.Limit(s, Member{1, 1}, 4)
	if four := s.Fingerprint(); none == three || three == four || copied.Fingerprint() != three {
		t.Error("states with different limits have the same fingerprint, or a copy shares them")
	}
	if s.LimitOf(Member{1, 1}) != 4 || s.LimitOf(Member{1, 2}) != unlimited || s.LimitOf(Member{2, 1}) != unlimited {
		t.Errorf("limits %v", s.limits)
	}
	c.p.Limit(s, Member{1, 1}, -1)
	if s.Fingerprint() != none {
		t.Errorf("limits %v are left", s.limits)
	}
}

func TestBalanceMovesAsFewAsNeeded(t *testing.T) {
	for _, c := range []struct {
		n          int
		owners     []protocol.Rank
		most, want []int
	}{
		{3, []protocol.Rank{0, 1, 2}, nil, nil},
		{3, []protocol.Rank{0, 0, 1, 1, 2}, nil, nil},
		{2, []protocol.Rank{0, 0}, nil, []int{0, 1}},
		{3, []protocol.Rank{0, 0, 0, 1, 1, 1}, nil, []int{0, 0, 2, 1, 1, 2}},
		{4, []protocol.Rank{0, 0, 0, 0, 0, -1}, nil, []int{0, 0, 3, 2, 1, -1}},
		{3, []protocol.Rank{0, 0, 0, 0}, []int{9, 9, 0}, []int{0, 0, 1, 1}},
		{2, []protocol.Rank{0, 0, 0}, []int{9, 0}, nil},
	} {
		limitOf := func(m Member) int {
			if c.most == nil {
				return unlimited
			}
			return c.most[m.ID]
		}
		v := First(c.n, c.owners).Balanced(5, limitOf)
		var got []int
		if v != nil {
			for _, o := range v.Owners {
				got = append(got, int(o))
			}
			if v.Epoch != 5 || v.Number != 2 {
				t.Errorf("%v: epoch %d", v, v.Epoch)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%v, at most %v: %v, want %v", c.owners, c.most, got, c.want)
		}
	}
}

// Tasks that have saved in one view may not have saved in the next.
func TestAWishOfAnotherViewCountsForNothing(t *testing.T) {
	for view, want := range map[uint64]string{1: "view 2 {0 1 2}", 2: "view 1 {0 1 2}"} {
		c := newCluster(t, 3, 0, func(cfg *Config) { cfg.First, cfg.Adopt = First(3, []protocol.Rank{0, 0, 0, 1, 1, 1}), true })
		c.p.Balance(&c.states[0], view, 7)
		c.run()
		c.agreed(want)
	}
}

// A process dies while a view that moves tasks is being decided: it is decided with its epoch, or another one without.
func TestBalanceIsDecidedWithItsEpoch(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	moved, kept := 0, 0
	for round := range 400 {
		n := 3 + rng.IntN(3)
		owners := make([]protocol.Rank, 12)
		for i := range owners {
			owners[i] = protocol.Rank(i % (n - 1))
		}
		c := newCluster(t, n, 0, func(cfg *Config) { cfg.First, cfg.Adopt = First(n, owners), true })
		c.p.Balance(&c.states[0], c.states[0].view.Number, 7)
		if round%4 == 1 { // there is something else to decide
			c.kill(1)
			c.notice(1)
		}
		c.actAll()
		for range rng.IntN(30) {
			c.deliver()
		}
		if round%4 > 1 {
			victim := protocol.Rank(rng.IntN(n))
			c.kill(victim)
			c.notice(victim)
		}
		c.run()
		var first *State
		for r := range c.states {
			s := &c.states[r]
			if !c.alive[r] {
				continue
			}
			if first == nil {
				first = s
			}
			if !s.Open() || !s.view.Same(first.view) {
				t.Fatalf("round %d: process %d has %v, the first %v", round, r, s.view, first.view)
			}
		}
		switch first.view.Epoch {
		case 7:
			moved++
		case 0:
			kept++
		default:
			t.Fatalf("round %d: epoch %d", round, first.view.Epoch)
		}
		if round%4 == 0 && (first.view.Number != 2 || assigned(first.view.Owners, protocol.Rank(n-1)) == 0) {
			t.Fatalf("round %d: %v, owners %v", round, first.view, first.view.Owners)
		}
	}
	if moved < 150 || kept < 50 {
		t.Errorf("decided with the epoch %d times, without %d times", moved, kept)
	}
}
