package coppice_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/coppice-go/coppice"
)

func init() { plays["lasting"] = lastingFor }

// lastingFor is the play of tasks that meet for a while, as often as they are run.
func lastingFor(tell func(line), args []string) coppice.Func {
	return func(ctx context.Context, t *coppice.Task) error {
		telling(tell, t)(line{What: "begin", Value: t.Attempt()})
		for range number(args[0]) {
			if err := coppice.Barrier(ctx, t); err != nil {
				return err
			}
			if t.Attempt() == 0 { // who is run again catches up
				time.Sleep(10 * time.Millisecond)
			}
		}
		return nil
	}
}

// TestKillAfterATimeIsOfTheOwner: it ends the process that owns the task then, which
// need not be the one that began with it.
func TestKillAfterATimeIsOfTheOwner(t *testing.T) {
	t.Parallel()
	s := scene{n: 4, play: []string{"lasting", "150"}, kills: []string{"3@200ms", "3@900ms"}}
	g := s.begin(t)
	report := g.end(t)
	// Process 0 takes over task 3, being the lowest of those with one task each.
	killed := slices.Sorted(slices.Values(report.Killed))
	if !slices.Equal(killed, []int{0, 3}) || report.Exit != 0 {
		t.Errorf("killed %v, exit %d, %s; want 0 and 3, and a good end", killed, report.Exit, report.Cause)
	}
}
