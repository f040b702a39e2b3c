package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/coppice-go/coppice/bench/loop"
)

// A figure sums up the iterations of one launch, in µs; it is zero for a side that
// did not run. The median is what an iteration usually takes. The mean shows what
// the median hides: rare long stalls.
type figure struct {
	Median float64 `json:"median_us"`
	Mean   float64 `json:"mean_us"`
	Cost   cost    `json:"cost,omitzero"` // where it is counted
}

func medianOf(f figure) float64 { return f.Median }
func meanOf(f figure) float64   { return f.Mean }

// A round is one launch of each side.
type round struct {
	Ours   figure `json:"ours"`
	Theirs figure `json:"theirs"`
	Beside figure `json:"beside,omitzero"`
}

// result holds the rounds of a line.
type result struct {
	line
	rounds []round
	failed error // a launch that failed ended the line
}

// A batch is lines that differ only in their bytes, so that one launch of a side measures all of them.
type batch []line

// batches groups neighboring lines that one launch can measure.
func batches(lines []line) (all []batch) {
	kind := func(l line) line {
		l.what, l.bytes, l.target = "", 0, target{}
		return l
	}
	for _, l := range lines {
		last := len(all) - 1
		if last >= 0 && kind(all[last][0]) == kind(l) {
			all[last] = append(all[last], l)
		} else {
			all = append(all, batch{l})
		}
	}
	return all
}

func (b batch) String() string {
	if len(b) == 1 {
		return b[0].String()
	}
	return fmt.Sprintf("%s to %s", b[0].what, b[len(b)-1])
}

// sides returns the sides that a round launches.
func (b batch) sides() []side {
	sides := []side{b[0].ours, b[0].theirs}
	if b[0].beside != "" {
		sides = append(sides, b[0].beside)
	}
	return sides
}

// begin returns the results of a batch, still empty, and starts its hogs, which stop ends. If they do
// not start, the first result holds the error, and stop is nil.
func (ps *programs) begin(b batch) (results []result, stop func()) {
	results = make([]result, len(b))
	for i, l := range b {
		results[i].line = l
	}
	stop, err := ps.startHogs(b[0].hogs)
	if err != nil {
		results[0].failed = err
		return results, nil
	}
	return results, stop
}

// measure runs the rounds of a batch. Sides take turns at going first, so that a machine that slows
// down or warms up favors neither. It leaves out a missing side, and calls done after each launch.
func (ps *programs) measure(ctx context.Context, b batch, o options, dir string, done func()) []result {
	results, stop := ps.begin(b)
	if stop == nil {
		return results
	}
	defer stop()
	for i := range o.rounds {
		turns := b.sides()
		first := i % len(turns)
		figures := map[side][]figure{}
		for _, s := range append(turns[first:], turns[:first]...) {
			if ps.missing(s) == nil && ctx.Err() == nil {
				figures[s] = ps.once(ctx, s, results, o, dir)
			}
			done()
		}
		for k := range results {
			r, of := &results[k], func(s side) figure {
				if figures[s] == nil {
					return figure{}
				}
				return figures[s][k]
			}
			if r.failed == nil {
				r.rounds = append(r.rounds, round{of(r.line.ours), of(r.line.theirs), of(r.beside)})
			}
		}
	}
	return results
}

// once launches a side for all lines that have not failed yet, and sums up their iterations. If the
// launch fails, so does the first line that it did not finish, and the lines after it have no figure in
// this round.
func (ps *programs) once(ctx context.Context, s side, results []result, o options, dir string) []figure {
	figures := make([]figure, len(results))
	out, err := os.MkdirTemp(dir, "spans")
	if err != nil {
		results[0].failed = err
		return figures
	}
	defer os.RemoveAll(out)
	var jobs []loop.Job
	var which []int // the line of each job
	for k, r := range results {
		if r.failed == nil {
			job := r.job(o.quick)
			if o.counts {
				job = r.countedJob()
			}
			job.Out = filepath.Join(out, fmt.Sprintf("%d.rank", k))
			jobs, which = append(jobs, job), append(which, k)
		}
	}
	if len(jobs) == 0 {
		return figures
	}
	var costs []*cost
	_, elapsed, failed := loop.Launch(ctx, ps.command(s, results[0].p, jobs), len(jobs))
	for j, job := range jobs {
		r := &results[which[j]]
		fig, err := read(job, r.p, elapsed)
		if failed != nil && (err != nil || j == len(jobs)-1) {
			err = failed // if all were measured, the end of the launch failed
		}
		if err != nil {
			r.failed = fmt.Errorf("%s: %w", s, err)
			break
		}
		figures[which[j]] = fig
		if o.counting() {
			used, err := job.ReadUsage(r.p)
			if err != nil {
				r.failed = fmt.Errorf("%s: %w", s, err)
				break
			}
			figures[which[j]].Cost = countedUsage(used, job.Iterations)
			costs = append(costs, &figures[which[j]].Cost)
		}
	}
	if len(costs) == len(jobs) && s != coppiceShared {
		if err := ps.trace(ctx, s, results[0].p, jobs, costs); err != nil {
			results[which[0]].failed = fmt.Errorf("%s: %w", s, err)
		}
	}
	return figures
}

// read sums up the iterations of a job. If the job is about starting, the launch is the only one.
func read(job loop.Job, p int, elapsed time.Duration) (figure, error) {
	if job.Op == loop.Start {
		us := float64(elapsed.Nanoseconds()) / 1e3
		return figure{Median: us, Mean: us}, nil
	}
	ranks, err := job.ReadRanks(p)
	if err != nil {
		return figure{}, err
	}
	us := loop.Times(job.Op, ranks)
	return figure{Median: median(us), Mean: average(us)}, nil
}

// median returns the middle value, or the mean of the two in the middle.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}

func average(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(max(1, len(values)))
}

// ours and theirs return the µs of an iteration, as the median over the rounds, or 0
// if the side did not run.
func (r result) ours() float64   { return r.over(oursIn) }
func (r result) theirs() float64 { return r.over(theirsIn) }

func oursIn(x round) figure   { return x.Ours }
func theirsIn(x round) figure { return x.Theirs }
func besideIn(x round) figure { return x.Beside }

func (r result) over(in func(round) figure) float64 {
	var values []float64
	for _, x := range r.rounds {
		if v := in(x).Median; v > 0 {
			values = append(values, v)
		}
	}
	return median(values)
}

// ratio returns the median of ours, or what is beside it, to theirs over the rounds, or 0
// if a side did not run.
func (r result) ratio(in func(round) figure) float64 {
	middle, _, _ := r.ratios(in, medianOf)
	return middle
}

// ratios returns the same of medians or of means, and the least and the greatest: the
// launches of a round are neighbors in time.
func (r result) ratios(in func(round) figure, of func(figure) float64) (middle, least, greatest float64) {
	var all []float64
	for _, x := range r.rounds {
		if ours, theirs := of(in(x)), of(x.Theirs); ours > 0 && theirs > 0 {
			all = append(all, ours/theirs)
		}
	}
	if len(all) == 0 {
		return 0, 0, 0
	}
	return median(all), slices.Min(all), slices.Max(all)
}
