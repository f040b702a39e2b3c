package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"

	"github.com/coppice-go/coppice/internal/launch"
	"github.com/coppice-go/coppice/model"
)

type probeCmd struct {
	N      *int `name:"processes" short:"n" placeholder:"N" help:"Number of processes, 2 or more (default: one per CPU; with --hosts one per slot)."`
	Pairs  *int `placeholder:"K" help:"Measure between rank 0 and so many others, spread over all (default 8, or all if there are fewer)."`
	Rounds int  `default:"200" placeholder:"R" help:"Round trips of 8 bytes in each repeat; the rest in proportion (default ${default})."`
	hostFlags
	JSON bool `name:"json" help:"Print JSON."`
}

const (
	probeRoundsMax = 1_000_000
	probePairs     = 8 // unless said otherwise
)

func (p *probeCmd) Run(c *console) error {
	var measured bytes.Buffer
	plan, err := p.plan(c, &measured)
	if err != nil {
		return badInput{err}
	}
	ctx, stop := untilSignal()
	defer stop()
	run, err := plan.Run(ctx)
	switch {
	case err != nil:
		return err
	case run.Cause != "": // a probe survives nobody
		return cmp.Or(run.Err(), errors.New(run.Cause))
	}
	report, err := p.report(measured.Bytes(), run)
	if err != nil {
		return err
	}
	return c.show(p.JSON, report, report.write)
}

// plan is the job whose rank 0 measures, and writes what it saw to measured.
func (p *probeCmd) plan(c *console, measured *bytes.Buffer) (*launch.Plan, error) {
	config := launch.Config{
		N: max(2, runtime.NumCPU()), StdinRank: -1,
		Output: launch.Output{Stdout: measured, Stderr: c.stderr},
		Notice: c.notice,
	}
	if err := p.spread(&config); err != nil {
		return nil, err
	}
	config.N = given(p.N, config.N)
	if config.N < 2 {
		return nil, fmt.Errorf("%d processes; allowed: 2 or more", config.N)
	}
	// Other hosts look for the command in their PATH.
	config.Program = "coppice"
	if config.Hosts == nil {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		config.Program = self
	}
	pairs := given(p.Pairs, min(config.N-1, probePairs))
	config.Args = []string{"probe-process", "--pairs", strconv.Itoa(pairs), "--rounds", strconv.Itoa(p.Rounds)}
	plan, err := launch.New(config)
	switch {
	case err != nil:
		return nil, err
	case pairs < 1 || pairs > config.N-1:
		return nil, fmt.Errorf("%d pairs of rank 0 and others among %d processes; allowed: 1 to %d", pairs, config.N, config.N-1)
	case p.Rounds < 1 || p.Rounds > probeRoundsMax:
		return nil, fmt.Errorf("%d rounds; allowed: 1 to %d", p.Rounds, probeRoundsMax)
	}
	return plan, nil
}

// probeFigures are the parameters as the report has them: microseconds, but for
// G, which is in nanoseconds a byte.
type probeFigures struct {
	L         float64 `json:"L"`
	O         float64 `json:"o"`
	Gap       float64 `json:"g"`
	PerByte   float64 `json:"G"`
	RoundTrip float64 `json:"round_trip"` // of 8 bytes
}

// probeRows are the parameters as they are shown.
var probeRows = []struct {
	name, unit string
	of         func(*probeFigures) *float64
}{
	{"L  latency", "µs", func(f *probeFigures) *float64 { return &f.L }},
	{"o  overhead", "µs", func(f *probeFigures) *float64 { return &f.O }},
	{"g  gap", "µs", func(f *probeFigures) *float64 { return &f.Gap }},
	{"G  time per byte", "ns", func(f *probeFigures) *float64 { return &f.PerByte }},
	{"round trip of 8 B", "µs", func(f *probeFigures) *float64 { return &f.RoundTrip }},
}

// probedPair is what was seen between rank 0 and another: medians of its repeats.
type probedPair struct {
	Ranks [2]int     `json:"ranks"`
	Hosts *[2]string `json:"hosts,omitempty"`
	probeFigures
}

func (p *probedPair) String() string {
	if p.Hosts == nil {
		return fmt.Sprintf("%d–%d", p.Ranks[0], p.Ranks[1])
	}
	return fmt.Sprintf("%d–%d (%s, %s)", p.Ranks[0], p.Ranks[1], p.Hosts[0], p.Hosts[1])
}

// predicted is the time of a broadcast, in microseconds.
type predicted struct {
	Tree string  `json:"tree"`
	Time float64 `json:"us"`
}

// probeReport is what a probe came to: what fits the medians over all pairs.
type probeReport struct {
	Processes int `json:"processes"`
	Rounds    int `json:"rounds"`
	Repeats   int `json:"repeats"`
	probeFigures
	Low     probeFigures `json:"low"` // quartiles of all repeats of all pairs
	High    probeFigures `json:"high"`
	Pairs   []probedPair `json:"pairs"`
	Slowest [2]int       `json:"slowest"` // the pair with the longest round trip
	Tree    string       `json:"tree"`
	Optimal struct {     // what the optimal tree was made for, as coppice tree takes it
		L int `json:"L"`
		O int `json:"o"`
	} `json:"optimal"`
	Predictions []predicted `json:"predictions"`
	Processors  int         `json:"processors,omitempty"` // of this machine; with --hosts not known
	Seconds     float64     `json:"seconds"`
}

// report turns what rank 0 wrote into what it means.
func (p *probeCmd) report(measured []byte, run *launch.Report) (*probeReport, error) {
	var pairs []pairSamples
	if err := json.Unmarshal(measured, &pairs); err != nil {
		return nil, fmt.Errorf("what rank 0 measured: %w", err)
	}
	r := &probeReport{Processes: len(run.Tasks), Rounds: p.Rounds, Repeats: probeRepeats, Seconds: run.Seconds}
	if p.Hosts == "" {
		r.Processors = runtime.NumCPU()
	}
	var all, each []model.Probe // all repeats; the medians of each pair
	for _, samples := range pairs {
		if samples.Rank < 1 || samples.Rank >= r.Processes {
			return nil, fmt.Errorf("what rank 0 measured: with rank %d of %d", samples.Rank, r.Processes)
		}
		pair := probedPair{Ranks: [2]int{0, samples.Rank}}
		if p.Hosts != "" {
			pair.Hosts = &[2]string{run.Tasks[0].Host, run.Tasks[samples.Rank].Host}
		}
		median, err := model.Combine(samples.Repeats)
		if err == nil {
			pair.probeFigures, err = figuresOf(median)
		}
		if err != nil {
			return nil, fmt.Errorf("ranks 0 and %d: %w", samples.Rank, err)
		}
		all, each = append(all, samples.Repeats...), append(each, median)
		r.Pairs = append(r.Pairs, pair)
	}
	median, err := model.Combine(each)
	if err == nil {
		r.probeFigures, err = figuresOf(median)
	}
	if err == nil {
		r.Low, r.High, err = quartilesOf(all, r.probeFigures)
	}
	if err != nil {
		return nil, err
	}
	r.Slowest = r.slowest().Ranks
	return r, r.choose()
}

// slowest is the pair with the longest round trip.
func (r *probeReport) slowest() *probedPair {
	slow := slices.MaxFunc(r.Pairs, func(a, b probedPair) int { return cmp.Compare(a.RoundTrip, b.RoundTrip) })
	return &slow
}

// choose finds the tree that fits.
func (r *probeReport) choose() error {
	choice, err := model.ChooseTree(model.LogGP{L: r.L, O: r.O, Gap: r.Gap}, r.Processes)
	if err != nil {
		return err
	}
	r.Tree, r.Optimal.L, r.Optimal.O = choice.Tree, choice.L, choice.O
	r.Predictions = each(choice.All, func(p model.Prediction) predicted { return predicted(p) })
	return nil
}

// figuresOf are the parameters behind a measurement.
func figuresOf(p model.Probe) (probeFigures, error) {
	n, err := p.Fit()
	if err != nil {
		return probeFigures{}, err
	}
	return probeFigures{L: n.L, O: n.O, Gap: n.Gap, PerByte: 1000 * n.PerByte, RoundTrip: p.RoundTrips[0].Time}, nil
}

// quartilesOf are the quartiles of the parameters, each by itself, and so far apart
// that what fits the medians lies between them.
func quartilesOf(all []model.Probe, fit probeFigures) (low, high probeFigures, err error) {
	figures := make([]probeFigures, len(all))
	for i, p := range all {
		if figures[i], err = figuresOf(p); err != nil {
			return low, high, err
		}
	}
	for _, row := range probeRows {
		s := model.SpreadOf(each(figures, func(f probeFigures) float64 { return *row.of(&f) }))
		*row.of(&low), *row.of(&high) = min(s.Low, *row.of(&fit)), max(s.High, *row.of(&fit))
	}
	return low, high, nil
}

// write prints the report for people.
func (r *probeReport) write(w *bufio.Writer) {
	fmt.Fprintf(w, "%d processes, %s, %d repeats of %s, %.1f s\n\n",
		r.Processes, count(len(r.Pairs), "pair"), r.Repeats, count(r.Rounds, "round"), r.Seconds)
	table := newTable(w)
	fmt.Fprintln(table, "\tmedian\t25%\t75%\t\t")
	for _, row := range probeRows {
		fmt.Fprintf(table, "%-17s\t%.2f\t%.2f\t%.2f\t%s\t\n", row.name, *row.of(&r.probeFigures), *row.of(&r.Low), *row.of(&r.High), row.unit)
	}
	table.Flush()
	if slow := r.slowest(); len(r.Pairs) > 1 {
		fmt.Fprintf(w, "\nslowest pair: %v, round trip %.2f µs\n", slow, slow.RoundTrip)
	}
	r.writeTrees(w)
}

// count writes 1 pair, 2 pairs.
func count(n int, what string) string { return countOf(n, what, what+"s") }

// beside are the trees that the chosen one is compared with.
var beside = []string{"binomial", "kary:2", "kary:4", model.Flat}

func (r *probeReport) writeTrees(w *bufio.Writer) {
	fmt.Fprintf(w, "\nthe tree that fits: %s", r.Tree)
	if r.Tree == "optimal" {
		fmt.Fprintf(w, " for L=%d, o=%d", r.Optimal.L, r.Optimal.O)
	}
	fmt.Fprintf(w, "\n\na broadcast to %d processes, by the model:\n", r.Processes)
	table := newTable(w)
	for _, one := range r.Predictions {
		if one.Tree == r.Tree || slices.Contains(beside, one.Tree) {
			fmt.Fprintf(table, "%-8s\t%.2f µs\t\n", one.Tree, one.Time)
		}
	}
	table.Flush()
	if r.Processors > 0 && r.Processes > r.Processors {
		fmt.Fprintf(w, "\nThe model gives each process a processor of its own. Here %d share %d: expect longer times, and\nless difference between trees.\n", r.Processes, r.Processors)
	}
}
