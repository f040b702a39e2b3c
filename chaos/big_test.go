package chaos

import (
	"errors"
	"testing"

	"github.com/coppice-go/coppice/internal/extent"
	"github.com/coppice-go/coppice/protocol/broadcast"
	"github.com/coppice-go/coppice/topology"
)

// TestBIGSurvivesDeathsAtAnyMoment: BIG survives ⌈log₂ P⌉−1 failures in all, some processes dead from the
// start, the others crashing, the root among them. It does not survive one more.
func TestBIGSurvivesDeathsAtAnyMoment(t *testing.T) {
	runs := extent.Of(t, 200, 800)
	for p := 2; p <= 17; p++ {
		spec := broadcast.Spec{P: p, Root: rank(p - 1), Tree: "big", Correction: "none", O: 1}
		survives := topology.BinomialGraph(p).Degree() - 1
		for failed := 0; failed <= survives; failed++ {
			for _, lossy := range []bool{false, true} {
				b := Broadcast{Spec: spec, Failed: failed, Crashes: survives - failed, LossyCrashes: lossy}
				if _, err := b.Random(1, runs, 0); err != nil {
					t.Errorf("P=%d, %d dead, up to %d crash: %v", p, failed, survives-failed, err)
				}
			}
		}
	}
	for _, p := range []int{5, 9, 13} {
		built, err := broadcast.Spec{P: p, Tree: "big", Correction: "none", O: 1}.Build()
		if err != nil {
			t.Fatal(err)
		}
		degree := topology.BinomialGraph(p).Degree()
		promise := Promise{Crashes: degree, Together: true, Survivors: true, Gap: p, EndGap: p}
		_, err = Random(BroadcastConfig(Broadcast{Failed: degree}, built.(*broadcast.Plain), promise), 1, 100_000, 0)
		if v := new(Violation); !errors.As(err, &v) {
			t.Errorf("P=%d: %d dead cut nobody off: %v", p, degree, err)
		}
	}
}
