package broadcast_test

import (
	"fmt"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
	"github.com/coppice-go/coppice/topology"
)

// A driver in miniature: every process in turn does what it wants to do, and
// messages arrive at once. Process 1 is dead.
func ExampleNew() {
	tree, err := topology.Binomial(8, topology.Interleaved)
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := broadcast.New(broadcast.Config{P: 8, Spread: &broadcast.Tree{Tree: tree}}, &broadcast.Checked{})
	if err != nil {
		fmt.Println(err)
		return
	}
	const dead = 1
	states := make([]broadcast.State[broadcast.Walk], 8)
	for r := range states {
		p.Init(&states[r], protocol.Rank(r), 1)
	}
	for busy := true; busy; {
		busy = false
		for r := range states {
			if r == dead {
				continue
			}
			switch a := p.Next(&states[r], 0); a.Kind {
			case protocol.Deliver:
				fmt.Print(r, " ")
				busy = true
			case protocol.Send, protocol.Correct:
				if a.To != dead {
					p.Receive(&states[a.To], 0, protocol.Rank(r), a.Msg)
				}
				busy = true
			}
		}
	}
	fmt.Println("have the message")
	// Output: 0 2 4 6 7 3 5 have the message
}
