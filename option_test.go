package coppice_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coppice-go/coppice"
)

// TestOptionsThatMeanNothingAreRefused: each operation with each option, which is to be in
// the operation's list or else an error that names the option.
func TestOptionsThatMeanNothingAreRefused(t *testing.T) {
	options := map[string]coppice.Option{
		"Root": coppice.Root(0), "Plain": coppice.Plain(), "Along": coppice.Along(coppice.Optimal()), "Shared": coppice.Shared(),
		"Commutative": coppice.Commutative(), "WithoutLost": coppice.WithoutLost(), "Backups": coppice.Backups(true),
		"Into": coppice.Into(make([]int, 1)),
	}
	v, add := []int{7}, func(a, b []int) []int { return []int{a[0] + b[0]} }
	for name, c := range map[string]struct {
		takes string
		call  func(ctx context.Context, t *coppice.Task, o coppice.Option) error
	}{
		"barrier": {"Plain WithoutLost", func(ctx context.Context, t *coppice.Task, o coppice.Option) error {
			return coppice.Barrier(ctx, t, o)
		}},
		"broadcast": {"Root Along Plain Shared Into WithoutLost", func(ctx context.Context, t *coppice.Task, o coppice.Option) error {
			return only(coppice.Broadcast(ctx, t, v, o))
		}},
		"scatter": {"Root Plain Shared Into WithoutLost", func(ctx context.Context, t *coppice.Task, o coppice.Option) error {
			return only(coppice.Scatter(ctx, t, [][]int{v}, o))
		}},
		"gather": {"Root Plain Shared Into WithoutLost", func(ctx context.Context, t *coppice.Task, o coppice.Option) error {
			return only(coppice.Gather(ctx, t, 7, o))
		}},
		"allgather": {"Plain Shared Into WithoutLost", func(ctx context.Context, t *coppice.Task, o coppice.Option) error {
			return only(coppice.AllGather(ctx, t, 7, o))
		}},
		"alltoall": {"Plain Shared Into WithoutLost", func(ctx context.Context, t *coppice.Task, o coppice.Option) error {
			return only(coppice.AllToAll(ctx, t, v, o))
		}},
		"reduce": {"Root Plain Shared Into Commutative WithoutLost", func(ctx context.Context, t *coppice.Task, o coppice.Option) error {
			return only(coppice.Reduce(ctx, t, v, coppice.Sum, o))
		}},
		"allreduce": {"Root Plain Shared Into Commutative WithoutLost", func(ctx context.Context, t *coppice.Task, o coppice.Option) error {
			return only(coppice.AllReduce(ctx, t, v, coppice.Sum, o))
		}},
		"scan": {"Plain Shared Into Commutative WithoutLost", func(ctx context.Context, t *coppice.Task, o coppice.Option) error {
			return only(coppice.Scan(ctx, t, v, coppice.Sum, o))
		}},
		"reduce by function": {"Root Plain Shared Into Commutative WithoutLost Backups", func(ctx context.Context, t *coppice.Task, o coppice.Option) error {
			return only(coppice.ReduceFunc(ctx, t, v, add, o))
		}},
		"scan by function": {"Plain Shared Into Commutative WithoutLost Backups", func(ctx context.Context, t *coppice.Task, o coppice.Option) error {
			return only(coppice.ScanFunc(ctx, t, v, add, o))
		}},
		"exscan": {"Plain Shared Into Commutative WithoutLost", func(ctx context.Context, t *coppice.Task, o coppice.Option) error {
			return only(coppice.ExScan(ctx, t, v, coppice.Sum, o))
		}},
		"exscan by function": {"Plain Shared Into Commutative WithoutLost Backups", func(ctx context.Context, t *coppice.Task, o coppice.Option) error {
			return only(coppice.ExScanFunc(ctx, t, v, add, o))
		}},
		"reducescatter": {"Plain Shared Into Commutative WithoutLost", func(ctx context.Context, t *coppice.Task, o coppice.Option) error {
			return only(coppice.ReduceScatter(ctx, t, [][]int{v}, coppice.Sum, o))
		}},
		"reducescatter by function": {"Plain Shared Into Commutative WithoutLost", func(ctx context.Context, t *coppice.Task, o coppice.Option) error {
			return only(coppice.ReduceScatterFunc(ctx, t, [][]int{v}, add, o))
		}},
	} {
		for option, o := range options {
			job := coppice.Job{Local: 1}
			if option == "WithoutLost" {
				job.Recovery = coppice.Report
			}
			err := job.Run(t.Context(), func(ctx context.Context, t *coppice.Task) error { return c.call(ctx, t, o) })
			op, _, _ := strings.Cut(name, " ")
			switch wrong := fmt.Sprintf("%s: option %s; allowed with: ", op, option); {
			case slices.Contains(strings.Fields(c.takes), option):
				if err != nil {
					t.Errorf("%s with %s: %v", name, option, err)
				}
			case err == nil || !strings.Contains(err.Error(), wrong):
				t.Errorf("%s with %s: %v, want %q", name, option, err, wrong)
			}
		}
	}
}

// only is the error of a call.
func only[T any](_ T, err error) error { return err }

// TestAMisplacedOptionIsRefusedWithoutTheLost: what it is carried out with is another group's.
func TestAMisplacedOptionIsRefusedWithoutTheLost(t *testing.T) {
	job := coppice.Job{Local: 2, Recovery: coppice.Report}
	err := job.Run(t.Context(), func(ctx context.Context, t *coppice.Task) error {
		return coppice.Barrier(ctx, t, coppice.WithoutLost(), coppice.Root(1))
	})
	if err == nil || !strings.Contains(err.Error(), "barrier: option Root; allowed with: Broadcast, Scatter, Gather, reductions") {
		t.Error(err)
	}
}

// TestTheLastModeCounts, and what cannot be is one error: a mode that the operation does not have, before one that it has, is no error; alone it is.
func TestTheLastModeCounts(t *testing.T) {
	err := coppice.Local(t.Context(), 2, func(ctx context.Context, t *coppice.Task) error {
		checked := coppice.Corrected(coppice.Checked())
		if err := only(coppice.Scan(ctx, t, 1, coppice.Sum, coppice.Plain(), checked)); err == nil || err.Error() != "scan: mode Corrected; allowed: Replayed, Plain, Agreed" {
			return fmt.Errorf("a corrected scan: %w", err)
		}
		if err := only(coppice.Broadcast(ctx, t, 1, coppice.Corrected(coppice.Correction{}))); err == nil || !strings.Contains(err.Error(), "without a correction") {
			return fmt.Errorf("no correction: %w", err)
		}
		if err := only(coppice.Broadcast(ctx, t, 1, coppice.Along(coppice.Gossip(1)))); err == nil || !strings.Contains(err.Error(), "misses tasks, without a correction") {
			return fmt.Errorf("gossip: %w", err)
		}
		for _, d := range []time.Duration{-1, 0, math.MinInt64} {
			if err := only(coppice.Broadcast(ctx, t, 1, coppice.Corrected(coppice.Delayed(d)))); err == nil || !strings.Contains(err.Error(), "1 to 32767") {
				return fmt.Errorf("delayed %d: %w", d, err)
			}
		}
		if text := coppice.Delayed(math.MaxInt64).String(); text != "delayed:9223372036854776" {
			return fmt.Errorf("the longest delay is %s", text)
		}
		if err := only(coppice.AllReduceFunc[int](ctx, t, 1, nil)); err == nil || !strings.Contains(err.Error(), "no function") {
			return fmt.Errorf("no function: %w", err)
		}
		if _, err := coppice.ReduceScatterFunc[int](ctx, t, []int{1, 2}, nil); err == nil || !strings.Contains(err.Error(), "no function") {
			return fmt.Errorf("no function: %w", err)
		}
		if _, _, err := coppice.Agree[int](ctx, t, 1, nil); err == nil || !strings.Contains(err.Error(), "no function") {
			return fmt.Errorf("no function: %w", err)
		}
		return only(coppice.Scan(ctx, t, 1, coppice.Sum, checked, coppice.Plain()))
	})
	if err != nil {
		t.Error(err)
	}
}

// TestTextsOfCorrectionsAndTrees: what is written is read, and numbers that cannot be are refused.
func TestTextsOfCorrectionsAndTrees(t *testing.T) {
	for _, c := range []coppice.Correction{coppice.Checked(), coppice.Opportunistic(1), coppice.Optimized(32767), coppice.Delayed(1500 * time.Nanosecond), coppice.FailureProof(2)} {
		if got, err := coppice.ParseCorrection(c.String()); err != nil || got != c {
			t.Errorf("%v is read as %v, %v", c, got, err)
		}
	}
	for _, tree := range []coppice.Tree{coppice.Binomial(), coppice.KAry(3), coppice.Lame(2), coppice.Optimal().InOrder(), coppice.Gossip(4)} {
		if got, err := coppice.ParseTree(tree.String()); err != nil || got != tree {
			t.Errorf("%v is read as %v, %v", tree, got, err)
		}
	}
	for _, text := range []string{"", "none", "checked:1", "optimized", "optimized:0", "optimized:32768", "optimized:x", "failure-proof:-1", "checked in-order"} {
		if c, err := coppice.ParseCorrection(text); err == nil {
			t.Errorf("%q is %v", text, c)
		}
	}
	for _, text := range []string{"", "none", "binomial:1", "kary", "lame:0", "in-order"} {
		if tree, err := coppice.ParseTree(text); err == nil {
			t.Errorf("%q is %v", text, tree)
		}
	}
}
