package chaos

import (
	"testing"

	"github.com/coppice-go/coppice/internal/extent"
)

// TestHalvesWithAnArbiter checks that groups of two and of four, cut in halves, never continue on both sides
// when their arbiter is slow or does not answer.
func TestHalvesWithAnArbiter(t *testing.T) {
	runs := extent.Of(t, 5000, 200_000)
	for _, m := range []Membership{
		{P: 2, Cuts: 1, Suspicions: 2},
		{P: 2, Crashes: 1, Cuts: 1, Suspicions: 2, Restarts: 1, Joiners: 1},
		{P: 2, Cuts: 1, CutsStay: true, Suspicions: 1, Agentless: true},
		{P: 4, Crashes: 1, Cuts: 2, Suspicions: 2},
		{P: 4, Crashes: 2, Cuts: 1, Suspicions: 2, Agentless: true},
		{P: 4, Crashes: 1, Cuts: 1, CutsStay: true, Suspicions: 1, Joiners: 1, Restarts: 1},
	} {
		m.Arbiter = true
		if _, err := m.Random(1, runs, 2); err != nil {
			t.Errorf("%+v: %v", m, err)
		}
	}
}

// TestArbiterThatNamesTwoIsFound checks that the same schedules show what follows if an arbiter names two
// members.
func TestArbiterThatNamesTwoIsFound(t *testing.T) {
	for _, m := range []Membership{
		{P: 2, Cuts: 1, Suspicions: 2, Arbiter: true},
		{P: 4, Crashes: 1, Cuts: 2, Suspicions: 2, Arbiter: true},
		{P: 2, Cuts: 1, CutsStay: true, Suspicions: 1, Agentless: true, Arbiter: true},
	} {
		cfg, err := m.Config()
		if err != nil {
			t.Fatal(err)
		}
		cfg.Vary = func(s *Setup[memberState, memberMessage]) { withArbiter(s, true) }
		if report, _ := Random(cfg, 1, 20_000, 2); report.First == nil {
			t.Errorf("%+v: nothing is found", m)
		}
	}
}
