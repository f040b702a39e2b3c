package experiment

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/coppice-go/coppice/experiment/chart"
)

// Experiment is one figure or table of a paper.
type Experiment struct {
	Name   string // for the command line and for files
	Title  string
	Source string // work, section, figure
	About  string // what is simulated or measured, in a sentence or two

	run func(*attempt)
}

// work is a paper or a thesis: the prefix of its experiments' names, and its own name.
type work struct{ prefix, name string }

var (
	treesWork      = work{"trees", "Corrected Trees"}
	gossipWork     = work{"gossip", "Corrected Gossip"}
	membershipWork = work{"membership", "Membership"}
	thesisWork     = work{"thesis", "FT collectives"}
)

// figure returns the experiment about a figure. and adds to its source, for instance a section or a lemma; or
// is "".
func (w work) figure(number, and, title, about string, run func(*attempt)) Experiment {
	source := fmt.Sprintf("%s, Figure %s", w.name, number)
	if and != "" {
		source += " and " + and
	}
	return Experiment{Name: w.prefix + "-fig" + number, Title: title, Source: source, About: about, run: run}
}

// All lists the experiments in the order of the papers.
func All() []Experiment {
	return slices.Concat(treesExperiments, treesMeasured, gossipExperiments, membershipExperiments, localExperiments, thesisExperiments, thesisQueries)
}

// Find returns the experiments with the given names, each once; "all" names all of them.
func Find(names ...string) ([]Experiment, error) {
	all := All()
	known := each(all, func(e Experiment) string { return e.Name })
	var found []Experiment
	for i, name := range names {
		at := slices.Index(known, name)
		switch {
		case at < 0 && name != "all":
			return nil, fmt.Errorf("experiment %q; allowed: all, %s", name, strings.Join(known, ", "))
		case at >= 0 && !slices.Contains(names[:i], name):
			found = append(found, all[at])
		}
	}
	if slices.Contains(names, "all") {
		return all, nil
	}
	return found, nil
}

// Run makes the experiment.
func (e Experiment) Run(ctx context.Context, lab *Lab) (*Finding, error) {
	f := &Finding{Name: e.Name, Title: e.Title, Source: e.Source, About: e.About, Runs: max(lab.Runs, 1), Seed: lab.Seed}
	lab.used, lab.launched = nil, 0
	a := &attempt{Finding: f, lab: lab}
	a.ctx, a.stop = context.WithCancel(ctx)
	defer a.stop()
	if e.run(a); a.err != nil {
		return nil, fmt.Errorf("%s: %w", e.Name, a.err)
	}
	f.Seconds = lab.seconds() + lab.launched
	return f, nil
}

// attempt is a running experiment. After an error all simulations end; the experiment then continues with
// zeros, none of which is kept.
type attempt struct {
	*Finding
	lab  *Lab
	ctx  context.Context
	stop func()
	err  error // the first

	planned []Cell
	then    []func(*Sample) // by planned cell
}

// fail records an error, unless it is nil, and stops the experiment.
func (f *attempt) fail(err error) {
	if err != nil {
		f.err = cmp.Or(f.err, err)
		f.stop()
	}
}

// simulate returns the samples of cells.
func (f *attempt) simulate(cells ...Cell) []*Sample {
	samples, err := f.lab.Measure(f.ctx, cells...)
	if err != nil {
		f.fail(err)
		samples = make([]*Sample, len(cells))
		for i := range samples {
			samples[i] = newSample()
		}
	}
	return samples
}

// plan plans a cell for the next call of simulatePlanned, which passes its sample to then.
func (f *attempt) plan(c Cell, then func(*Sample)) {
	f.planned, f.then = append(f.planned, c), append(f.then, then)
}

// simulatePlanned simulates the planned cells, in order.
func (f *attempt) simulatePlanned() {
	cells, then := f.planned, f.then
	f.planned, f.then = nil, nil
	for i, s := range f.simulate(cells...) {
		then[i](s)
	}
}

// timed counts the time until the caller calls end: use it for other simulations, and for measurements.
func (f *attempt) timed() (end func()) {
	began := time.Now()
	return func() { f.lab.launched += time.Since(began).Seconds() }
}

// Finding is the result of an experiment.
type Finding struct {
	Name    string   `json:"name"`
	Title   string   `json:"title"`
	Source  string   `json:"source"`
	About   string   `json:"about"`
	Runs    int      `json:"runs"` // of a cell, as requested
	Seed    uint64   `json:"seed"`
	Claims  []Claim  `json:"claims"`
	Tables  []*Table `json:"tables"`
	Notes   []string `json:"notes,omitempty"`
	Seconds float64  `json:"seconds"` // to simulate or measure it, now or earlier

	Measured  bool      `json:"measured,omitempty"`  // on real processes, not simulated
	Processes []int     `json:"processes,omitempty"` // how many, if requested
	Scales    []float64 `json:"scales,omitempty"`    // of tables, if requested
	Skipped   string    `json:"skipped,omitempty"`   // why it could not run, and what would help

	Chart *chart.Chart `json:"chart,omitempty"`
}

// Repeat returns the command that repeats the experiment.
func (f *Finding) Repeat() string {
	command := fmt.Sprintf("coppice reproduce %s --runs %d --seed %d", f.Name, f.Runs, f.Seed)
	for _, p := range f.Processes {
		command += fmt.Sprintf(" -n %d", p)
	}
	for _, s := range f.Scales {
		command += fmt.Sprintf(" --sf %g", s)
	}
	return command
}

// Claim is one statement of the paper, beside our result.
type Claim struct {
	What    string  `json:"what"`
	Paper   string  `json:"paper"`
	Ours    string  `json:"ours"`
	Verdict Verdict `json:"verdict"`
	Reason  string  `json:"reason,omitempty"` // where they differ, and what "agrees" means
}

// Verdict is the result of comparing a claim.
type Verdict string

// The verdicts, from best to worst.
const (
	Equal   Verdict = "equal"
	Agrees  Verdict = "agrees"  // within what Reason says
	Differs Verdict = "differs" // Reason says why
	Skipped Verdict = "skipped" // of a finding: something that it needs is not installed
)

// Verdict returns the verdict of the worst claim.
func (f *Finding) Verdict() Verdict {
	if f.Skipped != "" {
		return Skipped
	}
	worst := Equal
	for _, c := range f.Claims {
		if c.Verdict == Differs || c.Verdict == Agrees && worst == Equal {
			worst = c.Verdict
		}
	}
	return worst
}

// Headline returns the claim that stands for the finding: the first of the worst.
func (f *Finding) Headline() Claim {
	if i := slices.IndexFunc(f.Claims, func(c Claim) bool { return c.Verdict == f.Verdict() }); i >= 0 {
		return f.Claims[i]
	}
	return Claim{}
}

// Table is a table of values: a CSV file, and part of the report if it is short.
type Table struct {
	Name    string     `json:"name,omitempty"` // of the file, after the experiment's; empty for the first
	Columns []string   `json:"columns"`
	Rows    [][]string `json:"rows"`
}

// beside draws simulated values as marks, and a model of them as a line of the same colour.
func (f *Finding) beside(simulated, modelled string) (marks, line *chart.Series) {
	marks, line = f.Chart.Add(simulated, chart.Marks), f.Chart.Add(modelled, chart.Line)
	line.Like = len(f.Chart.Series) - 1
	return marks, line
}

// table adds a table to the finding.
func (f *Finding) table(name string, columns ...string) *Table {
	t := &Table{Name: name, Columns: columns}
	f.Tables = append(f.Tables, t)
	return t
}

// Add adds a row. Numbers are written with at most four decimals, numbers from 10 on with two.
func (t *Table) Add(values ...any) {
	t.Rows = append(t.Rows, each(values, text))
}

// text formats a value.
func text(v any) string {
	number, ok := v.(float64)
	if !ok {
		return fmt.Sprint(v)
	}
	if number >= 10 {
		number = round(number)
	}
	return strings.TrimRight(strings.TrimRight(fmt.Sprintf("%.4f", number), "0"), ".")
}

// claim judges whether a value is equal, within the tolerance, or neither.
func (f *Finding) claim(what string, paper, ours, tolerance float64, reason string) {
	c := Claim{What: what, Paper: text(paper), Ours: text(round(ours)), Verdict: Differs, Reason: reason}
	switch off := max(ours-paper, paper-ours); {
	case off < 1e-9:
		c.Verdict, c.Reason = Equal, ""
	case off <= tolerance+1e-9:
		c.Verdict, c.Reason = Agrees, "within "+text(tolerance)
	}
	f.Claims = append(f.Claims, c)
}

// shape judges a statement that holds or does not.
func (f *Finding) shape(what, paper, ours string, holds bool, reason string) {
	c := Claim{What: what, Paper: paper, Ours: ours, Verdict: Differs, Reason: reason}
	if holds {
		c.Verdict, c.Reason = Agrees, ""
	}
	f.Claims = append(f.Claims, c)
}

// round keeps the digits that a reader compares.
func round(v float64) float64 {
	if math.Abs(v) >= 1000 {
		return math.Round(v)
	}
	return math.Round(v*100) / 100
}

func (f *Finding) note(format string, args ...any) {
	f.Notes = append(f.Notes, fmt.Sprintf(format, args...))
}
