//go:build unix

package recovery

import (
	"syscall"
	"testing"
)

// BenchmarkRandom measures whole groups per second of one core's time, and the allocations of each.
func BenchmarkRandom(b *testing.B) {
	for _, c := range []struct {
		name string
		Job
	}{
		{"swarm", everything},
		{"plain", Job{P: 5, Operations: 3, Crashes: 4, Saves: Some, LossyCrashes: true}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			before := userSeconds()
			if _, err := c.Random(9, b.N, 1); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(b.N)/(userSeconds()-before), "schedules/cpu-s")
		})
	}
}

// userSeconds returns the time that all cores have spent on this process.
func userSeconds() float64 {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return 0
	}
	return float64(used.Utime.Sec) + float64(used.Utime.Usec)/1e6
}
