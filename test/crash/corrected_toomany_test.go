package crash_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/coppicetest"
	"github.com/coppice-go/coppice/test/stage"
)

// TestTooManyDeathsEndForAll: more tasks have crashed than a corrected reduction outlives. The root
// learns of that only after others have asked it for the result; then they get ErrUnreached, too.
func TestTooManyDeathsEndForAll(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), stage.PatienceTime)
	defer stop()
	job := coppice.Job{Local: 8, Recovery: coppice.Report}
	err := job.Run(coppicetest.WithKills(ctx, "2@allreduce#1/1", "5@allreduce#1/1"), func(ctx context.Context, task *coppice.Task) error {
		if task.Rank() == 0 {
			for len(task.View().Processes) > 6 {
				time.Sleep(time.Millisecond)
			}
			time.Sleep(50 * time.Millisecond) // others ask
		}
		_, err := coppice.AllReduce(ctx, task, make([]uint64, 100_000), coppice.Sum, coppice.Corrected(coppice.FailureProof(1)))
		if !errors.Is(err, coppice.ErrUnreached) {
			t.Errorf("task %d: %v", task.Rank(), err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
