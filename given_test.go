package coppice_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/test/stage"
)

// TestWithoutGroupOrContext: both are errors that say so, in every operation.
func TestWithoutGroupOrContext(t *testing.T) {
	sum := func(a, b int) int { return a + b }
	drop := func(_ any, err error) error { return err }
	for name, call := range map[string]deed{
		"send": func(ctx context.Context, t *coppice.Task) error { return coppice.Send(ctx, t, 0, 0, 1) },
		"recv": func(ctx context.Context, t *coppice.Task) error { return drop(coppice.Recv[int](ctx, t, 0, 0)) },
		"recvany": func(ctx context.Context, t *coppice.Task) error {
			_, _, err := coppice.RecvAny[int](ctx, t, 0)
			return err
		},
		"barrier":   stage.Barrier,
		"broadcast": broadcastFrom[int](0),
		"scatter":   func(ctx context.Context, t *coppice.Task) error { return drop(coppice.Scatter(ctx, t, []int{1})) },
		"gather":    func(ctx context.Context, t *coppice.Task) error { return drop(coppice.Gather(ctx, t, 1)) },
		"allgather": func(ctx context.Context, t *coppice.Task) error { return drop(coppice.AllGather(ctx, t, 1)) },
		"alltoall": func(ctx context.Context, t *coppice.Task) error {
			return drop(coppice.AllToAll(ctx, t, []int{1}, coppice.WithoutLost()))
		},
		"reduce": func(ctx context.Context, t *coppice.Task) error {
			return drop(coppice.Reduce(ctx, t, 1, coppice.Sum, coppice.WithoutLost()))
		},
		"allreduce": func(ctx context.Context, t *coppice.Task) error {
			return drop(coppice.AllReduce(ctx, t, 1, coppice.Sum))
		},
		"scan":   func(ctx context.Context, t *coppice.Task) error { return drop(coppice.ScanFunc(ctx, t, 1, sum)) },
		"exscan": func(ctx context.Context, t *coppice.Task) error { return drop(coppice.ExScanFunc(ctx, t, 1, sum)) },
		"reducescatter": func(ctx context.Context, t *coppice.Task) error {
			return drop(coppice.ReduceScatter(ctx, t, []int{1}, coppice.Sum))
		},
		"agree": func(ctx context.Context, t *coppice.Task) error {
			_, _, err := coppice.Agree(ctx, t, 1, sum)
			return err
		},
		"save": func(ctx context.Context, t *coppice.Task) error { return coppice.Save(ctx, t, new(int)) },
		"once": func(ctx context.Context, t *coppice.Task) error {
			return drop(coppice.Once(ctx, t, func(context.Context) (int, error) { return 1, nil }))
		},
		"split":  split,
		"shrink": func(ctx context.Context, t *coppice.Task) error { return drop(t.Shrink(ctx)) },
	} {
		t.Run(name, func(t *testing.T) {
			err := coppice.Local(t.Context(), 1, func(ctx context.Context, task *coppice.Task) error {
				if err := call(ctx, nil); err == nil || !strings.HasPrefix(err.Error(), name+": no group: ") {
					t.Error(err)
				}
				var none context.Context
				if err := call(none, task); err == nil || !strings.HasPrefix(err.Error(), name+": no context; ") {
					t.Error(err)
				}
				return coppice.Barrier(ctx, task) // all is well
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	var none context.Context
	if err := coppice.Local(none, 1, nothing); err == nil || !strings.HasPrefix(err.Error(), "coppice: no context; ") {
		t.Error(err)
	}
	err := coppice.Local(t.Context(), 1, func(ctx context.Context, task *coppice.Task) error {
		f := func(*coppice.Task) (int, error) { return 1, nil }
		if _, err := coppice.Go(nil, f).Wait(ctx); err == nil || !strings.HasPrefix(err.Error(), "go: no group: ") {
			t.Error(err)
		}
		if _, err := coppice.Go[int](task, nil).Wait(ctx); err == nil || !strings.HasPrefix(err.Error(), "go: no function; ") {
			t.Error(err)
		}
		future := coppice.Go(task, f)
		if _, err := future.Wait(none); err == nil || !strings.HasPrefix(err.Error(), "wait: no context; ") {
			t.Error(err)
		}
		_, err := future.Wait(ctx)
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestOneGoroutineAtATime: an operation on a task is refused while another goroutine is in one of it, if a function of Go uses the task
// outside, and when the task's function has returned. The error names the line; nothing was sent.
func TestOneGoroutineAtATime(t *testing.T) {
	refused := func(t *testing.T, err error, why string) {
		t.Helper()
		if err == nil || !strings.HasPrefix(err.Error(), "barrier at given_test.go:") || !strings.Contains(err.Error(), why) {
			t.Error(err)
		}
	}
	left := make(chan *coppice.Task, 4)
	err := coppice.Local(t.Context(), 2, func(ctx context.Context, task *coppice.Task) error {
		waits := make(chan error)
		if task.Rank() == 0 {
			go func() {
				_, err := coppice.Recv[int](ctx, task, 1, 0)
				waits <- err
			}()
			for !task.Busy() { // the other is not in its operation yet
				time.Sleep(time.Millisecond)
			}
			refused(t, coppice.Barrier(ctx, task), "an operation of it is under way")
		}
		fork := task.Fork()
		if err := coppice.Barrier(ctx, fork); err != nil { // a fork is another one
			return err
		}
		if task.Rank() == 1 {
			if err := coppice.Send(ctx, task, 0, 0, 1); err != nil {
				return err
			}
		} else if err := <-waits; err != nil {
			return err
		}
		future := coppice.Go(task, func(own *coppice.Task) (int, error) {
			refused(t, coppice.Barrier(ctx, task), "a function of Go uses it")
			return coppice.AllReduce(ctx, own, 1, coppice.Sum)
		})
		if err := coppice.Barrier(ctx, task); err != nil { // not in the function
			return err
		}
		if sum, err := future.Wait(ctx); sum != 2 || err != nil {
			t.Error(sum, err)
		}
		left <- task
		left <- fork
		return coppice.Barrier(ctx, task)
	})
	if err != nil {
		t.Error(err)
	}
	for range 2 {
		refused(t, coppice.Barrier(t.Context(), <-left), "its function has returned")
	}
}

// TestTaskOfAnotherGo: a function of Go is refused the task of the function around it, however deep both are.
func TestTaskOfAnotherGo(t *testing.T) {
	var deep func(n int, f func() error) error
	deep = func(n int, f func() error) error {
		if n == 0 {
			return f()
		}
		return deep(n-1, f)
	}
	const why = "a function of Go uses it"
	err := coppice.Local(t.Context(), 2, func(ctx context.Context, task *coppice.Task) error {
		fork := task.Fork()
		_, err := coppice.Go(task, func(outer *coppice.Task) (int, error) {
			if err := deep(300, func() error { return coppice.Barrier(ctx, task) }); err == nil || !strings.Contains(err.Error(), why) {
				t.Error(err)
			}
			_, err := coppice.Go(outer, func(inner *coppice.Task) (int, error) {
				for _, other := range []*coppice.Task{task, outer} {
					if err := coppice.Barrier(ctx, other); err == nil || !strings.Contains(err.Error(), why) {
						t.Error(err)
					}
				}
				if err := coppice.Barrier(ctx, inner.Fork()); err != nil {
					return 0, err
				}
				return 0, coppice.Barrier(ctx, inner)
			}).Wait(ctx)
			if err != nil {
				return 0, err
			}
			if err := coppice.Barrier(ctx, fork); err != nil { // it is for whoever needs it
				return 0, err
			}
			return 0, coppice.Barrier(ctx, outer)
		}).Wait(ctx)
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestOperationsInOnce: the function of a Once is refused operations, on forks as well, and forks.
func TestOperationsInOnce(t *testing.T) {
	const why = "within the function of Once"
	err := coppice.Local(t.Context(), 2, func(ctx context.Context, task *coppice.Task) error {
		fork, other := task.Fork(), task.Fork()
		beside, asked := make(chan error), make(chan bool)
		go func() {
			<-asked
			beside <- coppice.Barrier(ctx, other) // another goroutine goes on
		}()
		_, err := coppice.Once(ctx, task, func(ctx context.Context) (int, error) {
			close(asked)
			for _, u := range []*coppice.Task{task, fork} {
				if err := coppice.Barrier(ctx, u); err == nil || !strings.Contains(err.Error(), why) {
					t.Error(err)
				}
			}
			return 1, <-beside
		})
		if err != nil {
			return err
		}
		_, err = coppice.Once(ctx, task, func(ctx context.Context) (int, error) {
			task.Fork()
			return 1, nil
		})
		if err == nil || !strings.Contains(err.Error(), " calls fork ") || !strings.Contains(err.Error(), why) {
			t.Error(err)
		}
		return coppice.Barrier(ctx, fork)
	})
	if err != nil {
		t.Error(err)
	}
}

// TestZeroTask: its operations, and those of none, are errors that say so, and nothing that it tells crashes.
func TestZeroTask(t *testing.T) {
	ctx := t.Context()
	for why, task := range map[string]*coppice.Task{
		"no group: the task is a zero Task; allowed: ": {}, "no group: the task is nil; allowed: ": nil,
	} {
		_, agreed, err := coppice.Agree(ctx, task, 1, func(a, _ int) int { return a })
		if agreed != nil || err == nil || !strings.HasPrefix(err.Error(), "agree: "+why) {
			t.Error(err)
		}
		for op, err := range map[string]error{
			"barrier": coppice.Barrier(ctx, task),
			"save":    coppice.Save(ctx, task, new(int)),
			"send":    coppice.Send(ctx, task.Fork(), 0, 0, 1),
			"once": func() error {
				_, err := coppice.Once(ctx, task, func(context.Context) (int, error) { return 1, nil })
				return err
			}(),
			"split": func() error {
				_, err := task.Split(ctx, 0, 0)
				return err
			}(),
			"go": func() error {
				_, err := coppice.Go(task, func(*coppice.Task) (int, error) { return 1, nil }).Wait(ctx)
				return err
			}(),
		} {
			if err == nil || !strings.HasPrefix(err.Error(), op+": no group: ") || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %v", op, err)
			}
		}
		task.Revoke()
		task.Logger().Info("nobody hears this")
		for range task.Views(ctx) {
			t.Error("a view")
		}
		if task.Rank() != -1 || task.Size() != 0 || task.Attempt() != 0 || task.FailedAck() != nil || task.View().Number != 0 || task.Rand() == nil {
			t.Error("a zero Task has a place")
		}
	}
	if _, err := new(coppice.Future[int]).Wait(ctx); err == nil || err.Error() != "wait: no future; allowed: what Go returned" {
		t.Error(err)
	}
}

// TestNoProgram is an error of one line.
func TestNoProgram(t *testing.T) {
	for _, err := range []error{coppice.Local(t.Context(), 2, nil), coppice.Run(t.Context(), nil), (&coppice.Job{Local: 3}).Run(t.Context(), nil)} {
		if err == nil || err.Error() != "coppice: no function; allowed: one for a task" {
			t.Error(err)
		}
	}
}

// TestGoexit in a function of Go, or of a task, is an error that says so: t.FailNow calls it.
func TestGoexit(t *testing.T) {
	err := coppice.Local(t.Context(), 2, func(ctx context.Context, task *coppice.Task) error {
		_, err := coppice.Go(task, func(*coppice.Task) (int, error) {
			runtime.Goexit()
			return 1, nil
		}).Wait(ctx)
		if want := fmt.Sprintf("go: task %d: the function has called runtime.Goexit, as t.FailNow of a test does; allowed: to return an error", task.Rank()); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		if errors.Is(err, coppice.ErrAbandoned) {
			t.Error("the job is abandoned")
		}
		return coppice.Barrier(ctx, task)
	})
	if err != nil {
		t.Error(err)
	}
	err = coppice.Local(t.Context(), 1, func(context.Context, *coppice.Task) error {
		runtime.Goexit()
		return nil
	})
	if want := "task 0: its function has called runtime.Goexit, as t.FailNow of a test does; allowed: to return an error"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
