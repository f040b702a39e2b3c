package coppice

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/coppice-go/coppice/internal/node"
)

// WithoutLost is for Recovery [Report]: the operation goes on without the tasks that are
// lost, and is carried out again without those that are lost in it, until all who live
// have the result. It is Agreed. Where the result has a value for each task, those of
// the lost are zero, and what is for them is ignored. If the root is lost it is [ErrLost].
//
// Operations without the lost are on a group of their own, which all tasks make by
// calling the first: all tasks pass the option, or none. With Replay, where tasks are
// lost only beyond LogBytes or Memory, it is an error.
func WithoutLost() Option { return Option{kind: lostOption} }

// perform carries out an operation on the task's group. With WithoutLost it does so among the tasks that live, with
// options for their group, until it succeeds.
func perform[R any](ctx context.Context, t *Task, name string, opts []Option, op func(g *Task, s settings) (R, error)) (result R, err error) {
	if err := t.begin(ctx, name); err != nil {
		return result, err
	}
	defer t.busy.Store(false)
	var s settings
	s.read(opts)
	if s.given&(1<<lostOption) == 0 {
		result, err = op(t, s)
		return result, t.failed(name, err)
	}
	if t.m.Replays() {
		return result, fmt.Errorf("%s: WithoutLost with Recovery Replay; allowed: with Report", name)
	}
	if err := s.checkRoot(t.Size()); err != nil {
		return result, t.failed(name, err)
	}
	if t.living == nil {
		t.living = t.Fork()
	}
	root := s.root
	for s.mode, s.correction = agreed, (Correction{}); ; {
		s.root = 0
		if slices.Contains(rooted, name) {
			if s.root = slices.Index(t.living.ranksIn(t), root); s.root < 0 {
				return result, t.failed(name, &node.Failure{Tasks: []int{t.m.TaskOf(root)}, Err: ErrLost})
			}
		}
		result, err = op(t.living, s)
		if !errors.Is(err, ErrLost) {
			return result, t.failed(name, err)
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

// ranksIn is the ranks that the tasks of this group have in a larger one.
func (t *Task) ranksIn(all *Task) (ranks []int) {
	for r := range all.Size() {
		if len(ranks) < t.Size() && all.m.TaskOf(r) == t.m.TaskOf(len(ranks)) { // the order is the same
			ranks = append(ranks, r)
		}
	}
	return ranks
}

// few are those of all parts whose tasks are in the smaller group, if there is one for each task.
func few[T any](t, g *Task, all []T) ([]T, error) {
	if len(all) != t.Size() {
		return nil, fmt.Errorf("%d parts; allowed: one for each of %d tasks", len(all), t.Size())
	}
	if g == t {
		return all, nil
	}
	var some []T
	for _, r := range g.ranksIn(t) {
		some = append(some, all[r])
	}
	return some, nil
}

// spread puts the values of the smaller group where they belong among all.
func spread[T any](t, g *Task, some []T) []T {
	if g == t || len(some) == 0 {
		return some
	}
	all := make([]T, t.Size())
	for i, r := range g.ranksIn(t) {
		all[r] = some[i]
	}
	return all
}
