package chaos

import "math/bits"

// A strategy decides how one run's schedule is drawn. Uniform schedules rarely keep one process or channel
// back for a long time, which is what most bugs need; so each run uses one of several kinds, chosen by its
// seed. All of them are fair from some step on; otherwise a protocol that retries would seem to livelock.

type strategyKind uint8

const (
	uniform    strategyKind = iota // any event
	oldest                         // first come first served, with exceptions (delay-bounded, Emmi et al. 2011)
	newest                         // depth first, with exceptions
	favouring                      // arrivals before actions, or the other way round
	starving                       // some processes get nothing for a while
	parting                        // two sides hear nothing of each other for a while
	priorities                     // strict, changed now and then (PCT, Burckhardt et al. 2010)
	strategies                     // how many there are
)

type strategy struct {
	until int    // step from which it is uniform
	key   uint64 // of priorities
	rare  uint64 // an exception comes once in this many steps, a power of two
	kinds uint64 // avoided events: their kinds, a bit each,
	at    uint64 // … at these ranks (modulo 64),
	from  uint64 // … or from these, but not both
	kind  strategyKind
}

// start draws a strategy.
func (s *strategy) start(c *Choices) {
	r := c.next()
	kind := strategyKind(r & 7 % uint64(strategies)) // uniform twice
	s.set(kind, 16<<(r>>10&7), 2<<(r>>8&3), c.next())
}

func (s *strategy) set(kind strategyKind, until int, rare, key uint64) {
	*s = strategy{kind: kind, until: until, rare: rare, key: key}
	switch kind {
	case uniform:
		s.until = 0
	case favouring:
		s.kinds, s.at = 1<<next, ^uint64(0)
		if key&1 == 0 {
			s.kinds = ^s.kinds
		}
	case starving:
		s.kinds, s.at = ^uint64(0), key
	case parting:
		s.kinds, s.at, s.from = 1<<receive, key, key
	}
}

// avoids reports whether e should wait.
func (s *strategy) avoids(e event) bool {
	return s.kinds>>(e.kind()&63)&(s.at>>(e.at()&63)^s.from>>(e.from()&63))&1 == 1
}

// pick chooses one of n transitions: an event or, if n is one more than there are events, that time passes.
// It records the event's place by age as the choice.
func (w *World[S, M]) pick(n int) int {
	c := &w.choices
	if c.replaying {
		return w.agenda.aged(c.Choose(n))
	}
	x := c.next()
	hi, _ := bits.Mul64(x, uint64(n))
	i := int(hi)
	if s := &w.strategy; w.steps < s.until {
		i = s.bias(c, &w.agenda, n, i, x)
	}
	if c.recording {
		c.note(uint64(w.agenda.older(i)))
	}
	return i
}

// bias replaces i, which is uniform, by what the strategy prefers. i was made from the high bits of x; the
// low bits are unused.
func (s *strategy) bias(c *Choices, a *agenda, n, i int, x uint64) int {
	switch s.kind {
	case oldest:
		if x&(s.rare-1) != 0 {
			return a.oldest()
		}
	case newest:
		if x&(s.rare-1) != 0 {
			return n - 1
		}
	case priorities:
		if x&(4*s.rare-1) == 0 {
			s.key = c.next()
		}
		return s.highest(a.events, i)
	default:
		for j := i; j < n; j++ {
			if j == len(a.events) || !s.avoids(a.events[j]) {
				return j
			}
		}
		for j, e := range a.events[:i] {
			if !s.avoids(e) {
				return j
			}
		}
	}
	return i
}

// highest returns the index of the event of the highest priority. The passing of time has a random priority.
func (s *strategy) highest(events []event, i int) int {
	if i == len(events) {
		return i
	}
	best := uint64(0)
	for k, e := range events {
		if p := (uint64(e.ageless()) ^ s.key) * golden; p >= best {
			best, i = p, k
		}
	}
	return i
}
