package logp

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/coppice-go/coppice/internal/extent"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/collective"
)

// everyReduction calls f for corrected reductions of many sizes.
func everyReduction(t *testing.T, f func(t *testing.T, spec collective.Spec, net Network)) {
	t.Helper()
	most := extent.Of(t, 40, 100)
	for _, a := range []collective.Algorithm{collective.Corrected, collective.CorrectedFlat} {
		for _, op := range []collective.Op{collective.Reduce, collective.AllReduce} {
			for _, failures := range []int{0, 1, 2, 3, 5, 8} {
				t.Run(fmt.Sprint(op, " ", a, ":", failures), func(t *testing.T) {
					for p := 1; p <= most; p += 1 + p/20 {
						for _, root := range []int{0, p / 3, p - 1} {
							spec := collective.Spec{Op: op, Algorithm: a, P: p, Root: protocol.Rank(root), Failures: failures}
							f(t, spec, Network{P: p, L: 2, O: 1, Detect: 3})
						}
					}
				})
			}
		}
	}
}

// The messages of the exchange are those that Küttler and Härtig count; q full groups send as many messages
// along their trees as they have tasks.
func TestCorrectedReductionsSendAsManyMessagesAsThePaperSays(t *testing.T) {
	everyReduction(t, func(t *testing.T, spec collective.Spec, net Network) {
		n, f := int64(spec.P), int64(spec.Failures)
		q, a := (n-1)/(f+1), 1+(n-1)%(f+1)
		want := f*(f+1)*q + a*(a-1) + (f+1)*q
		fixes := int64(0)
		if spec.Op == collective.AllReduce {
			want += n - 1
			fixes = f * (f + 1) * q
		}
		r, err := Outlived(spec, 8, 8, net, Faults{})
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Messages - r.Corrections; got != want || r.Corrections > fixes || 2*r.Corrections < fixes || r.Unreached > 0 {
			t.Errorf("%+v: %d messages, want %d; %d corrections, want %d at most; %d unreached", spec, got, want, r.Corrections, fixes, r.Unreached)
		}
	})
}

func TestCorrectedReductionsReachAllWithAnyDeathsThatTheyOutlive(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	everyReduction(t, func(t *testing.T, spec collective.Spec, net Network) {
		var faults Faults
		for _, r := range rng.Perm(spec.P) {
			if len(faults.Failed)+len(faults.Deaths) == spec.Failures {
				break
			}
			switch rank := protocol.Rank(r); {
			case rank == spec.Root:
			case rng.IntN(3) == 0:
				faults.Failed = append(faults.Failed, rank)
			case rng.IntN(2) == 0:
				faults.Deaths = append(faults.Deaths, Death{Rank: rank, At: protocol.Time(rng.IntN(40))})
			default:
				faults.Deaths = append(faults.Deaths, Death{Rank: rank, AfterSends: 1 + rng.IntN(2*spec.Failures+1)})
			}
		}
		r, err := Outlived(spec, 8, 8, net, faults)
		if err != nil || r.Unreached > 0 {
			t.Errorf("%+v with %+v: %d unreached, error %v", spec, faults, r.Unreached, err)
		}
	})
}

// If a process dies after it has sent its input to its group, no process misses it: there is no detector
// here.
func TestDeathsAfterTheExchangeNeedNotBeKnown(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	everyReduction(t, func(t *testing.T, spec collective.Spec, net Network) {
		if spec.Op == collective.Reduce || spec.Failures == 0 {
			return
		}
		net.Detect = 0
		var faults Faults
		for _, r := range rng.Perm(spec.P)[:min(spec.P, spec.Failures)] {
			if rank := protocol.Rank(r); rank != spec.Root {
				faults.Deaths = append(faults.Deaths, Death{Rank: rank, AfterSends: spec.Failures + rng.IntN(2)})
			}
		}
		r, err := Outlived(spec, 8, 8, net, faults)
		if err != nil || r.Unreached > 0 {
			t.Errorf("%+v with %+v: %d unreached, error %v", spec, faults, r.Unreached, err)
		}
	})
}

// With more deaths than it survives, the root has no result, and is the only process that waits for one.
func TestTooManyDeathsLeaveTheRootUnreached(t *testing.T) {
	spec := collective.Spec{Op: collective.Reduce, Algorithm: collective.Corrected, P: 5, Failures: 1}
	net, faults := Network{P: 5, L: 2, O: 1, Detect: 3}, Faults{Failed: []protocol.Rank{1, 2}}
	if r, err := Outlived(spec, 8, 8, net, faults); err != nil || r.Unreached != 1 {
		t.Errorf("%d unreached, error %v", r.Unreached, err)
	}
	spec.Algorithm = collective.CorrectedFlat // the two have nothing to say
	if r, err := Outlived(spec, 8, 8, net, faults); err != nil || r.Unreached != 0 {
		t.Errorf("flat: %d unreached, error %v", r.Unreached, err)
	}
	spec.Algorithm = collective.Flat
	if _, err := Outlived(spec, 8, 8, Network{P: 5, L: 2, O: 1}, Faults{}); err == nil {
		t.Error("a plain reduction outlives deaths")
	}
}
