package replay_test

import (
	"fmt"

	"github.com/coppice-go/coppice/chaos/recovery"
	"github.com/coppice-go/coppice/chaos/replay"
)

// Two of three processes crash at any two moments of a reduction to all; the survivor ends with the bits of
// all tasks.
func ExampleJob() {
	world := recovery.Job{P: 3, Crashes: 2, Ops: []replay.Op{replay.AllReduce}, Operations: 3}
	report, err := world.Random(1, 500, 0)
	fmt.Println(report.Schedules, report.Violations, err)
	// Output: 500 0 <nil>
}
