package coppice_test

import (
	"context"
	"fmt"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/coppicetest"
)

func ExampleTask_View() {
	runExample(3, func(ctx context.Context, t *coppice.Task) error {
		if t.Rank() == 0 {
			v := t.View()
			fmt.Println(v.Number, v.Processes, v.Owners)
		}
		return nil
	})
	// Output: 1 [{0 1} {1 1} {2 1}] [0 1 2]
}

// Process 1 dies, in a barrier, once task 0 looks on. In the view that follows,
// process 0 owns both tasks; it runs task 1 again, which comes to the barrier.
func ExampleTask_Views() {
	job := coppice.Job{Local: 2}
	err := job.Run(coppicetest.WithKills(context.Background(), "1@barrier#1"), func(ctx context.Context, t *coppice.Task) error {
		if t.Rank() == 1 {
			if _, err := coppice.Recv[bool](ctx, t, 0, 0); err != nil {
				return err
			}
			return coppice.Barrier(ctx, t)
		}
		for v := range t.Views(ctx) {
			fmt.Println(v.Number, v.Processes, v.Owners)
			if len(v.Processes) == 1 {
				break
			}
			if err := coppice.Send(ctx, t, 1, 0, true); err != nil {
				return err
			}
		}
		return coppice.Barrier(ctx, t)
	})
	fmt.Println(err)
	// Output:
	// 1 [{0 1} {1 1}] [0 1]
	// 2 [{0 1}] [0 0]
	// <nil>
}

// Who owns a task, and is its process still there?
func ExampleView() {
	v := coppice.View{Number: 2, Processes: []coppice.Process{{ID: 0, Incarnation: 1}}, Owners: []int{0, -1}}
	for task, owner := range v.Owners {
		fmt.Println("task", task, "is owned by", owner)
	}
	// Output:
	// task 0 is owned by 0
	// task 1 is owned by -1
}

// A process that comes back has the id of its earlier life.
func ExampleProcess() {
	before, after := coppice.Process{ID: 3, Incarnation: 1}, coppice.Process{ID: 3, Incarnation: 2}
	fmt.Println(before == after, before.ID == after.ID)
	// Output: false true
}
