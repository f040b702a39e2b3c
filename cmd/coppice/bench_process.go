package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"slices"

	"github.com/coppice-go/coppice"
	benchloop "github.com/coppice-go/coppice/bench/loop"
	"github.com/coppice-go/coppice/internal/node"
)

// benchProcessCmd is what `coppice bench` starts: one process of the job that
// measures.
type benchProcessCmd struct {
	benchProtection
	Jobs []string `arg:""`
}

func (b *benchProcessCmd) Run(c *console) error {
	jobs, err := benchloop.Parse(b.Jobs)
	if err != nil {
		return badInput{err}
	}
	ctx, stop := untilFirstSignal()
	defer stop()
	watch := newLogWatch(slog.NewTextHandler(c.stderr, logLevel))
	return b.job(watch).Run(ctx, func(ctx context.Context, t *coppice.Task) error {
		return benchTask(ctx, t, jobs, b.benchProtection, watch, os.Stdout)
	})
}

// benchTask measures jobs as one task. The one of rank 0 writes the figures, a
// line for each.
func benchTask(ctx context.Context, t *coppice.Task, jobs []benchloop.Job, b benchProtection, watch *logWatch, out io.Writer) error {
	alive, err := b.survivors(ctx, t)
	if err != nil {
		return err
	}
	for _, job := range jobs {
		job.Copies = b.Copies
		before := node.Logged()
		spans, err := b.measure(ctx, t, alive, job)
		if err != nil {
			return err
		}
		times, logged, err := groupTimes(ctx, alive, job.Op, spans, watch, node.Logged()-before)
		if err == nil && t.Rank() == 0 {
			figures := benchFiguresOf(job, t.Size(), times)
			figures.LogBytes = logged
			err = json.NewEncoder(out).Encode(figures)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// groupTimes returns, at rank 0, the nanoseconds that each iteration took the
// group: all processes read the same clock, on one machine; and the most that any has
// logged. They count only if the library has complained nowhere.
func groupTimes(ctx context.Context, t *coppice.Task, op string, spans []benchloop.Span, watch *logWatch, logged int64) (times []int64, most int64, err error) {
	const fields = 3
	extremes := make([]int64, 0, fields*len(spans)+2)
	for _, s := range spans {
		extremes = append(extremes, s.Begin, s.End, s.End-s.Begin)
	}
	extremes = append(extremes, watch.errors.Load(), logged)
	extremes, err = coppice.Reduce(ctx, t, extremes, coppice.Max)
	if err != nil || t.Rank() != 0 {
		return nil, 0, err
	}
	if extremes[fields*len(spans)] > 0 {
		return nil, 0, fmt.Errorf("no figures of %s: the library has logged an error", op)
	}
	times = make([]int64, len(spans))
	for i, s := range spans {
		e := extremes[fields*i:]
		times[i] = benchloop.Iteration{Root: s, LastBegin: e[0], LastEnd: e[1], Slowest: e[2]}.Time(op)
	}
	return times, extremes[fields*len(spans)+1], nil
}

// benchFiguresOf sums up the nanoseconds of a job's iterations on p processes.
func benchFiguresOf(job benchloop.Job, p int, times []int64) (f benchFigures) {
	slices.Sort(times)
	f.Median, f.P99 = percentile(times, 50)/1e3, percentile(times, 99)/1e3
	if f.Median > 0 {
		f.BytesPerSecond = math.Round(float64(busiest(job, p)) / f.Median * 1e6)
	}
	return f
}

// percentile is the least of sorted values that so many percent do not exceed.
func percentile[N int64 | float64](sorted []N, percent int) float64 {
	if len(sorted) == 0 {
		return 0
	}
	at := (len(sorted)*percent + 99) / 100
	return float64(sorted[max(at, 1)-1])
}

// busiest is how many bytes the busiest of p processes must send or receive.
func busiest(job benchloop.Job, p int) int {
	bytes := job.Bytes
	switch job.Op {
	case benchloop.Save:
		return bytes * min(job.Copies, p-1)
	case benchloop.Barrier:
		return 0
	case benchloop.PingPong:
		return 2 * bytes
	case benchloop.Scatter, benchloop.Gather, benchloop.AllGather, benchloop.AllToAll:
		return bytes * (p - 1)
	default:
		return bytes * min(1, p-1)
	}
}
