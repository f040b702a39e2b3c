package recovery

import (
	"runtime"
	"syscall"
	"testing"
)

// Whole groups a second of one core's time, and what each allocates.
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

// userSeconds is the time that all cores have spent on this process.
func userSeconds() float64 {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return 0
	}
	return float64(used.Utime.Sec) + float64(used.Utime.Usec)/1e6
}

// A run works in the memory of the one before. What is left are mostly letters and views, which
// live as long as somebody knows them.
func TestSchedulesAllocateLittle(t *testing.T) {
	const most = 110 // objects; 88 when this was written
	allocated := func(runs int) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := everything.Random(9, runs, 1); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		return after.Mallocs - before.Mallocs
	}
	few, many := allocated(200), allocated(1200) // the menus are made in both
	if each := (many - few) / 1000; each > most {
		t.Errorf("%d allocations a schedule; allowed: %d", each, most)
	} else {
		t.Logf("%d allocations a schedule", each)
	}
}
