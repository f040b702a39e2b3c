package recovery

import "testing"

// Whole groups a second, on one core.
func BenchmarkRandom(b *testing.B) {
	for _, c := range []struct {
		name string
		Job
	}{
		{"swarm", everything},
		{"plain", Job{P: 5, Operations: 3, Crashes: 4, Saves: Some, LossyCrashes: true}},
	} {
		b.Run(c.name, func(b *testing.B) {
			if _, err := c.Random(9, b.N, 1); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "schedules/s")
		})
	}
}
