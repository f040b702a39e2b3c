package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/internal/launch"
	"github.com/coppice-go/coppice/model"
)

type probeCmd struct {
	N      *int `name:"processes" short:"n" placeholder:"N" help:"Number of processes, 2 or more (default: one per CPU; with --hosts one per slot)."`
	Pairs  *int `placeholder:"K" help:"Measure between rank 0 and so many others, spread over all (default 8, or all if there are fewer)."`
	Rounds int  `bounds:"%d rounds; allowed: 1 to 1000000" default:"200" placeholder:"R" help:"Round trips of 8 bytes in each repeat; the rest in proportion (default ${default})."`
	hostFlags
	JSON bool `name:"json" help:"Print JSON."`
}

// probePairs is how many pairs are measured, unless said otherwise.
const probePairs = 8

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
		config.Program = self()
	}
	pairs := given(p.Pairs, min(config.N-1, probePairs))
	config.Args = []string{"probe-process", "--pairs", strconv.Itoa(pairs), "--rounds", strconv.Itoa(p.Rounds)}
	plan, err := launch.New(config)
	switch {
	case err != nil:
		return nil, err
	case pairs < 1 || pairs > config.N-1:
		return nil, fmt.Errorf("%d pairs of rank 0 and others among %d processes; allowed: 1 to %d", pairs, config.N, config.N-1)
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

// probeRow is a parameter as it is shown.
type probeRow struct {
	name, unit string
	of         func(*probeFigures) *float64
}

var probeRows = []probeRow{
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
	tabulate(newTable(w), "\tmedian\t25%\t75%\t\t", probeRows, func(row probeRow) string {
		return fmt.Sprintf("%-17s\t%.2f\t%.2f\t%.2f\t%s\t", row.name, *row.of(&r.probeFigures), *row.of(&r.Low), *row.of(&r.High), row.unit)
	})
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

// probeProcessCmd is what `coppice probe` starts: one process of the job in which
// rank 0 measures. The others answer it, one after the other, and wait asleep for
// their turn.
type probeProcessCmd struct {
	Pairs  int `required:""`
	Rounds int `required:""`
}

// probeRepeats is how often every pair is measured. All pairs take turns, so that
// a moment in which the machine is busy does not make one of them look slow.
const probeRepeats = 9

// What is measured. A process may run ahead of another by 256 messages: a longer
// burst contains what it costs to be held back. Messages above 64 KiB are asked for
// by their receiver: the longest are so long that this hardly counts.
var (
	probeSizes  = []int{8, 512, 4 << 10, 32 << 10, 128 << 10, 512 << 10, 1 << 20} // bytes of a round trip
	probeBursts = []int{16, 32, 64, 128, 256, 512}                                // messages
)

// pairSamples is what rank 0 measured with another, in microseconds.
type pairSamples struct {
	Rank    int
	Repeats []model.Probe
}

func (p *probeProcessCmd) Run(c *console) error {
	coppice.Main(func(ctx context.Context, t *coppice.Task) error {
		if p.Pairs < 1 || t.Size() <= p.Pairs || p.Rounds < 1 {
			return errors.New("not enough processes; allowed: as coppice probe starts them")
		}
		pairs, err := p.measure(ctx, t)
		if err != nil || t.Rank() != 0 {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(pairs)
	})
	return nil
}

// measure measures all pairs, of which this process is in one, or none.
func (p *probeProcessCmd) measure(ctx context.Context, t *coppice.Task) ([]pairSamples, error) {
	pairs := each(partners(t.Size(), p.Pairs), func(rank int) pairSamples { return pairSamples{Rank: rank} })
	for repeat := -1; repeat < probeRepeats; repeat++ { // the first connects, and is not counted
		for i := range pairs {
			if t.Rank() != 0 && t.Rank() != pairs[i].Rank {
				continue
			}
			l := &loop{ctx: ctx, t: t, other: pairs[i].Rank - t.Rank(), rounds: p.Rounds}
			sample := l.sample()
			if l.err != nil {
				return nil, l.err
			}
			if repeat >= 0 {
				pairs[i].Repeats = append(pairs[i].Repeats, sample)
			}
		}
	}
	return pairs, nil
}

// partners are those that rank 0 measures with: evenly spread over the others.
func partners(size, pairs int) (ranks []int) {
	for i := range pairs {
		ranks = append(ranks, 1+i*(size-1)/pairs)
	}
	return ranks
}

// loop is one end of a pair. Its first error stays, and ends it.
type loop struct {
	ctx    context.Context
	t      *coppice.Task
	other  int
	rounds int
	err    error
}

// sample measures everything once.
func (l *loop) sample() (s model.Probe) {
	for _, size := range probeSizes {
		data := make([]byte, size)
		// As long as a message is short, its length hardly counts.
		_, time := l.repeat(l.rounds*4096/max(size, 4096), func() { l.there(data) }, func() { l.back(data) })
		s.RoundTrips = append(s.RoundTrips, model.RoundTrip{Bytes: size, Time: time})
	}
	data := make([]byte, probeSizes[0])
	for _, messages := range probeBursts {
		burst := func() {
			for range messages {
				l.there(data)
			}
		}
		sent, answered := l.repeat(l.rounds*probeBursts[0]/messages, burst, func() { l.back(data) })
		s.Bursts = append(s.Bursts, model.Burst{Messages: messages, Sent: sent, Answered: answered})
	}
	return s
}

// roundsMin is how many rounds there are of what takes long, unless less is asked
// for.
const roundsMin = 5

// repeat does first and then, over and over, and returns the median times from
// the beginning to the end of each.
func (l *loop) repeat(rounds int, first, then func()) (untilFirst, untilThen float64) {
	var firsts, thens []float64
	for range max(rounds, min(l.rounds, roundsMin)) {
		if l.err != nil {
			return 0, 0
		}
		began := time.Now()
		first()
		firsts = append(firsts, microseconds(time.Since(began)))
		then()
		thens = append(thens, microseconds(time.Since(began)))
	}
	return model.Median(firsts), model.Median(thens)
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// there is a message from rank 0 to the other, at either end.
func (l *loop) there(data []byte) { l.move(data, l.t.Rank() == 0) }

// back is one from the other to rank 0.
func (l *loop) back(data []byte) { l.move(data, l.t.Rank() != 0) }

func (l *loop) move(data []byte, send bool) {
	switch {
	case l.err != nil:
	case send:
		l.err = coppice.Send(l.ctx, l.t, l.other, 0, data)
	default:
		var got []byte
		got, l.err = coppice.Recv[[]byte](l.ctx, l.t, l.other, 0)
		if l.err == nil && len(got) != len(data) {
			l.err = errors.New("a message of another length than was sent")
		}
	}
}
