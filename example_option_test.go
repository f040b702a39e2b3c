package coppice_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/coppicetest"
)

// Options are the last arguments of an operation, in any order. All tasks pass
// the same root and the same mode.
func ExampleOption() {
	options := []coppice.Option{coppice.Root(2), coppice.Corrected(coppice.Checked())}
	runExample(3, func(ctx context.Context, t *coppice.Task) error {
		v, err := coppice.Broadcast(ctx, t, t.Rank(), options...)
		if err != nil {
			return err
		}
		fmt.Println("task", t.Rank(), "has", v)
		return nil
	})
	// Unordered output:
	// task 0 has 2
	// task 1 has 2
	// task 2 has 2
}

func ExampleRoot() {
	runExample(3, func(ctx context.Context, t *coppice.Task) error {
		v, err := coppice.Broadcast(ctx, t, fmt.Sprint("from ", t.Rank()), coppice.Root(1))
		if err == nil && t.Rank() == 2 {
			fmt.Println(v)
		}
		return err
	})
	// Output: from 1
}

// The slice is large, and nobody changes it: no need to copy it.
func ExampleShared() {
	table := make([]float64, 1000)
	table[999] = 0.5
	runExample(2, func(ctx context.Context, t *coppice.Task) error {
		var mine []float64
		if t.Rank() == 0 {
			mine = table
		}
		mine, err := coppice.Broadcast(ctx, t, mine, coppice.Shared())
		if err == nil && t.Rank() == 1 {
			fmt.Println(len(mine), mine[999])
		}
		return err
	})
	// Output: 1000 0.5
}

// The same memory serves every round.
func ExampleInto() {
	runExample(2, func(ctx context.Context, t *coppice.Task) error {
		buffer := make([]int, 4)
		for round := range 2 {
			v, err := coppice.Broadcast(ctx, t, []int{round, round + 1}, coppice.Into(buffer))
			if err != nil {
				return err
			}
			if t.Rank() == 1 {
				fmt.Println(v, &v[0] == &buffer[0])
			}
		}
		return nil
	})
	// Output:
	// [0 1] true
	// [1 2] true
}

// To merge two models takes long. If the process of task 0 dies at the end, whoever runs task 0 again
// finds the last model that it had merged at another process.
func ExampleBackups() {
	merge := func(a, b []float64) []float64 {
		time.Sleep(time.Millisecond) // or hours
		for i := range a {
			a[i] = (a[i] + b[i]) / 2
		}
		return a
	}
	runExample(4, func(ctx context.Context, t *coppice.Task) error {
		model, err := coppice.ReduceFunc(ctx, t, []float64{float64(t.Rank())}, merge, coppice.Backups(true))
		if err == nil && t.Rank() == 0 {
			fmt.Println(model)
		}
		return err
	})
	// Output: [1.5]
}

// Counts of words add up to the same in any order.
func ExampleCommutative() {
	add := func(a, b map[string]int) map[string]int {
		for word, n := range b {
			a[word] += n
		}
		return a
	}
	texts := []string{"oak ash", "ash ash elm", "oak"}
	runExample(3, func(ctx context.Context, t *coppice.Task) error {
		counts := map[string]int{}
		for word := range strings.FieldsSeq(texts[t.Rank()]) {
			counts[word]++
		}
		counts, err := coppice.ReduceFunc(ctx, t, counts, add, coppice.Commutative())
		if err == nil && t.Rank() == 0 {
			fmt.Println(counts)
		}
		return err
	})
	// Output: map[ash:3 elm:1 oak:2]
}

// The mean of what is left.
func ExampleWithoutLost() {
	job := coppice.Job{Local: 4, Recovery: coppice.Report}
	err := job.Run(coppicetest.WithKills(context.Background(), "3@allreduce#1"), func(ctx context.Context, t *coppice.Task) error {
		sum, err := coppice.AllReduce(ctx, t, []int{t.Rank(), 1}, coppice.Sum, coppice.WithoutLost())
		if err == nil && t.Rank() == 0 {
			fmt.Println("mean of", sum[1], "tasks:", sum[0]/sum[1])
		}
		return err
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: mean of 3 tasks: 1
}
