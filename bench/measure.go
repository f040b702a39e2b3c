package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/coppice-go/coppice/bench/loop"
)

// A figure sums up the iterations of one launch, in µs; it is zero for a side that
// did not run. The median is what an iteration usually takes. The mean shows what
// the median hides: rare long stalls.
type figure struct {
	Median float64 `json:"median_us"`
	Mean   float64 `json:"mean_us"`
}

func medianOf(f figure) float64 { return f.Median }
func meanOf(f figure) float64   { return f.Mean }

// A round is one launch of each side.
type round struct {
	Ours   figure `json:"ours"`
	Theirs figure `json:"theirs"`
}

// result is what the rounds of a line say.
type result struct {
	line
	rounds []round
	failed error // a launch that failed ended the line
}

// measure runs the rounds of a line. Sides take turns at going first, so that a
// machine that slows down or warms up favors neither. A side that is missing is
// left out.
func (ps *programs) measure(ctx context.Context, l line, job loop.Job, rounds int, dir string) result {
	res := result{line: l}
	for i := range rounds {
		var r round
		turns := []struct {
			side side
			fig  *figure
		}{{l.ours, &r.Ours}, {l.theirs, &r.Theirs}}
		if i%2 == 1 {
			slices.Reverse(turns)
		}
		for _, turn := range turns {
			if ps.missing(turn.side) != nil {
				continue
			}
			fig, err := ps.once(ctx, turn.side, l, job, dir)
			if err != nil {
				res.failed = fmt.Errorf("%s: %w", turn.side, err)
				return res
			}
			*turn.fig = fig
		}
		res.rounds = append(res.rounds, r)
	}
	return res
}

// once launches a side and sums up its iterations. If the line is about starting,
// the launch is the only one.
func (ps *programs) once(ctx context.Context, s side, l line, job loop.Job, dir string) (figure, error) {
	out, err := os.MkdirTemp(dir, "spans")
	if err != nil {
		return figure{}, err
	}
	defer os.RemoveAll(out)
	job.Out = filepath.Join(out, "rank")
	elapsed, err := launch(ctx, ps.command(s, l.p, job))
	if err != nil {
		return figure{}, err
	}
	if l.op == loop.Start {
		us := float64(elapsed.Nanoseconds()) / 1e3
		return figure{us, us}, nil
	}
	ranks, err := readRanks(job, l.p)
	if err != nil {
		return figure{}, err
	}
	us := iterations(l.op, ranks)
	return figure{median(us), mean(us)}, nil
}

// readRanks reads the spans of all ranks: ranks[r][i] is iteration i at rank r.
func readRanks(job loop.Job, p int) (ranks [][]loop.Span, err error) {
	for r := range p {
		name := loop.File(job.Out, r)
		file, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("rank %d wrote no spans: %w", r, err)
		}
		spans, err := loop.Read(file)
		file.Close()
		if err != nil {
			return nil, fmt.Errorf("spans of rank %d: %w", r, err)
		}
		if len(spans) != job.Iterations {
			return nil, fmt.Errorf("rank %d wrote %d spans, want %d", r, len(spans), job.Iterations)
		}
		ranks = append(ranks, spans)
	}
	return ranks, nil
}

// iterations returns the µs that each iteration took the group as a whole:
//
//   - ping-pong: from beginning to end at rank 0;
//   - broadcast: from the beginning at the root, rank 0, to the last end;
//   - barrier: from the last beginning to the last end.
func iterations(op string, ranks [][]loop.Span) (us []float64) {
	for i, atRoot := range ranks[0] {
		lastBegin, lastEnd := atRoot.Begin, atRoot.End
		for _, spans := range ranks[1:] {
			lastBegin = max(lastBegin, spans[i].Begin)
			lastEnd = max(lastEnd, spans[i].End)
		}
		var ns int64
		switch op {
		case loop.PingPong:
			ns = atRoot.End - atRoot.Begin
		case loop.Broadcast:
			ns = lastEnd - atRoot.Begin
		case loop.Barrier:
			ns = lastEnd - lastBegin
		}
		us = append(us, float64(ns)/1e3)
	}
	return us
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

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(max(1, len(values)))
}

// ours and theirs return the µs of an iteration, as the median over the rounds, or 0
// if the side did not run.
func (r result) ours() float64 {
	return r.over(func(x round) float64 { return x.Ours.Median })
}

func (r result) theirs() float64 {
	return r.over(func(x round) float64 { return x.Theirs.Median })
}

func (r result) over(value func(round) float64) float64 {
	var values []float64
	for _, x := range r.rounds {
		values = append(values, value(x))
	}
	return median(values)
}

// ratios returns ours / theirs of medians or of means: its median over the rounds,
// whose two launches are neighbors in time, and the least and the greatest. ok is
// false unless both sides ran.
func (r result) ratios(of func(figure) float64) (middle, least, greatest float64, ok bool) {
	var all []float64
	for _, x := range r.rounds {
		if ours, theirs := of(x.Ours), of(x.Theirs); ours > 0 && theirs > 0 {
			all = append(all, ours/theirs)
		}
	}
	if len(all) == 0 {
		return 0, 0, 0, false
	}
	return median(all), slices.Min(all), slices.Max(all), true
}
