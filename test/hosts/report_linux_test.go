package hosts

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// result is the result of all runs of a row.
type result struct {
	row
	outcomes []outcome
	skipped  error
}

// verdict returns "ok" if every run was as it must be.
func (r *result) verdict() string {
	bad, machine := 0, 0
	for _, o := range r.outcomes {
		if len(o.failures()) > 0 {
			bad++
			if len(o.problems) == 0 && o.machine > stillMax {
				machine++
			}
		}
	}
	switch {
	case machine > 0:
		return fmt.Sprintf("FAILS %d of %d, %d of them slow on a machine that stood still", bad, len(r.outcomes), machine)
	case bad > 0:
		return fmt.Sprintf("FAILS %d of %d", bad, len(r.outcomes))
	case len(r.outcomes) > 0:
		return "ok"
	case r.skipped != nil:
		return "skipped: " + r.skipped.Error()
	}
	return "not run"
}

// stillMax is how long the machine may stand still in a run whose times are meaningful.
const stillMax = 300 * time.Millisecond

// failures returns all that must not happen.
func (o *outcome) failures() []string { return slices.Concat(o.problems, o.slow) }

// trial is one run of a row.
type trial struct {
	row *result
	i   int
}

// runAll runs rows: those that load the machine run alone, after the others.
func (l *lab) runAll(ctx context.Context, chosen []row, runs, parallel int, w io.Writer) []*result {
	var results []*result
	var together, alone []trial
	for _, r := range chosen {
		results = append(results, &result{row: r})
	}
	for i := range runs {
		for _, r := range results {
			if r.alone {
				alone = append(alone, trial{r, i})
			} else {
				together = append(together, trial{r, i})
			}
		}
	}
	p := newProgress(w, parallel, together, alone)
	l.runTrials(ctx, together, parallel, p)
	l.runTrials(ctx, alone, 1, p)
	p.clear()
	return results
}

func (l *lab) runTrials(ctx context.Context, trials []trial, parallel int, p *progress) {
	next := make(chan trial)
	var workers sync.WaitGroup
	for range parallel {
		workers.Go(func() {
			for t := range next {
				p.begin(t)
				o := t.row.try(ctx, l, t.i)
				if ctx.Err() == nil {
					l.keep(t, o)
					p.end(t, o)
				}
			}
		})
	}
	for _, t := range trials {
		if ctx.Err() != nil {
			break
		}
		next <- t
	}
	close(next)
	workers.Wait()
}

// keep writes the output of a failed run to a file, if that was asked for.
func (l *lab) keep(t trial, o outcome) {
	if l.logs == "" || len(o.failures()) == 0 {
		return
	}
	name := regexp.MustCompile(`[^\w.]+`).ReplaceAllString(t.row.name, "-")
	text := strings.Join(o.failures(), "\n") + "\n\n" + o.log
	if err := os.WriteFile(filepath.Join(l.logs, fmt.Sprintf("%s-%d.log", name, t.i+1)), []byte(text), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "hosts:", err)
	}
}

// progress shows what runs: on a terminal in one line that is overwritten, with the time left;
// elsewhere in a line for each run. A failure always gets a line.
type progress struct {
	w         io.Writer
	terminal  bool
	parallel  int // trials, except those that run alone
	mu        sync.Mutex
	began     time.Time
	all, done time.Duration // how long rows are expected to take
	count, of int
}

func newProgress(w io.Writer, parallel int, together, alone []trial) *progress {
	p := &progress{w: w, parallel: parallel, began: time.Now(), of: len(together) + len(alone)}
	if f, ok := w.(*os.File); ok && os.Getenv("TERM") != "dumb" {
		info, err := f.Stat()
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	for _, t := range slices.Concat(together, alone) {
		p.all += p.share(t)
	}
	return p
}

// share returns what a trial takes of the time of all.
func (p *progress) share(t trial) time.Duration {
	if t.row.alone {
		return t.row.takes
	}
	return t.row.takes / time.Duration(p.parallel)
}

func (p *progress) begin(t trial) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.terminal {
		fmt.Fprintf(p.w, "\r\x1b[K%d/%d %s%s", p.count, p.of, t.row.name, p.left())
	}
}

// left returns the time left, as far as it is known.
func (p *progress) left() string {
	if p.done == 0 {
		return ""
	}
	left := time.Duration(float64(time.Since(p.began)) * float64(p.all-p.done) / float64(p.done))
	return ", left: " + left.Round(time.Second).String()
}

func (p *progress) end(t trial, o outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count++
	p.done += p.share(t)
	if o.skipped != nil {
		t.row.skipped = o.skipped
	} else {
		t.row.outcomes = append(t.row.outcomes, o)
	}
	text := "ok"
	switch {
	case o.skipped != nil:
		text = "skipped: " + o.skipped.Error()
	case len(o.failures()) > 0:
		text = "FAILS: " + strings.Join(o.failures(), "; ")
	}
	if p.terminal {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
	if !p.terminal || len(o.failures()) > 0 {
		fmt.Fprintf(p.w, "%d/%d %s, run %d: %s, stall %.1f s%s\n", p.count, p.of, t.row.name, t.i+1, text, o.stall.Seconds(), p.left())
	}
}

func (p *progress) clear() {
	if p.terminal {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

var columns = []string{"scenario", "runs", "right", "evicted healthy", "stall s", "machine still s", "other figures", "verdict"}

// table is the results in Markdown.
func table(results []*result) string {
	cells := [][]string{columns}
	for _, r := range results {
		cells = append(cells, r.cells())
	}
	widths := make([]int, len(columns))
	for _, line := range cells {
		for i, c := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	var b strings.Builder
	for n, line := range cells {
		for i, c := range line {
			fmt.Fprintf(&b, "| %-*s ", widths[i], c)
		}
		b.WriteString("|\n")
		if n == 0 {
			for _, w := range widths {
				b.WriteString("|" + strings.Repeat("-", w+2))
			}
			b.WriteString("|\n")
		}
	}
	return b.String()
}

func (r *result) cells() []string {
	right := 0
	var healthy []int
	var stalls, still []float64
	extra := map[string][]float64{}
	for _, o := range r.outcomes {
		if o.right {
			right++
		}
		healthy = append(healthy, o.healthy)
		still = append(still, o.machine.Seconds())
		if o.stall > 0 {
			stalls = append(stalls, o.stall.Seconds())
		}
		for name, v := range o.extra {
			extra[name] = append(extra[name], v)
		}
	}
	var figures []string
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		figures = append(figures, name+" "+middleAndMost(extra[name]))
	}
	evicted := "–"
	if len(healthy) > 0 {
		evicted = fmt.Sprintf("%d / %d / %d", slices.Min(healthy), median(healthy), slices.Max(healthy))
	}
	return []string{
		r.name, fmt.Sprint(len(r.outcomes)), fmt.Sprint(right), evicted, middleAndMost(stalls), middleAndMost(still), strings.Join(figures, ", "), r.verdict(),
	}
}

// middleAndMost returns the median and the maximum.
func middleAndMost(all []float64) string {
	if len(all) == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f / %.1f", median(all), slices.Max(all))
}

func median[T cmp.Ordered](all []T) T { return slices.Sorted(slices.Values(all))[len(all)/2] }
