package logp_test

import (
	"fmt"

	"github.com/coppice-go/coppice/logp"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/collective"
)

// Process 3 is dead from the start: its group waits until that is known, and all live processes have the
// result.
func ExampleOutlived() {
	spec := collective.Spec{Op: collective.AllReduce, Algorithm: collective.Corrected, Failures: 1}
	net := logp.Network{P: 8, L: 2, O: 1, Detect: 100}
	for _, faults := range []logp.Faults{{}, {Failed: []protocol.Rank{3}}} {
		r, err := logp.Outlived(spec, 8, 8, net, faults)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("time %d, messages %d, of them corrections %d, unreached %d\n", r.Time, r.Messages, r.Corrections, r.Unreached)
	}
	// Output:
	// time 24, messages 27, of them corrections 6, unreached 0
	// time 117, messages 20, of them corrections 3, unreached 0
}
