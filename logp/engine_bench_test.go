package logp_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-go/coppice/logp"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
	"github.com/coppice-go/coppice/topology"
)

func cpuTime() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkEngine simulates one synchronized checked broadcast on a binomial
// tree without faults, as the figures of the authors' simulator do.
func BenchmarkEngine(b *testing.B) {
	for _, p := range []int{4096, 65536, 1 << 20} {
		b.Run(fmt.Sprint(p), func(b *testing.B) {
			tree, err := topology.Binomial(p, topology.Interleaved)
			if err != nil {
				b.Fatal(err)
			}
			start := protocol.Time(0)
			for n := 1; n < p; n *= 2 {
				start += 4
			}
			machine, err := broadcast.New(broadcast.Config{P: p, Spread: &broadcast.Tree{Tree: tree}, Synchronized: true, Start: start}, &broadcast.Checked{})
			if err != nil {
				b.Fatal(err)
			}
			e, err := logp.NewEngine(machine, logp.Network{P: p, L: 2, O: 1})
			if err != nil {
				b.Fatal(err)
			}
			var sent int64
			cpu := cpuTime()
			b.ReportAllocs()
			for b.Loop() {
				r, err := e.Run(1, logp.Faults{})
				if err != nil {
					b.Fatal(err)
				}
				sent += r.Sent()
			}
			b.ReportMetric(float64(sent)/b.Elapsed().Seconds()/1e6, "Mmsg/s")
			b.ReportMetric(float64(sent)/(cpuTime()-cpu).Seconds()/1e6, "Mmsg/cpu-s")
		})
	}
}
