package main

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/coppice-go/coppice/apps/tpch"
	"github.com/coppice-go/coppice/experiment"
	"github.com/coppice-go/coppice/internal/control"
	"github.com/coppice-go/coppice/internal/launch"
)

// launchQuery answers a query by a job as `coppice tpch` starts it: what the whole took, from before
// the first process is started until after all have ended, and the query alone. It is an error if
// who was to die did not, or if the answer is wrong.
func launchQuery(ctx context.Context, l experiment.Launch) ([]float64, error) {
	c := tpchCmd{Sf: &l.Query.Scale, Query: 3, Mode: l.Mode, appFlags: appFlags{N: l.Processes}}
	var victims []int
	if l.Query.Kill != "" {
		var k control.Kill
		if err := k.UnmarshalText([]byte(l.Query.Kill)); err != nil {
			return nil, err
		}
		c.Kill, victims = []control.Kill{k}, []int{k.Task}
	}
	if l.Query.Restart {
		c.Restart = 1
	}
	if l.Query.Respawn {
		c.Respawn = launch.RespawnAlways
	}
	began := time.Now()
	report, err := c.answer(ctx, &appJob{}, nil)
	whole := time.Since(began)
	if err != nil {
		return nil, err
	}
	killed := report.Killed
	for _, start := range report.Restarts {
		killed = append(killed, start.Killed...)
	}
	if len(killed) != len(victims) || len(victims) > 0 && !reflect.DeepEqual(killed, victims) {
		return nil, fmt.Errorf("%v died instead of %v (%s)", killed, victims, l.Query.Kill)
	}
	answer := tpch.Answer{Columns: report.Columns, Rows: report.Rows}.CSV()
	if want, ok := tpch.Official(c.Query, c.scale()); ok && answer != want {
		return nil, fmt.Errorf("the answer is %s; the official one is %s", answer, want)
	}
	return []float64{float64(whole.Microseconds()), report.Ask * 1e6}, nil
}
