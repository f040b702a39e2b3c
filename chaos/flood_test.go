package chaos

import (
	"fmt"

	"github.com/coppice-go/coppice/protocol"
)

// flood is the broadcast that the tests run: a process that gets the message for the first time delivers it
// and sends it to the next sends processes on the ring. With planted mistakes it is what the tests must find.
type flood struct {
	p, sends int
	bug      bug
}

type bug uint8

const (
	none         bug = iota
	deliverTwice     // a copy that arrives before the last send delivers again
	sendFirst        // delivers after its sends instead of before
)

type floodState struct {
	self      protocol.Rank
	sent      int16
	has       bool
	delivered bool
}

type wave struct{}

func (wave) String() string { return "wave" }

func (f flood) Init(s *floodState, self protocol.Rank, _ uint64) {
	*s = floodState{self: self, has: self == 0}
}

func (f flood) Receive(s *floodState, _ protocol.Time, _ protocol.Rank, _ wave) {
	if f.bug == deliverTwice && s.sent > 0 && int(s.sent) < f.sends {
		s.delivered = false
	}
	s.has = true
}

func (f flood) Notify(*floodState, protocol.Time, protocol.Notice) {}

func (f flood) Next(s *floodState, _ protocol.Time) protocol.Action[wave] {
	switch {
	case !s.has:
		return protocol.Action[wave]{Kind: protocol.Idle}
	case !s.delivered && (f.bug != sendFirst || int(s.sent) == f.sends):
		s.delivered = true
		return protocol.Action[wave]{Kind: protocol.Deliver}
	case int(s.sent) < f.sends:
		s.sent++
		to := (int(s.self) + (int(s.sent)-1)%(f.p-1) + 1) % f.p
		return protocol.Action[wave]{Kind: protocol.Send, To: protocol.Rank(to)}
	}
	return protocol.Action[wave]{Kind: protocol.Idle}
}

// reliable demands that every live process delivers exactly once if any process, live or crashed, delivered.
func reliable[S, M any](w *World[S, M]) error {
	someone := false
	for r := range protocol.Rank(w.P()) {
		someone = someone || len(w.Delivered(r)) > 0
	}
	for r := range protocol.Rank(w.P()) {
		switch n := len(w.Delivered(r)); {
		case n > 1:
			return fmt.Errorf("p%d delivered %d times", r, n)
		case n == 0 && someone && w.Alive(r):
			return fmt.Errorf("p%d never delivered", r)
		}
	}
	return nil
}
