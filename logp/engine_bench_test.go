package logp_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/coppice-go/coppice/logp"
	"github.com/coppice-go/coppice/protocol/broadcast"
)

// BenchmarkEngine simulates single broadcasts on one core. The first ones are those that the figures of the
// authors' simulator show: synchronized checked correction on a binomial tree without faults.
func BenchmarkEngine(b *testing.B) {
	for _, c := range []struct {
		name   string
		p      int
		spec   broadcast.Spec
		faults int // per thousand
	}{
		{"checked", 4096, broadcast.Spec{Tree: "binomial", Correction: "checked", Synchronized: true, Start: 48}, 0},
		{"checked", 65536, broadcast.Spec{Tree: "binomial", Correction: "checked", Synchronized: true, Start: 64}, 0},
		{"checked", 1 << 20, broadcast.Spec{Tree: "binomial", Correction: "checked", Synchronized: true, Start: 80}, 0},
		{"checked", 1 << 20, broadcast.Spec{Tree: "binomial", Correction: "checked", Synchronized: true, Start: 80}, 10},
		{"overlapped", 65536, broadcast.Spec{Tree: "binomial", Correction: "checked"}, 10},
		{"optimized", 65536, broadcast.Spec{Tree: "lame:2", Correction: "optimized:4"}, 10},
		{"gossip", 65536, broadcast.Spec{Tree: "gossip:40", Correction: "checked", Synchronized: true, Start: 43}, 10},
		{"failure-proof", 65536, broadcast.Spec{Tree: "lame:2", Correction: "failure-proof:1", Synchronized: true, Start: 46}, 10},
	} {
		b.Run(fmt.Sprintf("%s/P=%d/faults=%d‰", c.name, c.p, c.faults), func(b *testing.B) {
			c.spec.P, c.spec.L, c.spec.O = c.p, 2, 1
			built, err := c.spec.Build()
			if err != nil {
				b.Fatal(err)
			}
			switch p := built.(type) {
			case *broadcast.Plain:
				benchmark(b, func() (*logp.Engine[broadcast.State[broadcast.Walk], broadcast.Message[broadcast.None]], error) {
					return logp.NewEngine(p, logp.Network{P: c.p, L: 2, O: 1})
				}, c.p, c.faults)
			case *broadcast.Provers:
				benchmark(b, func() (*logp.Engine[broadcast.State[broadcast.Proving], broadcast.Message[broadcast.Known]], error) {
					return logp.NewEngine(p, logp.Network{P: c.p, L: 2, O: 1})
				}, c.p, c.faults)
			}
		})
	}
}

func benchmark[S, M any](b *testing.B, engine func() (*logp.Engine[S, M], error), p, faults int) {
	e, err := engine()
	if err != nil {
		b.Fatal(err)
	}
	runs := logp.Runs{Seed: 1, Faults: logp.Sampling{Count: p * faults / 1000}}
	sent, best, i := int64(0), time.Hour, 0
	var perRun int64
	for b.Loop() {
		seed, dead := runs.Nth(p, i%4)
		i++
		began := time.Now()
		r, err := e.Run(seed, dead)
		if err != nil {
			b.Fatal(err)
		}
		sent += r.Sent()
		if t := time.Since(began); t < best {
			best, perRun = t, r.Sent()
		}
	}
	b.ReportMetric(float64(sent)/b.Elapsed().Seconds()/1e6, "Mmsg/s")
	b.ReportMetric(float64(perRun)/best.Seconds()/1e6, "Mmsg/s-best")
}

// BenchmarkTwoCores reports how much faster two workers are than one, best of
// several, in one run.
func BenchmarkTwoCores(b *testing.B) {
	net := logp.Network{P: 65536, L: 2, O: 1}
	spec := broadcast.Spec{Tree: "binomial", Correction: "checked"} // overlapped: no shortcut
	best := [3]time.Duration{1: time.Hour, 2: time.Hour}
	for b.Loop() {
		for workers := 1; workers <= 2; workers++ {
			began := time.Now()
			if _, err := logp.Broadcast(spec, net, logp.Runs{Runs: 40, Workers: workers, Faults: logp.Sampling{Count: 655}}); err != nil {
				b.Fatal(err)
			}
			best[workers] = min(best[workers], time.Since(began))
		}
	}
	b.ReportMetric(best[1].Seconds()/best[2].Seconds(), "speed-up")
}
