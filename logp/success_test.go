package logp_test

import (
	"math"
	"testing"

	"github.com/coppice-go/coppice/logp"
	"github.com/coppice-go/coppice/model"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
)

// exceeds returns the model's probability that OCG with T and K messages from each g-node leaves some process
// out, among n processes with L = O = 1.
func exceeds(t *testing.T, n, until, k int) model.Tuning {
	t.Helper()
	for delta := 0.9; delta > 1e-12; delta *= 0.9 {
		tuner, err := model.NewTuner(model.Gossip{N: n, L: 1, O: 1, Delta: delta})
		if err != nil {
			t.Fatal(err)
		}
		m, err := tuner.At(model.OCG, until)
		if err != nil {
			t.Fatal(err)
		}
		if m.K == k {
			return m
		}
	}
	t.Fatalf("no δ makes K̄=%d at T=%d", k, until)
	return model.Tuning{}
}

// TestOpportunisticCorrectionFailsAsOftenAsTheModelSays (Corrected Gossip, eq. 2
// and Claim 2), where that is often enough to be counted: N = 1,024, L = O = 1.
// The paper does not compare single probabilities. Allowed are four standard
// deviations, and 15% for the model's approximations.
func TestOpportunisticCorrectionFailsAsOftenAsTheModelSays(t *testing.T) {
	const n = 1024
	cases := [][2]int{{17, 9}, {20, 3}, {24, 1}}
	runs := grid(200, 1000, 20_000)
	if largeGrid {
		cases = [][2]int{{17, 9}, {18, 8}, {19, 6}, {20, 3}, {20, 4}, {21, 3}, {22, 2}, {23, 2}, {24, 1}, {25, 1}}
	}
	for _, c := range cases {
		m := exceeds(t, n, c[0], c[1])
		spec := broadcast.OCG(n, protocol.Time(m.T), protocol.Time(m.C), 1, 1)
		failed := 0
		for _, r := range simulate(t, spec, paperNet(n, 1, 1), logp.Runs{Runs: runs, Seed: 1}) {
			if r.Uncolored > 0 {
				failed++
			}
		}
		want := m.Exceeds * float64(runs)
		t.Logf("T=%d C=%d K=%d: %d of %d runs leave somebody out, the model says %.1f: %.2f times as many",
			m.T, m.C, m.K, failed, runs, want, float64(failed)/want)
		if off := math.Abs(float64(failed) - want); off > 4*math.Sqrt(want*(1-m.Exceeds))+0.15*want {
			t.Errorf("T=%d K=%d: %d of %d runs leave somebody out, the model says %.1f", m.T, m.K, failed, runs, want)
		}
	}
}
