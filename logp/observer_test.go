package logp_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/coppice-go/coppice/logp"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
)

// recorder records what it sees.
type recorder []string

func (r *recorder) Sent(at protocol.Time, from, to protocol.Rank, kind protocol.Kind, m broadcast.Message[broadcast.None]) {
	*r = append(*r, fmt.Sprintf("%d: %d %v %v to %d", at, from, kind, m, to))
}

func (r *recorder) Received(at protocol.Time, to, from protocol.Rank, kind protocol.Kind, m broadcast.Message[broadcast.None]) {
	*r = append(*r, fmt.Sprintf("%d: %d gets %v from %d", at, to, m, from))
}

func (r *recorder) Delivered(at protocol.Time, p protocol.Rank, _ broadcast.Message[broadcast.None]) {
	*r = append(*r, fmt.Sprintf("%d: %d delivers", at, p))
}

func (r *recorder) Died(at protocol.Time, p protocol.Rank) {
	*r = append(*r, fmt.Sprintf("%d: %d dies", at, p))
}

func (r *recorder) observer() logp.Observer[broadcast.Message[broadcast.None]] {
	return logp.Observer[broadcast.Message[broadcast.None]]{Sent: r.Sent, Received: r.Received, Delivered: r.Delivered, Died: r.Died}
}

// TestObserverSeesARun: P=4, L=0, o=1, opportunistic correction with d=1 to the
// left only, rank 1 dead. The tree reaches 2; 3, the child of 1, is reached by
// the root's correction.
func TestObserverSeesARun(t *testing.T) {
	spec := broadcast.Spec{P: 4, Tree: "binomial", Correction: "opportunistic:1", Ring: broadcast.Ring{OneSided: true}, O: 1}
	built, err := spec.Build()
	if err != nil {
		t.Fatal(err)
	}
	e, err := logp.NewEngine(built.(*broadcast.Plain), logp.Network{P: 4, O: 1})
	if err != nil {
		t.Fatal(err)
	}
	var seen recorder
	e.Observe(seen.observer())
	result, err := e.Run(1, logp.Faults{Failed: []protocol.Rank{1}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"0: 1 dies",
		"0: 0 delivers", "0: 0 send spread to 1",
		"1: 0 send spread to 2",
		"2: 0 correct left to 3",
		"3: 2 gets spread from 0", "3: 2 delivers", "3: 2 correct left to 1",
		"4: 3 gets left from 0", "4: 3 delivers", "4: 3 correct left to 2",
	}
	if !slices.Equal(seen, want) {
		t.Errorf("seen\n%q, want\n%q", seen, want)
	}
	e.Observe(logp.Observer[broadcast.Message[broadcast.None]]{})
	again, err := e.Run(1, logp.Faults{Failed: []protocol.Rank{1}})
	if err != nil || again != result || len(seen) != len(want) {
		t.Errorf("unobserved %+v, observed %+v, %v", again, result, err)
	}
}

// TestNthRepeatsOneRunOfMany repeats that run alone.
func TestNthRepeatsOneRunOfMany(t *testing.T) {
	net := logp.Network{P: 200, L: 2, O: 1}
	spec := broadcast.Spec{P: 200, Tree: "gossip:12", Correction: "checked", O: 1, L: 2, Synchronized: true, Start: 15}
	built, err := spec.Build()
	if err != nil {
		t.Fatal(err)
	}
	p := built.(*broadcast.Plain)
	runs := logp.Runs{Runs: 20, Seed: 9, Faults: logp.Sampling{Count: 15, Block: 2}}
	results, err := logp.MonteCarlo(p, net, runs)
	if err != nil {
		t.Fatal(err)
	}
	e, err := logp.NewEngine(p, net)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range results {
		seed, faults := runs.Nth(net.P, i)
		if got, err := e.Run(seed, faults); err != nil || got != want {
			t.Errorf("run %d alone: %+v, %v; among many: %+v", i, got, err, want)
		}
	}
}
