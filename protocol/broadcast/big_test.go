package broadcast_test

import (
	"math/bits"
	"testing"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
)

// neighbours asks the machine to which ranks each process sends, as bitmaps.
func neighbours(t *testing.T, p int) []uint64 {
	t.Helper()
	d := new(broadcast.BIG)
	if err := d.Fit(p); err != nil {
		t.Fatal(err)
	}
	to := make([]uint64, p)
	for r := range to {
		var s broadcast.Spreading
		d.Color(&s, protocol.Rank(r), broadcast.OverRound)
		for a := d.Next(&s, protocol.Rank(r), 0); a.Kind == protocol.Send; a = d.Next(&s, protocol.Rank(r), 0) {
			to[r] |= 1 << a.To
		}
	}
	return to
}

// reached returns the processes that get the message from process 0 if these are dead.
func reached(to []uint64, dead uint64) uint64 {
	has := uint64(1)
	for fresh := has; fresh != 0; {
		var next uint64
		for ; fresh != 0; fresh &= fresh - 1 {
			next |= to[bits.TrailingZeros64(fresh)]
		}
		fresh = next &^ has &^ dead
		has |= fresh
	}
	return has
}

// TestBIGSurvivesOneDeathLessThanItsDegree: no set of ⌈log₂ P⌉−1 dead cuts a
// live process off, for any P, be it a power of two or not; some set of ⌈log₂ P⌉
// does wherever there are processes that the root does not send to. The graph
// looks the same from everywhere, so the root may be process 0.
func TestBIGSurvivesOneDeathLessThanItsDegree(t *testing.T) {
	for p := 2; p <= 24; p++ {
		to := neighbours(t, p)
		degree := bits.Len(uint(p - 1))
		cut := false
		for dead := uint64(0); dead < 1<<p; dead += 2 {
			n := bits.OnesCount64(dead)
			if n > degree {
				continue
			}
			missed := uint64(1)<<p - 1 - dead - reached(to, dead)
			switch {
			case missed != 0 && n < degree:
				t.Fatalf("P=%d: with %b dead %b is not reached", p, dead, missed)
			case missed != 0:
				cut = true
			}
		}
		if farther := p-1 > degree; cut != farther {
			t.Errorf("P=%d: %d dead cut somebody off: %v, want %v", p, degree, cut, farther)
		}
	}
}

func TestBIGGoesOnAfterTheEdgeOfItsMessage(t *testing.T) {
	d := new(broadcast.BIG)
	if err := d.Fit(12); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		self  protocol.Rank
		round uint16
		want  []protocol.Rank
	}{
		{0, 0, []protocol.Rank{1, 2, 4, 8}},
		{5, 1, []protocol.Rank{9, 1, 6, 7}},
		{5, 3, []protocol.Rank{6, 7, 9, 1}},
		{5, broadcast.OverRound, []protocol.Rank{6, 7, 9, 1}},
	} {
		s := broadcast.Spreading{Keep: 99}
		d.Color(&s, c.self, c.round)
		for i, to := range c.want {
			if a := d.Next(&s, c.self, 0); a.Kind != protocol.Send || a.To != to {
				t.Errorf("%d over edge %d: send %d is %+v, want to %d", c.self, c.round, i, a, to)
			}
		}
		if a := d.Next(&s, c.self, 0); a.Kind != protocol.Done {
			t.Errorf("%d over edge %d: %+v after the last, want done", c.self, c.round, a)
		}
	}
}
