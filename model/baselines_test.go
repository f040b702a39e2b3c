package model

import "testing"

// TestBaselinesAreThoseOfFigure7 of Corrected Gossip: N=4,096, L=2, O=1.
func TestBaselinesAreThoseOfFigure7(t *testing.T) {
	const p, l, o = 4096, 2, 1
	for _, c := range []struct {
		algorithm     string
		failures      int
		latency, work int
		wantLatency   int
		wantWork      int
	}{
		{"BIG", 0, BIGLatency(p, l, o), BIGWork(p), 60, 49_152},
		{"BFB", 0, BFBLatency(p, l, o, BFBRestarts(0)), BFBWork(p, BFBRestarts(0)), 96, 4_096},
		{"BFB", 3, BFBLatency(p, l, o, BFBRestarts(3)), BFBWork(p, BFBRestarts(3)), 144, 8_192},
	} {
		if c.latency != c.wantLatency || c.work != c.wantWork {
			t.Errorf("%s, %d failures: %d steps and %d messages, the paper has %d and %d",
				c.algorithm, c.failures, c.latency, c.work, c.wantLatency, c.wantWork)
		}
	}
}

func TestBaselinesRoundTheLogarithmUp(t *testing.T) {
	for _, c := range []struct{ p, log int }{{1, 0}, {2, 1}, {3, 2}, {4, 2}, {5, 3}, {1000, 10}, {1 << 31, 31}} {
		if got := BIGLatency(c.p, 3, 2); got != 9*c.log {
			t.Errorf("P=%d: BIG takes %d, want %d", c.p, got, 9*c.log)
		}
		if got := BIGWork(c.p); got != c.p*c.log {
			t.Errorf("P=%d: BIG sends %d, want %d", c.p, got, c.p*c.log)
		}
		if got := BFBLatency(c.p, 3, 2, 1); got != 3*7*c.log {
			t.Errorf("P=%d: BFB takes %d with a restart, want %d", c.p, got, 3*7*c.log)
		}
	}
	for failures, want := range []int{0, 1, 1, 1, 1, 1, 2} {
		if got := BFBRestarts(failures); got != want {
			t.Errorf("%d failures: %d restarts, want %d", failures, got, want)
		}
	}
}
