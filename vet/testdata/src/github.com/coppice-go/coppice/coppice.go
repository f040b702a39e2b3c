// Package coppice has what tests of rules need of the library.
package coppice

import (
	"context"
	"math/rand/v2"
)

type Task struct{}

func (t *Task) Rank() int        { return 0 }
func (t *Task) Size() int        { return 1 }
func (t *Task) Attempt() int     { return 0 }
func (t *Task) Rand() *rand.Rand { return nil }
func (t *Task) Fork() *Task      { return t }
func (t *Task) Split(ctx context.Context, color, key int) (*Task, error) {
	return t, nil
}

type (
	Option     struct{}
	SaveOption struct{}
	Op         uint8
)

const (
	Sum Op = iota
	Product
	Min
	Max
)

func Root(int) Option        { return Option{} }
func Plain() Option          { return Option{} }
func Backups(bool) Option    { return Option{} }
func Shared() Option         { return Option{} }
func Into[T any]([]T) Option { return Option{} }

func Save[S any](ctx context.Context, t *Task, state *S, opts ...SaveOption) error { return nil }
func Once[T any](ctx context.Context, t *Task, f func(context.Context) (T, error), opts ...SaveOption) (T, error) {
	return f(ctx)
}
func Send[T any](ctx context.Context, t *Task, to, tag int, v T) error { return nil }
func Recv[T any](ctx context.Context, t *Task, from, tag int) (v T, err error) {
	return v, nil
}
func Barrier(ctx context.Context, t *Task, opts ...Option) error { return nil }
func Broadcast[T any](ctx context.Context, t *Task, v T, opts ...Option) (T, error) {
	return v, nil
}

func AllReduce[T any](ctx context.Context, t *Task, v T, op Op, opts ...Option) (T, error) {
	return v, nil
}

func Reduce[T any](ctx context.Context, t *Task, v T, op Op, opts ...Option) (T, error) {
	return v, nil
}

func AllReduceFunc[T any](ctx context.Context, t *Task, v T, f func(a, b T) T, opts ...Option) (T, error) {
	return v, nil
}

type Future[T any] struct{}

func Go[T any](t *Task, f func(t *Task) (T, error)) *Future[T] { return nil }
func (f *Future[T]) Wait(ctx context.Context) (v T, err error) { return v, nil }
