package model_test

import (
	"math"
	"testing"

	"github.com/coppice-go/coppice/logp"
	"github.com/coppice-go/coppice/model"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/topology"

	"pgregory.net/rapid"
)

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(b)) }

// TestLevelsOfFullTrees: the thesis, 6.1.2 and 6.1.3, has full trees at 3, 7, 15
// nodes for a = 2 and at 5, 21 for a = 4.
func TestLevelsOfFullTrees(t *testing.T) {
	for _, c := range []struct{ a, n, want int }{
		{2, 1, 1},
		{2, 2, 2},
		{2, 3, 2},
		{2, 4, 3},
		{2, 7, 3},
		{2, 8, 4},
		{2, 15, 4},
		{2, 1023, 10},
		{2, 1024, 11},
		{4, 5, 2},
		{4, 6, 3},
		{4, 21, 3},
		{4, 22, 4},
		{4, 1024, 6},
		{2, 65536, 17},
		{4, 65536, 9},
		{8, 65536, 7},
		{1024, topology.SizeMax, 5},
	} {
		if got := model.Levels(c.a, c.n); got != c.want {
			t.Errorf("a=%d, n=%d: %d levels, want %d", c.a, c.n, got, c.want)
		}
		tree, err := topology.Radix(c.a, c.n)
		if err != nil {
			t.Fatal(err)
		}
		if got := tree.Level(c.n-1) + 1; got != c.want {
			t.Errorf("a=%d, n=%d: the tree has %d levels, want %d", c.a, c.n, got, c.want)
		}
	}
}

// TestBaseModel: equation 4.2 with the thesis's constants, by hand.
func TestBaseModel(t *testing.T) {
	for _, c := range []struct {
		m    model.Machine
		a, n int
		want float64
	}{
		{model.BlueGeneL, 2, 1, 2},
		{model.BlueGeneL, 2, 1024, 2*4.6*10 + 2*11},
		{model.BlueGeneL, 4, 1024, 2*4.6*5 + 2*6},
		{model.OSClusterTCP, 2, 15, 2*94*3 + 2.3*4},
		{model.OSClusterMyrinet, 4, 16, 2*13.6*2 + 2.3*3},
		{model.XTORC, 2, 47, 2*118*5 + 2*6},
		{model.XTORC, 4, 47, 2*118*3 + 2*4},
	} {
		if got := c.m.Base(c.a, c.n); !near(got, c.want) {
			t.Errorf("%s, a=%d, n=%d: %g, want %g", c.m.Name, c.a, c.n, got, c.want)
		}
	}
}

// TestStabilizationUnderLogP: (2·(2o+L) + (a−1)·o)·(H−1) + O_cp·H, by hand.
func TestStabilizationUnderLogP(t *testing.T) {
	steps := model.LogGP{L: 2, O: 1}
	for _, c := range []struct {
		a, n         int
		net          model.LogGP
		ocp          float64
		want, filled float64
	}{
		{2, 1, steps, 3, 3, 3},
		{2, 2, steps, 0, 8, 8},   // one child
		{2, 3, steps, 0, 9, 9},   // the second is asked one later
		{2, 4, steps, 0, 18, 16}, // 3 hangs below 1: 1 is asked first
		{2, 4, steps, 5, 33, 31},
		// Full up to level 15: 15·9; the last level has one member, whose answer, at
		// 16·8, meets another on its way.
		{2, 65536, steps, 0, 144, 136},
		{4, 65536, steps, 0, 88, 87}, // of 8 digits to base 4, 21 + 1 is the largest sum below 43691; and they meet
		{8, 65536, steps, 0, 90, 82}, // … of 6 to base 8, 28 + 5 below 28087
		{4, 21, model.LogGP{L: 2, O: 1, Gap: 3}, 0, 2 * (8 + 3*3), 2 * (8 + 3*3)},
	} {
		if got := model.Stabilization(c.a, c.n, c.net, c.ocp); !near(got, c.want) {
			t.Errorf("a=%d, n=%d: %g, want %g", c.a, c.n, got, c.want)
		}
		if got := model.StabilizationFilled(c.a, c.n, c.net, c.ocp); !near(got, c.filled) {
			t.Errorf("a=%d, n=%d: filled %g, want %g", c.a, c.n, got, c.filled)
		}
	}
}

// sweepTime is StabilizationFilled in the dumbest way: node by node.
func sweepTime(tree *topology.RadixTree, r int, net model.LogGP, ocp float64) (took float64) {
	var arrivals []float64
	for i := 0; tree.Child(r, i) >= 0; i++ {
		below := sweepTime(tree, tree.Child(r, i), net, ocp)
		arrivals = append(arrivals, float64(i)*net.Interval()+2*net.Delay()-net.O+ocp+below)
	}
	for free := 0.0; len(arrivals) > 0; {
		first := 0
		for i, at := range arrivals {
			if at < arrivals[first] {
				first = i
			}
		}
		at := max(arrivals[first], free)
		free, took = at+net.Interval(), at+net.O
		arrivals = append(arrivals[:first], arrivals[first+1:]...)
	}
	return took
}

func TestFilledModelEqualsWalk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := 1 << rapid.IntRange(1, 4).Draw(t, "log a")
		n := rapid.IntRange(1, 2000).Draw(t, "n")
		net := model.LogGP{
			L: float64(rapid.IntRange(0, 9).Draw(t, "L")), O: float64(rapid.IntRange(1, 5).Draw(t, "o")),
			Gap: float64(rapid.IntRange(0, 7).Draw(t, "g")),
		}
		ocp := float64(rapid.IntRange(0, 9).Draw(t, "O_cp"))
		tree, err := topology.Radix(a, n)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := model.StabilizationFilled(a, n, net, ocp), ocp+sweepTime(tree, 0, net, ocp); !near(got, want) {
			t.Fatalf("a=%d, n=%d: %g, want %g", a, n, got, want)
		}
	})
}

// TestDistanceModel: on a torus of 8×8×8, by hand. Ranks 1 and 2 are one and two
// hops from 0; the four of the next level are 2 or 4 ahead of 1 and 2; of those
// from 3 on, 7 is 4 ahead of 3, and 8 is 8 ahead of 0, which is one in y.
func TestDistanceModel(t *testing.T) {
	torus := logp.Torus{X: 8, Y: 8, Z: 8}
	hops := func(a, b int) int { return torus.Hops(protocol.Rank(a), protocol.Rank(b)) }
	for _, c := range []struct {
		a, n int
		want []int
	}{
		{2, 2, []int{1}},
		{2, 3, []int{2}},
		{2, 7, []int{2, 4}},
		{2, 8, []int{2, 4, 4}},
		{4, 5, []int{4}},
		{4, 6, []int{4, 4}}, // 1 → 5
		{2, 1, nil},
	} {
		got, err := model.HopsByLevel(c.a, c.n, hops)
		if err != nil {
			t.Fatal(err)
		}
		sum := 0
		for i, h := range got {
			sum += h
			if len(got) != len(c.want) || h != c.want[i] {
				t.Errorf("a=%d, n=%d: hops %v, want %v", c.a, c.n, got, c.want)
				break
			}
		}
		time, err := model.StabilizationDistance(c.a, c.n, hops, 4.6, 2)
		if err != nil {
			t.Fatal(err)
		}
		if want := 2*4.6*float64(sum) + 2*float64(len(c.want)+1); !near(time, want) {
			t.Errorf("a=%d, n=%d: %g, want %g", c.a, c.n, time, want)
		}
	}
	if _, err := model.StabilizationDistance(3, 5, hops, 1, 1); err == nil {
		t.Error("three children are accepted")
	}
}

// TestContentionLatency: rises up to a parent with its children, then not until the
// switch is busy all the time (the thesis, 6.1.2 and 6.1.3).
func TestContentionLatency(t *testing.T) {
	ports := model.Switched{Port: 4}
	packets := model.Switched{Packet: 2}
	for _, c := range []struct {
		s    model.Switched
		a, n int
		want float64
	}{
		{ports, 2, 1, 12},
		{ports, 2, 2, 12}, // L + 0
		{ports, 2, 3, 14}, // one later child
		{ports, 2, 99, 14},
		{ports, 4, 4, 16},
		{ports, 4, 5, 18},
		{ports, 4, 99, 18},
		{packets, 1, 12, 12}, // six pairs: 6·2 = L
		{packets, 1, 13, 12}, // the odd one has no partner
		{packets, 1, 14, 14},
		{packets, 1, 24, 24},
		{packets, 2, 12, 16}, // four groups of 2 messages
		{packets, 4, 15, 24}, // three groups of 4
		{packets, 4, 17, 26}, // and a parent with one child
	} {
		if got := c.s.ContentionLatency(c.a, c.n, 12); !near(got, c.want) {
			t.Errorf("%+v, a=%d, n=%d: %g, want %g", c.s, c.a, c.n, got, c.want)
		}
	}
}

// TestSwitchedModel: by hand. n=7, a=2 has levels of 2 and 4 messages.
func TestSwitchedModel(t *testing.T) {
	m := model.Machine{L: 10, Ocp: 1}
	for _, c := range []struct {
		s    model.Switched
		n    int
		want float64
	}{
		{model.Switched{}, 7, 2*10*2 + 3},
		{model.Switched{Port: 2}, 7, 2*10*2 + 3 + 2*2},          // a second child at both levels
		{model.Switched{Packet: 1}, 7, 2*10*2 + 3 + 1 + 3},      // the last waits for 1 and for 3
		{model.Switched{Packet: 1}, 6, 2*10*2 + 3 + 1 + 2},      // a line within a level
		{model.Switched{Port: 2, Packet: 1}, 4, 2*10*2 + 3 + 3}, // 3 is alone at its level
		{model.Switched{Packet: 20}, 7, 1 + 11*20 + 10},         // the switch is busy from the first to the last of 12
	} {
		got, err := c.s.StabilizationSwitched(2, c.n, m)
		if err != nil {
			t.Fatal(err)
		}
		if !near(got, c.want) {
			t.Errorf("%+v, n=%d: %g, want %g", c.s, c.n, got, c.want)
		}
	}
	if _, err := (model.Switched{}).StabilizationSwitched(2, 0, m); err == nil {
		t.Error("no members are accepted")
	}
}

func TestFanoutFor(t *testing.T) {
	for _, c := range []struct {
		n       int
		l, o    float64
		ocp     float64
		want    int
		members string
	}{
		{1, 2, 1, 0, 2, "nobody to tell"},
		{3, 2, 1, 0, 2, "two children suffice"},
		{65536, 2, 1, 0, 4, "88 steps, against 144 for 2, 90 for 8 and 92 for 16"},
		{65536, 1000, 1, 0, 256, "latency weighs: two levels of links"},
		{1024, 0, 1, 0, 4, "sends weigh"},
	} {
		best, all, err := model.FanoutFor(c.n, model.LogGP{L: c.l, O: c.o}, c.ocp)
		if err != nil {
			t.Fatal(err)
		}
		if best.A != c.want {
			t.Errorf("n=%d, L=%g, o=%g: fan-out %d, want %d (%s); %+v", c.n, c.l, c.o, best.A, c.want, c.members, all)
		}
		for _, f := range all {
			if f.Stabilization < best.Stabilization {
				t.Errorf("n=%d: %+v beats %+v", c.n, f, best)
			}
		}
	}
	for _, wrong := range []struct {
		n   int
		net model.LogGP
		ocp float64
	}{
		{0, model.LogGP{L: 2, O: 1}, 0},
		{topology.SizeMax + 1, model.LogGP{L: 2, O: 1}, 0},
		{8, model.LogGP{L: -1, O: 1}, 0},
		{8, model.LogGP{}, 0},
		{8, model.LogGP{L: 2, O: 1}, -1},
		{8, model.LogGP{L: 2, O: 1}, math.NaN()},
		{8, model.LogGP{L: math.NaN(), O: 1}, 0},
	} {
		if _, _, err := model.FanoutFor(wrong.n, wrong.net, wrong.ocp); err == nil {
			t.Errorf("%+v is accepted", wrong)
		}
	}
}
