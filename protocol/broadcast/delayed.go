// Delayed correction (Corrected Trees, §3.3): a corrector sends one message to
// its first side and expects one from the other, where its neighbour does the
// same. If none has come after Delay, it sends to ever farther processes
// there until one answers. A corrector that hears from its first side answers
// at once, because the sender has found no nearer one.
//
// Cost: one message a process without failures; Delay more steps, and up to
// g+1 messages and an answer, for each gap of g. Survives any failures before
// correction. Delay is no detector: too short a one costs messages, never the
// result. A corrector stays ready to answer, so it rests Idle and is never
// Done.

package broadcast

import (
	"errors"
	"fmt"
	"math"

	"github.com/coppice-go/coppice/protocol"
)

// Delayed is delayed correction.
type Delayed struct {
	Ring
	Delay Time
}

// Delaying is one process's state in delayed correction.
type Delaying struct {
	Walk
	until   Time
	waiting bool
	answer  int32 // distance to the nearest process that waits for an answer; 0: none
}

// Fit implements Correction.
func (c *Delayed) Fit(p int) error {
	switch {
	case c.Delay < 0:
		return fmt.Errorf("correction delayed by %d; allowed: 0 or more", c.Delay)
	case c.Open && c.First == ToRight:
		// Behind the last corrector no process would search to the left.
		return errors.New("delayed correction to the right first on an open ring; allowed: to the left first")
	}
	return c.fitTwoSided(p)
}

// Init implements Correction.
func (c *Delayed) Init(s *Delaying, self Rank) {
	c.start(&s.Walk, self, math.MaxInt32)
	s.Owed[c.First] = min(s.Owed[c.First], 1)
}

// Receive implements Correction. Of several that wait, the nearest is enough:
// the others passed it on their way and it owes them an answer itself.
func (c *Delayed) Receive(s *Delaying, self Rank, _ Time, from Rank, m Message[None]) {
	side, n, ok := c.heard(self, from, m.Kind)
	switch {
	case !ok:
	case side != c.First:
		s.Owed[side] = min(s.Owed[side], n-1)
	case s.answer == 0 || n < s.answer:
		s.answer = n
	}
}

// Next implements Correction.
func (c *Delayed) Next(s *Delaying, self Rank, now Time, corrected bool) protocol.Action[Message[None]] {
	if corrected {
		return protocol.Action[Message[None]]{Kind: protocol.Done}
	}
	first, second := c.First, c.First.Other()
	switch n := s.answer; {
	case n > 0:
		s.answer = 0
		if n == 1 {
			s.Sent[first] = 1
		}
		return c.correct(self, first, n)
	case s.Sent[first] < s.Owed[first]:
		s.Sent[first] = 1
		return c.correct(self, first, 1)
	case s.Sent[second] >= s.Owed[second]:
		return protocol.Action[Message[None]]{Kind: protocol.Idle}
	case !s.waiting:
		s.waiting = true
		s.until = now + c.Delay
	}
	if now < s.until {
		return protocol.Action[Message[None]]{Kind: protocol.Wait, At: s.until}
	}
	s.Sent[second]++
	return c.correct(self, second, s.Sent[second])
}
