package agreement_test

import (
	"math/bits"
	"testing"

	"github.com/coppice-go/coppice/logp"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/agreement"
)

// simulated is one instance in one view, as a protocol; combining takes no time.
type simulated struct{ members []protocol.Rank }

func (p simulated) Init(s *agreement.State, self protocol.Rank, _ uint64) {
	s.Init(self, p.members)
	s.NewView(1, p.members)
}

func (simulated) Receive(s *agreement.State, _ protocol.Time, from protocol.Rank, m agreement.Message) {
	s.Receive(from, m)
}

func (simulated) Notify(s *agreement.State, _ protocol.Time, n protocol.Notice) {
	if n.Kind == protocol.Begin {
		s.Begin([]byte{1})
	}
}

func (simulated) Next(s *agreement.State, _ protocol.Time) agreement.Action {
	a := s.Next()
	for ; a.Kind == protocol.Work; a = s.Next() {
		s.Fold(func(left, right []byte) []byte { return []byte{left[0] & right[0]} })
	}
	return a
}

// simulate lets all participants call at time 1.
func simulate(t *testing.T, p int, net logp.Network) logp.Result {
	t.Helper()
	var members []protocol.Rank
	var inputs []logp.Input
	for r := range protocol.Rank(p) {
		members = append(members, r)
		inputs = append(inputs, logp.Input{At: 1, Rank: r, Notice: protocol.Notice{Kind: protocol.Begin}})
	}
	net.P = p
	e, err := logp.NewEngine(simulated{members}, net)
	if err != nil {
		t.Fatal(err)
	}
	result, err := e.Run(1, logp.Faults{}, inputs...)
	if err != nil {
		t.Fatal(err)
	}
	if result.Undelivered > 0 {
		t.Errorf("P=%d: %d do not return", p, result.Undelivered)
	}
	return result
}

func TestAgreementTakesTwiceLogPStepsAnd2PMinus2Messages(t *testing.T) {
	for _, net := range []logp.Network{{L: 2, O: 1}, {L: 0, O: 1}, {L: 7, O: 3}, {L: 1, O: 4}, {L: 2, O: 1, G: 3}} {
		step := 2*net.O + net.L
		for _, p := range []int{1, 2, 4, 8, 32, 1024} {
			if got, want := simulate(t, p, net).Delivery, 1+protocol.Time(2*bits.Len(uint(p-1)))*step; got != want {
				t.Errorf("P=%d %+v: the last returns at %d, want %d", p, net, got, want)
			}
		}
		for p := 1; p < 70; p++ {
			got := simulate(t, p, net)
			if want := int64(2 * (p - 1)); got.Sent() != want {
				t.Errorf("P=%d: %d messages, want %d", p, got.Sent(), want)
			}
			if most := 1 + protocol.Time(2*bits.Len(uint(p-1)))*step; got.Delivery > most {
				t.Errorf("P=%d %+v: the last returns at %d, later than %d", p, net, got.Delivery, most)
			}
		}
	}
}
