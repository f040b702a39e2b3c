package logp_test

import (
	"fmt"

	"github.com/coppice-go/coppice/logp"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
	"github.com/coppice-go/coppice/topology"
)

// A thousand processes, ten of them dead from the start, drawn anew in each of
// a hundred runs.
func ExampleBroadcast() {
	net := logp.Network{P: 1000, L: 2, O: 1}
	runs := logp.Runs{Runs: 100, Seed: 1, Faults: logp.Sampling{Count: 10}}
	for _, correction := range []string{"none", "checked"} {
		spec := broadcast.Spec{Tree: "binomial", Correction: correction, Synchronized: true}
		results, err := logp.Broadcast(spec, net, runs)
		if err != nil {
			fmt.Println(err)
			return
		}
		s := logp.Summarize(results, net.P)
		fmt.Printf("%s: quiet after %.1f steps, %.2f messages a process, %.0f uncolored at worst\n",
			correction, s.Quiescence.Mean, s.MessagesPerProcess.Mean, s.Uncolored.Max)
	}
	// Output:
	// none: quiet after 36.9 steps, 0.96 messages a process, 539 uncolored at worst
	// checked: quiet after 47.9 steps, 5.85 messages a process, 0 uncolored at worst
}

// One run of a machine put together by hand: the root of a binomial tree of
// eight dies after its second send.
func ExampleEngine() {
	tree, err := topology.Binomial(8, topology.Interleaved)
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := broadcast.New(broadcast.Config{P: 8, Spread: &broadcast.Tree{Tree: tree}}, &broadcast.FailureProof{F: 1, Timeout: 100})
	if err != nil {
		fmt.Println(err)
		return
	}
	engine, err := logp.NewEngine(p, logp.Network{P: 8, L: 2, O: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := engine.Run(1, logp.Faults{Deaths: []logp.Death{{Rank: protocol.Rank(0), AfterSends: 2}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("colored at %d, %d uncolored\n", result.Coloring, result.Uncolored)
	// Output: colored at 13, 0 uncolored
}
