package model

import "testing"

func TestSyncCheckedNumbersOfThePapers(t *testing.T) {
	for _, c := range []struct{ l, o, latency, messages int }{
		{2, 1, 8, 5},  // section 4.1: 8 steps, 5 messages
		{3, 2, 15, 5}, // o does not divide L
		{0, 1, 4, 3},  // no latency
		{1, 3, 16, 4}, // L < o
		{1, 1, 6, 4},
		{4, 2, 16, 5},
	} {
		if got := SyncCheckedLatency(c.l, c.o); got != c.latency {
			t.Errorf("L=%d, o=%d: %d steps, want %d", c.l, c.o, got, c.latency)
		}
		if got := SyncCheckedMessages(c.l, c.o); got != c.messages {
			t.Errorf("L=%d, o=%d: %d messages, want %d", c.l, c.o, got, c.messages)
		}
	}
	// Table 1 at F=4%: g_max 13 goes with 26 steps, 55 with 86.
	for _, c := range []struct{ gMax, low, high int }{{1, 9, 11}, {13, 21, 35}, {55, 63, 119}} {
		if low, high := SyncCheckedBounds(2, 1, c.gMax); low != c.low || high != c.high {
			t.Errorf("g_max=%d: %d … %d, want %d … %d", c.gMax, low, high, c.low, c.high)
		}
	}
}

func TestSyncCheckedAppliesOnlyToLargeRings(t *testing.T) {
	for _, c := range []struct {
		p, gMax int
		want    bool
	}{{5, 0, false}, {6, 0, true}, {8, 1, true}, {8, 5, false}, {39, 5, false}, {40, 5, true}} {
		if got := SyncCheckedApplies(c.p, 2, 1, c.gMax); got != c.want {
			t.Errorf("P=%d, g_max=%d: %v, want %v", c.p, c.gMax, got, c.want)
		}
	}
}

func TestCheckLogP(t *testing.T) {
	for _, c := range []struct {
		l, o int
		ok   bool
	}{{0, 1, true}, {2, 1, true}, {-1, 1, false}, {1, 0, false}, {1, -3, false}, {timeMax + 1, 1, false}, {1, timeMax + 1, false}} {
		if err := CheckLogP(c.l, c.o); (err == nil) != c.ok {
			t.Errorf("L=%d, o=%d: %v", c.l, c.o, err)
		}
	}
}
