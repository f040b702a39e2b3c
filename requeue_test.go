package coppice_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/coppice-go/coppice"
)

// TestRequeuedJobsGoOnWhereTheyWere: Slurm has a job run again that was ended. If it was not finished it goes on; if it was, it begins.
func TestRequeuedJobsGoOnWhereTheyWere(t *testing.T) {
	dir := t.TempDir() + "/states"
	enough := errors.New("enough")
	run := func(stop int) (begins []int, err error) {
		var mu sync.Mutex
		err = (&coppice.Job{Tasks: 3}).Run(t.Context(), func(ctx context.Context, task *coppice.Task) error {
			step, first := 0, true
			for ; step < 6; step++ {
				if err := coppice.Save(ctx, task, &step, coppice.Stored(dir)); err != nil {
					return err
				}
				if first {
					mu.Lock()
					begins, first = append(begins, step), false
					mu.Unlock()
				}
				if step == stop {
					return enough
				}
			}
			return nil
		})
		return begins, err
	}
	if _, err := run(3); !errors.Is(err, enough) {
		t.Fatal(err)
	}
	if _, err := run(-1); err == nil {
		t.Fatal("a job that nobody has requeued takes up another one's state")
	}
	t.Setenv("SLURM_RESTART_COUNT", "1")
	// Whoever is not told to stop by another one first saves step 3, or had it saved.
	if begins, err := run(-1); err != nil || len(begins) != 3 || slices.Min(begins) < 2 || slices.Min(begins) != slices.Max(begins) {
		t.Errorf("began with steps %v, %v; want all with the last that all have saved", begins, err)
	}
	if begins, err := run(-1); err != nil || !slices.Equal(begins, []int{0, 0, 0}) {
		t.Errorf("after its end it began with steps %v, %v; want 0", begins, err)
	}
}
