package topology_test

import (
	"fmt"
	"log"

	"github.com/coppice-go/coppice/topology"
)

// children lists the children of r in sending order.
func children(t topology.Tree, r int) []int {
	var list []int
	for i := 0; t.Child(r, i) >= 0; i++ {
		list = append(list, t.Child(r, i))
	}
	return list
}

// A binomial tree of eight ranks, in both numberings (Figure 4).
func ExampleBinomial() {
	for _, order := range []topology.Order{topology.Interleaved, topology.InOrder} {
		tree, err := topology.Binomial(8, order)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(order, children(tree, 0), children(tree, 1), "parent of 7:", tree.Parent(7))
	}
	// Output:
	// interleaved [1 2 4] [3 5] parent of 7: 3
	// in-order [1 5 7] [2 4] parent of 7: 0
}

// A tree read from a flag, for L=3, o=2, over more ranks than a table could
// hold.
func ExampleParseShape() {
	shape, err := topology.ParseShape("optimal")
	if err != nil {
		log.Fatal(err)
	}
	tree, err := shape.Tree(1<<31, topology.Interleaved, 3, 2)
	if err != nil {
		log.Fatal(err)
	}
	r := 2_000_000_000
	fmt.Println(shape, "parent of", r, "is", tree.Parent(r))
	// Output: optimal parent of 2000000000 is 219327446
}

// Any rank can be the root.
func ExampleRooted() {
	tree, err := topology.KAry(2, 7, topology.Interleaved)
	if err != nil {
		log.Fatal(err)
	}
	tree = topology.Rooted(tree, 5)
	fmt.Println(tree.Root(), children(tree, 5), children(tree, 6))
	// Output: 5 [6 0] [1 3]
}

func ExampleRing() {
	ring := topology.Ring(8)
	fmt.Println(ring.Left(1, 3), ring.Right(6, 3), ring.ToLeft(1, 6))
	// Output: 6 1 3
}

// Four ranks meet in pairs in three rounds.
func ExampleOneFactor() {
	schedule := topology.OneFactor(4)
	for k := range schedule.Rounds() {
		fmt.Println(schedule.Partner(0, k), schedule.Partner(1, k), schedule.Partner(2, k), schedule.Partner(3, k))
	}
	// Output:
	// 3 2 1 0
	// 1 0 3 2
	// 2 3 0 1
}

// The children of a node follow from its ID and its level.
func ExampleRadix() {
	tree, err := topology.Radix(4, 100)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(tree.Level(3), tree.Level(11), children(tree, 0), children(tree, 3))
	// Output: 1 2 [1 2 3 4] [7 11 15 19]
}

func ExampleBinomialGraph() {
	graph := topology.BinomialGraph(10)
	for i := range graph.Degree() {
		fmt.Print(graph.Out(7, i), " ")
	}
	// Output: 8 9 1 5
}
