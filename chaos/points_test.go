package chaos

import (
	"errors"
	"testing"

	"github.com/coppice-go/coppice/protocol"
)

// greeting is a protocol in which process 0 greets process 1, which delivers the greeting.
type greeting struct{}

type greeted struct {
	self        protocol.Rank
	begun, came bool
}

func (greeting) Init(s *greeted, self protocol.Rank, _ uint64) { *s = greeted{self: self} }

func (greeting) Receive(s *greeted, _ protocol.Time, _ protocol.Rank, _ bool) { s.came = true }

func (greeting) Notify(*greeted, protocol.Time, protocol.Notice) {}

func (greeting) Next(s *greeted, _ protocol.Time) protocol.Action[bool] {
	switch {
	case s.self == 0 && !s.begun:
		s.begun = true
		return protocol.Action[bool]{Kind: protocol.Send, To: 1}
	case s.came && !s.begun:
		s.begun = true
		return protocol.Action[bool]{Kind: protocol.Deliver}
	}
	return protocol.Action[bool]{Kind: protocol.Idle}
}

func TestCrashPointsComeBeforeWhateverHappens(t *testing.T) {
	errMissed := errors.New("not greeted")
	for _, d := range []struct {
		name    string
		crashes int
		lossy   bool
		must    bool // p1 must be greeted if it lives
		want    uint64
	}{
		// p0 sends, p1 rests and receives, p0 rests, p1 delivers and rests.
		{"nobody", 0, false, true, 1},
		{"one", 1, false, false, 1 + 2 + 4},
		{"one and what it sent", 1, true, false, 1 + 2*(2+4)},
		// After the first or second crash point of p0, p1 comes to one or two more; after the four of
		// p1, p0 comes to one, one and none.
		{"both", 2, false, false, 1 + (2 + 4) + (1 + 2) + (1 + 1)},
		{"one, who matters", 1, false, true, 0},
	} {
		t.Run(d.name, func(t *testing.T) {
			cfg := Config[greeted, bool]{
				Protocol: greeting{}, P: 2, Crashes: d.crashes, LossyCrashes: d.lossy,
				Check: func(w *World[greeted, bool]) error {
					if d.must && w.Alive(1) && len(w.Delivered(1)) == 0 {
						return errMissed
					}
					return nil
				},
			}
			report, err := CrashPoints(cfg)
			if found := d.want == 0; found != errors.Is(err, errMissed) || !found && err != nil {
				t.Fatalf("%v", err)
			}
			if d.want > 0 && report.Schedules != d.want {
				t.Errorf("%d cases, want %d", report.Schedules, d.want)
			}
		})
	}
}
