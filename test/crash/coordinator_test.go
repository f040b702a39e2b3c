package crash_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/test/stage"
)

func init() { stage.Plays["rounds"] = rounds }

// rounds is a play of so many rounds: each saves, and adds up what the tasks have come to.
func rounds(tell func(stage.Line), words []string) coppice.Func {
	return func(ctx context.Context, t *coppice.Task) error {
		voice := stage.Telling(tell, t)
		sum := int64(0)
		for round := int64(0); round < int64(stage.Number(words[0])); {
			all, err := coppice.AllReduce(ctx, t, []int64{round*int64(t.Size()) + int64(t.Rank())}, coppice.Sum)
			if err != nil {
				return err
			}
			round++
			sum += all[0]
			state := [2]int64{round, sum}
			if err := coppice.Save(ctx, t, &state); err != nil {
				return err
			}
			round, sum = state[0], state[1]
			if round == 1 {
				voice(stage.Line{What: "ready"})
			}
			time.Sleep(5 * time.Millisecond)
		}
		voice(stage.Line{What: "sum", Value: int(sum)})
		return nil
	}
}

// TestTheCoordinatorIsKilledAgainAndAgain kills the process that has the coordinator, then the one that has
// taken its place, and so on: the last process finishes the job.
func TestTheCoordinatorIsKilledAgainAndAgain(t *testing.T) {
	const n, last = 5, 300
	stages, all := srun(t, stage.Scene{N: n, Play: []string{"rounds", fmt.Sprint(last)}})
	for _, g := range stages {
		g.Await(t, "ready", 1)
	}
	for rank := range n - 1 {
		time.Sleep(200 * time.Millisecond)
		if err := all[rank].Process.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	if err := all[n-1].Wait(); err != nil {
		t.Errorf("the last process: %v", err)
	}
	want := last*(n-1)*n/2 + n*n*(last-1)*last/2
	sums := stages[n-1].Of("sum")
	if len(sums) != n {
		t.Errorf("%d of %d tasks have come to their end in the last process", len(sums), n)
	}
	for _, l := range sums {
		if l.Value != want {
			t.Errorf("task %d: %d, want %d", l.Rank, l.Value, want)
		}
	}
}
