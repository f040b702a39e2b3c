package collective

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/coppice-go/coppice/internal/extent"
	"github.com/coppice-go/coppice/protocol"
)

// A task that is run again, or whose process is taken for dead while another one runs it again, gets
// messages that the other attempt has made possible. They may all be there when it begins.

// exchanged carries out a schedule in order, and returns what each task was sent.
func exchanged(c *carrier) [][]posted {
	states, flight, all := make([]carried, c.P), make([][]posted, c.P), make([][]posted, c.P)
	for r := range states {
		c.Init(&states[r], Rank(r), 0)
		c.Notify(&states[r], 0, protocol.Notice{Kind: protocol.Begin})
	}
	for moved := true; moved; {
		moved = false
		for r := range states {
			for _, m := range flight[r] {
				c.Receive(&states[r], 0, m.from, m.letter)
			}
			flight[r] = nil
			for a := c.Next(&states[r], 0); a.Kind != protocol.Idle && a.Kind != protocol.Done; a = c.Next(&states[r], 0) {
				moved = true
				if a.Kind == protocol.Work {
					c.Notify(&states[r], 0, protocol.Notice{Kind: protocol.WorkDone})
				} else if a.Kind != protocol.Deliver {
					a.Msg.value = bytes.Clone(a.Msg.value)
					flight[a.To], all[a.To] = append(flight[a.To], posted{a.Msg, Rank(r)}), append(all[a.To], posted{a.Msg, Rank(r)})
				}
			}
		}
	}
	return all
}

// alone carries out the part of one task to which all messages have come, in some order. It returns what the task sends
// or delivers that others did not get from the first attempt.
func alone(c *carrier, self Rank, came []posted, sent [][]posted, fits func(s *StepState, i int) bool) error {
	var s carried
	c.Init(&s, self, 0)
	c.Notify(&s, 0, protocol.Notice{Kind: protocol.Begin})
	delivered := false
	for moved := true; moved; {
		before := len(came)
		for i := 0; i < len(came); i++ {
			if at := s.steps.Match(came[i].from, came[i].Lane); at < 0 || fits(&s.steps, at) {
				if at >= 0 {
					c.accept(&s, came[i].from, came[i].letter)
				}
				came = append(came[:i:i], came[i+1:]...)
				i--
			}
		}
		a := c.Next(&s, 0)
		moved = len(came) < before || a.Kind != protocol.Idle && a.Kind != protocol.Done
		switch a.Kind {
		case protocol.Send, protocol.Correct:
			same := false
			for _, m := range sent[a.To] {
				same = same || m.from == self && m.Lane == a.Msg.Lane && bytes.Equal(m.value, a.Msg.value)
			}
			if !same {
				return fmt.Errorf("p%d sends p%d other bits on lane %d than before", self, a.To, a.Msg.Lane)
			}
		case protocol.Work:
			c.Notify(&s, 0, protocol.Notice{Kind: protocol.WorkDone})
		case protocol.Deliver:
			if delivered = true; a.Msg.value != nil {
				return errors.New(string(a.Msg.value))
			}
		}
	}
	if !delivered || len(came) > 0 {
		return fmt.Errorf("p%d is stuck, with %d messages", self, len(came))
	}
	return errors.Join(s.err, c.checkState(&s))
}

// attempts carries out the part of every task alone, in several orders of what came.
func attempts(t *testing.T, most int, fits func(s *StepState, i int) bool) (failed error) {
	for p := 1; p <= most; p++ {
		everyWay(p, func(spec Spec) {
			for i, c := range carriers(t, spec) {
				c.keeps = i%2 == 0
				sent := exchanged(c)
				for self := range Rank(p) {
					came := append([]posted(nil), sent[self]...)
					for try := range uint64(3) {
						random := rand.New(rand.NewPCG(uint64(self), try))
						if random.Shuffle(len(came), func(i, j int) { came[i], came[j] = came[j], came[i] }); try == 0 {
							came = append(came[:0], sent[self]...)
						}
						if err := alone(c, self, append([]posted(nil), came...), sent, fits); err != nil && failed == nil {
							failed = fmt.Errorf("%s, root %d, %d bytes: %w", named(spec), c.spec.Root, c.bytes, err)
						}
					}
				}
			}
		})
	}
	return failed
}

func TestMessagesThatComeBeforeTheirTimeSpoilNothing(t *testing.T) {
	most := extent.Of(t, 6, 9)
	if err := attempts(t, most, (*StepState).Fits); err != nil {
		t.Error(err)
	}
	if err := attempts(t, most, func(s *StepState, i int) bool { return i == s.At() }); err != nil {
		t.Errorf("in order: %v", err)
	}
	if err := attempts(t, most, func(*StepState, int) bool { return true }); err == nil {
		t.Error("put into their slots as soon as they come, they spoil nothing: then the test shows nothing")
	}
}
