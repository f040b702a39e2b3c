package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coppice-go/coppice/protocol/collective"
)

// chaseAll has every task follow what it waits for, again and again, until done is closed.
func chaseAll(j *job, done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		case <-time.After(time.Millisecond):
		}
		for r, p := range j.ps {
			p.engine.Lock()
			p.pursue(r)
			p.pursueDue(1)
			p.engine.Unlock()
		}
	}
}

// TestDeadlockNamesTheLineOfEachTask in a cycle of messages and a barrier, whether processes know their lines or not.
func TestDeadlockNamesTheLineOfEachTask(t *testing.T) {
	for _, kind := range allKinds {
		for _, known := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/%t", kind, known), func(t *testing.T) {
				ctx, stop := context.WithTimeout(context.Background(), hangTime)
				defer stop()
				j := start(t, kind, 3, func(c *Config) {
					c.Adopt, c.Ends = func(int, int, int) {}, ctx.Done()
					if known {
						c.Where = func(task int, op string) string {
							return fmt.Sprintf("%s at heat.go:%d\n", map[string]string{"recv": "Recv", "barrier": "Barrier"}[op], 40+task)
						}
					}
				})
				errs := make([]error, 3)
				var tasks sync.WaitGroup
				for r, p := range j.ps {
					tasks.Go(func() {
						if r == 2 {
							_, errs[r] = p.World(r).Do(ctx, &Call{Plan: BarrierPlan()})
						} else {
							_, errs[r] = p.World(r).Recv(ctx, r+1, 7, 1, "string")
						}
					})
				}
				done := make(chan struct{})
				go func() {
					tasks.Wait()
					close(done)
				}()
				chaseAll(j, done)
				want := "task 0 waits in recv(from 1, tag 7); task 1 waits in recv(from 2, tag 7); task 2 waits in barrier(operation 1 of its group)"
				if known {
					want = "task 0 waits in Recv(from 1, tag 7) at heat.go:40; task 1 waits in Recv(from 2, tag 7) at heat.go:41; task 2 waits in Barrier(operation 1 of its group) at heat.go:42"
				}
				for r, err := range errs {
					if f := (*Failure)(nil); !errors.As(err, &f) || f.Err != ErrDeadlock || !all(f.Text, strings.Split(want, "; ")...) {
						t.Errorf("task %d: %v, want %s", r, err, want)
					}
				}
			})
		}
	}
}

// all reports whether a text has some parts.
func all(text string, parts ...string) bool {
	for _, p := range parts {
		if !strings.Contains(text, p) {
			return false
		}
	}
	return true
}

// TestAgreedOperationsAreNoDeadlock: a task that waits in one for another, which waits for a message of the first, is freed when a third one aborts
// the operation.
func TestAgreedOperationsAreNoDeadlock(t *testing.T) {
	for _, kind := range allKinds {
		for name, call := range map[string]func(m *Member) *Call{
			"gather": func(m *Member) *Call {
				return &Call{Plan: m.Choose(collective.Gather, Choice{Root: 0, Bytes: 8}), Value: []byte("12345678"), Agreed: true}
			},
			"allgather": func(m *Member) *Call {
				return &Call{Plan: m.Choose(collective.AllGather, Choice{Bytes: 8}), Value: []byte("12345678"), Agreed: true}
			},
			"barrier": func(*Member) *Call { return &Call{Plan: BarrierPlan(), Agreed: true} },
		} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				endless := context.Background()
				ended, end := context.WithCancel(endless)
				end()
				j := start(t, kind, 3, func(c *Config) { c.Adopt = func(int, int, int) {} })
				agrees := func(ctx context.Context, r int) error {
					m := j.ps[r].World(r)
					if _, err := m.DoAgreed(ctx, call(m)); !errors.Is(err, ErrAborted) {
						return fmt.Errorf("%v, want that it is aborted", err)
					}
					return nil
				}
				var tasks sync.WaitGroup
				for r, does := range []func() error{
					func() error {
						if err := agrees(endless, 0); err != nil {
							return err
						}
						return j.ps[0].World(0).Send(endless, 1, 0, 1, []byte("x"))
					},
					func() error {
						if _, err := j.ps[1].World(1).Recv(endless, 0, 0, 1, "string"); err != nil {
							return err
						}
						return agrees(endless, 1)
					},
					func() error {
						time.Sleep(100 * time.Millisecond) // the others follow what they wait for
						return agrees(ended, 2)
					},
				} {
					tasks.Go(func() {
						if err := does(); err != nil {
							t.Errorf("task %d: %v", r, err)
						}
					})
				}
				done := make(chan struct{})
				go func() {
					tasks.Wait()
					close(done)
				}()
				chaseAll(j, done)
			})
		}
	}
}

// TestReceiveFromOneself of what was sent before; of anything else it would wait for ever.
func TestReceiveFromOneself(t *testing.T) {
	for _, kind := range allKinds {
		t.Run(kind, func(t *testing.T) {
			j := start(t, kind, 2, func(c *Config) { c.Adopt, c.Ends = func(int, int, int) {}, t.Context().Done() })
			m := j.ps[0].World(0)
			for _, size := range []int{1, 3 * eagerMax} {
				if err := m.Send(t.Context(), 0, 1, 1, make([]byte, size)); err != nil {
					t.Fatal(err)
				}
				if r, err := m.Recv(t.Context(), 0, 1, 1, "string"); err != nil || len(r.Value) != size {
					t.Errorf("%d bytes, %v; want %d", len(r.Value), err, size)
				}
			}
			_, err := m.Recv(t.Context(), 0, 1, 1, "string")
			if f := (*Failure)(nil); !errors.As(err, &f) || f.Err != ErrDeadlock || !strings.Contains(f.Text, "task 0 receives from itself, and has sent itself nothing with tag 1") {
				t.Error(err)
			}
			limited, stop := context.WithTimeout(t.Context(), time.Millisecond)
			defer stop()
			if _, err := m.Recv(limited, 0, 1, 1, "string"); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			j.each(func(m *Member) error { // the group is of use
				_, err := m.Do(t.Context(), &Call{Plan: BarrierPlan()})
				return err
			})
		})
	}
}
