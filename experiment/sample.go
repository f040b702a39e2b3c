package experiment

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/coppice-go/coppice/experiment/chart"
	"github.com/coppice-go/coppice/logp"
)

// Sample is the result of the runs of one cell, as small as a report needs it. It is what a Lab saves on
// disk, and two samples of one cell can be merged.
type Sample struct {
	Runs       int       `json:"runs"`
	Coloring   Histogram `json:"coloring"`
	Quiescence Histogram `json:"quiescence"`
	// Completion is when the last process was both reached and done.
	Completion Histogram `json:"completion"`
	Correction Histogram `json:"correction"`
	GapMax     Histogram `json:"gap_max"`
	Uncolored  Histogram `json:"uncolored"`
	// Messages counts thousandths of a message per process.
	Messages Histogram `json:"messages"`
	// Disseminations and Corrections count the messages of all runs together.
	Disseminations int64 `json:"disseminations"`
	Corrections    int64 `json:"corrections"`
	// Pairs counts pairs of gap and correction time, made by pair.
	Pairs Histogram `json:"pairs"`
	// Seconds is how long the simulations took.
	Seconds float64 `json:"seconds"`
}

func newSample() *Sample {
	s := new(Sample)
	for _, h := range s.histograms() {
		*h = Histogram{}
	}
	return s
}

func (s *Sample) histograms() []*Histogram {
	return []*Histogram{&s.Coloring, &s.Quiescence, &s.Completion, &s.Correction, &s.GapMax, &s.Uncolored, &s.Messages, &s.Pairs}
}

const pairShift = 32

func pair(gap, correction int64) int64 { return gap<<pairShift | correction }

func unpair(p int64) (gap, correction int64) { return p >> pairShift, p & (1<<pairShift - 1) }

// add adds the results of runs among p processes.
func (s *Sample) add(results []logp.Result, p int) {
	for i := range results {
		r := &results[i]
		s.Coloring.Add(int64(r.Coloring))
		s.Quiescence.Add(int64(r.Quiescence))
		s.Completion.Add(int64(max(r.Completion, r.Coloring)))
		s.Correction.Add(int64(r.Correction))
		s.GapMax.Add(int64(r.GapMax))
		s.Uncolored.Add(int64(r.Uncolored))
		s.Messages.Add((r.Sent()*1000 + int64(p)/2) / int64(p))
		s.Disseminations += r.Disseminations
		s.Corrections += r.Corrections
		s.Pairs.Add(pair(int64(r.GapMax), int64(r.Correction)))
	}
	s.Runs += len(results)
}

// merge adds another sample of the same cell.
func (s *Sample) merge(other *Sample) {
	for i, h := range s.histograms() {
		h.Merge(*other.histograms()[i])
	}
	s.Disseminations += other.Disseminations
	s.Corrections += other.Corrections
	s.Runs += other.Runs
	s.Seconds += other.Seconds
}

// check returns an error if the sample is impossible.
func (s *Sample) check() error {
	for _, h := range s.histograms() {
		for _, n := range *h {
			if n < 1 {
				return errors.New("a value that did not occur")
			}
		}
		if *h == nil || h.N() != int64(s.Runs) {
			return fmt.Errorf("%d runs, but %d values", s.Runs, h.N())
		}
	}
	if s.Disseminations < 0 || s.Corrections < 0 || !(s.Seconds >= 0 && s.Seconds < 1e9) {
		return errors.New("a figure that cannot be")
	}
	return nil
}

// perRun returns the average per run of a number of messages of all runs.
func (s *Sample) perRun(messages int64) float64 { return float64(messages) / float64(max(s.Runs, 1)) }

// work returns the median of all messages of a run among p processes.
func (s *Sample) work(p int) float64 {
	return float64((s.Messages.Quantile(0.5)*int64(p) + 500) / 1000)
}

// together merges samples of different cells.
func together(samples ...*Sample) *Sample {
	all := newSample()
	for _, s := range samples {
		all.merge(s)
	}
	return all
}

// Histogram counts how often each value occurred. It is exact: percentiles are
// values that occurred.
type Histogram map[int64]int64

// Add counts a value.
func (h Histogram) Add(v int64) { h[v]++ }

// Merge counts everything that other counted.
func (h Histogram) Merge(other Histogram) {
	for v, n := range other {
		h[v] += n
	}
}

// N returns how many values were counted.
func (h Histogram) N() int64 {
	n := int64(0)
	for _, k := range h {
		n += k
	}
	return n
}

// Mean returns the average; 0 if nothing was counted.
func (h Histogram) Mean() float64 {
	sum, n := 0.0, 0.0
	for _, v := range h.values() {
		sum += float64(v) * float64(h[v])
		n += float64(h[v])
	}
	return sum / max(n, 1)
}

// Deviation returns the standard deviation.
func (h Histogram) Deviation() float64 {
	mean, sum, n := h.Mean(), 0.0, 0.0
	for _, v := range h.values() {
		d := float64(v) - mean
		sum += d * d * float64(h[v])
		n += float64(h[v])
	}
	return math.Sqrt(sum / max(n, 1))
}

// Quantile returns the smallest value that a share q of all do not exceed.
func (h Histogram) Quantile(q float64) int64 {
	values := h.values()
	if len(values) == 0 {
		return 0
	}
	rank := max(int64(math.Ceil(q*float64(h.N())-1e-9)), 1)
	for _, v := range values {
		if rank -= h[v]; rank <= 0 {
			return v
		}
	}
	return values[len(values)-1]
}

// point returns the mean, with a share of the values below Low and as many above High.
func (h Histogram) point(x, share float64) chart.Point {
	return chart.Point{X: x, Y: h.Mean(), Low: float64(h.Quantile(share)), High: float64(h.Quantile(1 - share))}
}

// Max returns the largest value.
func (h Histogram) Max() int64 { return h.Quantile(1) }

// Above returns how many values are larger than v.
func (h Histogram) Above(v int64) int64 {
	n := int64(0)
	for value, k := range h {
		if value > v {
			n += k
		}
	}
	return n
}

// values lists the values that occurred, in order.
func (h Histogram) values() []int64 { return slices.Sorted(maps.Keys(h)) }
