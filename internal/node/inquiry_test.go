package node

import (
	"testing"
	"time"
)

// Values of operations that end long after later ones, as timers make them do, are
// not kept; to look for them among the kept ones must come to an end.
func TestLateValuesAreNotKept(t *testing.T) {
	p, err := newProcess(Config{Size: 2})
	if err != nil {
		t.Fatal(err)
	}
	m := p.World(0)
	plan := mustPlan(t, "binomial", "checked")
	done := make(chan struct{})
	go func() {
		defer close(done)
		const ops = 8 * aheadMax
		for first := range uint64(2) {
			for seq := first + 1; seq <= ops; seq += 2 {
				m.remember(&operation{m: m, seq: seq, plan: plan, hasValue: true, value: []byte("v")})
			}
		}
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("it looks for ever")
	}
	for seq := range m.recent {
		if seq < m.recentFirst {
			t.Errorf("keeps operation %d, the first is %d", seq, m.recentFirst)
		}
	}
	if m.recentBytes != len(m.recent) {
		t.Errorf("%d bytes in %d values", m.recentBytes, len(m.recent))
	}
}
