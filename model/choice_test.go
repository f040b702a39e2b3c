package model

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-go/coppice/logp"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
	"github.com/coppice-go/coppice/topology"
)

// The simulator knows nothing of the closed form; g may be below or above o.
func TestPredictionsEqualTheSimulator(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 0))
	for range 100 {
		net := logp.Network{P: 1 + r.IntN(200), L: protocol.Time(r.IntN(20)), O: protocol.Time(1 + r.IntN(5)), G: protocol.Time(r.IntN(12))}
		n := LogGP{L: float64(net.L), O: float64(net.O), Gap: float64(net.G)}
		choice, err := ChooseTree(n, net.P)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range choice.All {
			if one.Tree == "optimal" { // the simulator would make it for its own L and o
				continue
			}
			spec := broadcast.Spec{Tree: one.Tree, Correction: "none"}
			if one.Tree == Flat {
				spec.Tree = "kary:200"
			}
			results, err := logp.Broadcast(spec, net, logp.Runs{Runs: 1})
			if err != nil {
				t.Fatal(err)
			}
			if want := float64(results[0].Coloring); one.Time != want {
				t.Errorf("%+v, %s: predicted %g, simulated %g", net, one.Tree, one.Time, want)
			}
		}
	}
}

func TestOptimalTreeIsMadeForTheNetwork(t *testing.T) {
	for _, c := range []struct {
		n    LogGP
		l, o int
	}{
		{LogGP{L: 2, O: 1}, 2, 1},
		{LogGP{L: 2, O: 1, Gap: 0.5}, 2, 1},            // g below o counts as o
		{LogGP{L: 8, O: 1, Gap: 2}, 3, 1},              // sends every 2, first after 10: as o=1, L=3 in units of 2
		{LogGP{L: 3.5, O: 2}, 7, 4},                    // in quarters
		{LogGP{L: 0.5, O: 2}, 1, 4},                    //
		{LogGP{L: 0.1, O: 2}, 0, 1},                    //
		{LogGP{L: 0, O: 1, Gap: 3}, 0, 1},              // would need an L below 0
		{LogGP{L: 1e12, O: 1}, 1<<20 - 2, 1},           // bounded, and still a flat tree
		{LogGP{L: 20.0001, O: 9.9999}, 2, 1},           // measured
		{LogGP{L: 5.508, O: 1.616, Gap: 2.2593}, 7, 4}, // seen
	} {
		l, o := optimalFor(c.n)
		if l != c.l || o != c.o {
			t.Errorf("%+v: L=%d, o=%d; want L=%d, o=%d", c.n, l, o, c.l, c.o)
		}
	}
}

// Where L is a number of quarters of o, and g is not above o, nothing beats the
// optimal tree.
func TestOptimalTreeIsTheFastest(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 0))
	for range 300 {
		interval := 0.1 + r.Float64()
		n := LogGP{O: interval, L: float64(r.IntN(60)) / 4 * interval}
		p := 1 + r.IntN(300)
		choice, err := ChooseTree(n, p)
		if err != nil {
			t.Fatal(err)
		}
		optimal := timeOf(t, choice, "optimal")
		for _, one := range choice.All {
			if one.Time < optimal*(1-1e-9) {
				t.Errorf("%+v, %d processes: %s takes %g, optimal %g", n, p, one.Tree, one.Time, optimal)
			}
		}
	}
}

func TestChoiceIsTheFirstThatIsNearlyTheFastest(t *testing.T) {
	for _, c := range []struct {
		n    LogGP
		p    int
		want string
	}{
		{LogGP{L: 5, O: 2}, 1, "binomial"}, // all are equal
		{LogGP{L: 5, O: 2}, 2, "binomial"},
		{LogGP{L: 2, O: 1}, 1024, "lame:4"},           // is the optimal one
		{LogGP{L: 1, O: 1}, 1024, "lame:3"},           // so is this
		{LogGP{L: 0, O: 1}, 1024, "lame:2"},           // and this
		{LogGP{L: 0, O: 1, Gap: 2}, 1024, "binomial"}, // sent every 2, received after 2
		{LogGP{L: 100, O: 1}, 1024, "optimal"},        // a few levels of many
	} {
		choice, err := ChooseTree(c.n, c.p)
		if err != nil {
			t.Fatal(err)
		}
		if choice.Tree != c.want {
			t.Errorf("%+v, %d processes: %s, want %s; %v", c.n, c.p, choice.Tree, c.want, choice.All)
		}
		fastest := math.Inf(1)
		for _, one := range choice.All[:len(choice.All)-1] {
			fastest = min(fastest, one.Time)
		}
		if got := timeOf(t, choice, choice.Tree); got != choice.Time || got > nearly*fastest {
			t.Errorf("%+v, %d processes: %s takes %g, said to take %g, the fastest takes %g", c.n, c.p, choice.Tree, got, choice.Time, fastest)
		}
	}
}

func TestChoiceRefusesNoNetwork(t *testing.T) {
	for _, n := range []LogGP{{}, {L: 1}, {L: -1, O: 1}, {L: math.NaN(), O: 1}, {O: math.Inf(1)}} {
		if _, err := ChooseTree(n, 8); err == nil || !strings.Contains(err.Error(), "; allowed: ") {
			t.Errorf("%+v: %v", n, err)
		}
	}
	if _, err := ChooseTree(LogGP{L: 1, O: 1}, 0); err == nil {
		t.Error("no processes: not refused")
	}
}

func timeOf(t *testing.T, c Choice, tree string) float64 {
	t.Helper()
	i := slices.IndexFunc(c.All, func(p Prediction) bool { return p.Tree == tree })
	if i < 0 {
		t.Fatalf("no prediction for %s", tree)
	}
	return c.All[i].Time
}

func TestBroadcastTimeIsTreeLatency(t *testing.T) {
	tree, err := topology.Lame(3, 777, topology.InOrder)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := BroadcastTime(tree, LogGP{L: 7, O: 2}), TreeLatency(tree, 7, 2); got != float64(want) {
		t.Errorf("got %g, want %d", got, want)
	}
}
