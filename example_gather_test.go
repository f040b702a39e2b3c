package coppice_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/coppice-go/coppice"
)

// There is one part for each task, at the root. Parts may differ in length.
func ExampleScatter() {
	runExample(3, func(ctx context.Context, t *coppice.Task) error {
		var parts [][]int // nil elsewhere: it is ignored
		if t.Rank() == 0 {
			parts = [][]int{{1}, {2, 3}, {4, 5, 6}}
		}
		part, err := coppice.Scatter(ctx, t, parts)
		if err != nil {
			return err
		}
		fmt.Println("task", t.Rank(), "has", part)
		return nil
	})
	// Unordered output:
	// task 0 has [1]
	// task 1 has [2 3]
	// task 2 has [4 5 6]
}

// The root gets a value of each task, by rank; the others get nil.
func ExampleGather() {
	runExample(3, func(ctx context.Context, t *coppice.Task) error {
		m := measurement{Place: fmt.Sprint("room ", t.Rank()), Degrees: 19.5 + float64(t.Rank())}
		all, err := coppice.Gather(ctx, t, m)
		if err != nil {
			return err
		}
		for _, m := range all { // no loop but at task 0
			fmt.Printf("%s: %.1f\n", m.Place, m.Degrees)
		}
		return nil
	})
	// Output:
	// room 0: 19.5
	// room 1: 20.5
	// room 2: 21.5
}

// Everybody knows everybody's answer, so all come to the same conclusion.
func ExampleAllGather() {
	free := []int{2, 0, 3} // at each task
	runExample(len(free), func(ctx context.Context, t *coppice.Task) error {
		slots, err := coppice.AllGather(ctx, t, free[t.Rank()])
		if err != nil {
			return err
		}
		first := 0
		for _, n := range slots[:t.Rank()] {
			first += n
		}
		fmt.Printf("task %d takes %d items from %d on\n", t.Rank(), slots[t.Rank()], first)
		return nil
	})
	// Unordered output:
	// task 0 takes 2 items from 0 on
	// task 1 takes 0 items from 2 on
	// task 2 takes 3 items from 2 on
}

// Every task has words for every other: it sorts its own by who is to have them,
// here by length, and gets what the others have for it, in the order of ranks.
func ExampleAllToAll() {
	lines := []string{"a rose is", "an elm or oak", "is it an ash"}
	runExample(len(lines), func(ctx context.Context, t *coppice.Task) error {
		parts := make([]string, t.Size())
		for _, word := range strings.Fields(lines[t.Rank()]) {
			parts[len(word)%t.Size()] += word + " "
		}
		got, err := coppice.AllToAll(ctx, t, parts)
		if err != nil {
			return err
		}
		fmt.Printf("task %d has %q\n", t.Rank(), got)
		return nil
	})
	// Unordered output:
	// task 0 has ["" "elm oak " "ash "]
	// task 1 has ["a rose " "" ""]
	// task 2 has ["is " "an or " "is it an "]
}
