package coppice_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/coppicetest"
)

// rehearseDeaths broadcasts among n tasks, of which the named ones have died
// before and whose tasks nobody runs again, and counts those that then have the
// value.
func rehearseDeaths(n int, dead []int, opts ...coppice.Option) {
	job := coppice.Job{Local: n, Recovery: coppice.Report}
	var kills []string
	for _, task := range dead {
		kills = append(kills, fmt.Sprintf("%d@send#1", task))
	}
	var have atomic.Int32
	err := job.Run(coppicetest.WithKills(context.Background(), kills...), func(ctx context.Context, t *coppice.Task) error {
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
		_, err := coppice.Broadcast(ctx, t, 7, opts...)
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

// Task 1 dies in its second broadcast. Another process runs it again, and it gets what
// it was sent in the first once more.
func ExampleReplayed() {
	job := coppice.Job{Local: 3}
	err := job.Run(coppicetest.WithKills(context.Background(), "1@broadcast#2"), func(ctx context.Context, t *coppice.Task) error {
		var got []int
		for i := range 2 {
			v, err := coppice.Broadcast(ctx, t, 7+i, coppice.Replayed())
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
	rehearseDeaths(8, []int{3}, coppice.Plain())
	// Output: 6 of 7 have the value; failures: broadcast needs [3]
}

func ExampleCorrected() {
	rehearseDeaths(8, []int{3}, coppice.Corrected(coppice.Checked()))

	// Task 4 dies as it comes to the sum: the others go on without it.
	job := coppice.Job{Local: 6, Recovery: coppice.Report}
	err := job.Run(coppicetest.WithKills(context.Background(), "4@allreduce#1"), func(ctx context.Context, t *coppice.Task) error {
		sum, err := coppice.AllReduce(ctx, t, t.Rank(), coppice.Sum, coppice.Corrected(coppice.FailureProof(1)))
		if err == nil && t.Rank() == 0 {
			fmt.Println("the sum is", sum)
		}
		return err
	})
	fmt.Println("failures:", err)
	// Output:
	// 7 of 7 have the value; failures: <nil>
	// the sum is 11
	// failures: <nil>
}

// A Correction is a value: choose it once and use it everywhere. One that cannot
// be is an error of the operation it is used in.
func ExampleCorrection() {
	careful := coppice.Corrected(coppice.FailureProof(2))
	rehearseDeaths(8, []int{3, 5}, careful)
	rehearseDeaths(1, nil, coppice.Corrected(coppice.FailureProof(-1)))
	// Output:
	// 6 of 6 have the value; failures: <nil>
	// 0 of 1 have the value; failures: task 0: broadcast: correction "failure-proof:-1"; allowed: failure-proof:F with F from 1 to 32767
}

func ExampleChecked() {
	rehearseDeaths(8, []int{2, 3}, coppice.Corrected(coppice.Checked()))
	// Output: 6 of 6 have the value; failures: <nil>
}

func ExampleOpportunistic() {
	rehearseDeaths(8, []int{3}, coppice.Corrected(coppice.Opportunistic(1)))
	// Output: 7 of 7 have the value; failures: <nil>
}

func ExampleOptimized() {
	rehearseDeaths(8, []int{3}, coppice.Corrected(coppice.Optimized(1)))
	// Output: 7 of 7 have the value; failures: <nil>
}

func ExampleDelayed() {
	rehearseDeaths(8, []int{3}, coppice.Corrected(coppice.Delayed(50*time.Microsecond)))
	// Output: 7 of 7 have the value; failures: <nil>
}

func ExampleFailureProof() {
	rehearseDeaths(8, []int{3}, coppice.Corrected(coppice.FailureProof(1)))
	// Output: 7 of 7 have the value; failures: <nil>
}

func ExampleCorrection_String() {
	fmt.Println(coppice.Checked(), coppice.Optimized(2), coppice.Delayed(time.Millisecond))
	// Output: checked optimized:2 delayed:1000
}

// A program takes its correction from the command line.
func ExampleParseCorrection() {
	for _, text := range []string{"opportunistic:2", "thoroughly"} {
		c, err := coppice.ParseCorrection(text)
		fmt.Println(c == coppice.Opportunistic(2), err)
	}
	// Output:
	// true <nil>
	// false correction "thoroughly"; allowed: checked, opportunistic:D, optimized:D, delayed:US, failure-proof:F
}

func ExampleAlong() {
	rehearseDeaths(16, []int{1, 2}, coppice.Corrected(coppice.Checked()), coppice.Along(coppice.Lame(2)))
	// Output: 14 of 14 have the value; failures: <nil>
}

// In a binary tree of 7 tasks, 3 and 5 stand below 1, and nothing else does.
func ExampleTree() {
	rehearseDeaths(7, []int{1}, coppice.Plain(), coppice.Along(coppice.KAry(2)))
	rehearseDeaths(1, nil, coppice.Plain(), coppice.Along(coppice.KAry(0)))
	// Output:
	// 4 of 6 have the value; failures: broadcast needs [1]
	// 0 of 1 have the value; failures: task 0: broadcast: tree "kary:0"; allowed: kary:K with K from 1 to 32767
}

func ExampleBinomial() {
	rehearseDeaths(8, []int{3}, coppice.Plain(), coppice.Along(coppice.Binomial()))
	// Output: 6 of 7 have the value; failures: broadcast needs [3]
}

func ExampleKAry() {
	rehearseDeaths(16, []int{1, 2}, coppice.Corrected(coppice.Checked()), coppice.Along(coppice.KAry(4)))
	// Output: 14 of 14 have the value; failures: <nil>
}

func ExampleLame() {
	rehearseDeaths(8, []int{3}, coppice.Plain(), coppice.Along(coppice.Lame(1))) // the binomial tree
	// Output: 6 of 7 have the value; failures: broadcast needs [3]
}

func ExampleOptimal() {
	rehearseDeaths(16, []int{1, 2}, coppice.Corrected(coppice.Checked()), coppice.Along(coppice.Optimal()))
	// Output: 14 of 14 have the value; failures: <nil>
}

func ExampleGossip() {
	rehearseDeaths(16, []int{1, 2}, coppice.Corrected(coppice.Checked()), coppice.Along(coppice.Gossip(4)))
	// Output: 14 of 14 have the value; failures: <nil>
}

func ExampleTree_InOrder() {
	rehearseDeaths(16, []int{1, 2}, coppice.Corrected(coppice.Checked()), coppice.Along(coppice.Binomial().InOrder()))
	// Output: 14 of 14 have the value; failures: <nil>
}

func ExampleTree_String() {
	fmt.Println(coppice.Optimal(), coppice.KAry(4), coppice.Lame(2).InOrder())
	// Output: optimal kary:4 lame:2 in-order
}

func ExampleParseTree() {
	for _, text := range []string{"lame:2 in-order", "oak"} {
		tree, err := coppice.ParseTree(text)
		fmt.Println(tree == coppice.Lame(2).InOrder(), err)
	}
	// Output:
	// true <nil>
	// false tree "oak"; allowed: binomial, kary:K, lame:K, optimal, gossip:R
}
