package coppice

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// WithoutLost is for Recovery Report: the operation goes on without the tasks that are
// lost, and is carried out again without those that are lost in it, until all who live
// have the result. It is Agreed. Where the result has a value for each task, those of
// the lost are zero, and what is for them is ignored. If the root is lost it is ErrLost.
//
// Operations without the lost are on a group of their own, which all tasks make by
// calling the first: all tasks pass the option, or none. With Replay, where tasks are
// lost only beyond LogBytes or Memory, it is an error.
func WithoutLost() Option { return Option{kind: lostOption} }

// isWithoutLost tells whether the options have it.
func isWithoutLost(opts []Option) bool {
	return slices.ContainsFunc(opts, func(o Option) bool { return o.kind == lostOption })
}

// withoutLost carries out an operation among the tasks that live, with options for
// their group, until it succeeds.
func withoutLost[R any](ctx context.Context, t *Task, name string, opts []Option, op func(g *Task, opts []Option) (R, error)) (result R, err error) {
	if t.m.Replays() {
		return result, fmt.Errorf("%s: WithoutLost with Recovery Replay; allowed: with Report", name)
	}
	var s settings
	s.read(opts)
	if err := s.checkRoot(t.Size()); err != nil {
		return result, fmt.Errorf("%s: %w", name, err)
	}
	if t.living == nil {
		t.living = t.Fork()
	}
	for {
		root := 0
		if slices.Contains(rooted, name) {
			if root = t.living.rankOf(t, s.root); root < 0 {
				return result, t.failedWithout(name, s.root)
			}
		}
		result, err = op(t.living, among(opts, root))
		if !errors.Is(err, ErrLost) {
			return result, err
		}
		next, err := t.living.Shrink(ctx)
		if err != nil {
			return result, err
		}
		t.living = next
	}
}

// rooted are the operations that have a root.
var rooted = []string{"broadcast", "scatter", "gather", "reduce"}

// failedWithout is what an operation fails with whose root is lost.
func (t *Task) failedWithout(name string, root int) error {
	return &FailedError{Op: name, View: t.View().Number, Tasks: []int{t.m.TaskOf(root)}, Err: ErrLost}
}

// among is the options for a smaller group, where the root has another rank.
func among(opts []Option, root int) []Option {
	few := slices.DeleteFunc(slices.Clone(opts), func(o Option) bool { return o.kind == lostOption || o.kind == modeOption })
	for i := range few {
		if few[i].kind == rootOption {
			few[i].rank = root
		}
	}
	return append(few, Mode(Agreed))
}

// rankOf is the rank in this group of a rank of t's; −1: it has none.
func (t *Task) rankOf(of *Task, rank int) int {
	for r := range t.Size() {
		if t.m.TaskOf(r) == of.m.TaskOf(rank) {
			return r
		}
	}
	return -1
}

// few are those of all parts whose tasks are in the smaller group.
func few[T any](t, g *Task, all []T) []T {
	var some []T
	for r, v := range all {
		if g.rankOf(t, r) >= 0 {
			some = append(some, v)
		}
	}
	return some
}

// checkParts tells what is wrong with the number of parts.
func checkParts[T any](t *Task, op string, parts []T) error {
	if len(parts) != t.Size() {
		return fmt.Errorf("%s: %d parts; allowed: one for each of %d tasks", op, len(parts), t.Size())
	}
	return nil
}

// spread puts the values of the smaller group where they belong among all.
func spread[T any](t, g *Task, some []T) []T {
	if len(some) == 0 {
		return nil
	}
	all := make([]T, t.Size())
	for r := range all {
		if at := g.rankOf(t, r); at >= 0 {
			all[r] = some[at]
		}
	}
	return all
}
