package coppice_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coppice-go/coppice"
)

// Options are the last arguments of an operation, in any order. All tasks pass
// the same root and the same protection.
func ExampleOption() {
	options := []coppice.Option{coppice.Root(2), coppice.Mode(coppice.Corrected("checked"))}
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

// rehearseDeaths broadcasts among n tasks, of which the named ones have died
// before and whose tasks nobody runs again, and counts those that then have the
// value.
func rehearseDeaths(n int, mode coppice.Protection, dead ...int) {
	job := coppice.Job{Local: n, Recovery: coppice.Report}
	for _, task := range dead {
		job.Kill = append(job.Kill, fmt.Sprintf("%d@send#1", task))
	}
	var have atomic.Int32
	err := job.Run(context.Background(), func(ctx context.Context, t *coppice.Task) error {
		for from := 1; from < n && t.Rank() == 0; from++ {
			_, err := coppice.Recv[bool](ctx, t, from, 0) // is it there?
			if err != nil && !errors.Is(err, coppice.ErrLost) {
				return err
			}
		}
		if t.Rank() > 0 {
			if err := coppice.Send(ctx, t, 0, 0, true); err != nil {
				return err
			}
		}
		_, err := coppice.Broadcast(ctx, t, 7, coppice.Mode(mode))
		if err == nil {
			have.Add(1)
		}
		return err
	})
	var failed *coppice.FailedError
	if errors.As(err, &failed) {
		err = fmt.Errorf("%s needs %d", failed.Op, failed.Tasks)
	}
	fmt.Printf("%d of %d have the value; failures: %v\n", have.Load(), n-len(dead), err)
}

func ExampleMode() {
	rehearseDeaths(8, coppice.Corrected("checked"), 2, 3)
	// Output: 6 of 6 have the value; failures: <nil>
}

// A Protection is a value: choose it once and use it everywhere. One that cannot
// be is an error of the operation it is used in.
func ExampleProtection() {
	rehearseDeaths(1, coppice.Corrected("thoroughly"))
	// Output: 0 of 1 have the value; failures: task 0: broadcast: correction "thoroughly"; allowed: checked, opportunistic:D, optimized:D, delayed:US, failure-proof:F
}

// Task 1 dies in its second broadcast. Another process runs it again, and it gets what
// it was sent in the first once more.
func ExampleReplayed() {
	job := coppice.Job{Local: 3, Kill: []string{"1@broadcast#2"}}
	err := job.Run(context.Background(), func(ctx context.Context, t *coppice.Task) error {
		var got []int
		for i := range 2 {
			v, err := coppice.Broadcast(ctx, t, 7+i, coppice.Mode(coppice.Replayed))
			if err != nil {
				return err
			}
			got = append(got, v)
		}
		fmt.Println("task", t.Rank(), "has", got)
		return nil
	})
	fmt.Println("error:", err)
	// Unordered output:
	// task 0 has [7 8]
	// task 1 has [7 8]
	// task 2 has [7 8]
	// error: <nil>
}

// In a binomial tree of 8 tasks, 7 stands below 3, and nothing else does.
func ExamplePlain() {
	rehearseDeaths(8, coppice.Plain, 3)
	// Output: 6 of 7 have the value; failures: broadcast needs [3]
}

func ExampleCorrected() {
	rehearseDeaths(8, coppice.Corrected("checked"), 3)
	rehearseDeaths(8, coppice.Corrected("optimized:1"), 3)
	rehearseDeaths(8, coppice.Corrected("failure-proof:1"), 3)

	// Task 4 dies as it comes to the sum: the others go on without it.
	job := coppice.Job{Local: 6, Recovery: coppice.Report, Kill: []string{"4@allreduce#1"}}
	err := job.Run(context.Background(), func(ctx context.Context, t *coppice.Task) error {
		sum, err := coppice.AllReduce(ctx, t, t.Rank(), coppice.Sum, coppice.Mode(coppice.Corrected("failure-proof:1")))
		if err == nil && t.Rank() == 0 {
			fmt.Println("the sum is", sum)
		}
		return err
	})
	fmt.Println("failures:", err)
	// Output:
	// 7 of 7 have the value; failures: <nil>
	// 7 of 7 have the value; failures: <nil>
	// 7 of 7 have the value; failures: <nil>
	// the sum is 11
	// failures: <nil>
}

func ExampleProtection_Along() {
	rehearseDeaths(16, coppice.Corrected("checked").Along("lame:2"), 1, 2)
	rehearseDeaths(16, coppice.Corrected("checked").Along("kary:4"), 1, 2)
	// Output:
	// 14 of 14 have the value; failures: <nil>
	// 14 of 14 have the value; failures: <nil>
}

func ExampleProtection_InOrder() {
	rehearseDeaths(16, coppice.Corrected("checked").InOrder(), 1, 2)
	// Output: 14 of 14 have the value; failures: <nil>
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
	job := coppice.Job{Local: 4, Recovery: coppice.Report, Kill: []string{"3@allreduce#1"}}
	err := job.Run(context.Background(), func(ctx context.Context, t *coppice.Task) error {
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
