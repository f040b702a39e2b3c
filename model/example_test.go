package model_test

import (
	"fmt"
	"log"

	"github.com/coppice-go/coppice/model"
	"github.com/coppice-go/coppice/topology"
)

// What a broadcast to 64K processes costs with L=2, o=1.
func ExampleTreeLatency() {
	tree, err := topology.Lame(2, 1<<16, topology.Interleaved)
	if err != nil {
		log.Fatal(err)
	}
	colored := model.TreeLatency(tree, 2, 1)
	fmt.Println("tree:", colored)
	fmt.Println("with correction:", colored+model.SyncCheckedLatency(2, 1))
	fmt.Println("with acknowledgements:", model.AckLatency(tree, 2, 1))
	// Output:
	// tree: 46
	// with correction: 54
	// with acknowledgements: 91
}

// No tree is faster than the optimal one.
func ExampleOptimalLatency() {
	fmt.Println(model.OptimalLatency(1<<31, 2, 1))
	// Output: 69
}
