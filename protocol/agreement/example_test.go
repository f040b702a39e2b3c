package agreement_test

import (
	"fmt"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/agreement"
)

// Three participants agree on the conjunction of their flags; the third dies before it calls.
func ExampleState() {
	all := []agreement.Rank{0, 1, 2}
	states := make([]agreement.State, 3)
	for r := range states {
		states[r].Init(agreement.Rank(r), all)
		states[r].NewView(1, all)
	}
	states[0].Begin([]byte{0b11})
	states[1].Begin([]byte{0b10})
	run(states[:2])
	fmt.Println("0 awaits", states[0].Awaits())

	for r := range states[:2] {
		states[r].NewView(2, all[:2])
	}
	run(states[:2])
	// Output:
	// 0 awaits [2]
	// 0 returns 10 of view 2, failed: [2]
	// 1 returns 10 of view 2, failed: [2]
}

// run drives the live participants until they rest.
func run(live []agreement.State) {
	for busy := true; busy; {
		busy = false
		for r := range live {
			a := live[r].Next()
			switch a.Kind {
			case protocol.Send:
				if int(a.To) < len(live) {
					live[a.To].Receive(agreement.Rank(r), a.Msg)
				}
			case protocol.Work:
				live[r].Fold(func(left, right []byte) []byte { return []byte{left[0] & right[0]} })
			case protocol.Deliver:
				fmt.Printf("%d returns %b of view %d, failed: %v\n", r, a.Msg.Value[0], a.Msg.Decided, a.Msg.Failed)
			}
			busy = busy || a.Kind != protocol.Idle
		}
	}
}
