package chaos_test

import (
	"errors"
	"fmt"

	"github.com/coppice-go/coppice/chaos"
	"github.com/coppice-go/coppice/protocol"
)

// chain passes a message from rank to rank. It survives no crash.
type chain struct{ p protocol.Rank }

type link struct {
	self            protocol.Rank
	has, told, sent bool
}

type news struct{}

func (news) String() string { return "news" }

func (c chain) Init(s *link, self protocol.Rank, _ uint64) { *s = link{self: self, has: self == 0} }

func (c chain) Receive(s *link, _ protocol.Time, _ protocol.Rank, _ news) { s.has = true }

func (c chain) Notify(*link, protocol.Time, protocol.Notice) {}

func (c chain) Next(s *link, _ protocol.Time) (a protocol.Action[news]) {
	switch {
	case s.has && !s.told:
		s.told = true
		a.Kind = protocol.Deliver
	case s.has && !s.sent && s.self+1 < c.p:
		s.sent = true
		a.Kind, a.To = protocol.Send, s.self+1
	}
	return a
}

func Example() {
	cfg := chaos.Config[link, news]{
		Protocol: chain{p: 3}, P: 3,
		Check: func(w *chaos.World[link, news]) error {
			for r := range protocol.Rank(3) {
				if w.Alive(r) && len(w.Delivered(r)) != 1 {
					return fmt.Errorf("p%d delivered %d times", r, len(w.Delivered(r)))
				}
			}
			return nil
		},
	}
	report, err := chaos.Exhaustive(cfg)
	fmt.Println("without crashes:", err, "in", report.Terminals, "end")

	cfg.Crashes = 1
	_, err = chaos.Random(cfg, 1, 1000, 0)
	var v *chaos.Violation
	if errors.As(err, &v) {
		fmt.Print(v.Script())
	}
	// Output:
	// without crashes: <nil> in 1 end
	// p0 crashes
	// => p1 delivered 0 times
}
