package logp_test

import (
	"strings"
	"testing"

	"github.com/coppice-go/coppice/logp"
	"github.com/coppice-go/coppice/protocol"
)

// scripted answers Next with what the function returns.
type scripted func(self protocol.Rank, call int, now protocol.Time) protocol.Action[int]

type scriptState struct {
	self  protocol.Rank
	calls int
	told  int
}

func (scripted) Init(s *scriptState, self protocol.Rank, _ uint64) { *s = scriptState{self: self} }

func (scripted) Receive(*scriptState, protocol.Time, protocol.Rank, int) {}

func (scripted) Notify(s *scriptState, _ protocol.Time, n protocol.Notice) { s.told += int(n.Value) }

func (f scripted) Next(s *scriptState, now protocol.Time) protocol.Action[int] {
	s.calls++
	return f(s.self, s.calls, now)
}

func runScripted(t *testing.T, f scripted, net logp.Network, inputs ...logp.Input) (logp.Result, error) {
	t.Helper()
	e, err := logp.NewEngine(f, net)
	if err != nil {
		t.Fatal(err)
	}
	return e.Run(1, logp.Faults{}, inputs...)
}

func TestBrokenContractsAreErrors(t *testing.T) {
	net := logp.Network{P: 4, O: 1}
	for want, f := range map[string]scripted{
		"answers Next with kind 99": func(protocol.Rank, int, protocol.Time) protocol.Action[int] {
			return protocol.Action[int]{Kind: 99}
		},
		"without end": func(protocol.Rank, int, protocol.Time) protocol.Action[int] {
			return protocol.Action[int]{Kind: protocol.Deliver}
		},
		"sends to 4; allowed: 0 to 3": func(protocol.Rank, int, protocol.Time) protocol.Action[int] {
			return protocol.Action[int]{Kind: protocol.Send, To: 4}
		},
		"sends to -1; allowed: 0 to 3": func(protocol.Rank, int, protocol.Time) protocol.Action[int] {
			return protocol.Action[int]{Kind: protocol.Correct, To: -1}
		},
		"steps": func(_ protocol.Rank, _ int, now protocol.Time) protocol.Action[int] {
			return protocol.Action[int]{Kind: protocol.Wait, At: now + 1<<32}
		},
	} {
		if _, err := runScripted(t, f, net); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
}

// heartbeat sends to its right neighbour every ten steps, forever.
func heartbeat(self protocol.Rank, call int, now protocol.Time) protocol.Action[int] {
	if call%2 == 0 {
		return protocol.Action[int]{Kind: protocol.Wait, At: (now/10 + 1) * 10}
	}
	return protocol.Action[int]{Kind: protocol.Send, To: (self + 1) % 4}
}

func TestUntilEndsARunThatNeverRests(t *testing.T) {
	r, err := runScripted(t, heartbeat, logp.Network{P: 4, O: 1, L: 2, Until: 100})
	if err != nil || r.Sent() < 4*10 || r.Sent() > 4*60 {
		t.Errorf("%+v, %v", r, err)
	}
}

// A process that waits at the start does not have the message yet; one that acts has it.
func TestWaitingIsNotHaving(t *testing.T) {
	r, err := runScripted(t, func(self protocol.Rank, call int, now protocol.Time) protocol.Action[int] {
		switch {
		case now < 5:
			return protocol.Action[int]{Kind: protocol.Wait, At: 5}
		case self == 2 && call == 2:
			return protocol.Action[int]{Kind: protocol.Deliver}
		default:
			return protocol.Action[int]{Kind: protocol.Idle}
		}
	}, logp.Network{P: 4, O: 1})
	if err != nil || r.Uncolored != 3 || r.GapMax != 3 || r.Undelivered != 3 || r.Delivery != 5 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestInputsComeAtTheirTime(t *testing.T) {
	var at []protocol.Time
	f := func(self protocol.Rank, call int, now protocol.Time) protocol.Action[int] {
		if self == 1 && call > 1 {
			at = append(at, now)
		}
		return protocol.Action[int]{Kind: protocol.Idle}
	}
	begin := protocol.Notice{Kind: protocol.Begin}
	_, err := runScripted(t, f, logp.Network{P: 2, O: 1}, logp.Input{At: 90, Rank: 1, Notice: begin}, logp.Input{At: 7, Rank: 1, Notice: begin})
	if err != nil || len(at) != 2 || at[0] != 7 || at[1] != 90 {
		t.Errorf("told at %v, %v", at, err)
	}
	for _, bad := range []logp.Input{{At: 0, Rank: 1}, {At: 1, Rank: 2}, {At: 1, Rank: -1}} {
		if _, err := runScripted(t, f, logp.Network{P: 2, O: 1}, bad); err == nil {
			t.Errorf("input %+v is accepted", bad)
		}
	}
}
