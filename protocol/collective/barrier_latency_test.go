package collective_test

import (
	"math"
	"testing"

	"github.com/coppice-go/coppice/logp"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/collective"
)

func newBarrier(t testing.TB, p int, shape collective.Shape) *collective.Barrier {
	t.Helper()
	b, err := collective.NewBarrier(p, shape)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The networks of the latency tests.
var networks = []logp.Network{{L: 2, O: 1}, {L: 0, O: 1}, {L: 7, O: 3}, {L: 1, O: 4}, {L: 2, O: 1, G: 3}}

// simulate lets all enter at time 1.
func simulate(t *testing.T, b *collective.Barrier, net logp.Network) logp.Result {
	t.Helper()
	net.P = b.P
	e, err := logp.NewEngine(b, net)
	if err != nil {
		t.Fatal(err)
	}
	inputs := make([]logp.Input, b.P)
	for r := range inputs {
		inputs[r] = logp.Input{At: 1, Rank: protocol.Rank(r), Notice: protocol.Notice{Kind: protocol.Begin}}
	}
	result, err := e.Run(1, logp.Faults{}, inputs...)
	if err != nil {
		t.Fatal(err)
	}
	if result.Undelivered > 0 {
		t.Errorf("P=%d: %d did not leave", b.P, result.Undelivered)
	}
	return result
}

func log2(p int) int { return int(math.Ceil(math.Log2(float64(p)))) }

func TestDisseminationBarrierTakesLogPStepsAndPLogPMessages(t *testing.T) {
	for _, net := range networks {
		for _, p := range []int{1, 2, 3, 4, 5, 7, 8, 9, 31, 32, 33, 1000, 4096} {
			got := simulate(t, newBarrier(t, p, collective.Dissemination), net)
			steps := log2(p)
			if want := 1 + protocol.Time(steps)*(2*net.O+net.L); got.Delivery != want {
				t.Errorf("P=%d %+v: the last leaves at %d, want %d", p, net, got.Delivery, want)
			}
			if want := int64(p * steps); got.Sent() != want {
				t.Errorf("P=%d: %d messages, want %d", p, got.Sent(), want)
			}
		}
	}
}

func TestStarBarrierTakes2PMinus2Messages(t *testing.T) {
	for _, p := range []int{1, 2, 3, 8, collective.StarMax} {
		for _, net := range networks {
			if got := simulate(t, newBarrier(t, p, collective.Star), net); got.Sent() != int64(2*(p-1)) {
				t.Errorf("P=%d, %+v: %d messages", p, net, got.Sent())
			}
		}
	}
}

func TestUpDownBarrierTakesTwiceLogPStepsAnd2PMinus2Messages(t *testing.T) {
	for _, net := range networks {
		if net.G > 2*net.O+net.L {
			t.Fatalf("%+v: sends would wait for each other", net)
		}
		for _, p := range []int{1, 2, 4, 8, 32, 1024, 4096} {
			got := simulate(t, newBarrier(t, p, collective.UpDown), net)
			if want := 1 + protocol.Time(2*log2(p))*(2*net.O+net.L); got.Delivery != want {
				t.Errorf("P=%d %+v: the last leaves at %d, want %d", p, net, got.Delivery, want)
			}
		}
		for p := 1; p < 70; p++ {
			got := simulate(t, newBarrier(t, p, collective.UpDown), net)
			if want := int64(2 * (p - 1)); got.Sent() != want {
				t.Errorf("P=%d: %d messages, want %d", p, got.Sent(), want)
			}
			if most := 1 + protocol.Time(2*log2(p))*(2*net.O+net.L); got.Delivery > most {
				t.Errorf("P=%d %+v: the last leaves at %d, later than %d", p, net, got.Delivery, most)
			}
		}
	}
}
