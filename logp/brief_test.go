package logp_test

import (
	"fmt"
	"testing"

	"github.com/coppice-go/coppice/logp"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
)

// Failure-proof correction in brief gives the same results as in full, up to the largest group whose
// distances fit. Short gossip leaves few correctors, so messages then name them at any distance.
func TestFailureProofInBriefEqualsInFull(t *testing.T) {
	for _, c := range []struct{ f, p int }{{0, 300}, {1, 300}, {2, 300}, {3, 300}, {4, 300}, {5, 1 << 10}, {6, 1 << 9}, {7, 1 << 8}} {
		for until := protocol.Time(8); until <= 20; until += 4 {
			spec := broadcast.FCG(c.p, until, c.f, 2, 1)
			net := logp.Network{P: c.p, L: 2, O: 1, NoQueue: until%8 == 0}
			built, err := spec.Build()
			if err != nil {
				t.Fatal(err)
			}
			full, err := logp.MonteCarlo(built.(*broadcast.Provers), net, logp.Runs{Runs: 2, Faults: logp.Sampling{Count: c.p / 8}})
			if err != nil {
				t.Fatal(err)
			}
			b, ok := broadcast.Brief(built.(*broadcast.Provers))
			if !ok {
				t.Fatalf("F=%d among %d does not fit", c.f, c.p)
			}
			brief, err := logp.MonteCarlo(b, net, logp.Runs{Runs: 2, Faults: logp.Sampling{Count: c.p / 8}})
			if err != nil {
				t.Fatal(err)
			}
			if fmt.Sprint(brief) != fmt.Sprint(full) {
				t.Errorf("F=%d among %d, gossip until %d: in brief %v, in full %v", c.f, c.p, until, brief, full)
			}
		}
	}
}

// What does not fit into a word stays in full.
func TestBriefKnowsWhatFits(t *testing.T) {
	for _, c := range []struct {
		f, p int
		want bool
	}{{0, 1 << 20, true}, {1, 1 << 20, true}, {2, 1 << 21, true}, {2, 1<<21 + 1, false}, {3, 1 << 16, true}, {3, 1<<16 + 1, false}, {7, 1 << 8, true}, {7, 1<<8 + 1, false}} {
		built, err := broadcast.FCG(c.p, 9, c.f, 2, 1).Build()
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := broadcast.Brief(built.(*broadcast.Provers)); ok != c.want {
			t.Errorf("F=%d among %d: fits %v, want %v", c.f, c.p, ok, c.want)
		}
	}
}
