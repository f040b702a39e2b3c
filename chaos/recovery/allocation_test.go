package recovery

import (
	"runtime"
	"testing"
)

// A run works in the memory of the one before. The remaining allocations are mostly letters and views, which
// live as long as some process knows them.
func TestSchedulesAllocateLittle(t *testing.T) {
	const most = 50 // objects; 41 when this was written
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
