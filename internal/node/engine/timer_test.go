package engine

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/coppice-go/coppice/protocol"
)

// TestTimersFireInOrder: the earliest first, and of those at one time the one that was set first.
func TestTimersFireInOrder(t *testing.T) {
	e := New(Config{})
	if err := e.Poll(); err != nil {
		t.Skip("needs a poller: runs on Linux:", err)
	}
	defer e.Stop()
	e.Lock()
	defer e.Unlock()
	type set struct{ at, number int }
	var want, got []set
	for i := range 1000 {
		s := set{rand.IntN(50), i}
		want = append(want, s)
		e.At(protocol.Time(s.at), func() { got = append(got, s) })
	}
	e.Fire()
	slices.SortStableFunc(want, func(a, b set) int { return a.at - b.at })
	if !slices.Equal(got, want) || e.Timers() != 0 {
		t.Errorf("%v, want %v; %d are left", got, want, e.Timers())
	}
	do := func() {}
	e.At(0, do)
	e.Fire()
	if n := testing.AllocsPerRun(100, func() { e.At(0, do); e.Fire() }); n > 0 {
		t.Errorf("a timer allocates %v times", n)
	}
}
