package state_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/test/stage"
)

// drawnIn is a state that records the run in which its value was drawn. refuse makes saving it fail.
type drawnIn struct {
	run    []byte
	refuse bool
}

func (d drawnIn) MarshalBinary() ([]byte, error) {
	if d.refuse {
		return nil, stage.ErrEnough
	}
	return d.run, nil
}

func (d *drawnIn) UnmarshalBinary(b []byte) error {
	d.run = slices.Clone(b)
	return nil
}

// TestRunsAreNotMixed: two runs end before all tasks have saved the first epoch, each after different
// tasks have. What the two runs saved is not one epoch.
func TestRunsAreNotMixed(t *testing.T) {
	dir := t.TempDir()
	play := func(run byte, before func(task *coppice.Task, s *drawnIn) error) error {
		job := coppice.Job{Local: 3, Resume: run > 1}
		return job.Run(t.Context(), func(ctx context.Context, task *coppice.Task) error {
			s := drawnIn{run: []byte{run}} // as Once would, without Stored
			if err := before(task, &s); err != nil {
				return err
			}
			if err := coppice.Save(ctx, task, &s, coppice.Stored(dir)); err != nil {
				return err
			}
			all, err := coppice.AllGather(ctx, task, s.run[0])
			if err == nil && (all[0] != all[1] || all[0] != all[2]) {
				t.Errorf("run %d: states of runs %v", run, all)
			}
			return err
		})
	}
	err := play(1, func(task *coppice.Task, _ *drawnIn) error {
		if task.Rank() < 2 {
			return nil
		}
		for _, rank := range []int{0, 1} {
			for _, err := os.Stat(stateFile(dir, rank, 1)); err != nil; _, err = os.Stat(stateFile(dir, rank, 1)) {
				time.Sleep(time.Millisecond)
			}
		}
		return stage.ErrEnough
	})
	if !errors.Is(err, stage.ErrEnough) {
		t.Fatal(err)
	}
	err = play(2, func(task *coppice.Task, s *drawnIn) error { s.refuse = task.Rank() < 2; return nil })
	if err == nil || !strings.Contains(err.Error(), stage.ErrEnough.Error()) {
		t.Fatal(err)
	}
	if _, err := os.Stat(stateFile(dir, 2, 1)); err != nil {
		t.Fatal(err) // then this shows nothing
	}
	if err := play(3, func(*coppice.Task, *drawnIn) error { return nil }); err != nil {
		t.Error(err)
	}
}
