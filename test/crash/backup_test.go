package crash_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/coppicetest"
)

// Along a tree task 0 of 8 combines three times, with what tasks 1, 2 and 4 send: their processes hold
// the backups. Then its process crashes, and a survivor runs it again.
func TestBackupsSpareTheFunction(t *testing.T) {
	const all = "(((01)(23))((45)(67)))"
	first := []string{"(01)", "((01)(23))", all}
	alone := []string{"(01)", "(23)", "((01)(23))", "(45)", "(67)", "((45)(67))", all} // all send to it
	on := []coppice.Option{coppice.Backups(true)}
	for _, c := range []struct {
		name  string
		kill  []string // before task 0
		opts  []coppice.Option
		slow  time.Duration
		made  []string
		again []string // when it is run again
	}{
		{name: "off", opts: []coppice.Option{coppice.Backups(false)}, slow: 2 * time.Millisecond, made: alone, again: alone},
		{name: "by cost", slow: 2 * time.Millisecond, made: alone},
		{name: "on", opts: on, made: first},
		{name: "who has the first dies, too", kill: []string{"1@barrier#2"}, opts: on, made: first},
		{name: "who has the last dies, too", kill: []string{"4@barrier#2"}, opts: on, made: first, again: first[2:]},
		{name: "who has the last two die, too", kill: []string{"2@barrier#2", "4@barrier#2"}, opts: on, made: first, again: first[1:]},
		{name: "who has any die, too", kill: []string{"1@barrier#2", "2@barrier#2", "4@barrier#2"}, opts: on, made: first, again: first},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var made [2][]string // by attempts of task 0
			job := coppice.Job{Local: 8}
			err := job.Run(coppicetest.WithKills(t.Context(), append(c.kill, "0@barrier#3")...), func(ctx context.Context, task *coppice.Task) error {
				combine := func(a, b string) string {
					time.Sleep(c.slow)
					v := "(" + a + b + ")"
					if task.Rank() == 0 {
						mu.Lock()
						defer mu.Unlock()
						made[min(task.Attempt(), 1)] = append(made[min(task.Attempt(), 1)], v)
					}
					return v
				}
				v, err := coppice.ReduceFunc(ctx, task, fmt.Sprint(task.Rank()), combine, c.opts...)
				if err != nil {
					return err
				}
				if task.Rank() == 0 && v != all {
					return fmt.Errorf("%w: %s", errWrong, v)
				}
				for range 3 { // in the second some crash, in the last task 0
					if err := coppice.Barrier(ctx, task); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(made[0], c.made) || !slices.Equal(made[1], c.again) {
				t.Errorf("combined %q, and again %q; want %q and %q", made[0], made[1], c.made, c.again)
			}
		})
	}
}
