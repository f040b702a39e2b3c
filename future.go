package coppice

import (
	"context"
	"errors"
	"fmt"
)

// Future is the result of an operation that runs beside the program.
type Future[T any] struct {
	task  *Task
	done  chan struct{}
	value T
	err   error
}

// Go runs f beside the program, on a Fork of the task: any operation, without
// waiting for it. All tasks call Go in the same order.
//
//	sum := coppice.Go(t, func(t *coppice.Task) (int, error) { return coppice.Broadcast(ctx, t, 7) })
//	…
//	v, err := sum.Wait(ctx)
//
// What f sends to another task, that task receives in its call of the same Go: a message belongs to
// the group that it is sent in. To exchange messages while the task works, Go is not needed: [Send] returns
// at once, so the task sends, works, and then receives.
func Go[T any](t *Task, f func(t *Task) (T, error)) *Future[T] {
	err := t.given(context.Background(), "go")
	if err == nil && f == nil {
		err = errors.New("go: no function; allowed: one for a fork of the task")
	}
	if err != nil {
		done := make(chan struct{})
		close(done)
		return &Future[T]{task: t, done: done, err: err}
	}
	fork := t.Fork()
	fork.depth = min(goDepth()+1, len(besides))
	t.trunk.futures.Add(1)
	future := &Future[T]{task: t, done: make(chan struct{}), err: ErrAbandoned}
	go besides[fork.depth-1](func() {
		defer close(future.done)
		defer t.trunk.futures.Add(-1)
		returned := false
		defer func() {
			if !returned && t.trunk.rehearsal == nil && !t.m.Killed() { // a panic ends the process: this is what is left
				future.err = fmt.Errorf("go: task %d: the function %w; allowed: to return an error", t.m.Task(), errGoexit)
			}
		}()
		future.value, future.err = f(fork)
		returned = true
		if t.trunk.rehearsal == nil {
			fork.m.Release()
		}
	})
	return future
}

// Wait returns the result when it is there.
func (f *Future[T]) Wait(ctx context.Context) (T, error) {
	if f == nil || f.done == nil {
		var zero T
		return zero, errors.New("wait: no future; allowed: what Go returned")
	}
	if ctx == nil {
		var zero T
		return zero, f.task.given(ctx, "wait")
	}
	select {
	case <-f.done:
		if f.err == ErrAbandoned && (f.task.m.Killed() || f.task.trunk.rehearsal != nil) {
			exit()
		}
		return f.value, f.err
	case <-ctx.Done():
		var zero T
		return zero, context.Cause(ctx)
	}
}

// Done is closed when the result is there. What is no future has no result to wait for: there it is closed, and Wait says so.
func (f *Future[T]) Done() <-chan struct{} {
	if f == nil || f.done == nil {
		closed := make(chan struct{})
		close(closed)
		return closed
	}
	return f.done
}
