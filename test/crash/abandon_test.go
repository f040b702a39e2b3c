package crash_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/coppice-go/coppice"
)

// finishes runs a job of goroutines that must end by itself.
func finishes(t *testing.T, n int, f coppice.Func) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	err := coppice.Local(ctx, n, f)
	if ctx.Err() != nil {
		t.Fatalf("it hangs: %v", err)
	}
	return err
}

// A root whose context ends while it waits for a task that is behind has called the operation all the
// same: no task takes the next value for this one's.
func TestGivenUpBeforeItBegan(t *testing.T) {
	gaveUp := make(chan struct{})
	var once sync.Once
	err := finishes(t, 2, func(ctx context.Context, k *coppice.Task) error {
		if k.Rank() == 1 {
			<-gaveUp
		}
		for i := range 1000 {
			over := ctx
			if k.Rank() == 0 {
				var cancel func()
				over, cancel = context.WithTimeout(ctx, 5*time.Millisecond)
				defer cancel()
			}
			v, err := coppice.Broadcast(over, k, i)
			if k.Rank() == 0 && err != nil {
				once.Do(func() { close(gaveUp) })
			}
			switch {
			case err == nil && v != i:
				return fmt.Errorf("broadcast %d brought %d", i, v)
			case errors.Is(err, coppice.ErrMismatch):
				return nil
			case err != nil && k.Rank() == 1:
				return err
			}
		}
		return errors.New("nobody gave up")
	})
	if err != nil {
		t.Error(err)
	}
}

// A task that abandons the first half of an operation on blocks of unknown sizes may leave the others
// in the second.
func TestHalfAnAllGatherGivenUp(t *testing.T) {
	err := finishes(t, 4, func(ctx context.Context, k *coppice.Task) error {
		over, cancel := context.WithCancel(ctx)
		if k.Rank() == 1 {
			cancel()
		} else {
			defer cancel()
		}
		_, err := coppice.AllGather(over, k, make([]byte, 16<<10))
		if err == nil || k.Rank() == 1 {
			_, err = coppice.AllReduce(ctx, k, 1, coppice.Sum)
		}
		if !errors.Is(err, coppice.ErrMismatch) {
			return fmt.Errorf("task %d: %v", k.Rank(), err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// A task learns of the misuse of a fork even if it makes the fork later.
func TestMisuseThatComesBeforeTheFork(t *testing.T) {
	sum := func(a, b int) int { return a + b }
	err := finishes(t, 4, func(ctx context.Context, k *coppice.Task) error {
		over, cancel := context.WithCancel(ctx)
		defer cancel()
		if k.Rank() == 0 {
			time.AfterFunc(10*time.Millisecond, cancel)
		} else {
			time.Sleep(100 * time.Millisecond)
		}
		_, err := coppice.AllReduceFunc(over, k.Fork(), 1, sum)
		if k.Rank() > 0 && !errors.Is(err, coppice.ErrMismatch) || err == nil {
			return fmt.Errorf("task %d: %v", k.Rank(), err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// A task that has returned passes a broadcast on, as one does that has not yet called it.
func TestWhoHasReturnedStillPassesOn(t *testing.T) {
	enough := errors.New("enough")
	got := make([]int, 4)
	err := finishes(t, 4, func(ctx context.Context, k *coppice.Task) (err error) {
		switch k.Rank() {
		case 0:
			time.Sleep(50 * time.Millisecond)
		case 1:
			return enough
		}
		got[k.Rank()], err = coppice.Broadcast(ctx, k, 7, coppice.Plain(), coppice.Along(coppice.KAry(1)))
		return err
	})
	if !errors.Is(err, enough) || got[2] != 7 || got[3] != 7 {
		t.Errorf("%v, %v", got, err)
	}
}

// The memory of a result that is shared with other tasks is not used again.
func TestSharedResultsStay(t *testing.T) {
	for _, size := range []int{700, 5000, 100_000} {
		err := finishes(t, 4, func(ctx context.Context, k *coppice.Task) error {
			var first [][]byte
			for i := range 50 {
				v := bytes.Repeat([]byte{byte(i)}, size)
				all, err := coppice.AllGather(ctx, k, v, coppice.Shared())
				if err != nil {
					return err
				}
				if i == 0 {
					first = all
				}
			}
			for r, b := range first {
				if !bytes.Equal(b, make([]byte, size)) {
					return fmt.Errorf("task %d: what task %d sent first has become %d …", k.Rank(), r, b[0])
				}
			}
			return nil
		})
		if err != nil {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}
