package coppice_test

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/coppice-go/coppice"
)

// A measurement can be sent as it is: so can numbers, strings, slices and maps.
type measurement struct {
	Place   string
	Degrees float64
}

// Messages with one tag arrive in the order they were sent; those with another
// tag are a sequence of their own.
func ExampleSend() {
	const numbers, words = 1, 2
	runExample(2, func(ctx context.Context, t *coppice.Task) error {
		if t.Rank() == 0 {
			for i := range 3 {
				if err := coppice.Send(ctx, t, 1, numbers, i); err != nil {
					return err
				}
			}
			return coppice.Send(ctx, t, 1, words, "enough")
		}
		word, err := coppice.Recv[string](ctx, t, 0, words)
		if err != nil {
			return err
		}
		fmt.Println(word)
		for range 3 {
			n, err := coppice.Recv[int](ctx, t, 0, numbers)
			if err != nil {
				return err
			}
			fmt.Println(n)
		}
		return nil
	})
	// Output:
	// enough
	// 0
	// 1
	// 2
}

// Tasks exchange the edges of their parts while they work on the inside: Send returns at once.
func ExampleSend_overlap() {
	runExample(3, func(ctx context.Context, t *coppice.Task) error {
		left, right := (t.Rank()+t.Size()-1)%t.Size(), (t.Rank()+1)%t.Size()
		cells := []int{t.Rank(), 10, 10, t.Rank()}
		const toLeft, toRight = 0, 1
		if err := coppice.Send(ctx, t, left, toLeft, cells[0]); err != nil {
			return err
		}
		if err := coppice.Send(ctx, t, right, toRight, cells[len(cells)-1]); err != nil {
			return err
		}
		inside := cells[1] + cells[2] // meanwhile
		before, err := coppice.Recv[int](ctx, t, left, toRight)
		if err != nil {
			return err
		}
		after, err := coppice.Recv[int](ctx, t, right, toLeft)
		if err != nil {
			return err
		}
		if t.Rank() == 1 {
			fmt.Println(inside, before, after)
		}
		return nil
	})
	// Output:
	// 20 0 2
}

// Recv names the type it wants and the task it wants it from.
func ExampleRecv() {
	runExample(2, func(ctx context.Context, t *coppice.Task) error {
		if t.Rank() == 1 {
			return coppice.Send(ctx, t, 0, 0, measurement{"roof", 3.5})
		}
		r, err := coppice.Recv[measurement](ctx, t, 1, 0)
		if err != nil {
			return err
		}
		fmt.Printf("%s: %.1f\n", r.Place, r.Degrees)
		return nil
	})
	// Output: roof: 3.5
}

func ExampleBroadcast() {
	runExample(3, func(ctx context.Context, t *coppice.Task) error {
		var settings map[string]int
		if t.Rank() == 0 {
			settings = map[string]int{"rounds": 10}
		}
		settings, err := coppice.Broadcast(ctx, t, settings)
		if err != nil {
			return err
		}
		fmt.Printf("task %d: %d rounds\n", t.Rank(), settings["rounds"])
		return nil
	})
	// Unordered output:
	// task 0: 10 rounds
	// task 1: 10 rounds
	// task 2: 10 rounds
}

func ExampleBarrier() {
	var arrived atomic.Int32
	runExample(4, func(ctx context.Context, t *coppice.Task) error {
		arrived.Add(1)
		if err := coppice.Barrier(ctx, t); err != nil {
			return err
		}
		if t.Rank() == 0 {
			fmt.Println(arrived.Load(), "tasks have arrived")
		}
		return nil
	})
	// Output: 4 tasks have arrived
}

// The broadcast goes on while the task does something else.
func ExampleGo() {
	runExample(2, func(ctx context.Context, t *coppice.Task) error {
		future := coppice.Go(t, func(t *coppice.Task) (string, error) {
			return coppice.Broadcast(ctx, t, "ready")
		})
		work := 6 * 7
		word, err := future.Wait(ctx)
		if err != nil {
			return err
		}
		fmt.Println(t.Rank(), work, word)
		return nil
	})
	// Unordered output:
	// 0 42 ready
	// 1 42 ready
}

// Two operations at once, awaited in the other order than they were begun.
func ExampleFuture() {
	runExample(2, func(ctx context.Context, t *coppice.Task) error {
		begin := func(root int) *coppice.Future[int] {
			return coppice.Go(t, func(t *coppice.Task) (int, error) {
				return coppice.Broadcast(ctx, t, t.Rank(), coppice.Root(root))
			})
		}
		zero, one := begin(0), begin(1)
		b, err := one.Wait(ctx)
		if err != nil {
			return err
		}
		a, err := zero.Wait(ctx)
		if err != nil {
			return err
		}
		fmt.Println("task", t.Rank(), "has", a, b)
		return nil
	})
	// Unordered output:
	// task 0 has 0 1
	// task 1 has 0 1
}

// Wait gives up when its context ends; the operation goes on.
func ExampleFuture_Wait() {
	runExample(2, func(ctx context.Context, t *coppice.Task) error {
		begun := make(chan struct{})
		future := coppice.Go(t, func(t *coppice.Task) (int, error) {
			<-begun
			return coppice.Broadcast(ctx, t, 5)
		})
		impatient, cancel := context.WithCancel(ctx)
		cancel()
		_, early := future.Wait(impatient)
		close(begun)
		v, err := future.Wait(ctx)
		fmt.Printf("task %d: %v, then %d\n", t.Rank(), early, v)
		return err
	})
	// Unordered output:
	// task 0: context canceled, then 5
	// task 1: context canceled, then 5
}

// Done is for select.
func ExampleFuture_Done() {
	runExample(2, func(ctx context.Context, t *coppice.Task) error {
		future := coppice.Go(t, func(t *coppice.Task) (int, error) {
			return coppice.Broadcast(ctx, t, 5)
		})
		select {
		case <-future.Done():
		case <-ctx.Done():
			return ctx.Err()
		}
		v, err := future.Wait(ctx) // it is there
		if err == nil && t.Rank() == 1 {
			fmt.Println("task 1 has", v)
		}
		return err
	})
	// Output: task 1 has 5
}
