package coppice

import (
	"context"
	"log/slog"
	"testing"

	"github.com/coppice-go/coppice/internal/runtime"
)

// TestNothingStartsAfterTheEnd gives a process the task of another that exits after the
// job's end, as happens where it learns of the exit before it acts on the end.
func TestNothingStartsAfterTheEnd(t *testing.T) {
	for name, over := range map[string]bool{"before the end": false, "after the end": true} {
		t.Run(name, func(t *testing.T) {
			began, adopted := make(chan int, 1), make(chan struct{})
			f := func(_ context.Context, task *Task) error {
				began <- task.Attempt()
				return nil
			}
			log := slog.New(slog.DiscardHandler)
			c := newCrew(t.Context(), log, f, newArchive(false))
			job, err := runtime.NewLocal(2, runtime.Config{Logger: log, Adopt: func(_, task, attempt int) {
				c.start(task, attempt)
				close(adopted)
			}})
			if err != nil {
				t.Fatal(err)
			}
			defer job.Close()
			done := make(chan struct{})
			if over {
				close(done)
			}
			c.p, c.done = job.Processes[0], done
			close(c.ready)
			job.Processes[0].Tell(runtime.Death{Rank: 1, Incarnation: 1, Certain: true})
			<-adopted
			c.tasks.Wait()
			if ran := len(began) > 0; ran == over {
				t.Errorf("the program of the task was run: %v", ran)
			}
		})
	}
}
