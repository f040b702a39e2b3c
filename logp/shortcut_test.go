package logp_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/coppice-go/coppice/logp"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
	"github.com/coppice-go/coppice/topology"

	"pgregory.net/rapid"
)

// TestShortcutEqualsEngine compares the runs that MonteCarlo makes by the shortcut with those of the event
// engine.
func TestShortcutEqualsEngine(t *testing.T) {
	compared, gaps := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		net := logp.Network{
			P: rapid.OneOf(rapid.IntRange(128, 260), rapid.IntRange(128, 3000)).Draw(t, "P"),
			L: protocol.Time(rapid.IntRange(0, 9).Draw(t, "L")), O: protocol.Time(rapid.IntRange(1, 4).Draw(t, "o")),
		}
		spec := broadcast.Spec{
			P: net.P, L: net.L, O: net.O, Synchronized: true, Correction: "checked",
			Tree:  rapid.SampledFrom([]string{"binomial", "kary:1", "kary:2", "kary:4", "lame:2", "lame:3", "optimal"}).Draw(t, "tree"),
			Order: rapid.SampledFrom([]topology.Order{topology.Interleaved, topology.InOrder}).Draw(t, "order"),
			Root:  protocol.Rank(rapid.IntRange(0, net.P-1).Draw(t, "root")),
			Ring:  broadcast.Ring{First: rapid.SampledFrom([]broadcast.Side{broadcast.ToLeft, broadcast.ToRight}).Draw(t, "first")},
			Start: 10_000,
		}
		faults := logp.Sampling{
			Count: rapid.OneOf(rapid.IntRange(0, 5), rapid.IntRange(0, net.P/4), rapid.IntRange(0, net.P-1)).Draw(t, "dead"),
			Block: rapid.IntRange(1, 4).Draw(t, "block"), Spare: spec.Root,
		}
		if spec.Tree == "kary:1" {
			spec.Start = 100_000
		}
		runs := logp.Runs{Runs: 8, Seed: rapid.Uint64().Draw(t, "seed"), Workers: 1, Faults: faults}
		p := build(t, spec)
		if !logp.HasShortcut(p, net, faults) {
			t.Fatalf("no shortcut for %+v on %+v", spec, net)
		}
		got, err := logp.MonteCarlo(p, net, runs)
		if err != nil {
			t.Fatal(err)
		}
		e, err := logp.NewEngine(p, net)
		if err != nil {
			t.Fatal(err)
		}
		for i := range got {
			seed, dead := runs.Nth(net.P, i)
			want, err := e.Run(seed, dead)
			if err != nil {
				t.Fatal(err)
			}
			if got[i] != want {
				t.Fatalf("run %d, dead %v:\n got %+v\nwant %+v", i, dead.Failed, got[i], want)
			}
			compared++
			if want.GapMax > 0 {
				gaps++
			}
		}
	})
	t.Logf("%d runs equal, %d of them with gaps", compared, gaps)
}

type fatal interface{ Fatal(...any) }

func build(t fatal, spec broadcast.Spec) *broadcast.Plain {
	built, err := spec.Build()
	if err != nil {
		t.Fatal(err)
	}
	return built.(*broadcast.Plain)
}

// TestShortcutKnowsItsLimits lists what is left to the engine.
func TestShortcutKnowsItsLimits(t *testing.T) {
	spec := broadcast.Spec{P: 200, L: 2, O: 1, Tree: "binomial", Correction: "checked", Synchronized: true, Start: 40}
	net := logp.Network{P: 200, L: 2, O: 1}
	for name, change := range map[string]func(*broadcast.Spec, *logp.Network, *logp.Sampling){
		"overlapped":       func(s *broadcast.Spec, _ *logp.Network, _ *logp.Sampling) { s.Synchronized, s.Start = false, 0 },
		"optimized":        func(s *broadcast.Spec, _ *logp.Network, _ *logp.Sampling) { s.Correction = "optimized:4" },
		"open ring":        func(s *broadcast.Spec, _ *logp.Network, _ *logp.Sampling) { s.Ring.Open = true },
		"gossip":           func(s *broadcast.Spec, _ *logp.Network, _ *logp.Sampling) { s.Tree = "gossip:20" },
		"starts too early": func(s *broadcast.Spec, _ *logp.Network, _ *logp.Sampling) { s.Start = 20 },
		"few processes":    func(s *broadcast.Spec, n *logp.Network, _ *logp.Sampling) { s.P, n.P = 100, 100 },
		"gap above o":      func(_ *broadcast.Spec, n *logp.Network, _ *logp.Sampling) { n.G = 2 },
		"no queue":         func(_ *broadcast.Spec, n *logp.Network, _ *logp.Sampling) { n.NoQueue = true },
		"a detector":       func(_ *broadcast.Spec, n *logp.Network, _ *logp.Sampling) { n.Detect = 1 },
		"an end":           func(_ *broadcast.Spec, n *logp.Network, _ *logp.Sampling) { n.Until = 30 },
		"a death on the way": func(_ *broadcast.Spec, _ *logp.Network, f *logp.Sampling) {
			f.Fixed.Deaths = []logp.Death{{Rank: 3, At: 5}}
		},
		"root may be drawn": func(_ *broadcast.Spec, _ *logp.Network, f *logp.Sampling) { f.Spare = 7 },
	} {
		s, n, f := spec, net, logp.Sampling{}
		change(&s, &n, &f)
		if logp.HasShortcut(build(t, s), n, f) {
			t.Errorf("%s: has a shortcut", name)
		}
	}
	if !logp.HasShortcut(build(t, spec), net, logp.Sampling{}) {
		t.Error("no shortcut")
	}
}

// BenchmarkShortcut reports how many runs a second the shortcut makes, and how much faster than the engine it
// is.
func BenchmarkShortcut(b *testing.B) {
	for _, permyriad := range []int{1, 10, 100, 200, 400} {
		b.Run(fmt.Sprintf("faults=%.2f%%", float64(permyriad)/100), func(b *testing.B) {
			spec := broadcast.Spec{P: 65536, L: 2, O: 1, Tree: "binomial", Correction: "checked", Synchronized: true, Start: 64}
			net := logp.Network{P: spec.P, L: 2, O: 1}
			p := build(b, spec)
			e, err := logp.NewEngine(p, net)
			if err != nil {
				b.Fatal(err)
			}
			runs := logp.Runs{Runs: 200, Workers: 1, Faults: logp.Sampling{Count: spec.P * permyriad / 10_000}}
			quick, slow := time.Hour, time.Hour
			for i := 0; b.Loop(); i++ {
				seed, dead := runs.Nth(spec.P, i%4)
				began := time.Now()
				if _, err := e.Run(seed, dead); err != nil {
					b.Fatal(err)
				}
				slow = min(slow, time.Since(began))
				began = time.Now()
				if _, err := logp.MonteCarlo(p, net, runs); err != nil {
					b.Fatal(err)
				}
				quick = min(quick, time.Since(began)/time.Duration(runs.Runs))
			}
			b.ReportMetric(1/quick.Seconds(), "runs/s-best")
			b.ReportMetric(slow.Seconds()/quick.Seconds(), "times-engine")
		})
	}
}
