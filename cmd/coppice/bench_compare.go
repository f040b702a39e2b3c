package main

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/coppice-go/coppice/model"
)

// Bounds of comparisons.
const (
	compareRounds        = 5
	compareSeconds       = 0.1 // a cell in one mode, in one round
	compareIterationsMin = 10
)

// comparedCell is a cell in two modes, which took turns.
type comparedCell struct {
	Op         string       `json:"op"`
	Bytes      int          `json:"bytes"`
	Processes  int          `json:"processes"`
	Copies     int          `json:"copies,omitempty"` // of what is saved
	Warmup     int          `json:"warmup"`
	Iterations int          `json:"iterations"`
	Medians    [2]float64   `json:"median_us"` // of the medians of the rounds
	Rounds     [2][]float64 `json:"round_us"`  // medians
	Ratio      float64      `json:"ratio"`     // of the second mode's median to the first's
	Least      float64      `json:"ratio_min"` // of any round
	Most       float64      `json:"ratio_max"`
	LogBytes   int64        `json:"log_bytes,omitempty"` // that the busiest process logged in mode replay, in one round
}

// benchComparison is what comparing came to.
type benchComparison struct {
	Transport string         `json:"transport"`
	Modes     []string       `json:"modes"`
	Rounds    int            `json:"rounds"`
	Cells     []comparedCell `json:"cells"`
	Mean      float64        `json:"geometric_mean"`
	Worst     comparedCell   `json:"worst"`
	Seconds   float64        `json:"seconds"`
}

// runCompare measures with two modes in turn.
func (b *benchCmd) runCompare(c *console) error {
	rounds := given(b.Rounds, compareRounds)
	cells, err := b.comparedCells()
	if err != nil {
		return badInput{err}
	}
	measure := func(mode string, cells []benchCell, done func(int)) error {
		one := *b
		one.Mode = mode
		return one.measure(c, cells, done)
	}
	var compared []comparedCell
	seconds, err := c.timed(len(cells)*rounds*len(b.Compare), func(done func(int)) error {
		compared, err = takeTurns(b.Compare, rounds, cells, measure, done)
		return err
	})
	if err != nil {
		return err
	}
	report := newBenchComparison(compared)
	report.Transport, report.Modes, report.Rounds, report.Seconds = b.Transport, b.Compare, rounds, seconds
	return c.show(b.JSON, report, report.write)
}

// comparedCells are all combinations, with what one round measures. All errors are
// about the flags.
func (b *benchCmd) comparedCells() (cells []benchCell, err error) {
	switch {
	case len(b.Compare) != 2 || b.Compare[0] == b.Compare[1]:
		return nil, fmt.Errorf("--compare with %q; allowed: two different modes, such as plain,replay", b.Compare)
	case b.Mode != plainMode:
		return nil, errors.New("--compare with --mode; allowed: one of them")
	case b.CSV != "" || b.Failed != nil:
		return nil, errors.New("--csv or --failed with --compare; allowed: --json, --tree, --correction")
	}
	ops, err := b.ops()
	for _, mode := range b.Compare {
		if err == nil {
			err = checkMode(mode, ops)
		}
	}
	if err != nil {
		return nil, err
	}
	one := *b
	one.Mode = b.Compare[0]
	if slices.Contains(b.Compare, correctedMode) { // a tree and a correction are for that mode
		one.Mode = correctedMode
	}
	return one.cells()
}

// takeTurns measures cells in two modes. Those with one number of processes and one
// operation take turns together. done is told how many measurements are finished.
func takeTurns(modes []string, rounds int, cells []benchCell, measure func(mode string, cells []benchCell, done func(int)) error, done func(int)) (all []comparedCell, err error) {
	finished := 0
	for len(cells) > 0 {
		end := slices.IndexFunc(cells, func(c benchCell) bool {
			return c.Processes != cells[0].Processes || c.Op != cells[0].Op
		})
		if end < 0 {
			end = len(cells)
		}
		compared := make([]comparedCell, end)
		for turn := range len(modes) * rounds {
			k := turn % 2
			if turn/2%2 == 1 { // nobody is always the first
				k = 1 - k
			}
			measured := slices.Clone(cells[:end])
			for i := range measured {
				measured[i].Mode = modes[k]
			}
			if err := measure(modes[k], measured, func(n int) { done(finished + n) }); err != nil {
				return nil, fmt.Errorf("mode %s: %w", modes[k], err)
			}
			finished += end
			for i, c := range measured {
				compared[i].Rounds[k] = append(compared[i].Rounds[k], c.Median)
				compared[i].LogBytes = max(compared[i].LogBytes, c.LogBytes)
			}
		}
		for i, c := range cells[:end] {
			compared[i].Op, compared[i].Bytes, compared[i].Processes, compared[i].Copies = c.Op, c.Bytes, c.Processes, c.Copies
			compared[i].Warmup, compared[i].Iterations = c.Warmup, c.Iterations
			compared[i].sumUp()
		}
		all, cells = append(all, compared...), cells[end:]
	}
	return all, nil
}

// sumUp compares the rounds.
func (c *comparedCell) sumUp() {
	for k, us := range c.Rounds {
		c.Medians[k] = model.Median(us)
	}
	c.Ratio = c.Medians[1] / c.Medians[0]
	c.Least, c.Most = math.Inf(1), 0
	for i, us := range c.Rounds[0] {
		ratio := c.Rounds[1][i] / us
		c.Least, c.Most = min(c.Least, ratio), max(c.Most, ratio)
	}
}

func newBenchComparison(cells []comparedCell) *benchComparison {
	r := &benchComparison{Cells: cells, Mean: meanRatio(cells)}
	for _, c := range cells {
		if c.Ratio > r.Worst.Ratio {
			r.Worst = c
		}
	}
	return r
}

// meanRatio is the geometric mean.
func meanRatio(cells []comparedCell) float64 {
	return model.GeometricMean(each(cells, func(c comparedCell) float64 { return c.Ratio }))
}

// write prints the comparison for people.
func (r *benchComparison) write(w *bufio.Writer) {
	fmt.Fprintf(w, "%s; rounds: %d; ratio: %s to %s\n\n", r.Transport, r.Rounds, r.Modes[1], r.Modes[0])
	tabulate(newTable(w), fmt.Sprintf("%-9s\tsize\tn\titerations\t%s µs\t%s µs\tratio\tof rounds\t", "", r.Modes[0], r.Modes[1]), r.Cells, func(c comparedCell) string {
		return fmt.Sprintf("%-9s\t%s\t%d\t%d\t%.1f\t%.1f\t%.2f\t%.2f–%.2f\t", c.Op, c.size(), c.Processes, c.Iterations, c.Medians[0], c.Medians[1], c.Ratio, c.Least, c.Most)
	})
	fmt.Fprintln(w)
	for _, n := range unique(each(r.Cells, func(c comparedCell) int { return c.Processes })) {
		of := slices.DeleteFunc(slices.Clone(r.Cells), func(c comparedCell) bool { return c.Processes != n })
		fmt.Fprintf(w, "n = %d: geometric mean %.2f\n", n, meanRatio(of))
	}
	fmt.Fprintf(w, "all: geometric mean %.2f; worst %.2f: %s, n = %d\n", r.Mean, r.Worst.Ratio, strings.TrimSpace(r.Worst.Op+" "+r.Worst.size()), r.Worst.Processes)
}

func (c *comparedCell) size() string {
	if c.Bytes == 0 {
		return ""
	}
	return sizeText(c.Bytes)
}
