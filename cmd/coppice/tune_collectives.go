package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	benchloop "github.com/coppice-go/coppice/bench/loop"
	"github.com/coppice-go/coppice/internal/transport"
	"github.com/coppice-go/coppice/protocol/collective"
)

// tuneCollectivesFlags make tune measure collectives.
type tuneCollectivesFlags struct {
	Collectives bool     `group:"Switch points of collectives:" help:"Instead of choosing T: measure the algorithms of collectives, and write rules for which to use."`
	Op          []string `group:"Switch points of collectives:" placeholder:"OP" help:"broadcast, reduce, allreduce, scatter, gather, allgather, alltoall, or all of these (default all)."`
	Size        []string `group:"Switch points of collectives:" placeholder:"SIZE" help:"Bytes of a task's block, for alltoall of a pair's (default 8B,1KiB,16KiB,64KiB,256KiB,1MiB)."`
	N           []int    `bounds:"%d processes; allowed: 2 to 4096" short:"n" group:"Switch points of collectives:" placeholder:"N" help:"Numbers of processes to measure with (default 2,4,8)."`
	Transport   string   `group:"Switch points of collectives:" placeholder:"T" help:"shared (memory), unix, tcp or tls (default shared)."`
	Rounds      *int     `bounds:"%d rounds; allowed: 1 to 1000" group:"Switch points of collectives:" placeholder:"R" help:"How often all algorithms take turns (default 5)."`
	Out         string   `group:"Switch points of collectives:" placeholder:"FILE" help:"Write the rules to a file, for COPPICE_TUNING."`
}

// tuningVariable names the file with rules to the processes of a job, as package
// coppice reads it.
const tuningVariable = "COPPICE_TUNING"

// What is measured.
const (
	tuneRounds        = 5
	tuneSeconds       = 0.1 // a candidate at one size, in one round
	tuneIterationsMin = 10
	tuneHopeless      = 4 // so many times slower than the best in the first round, and it is left out
)

var (
	tuneSizes     = []string{"8B", "1KiB", "16KiB", "64KiB", "256KiB", "1MiB"}
	tuneProcesses = []int{2, 4, 8}
	tuneSpans     = []int64{64 << 10, 256 << 10} // tried where at least two pieces come of it
)

// Flags about gossip, and those about what is measured.
var (
	gossipFlags    = []string{"algo", "delta", "success", "broadcasts", "f", "failed", "margin"}
	measuringFlags = []string{"op", "size", "n", "transport", "rounds", "out"}
)

func (t *tuneCmd) runCollectives(c *console) error {
	tuner, err := t.collectiveTuner(c)
	if err != nil {
		return badInput{err}
	}
	seconds, err := c.timed(tuner.total(), tuner.measureAll)
	if err != nil {
		return err
	}
	report := newTuneCollectivesReport(tuner)
	report.Seconds = seconds
	if t.Out != "" {
		if err := os.WriteFile(t.Out, rulesText(report.Rules), 0o666); err != nil {
			return err
		}
	}
	return c.show(t.JSON, report, func(w *bufio.Writer) { report.write(w, t.Out) })
}

// collectiveTuner measures candidates.
type collectiveTuner struct {
	transport string
	rounds    int
	cells     []tuneCell  // those of one group follow each other
	loops     []benchCell // how each cell is measured
	// run fills in the figures of loops, which are of one number of processes, with
	// these rules; done is told how many it has.
	run func(rules []byte, loops []benchCell, done func(int)) error
}

// collectiveTuner is what the flags ask for. All errors are about them.
func (t *tuneCmd) collectiveTuner(c *console) (*collectiveTuner, error) {
	if flag := changed(t, append([]string{"processes", "latency", "overhead"}, gossipFlags...)...); flag != "" {
		return nil, fmt.Errorf("%s with --collectives; allowed: --op, --size, -n, --transport, --rounds, --out, --json", flag)
	}
	bench := t.bench()
	tuner := &collectiveTuner{transport: bench.Transport, rounds: given(t.Rounds, tuneRounds)}
	if err := t.checkTuner(bench); err != nil {
		return nil, err
	}
	loops, err := bench.cells()
	if err != nil {
		return nil, err
	}
	for _, l := range loops {
		op, err := collective.ParseOp(l.Op)
		if err != nil {
			return nil, err
		}
		l.Iterations = max(tuneIterationsMin, benchloop.Iterations(l.Op, l.Bytes, l.Processes, tuneSeconds))
		l.Warmup = benchloop.Warmup(l.Iterations)
		tuner.loops = append(tuner.loops, l)
		tuner.cells = append(tuner.cells, newTuneCell(tuner.table(), op, l.Processes, int64(l.Bytes)))
	}
	tuner.run = func(rules []byte, loops []benchCell, done func(int)) error {
		return runTuned(c, bench, rules, loops, done)
	}
	return tuner, nil
}

// bench is the benchmark that measures all combinations, each once.
func (t *tuneCmd) bench() *benchCmd {
	b := &benchCmd{Op: t.Op, Size: t.Size, N: t.N, Transport: cmp.Or(t.Transport, benchTransports[0]), Mode: plainMode}
	if b.Op == nil || slices.Equal(b.Op, []string{all}) {
		b.Op = tunable()
	}
	if b.Size == nil {
		b.Size = tuneSizes
	}
	if b.N == nil {
		b.N = tuneProcesses
	}
	b.Op, b.Size, b.N = unique(b.Op), unique(b.Size), unique(b.N)
	return b
}

// unique leaves out what is there already.
func unique[T comparable](list []T) (once []T) {
	for _, v := range list {
		if !slices.Contains(once, v) {
			once = append(once, v)
		}
	}
	return once
}

// tunable are the operations that have several algorithms.
func tunable() (names []string) {
	for _, name := range benchCollectives {
		if op, err := collective.ParseOp(name); err == nil && len(collective.Algorithms(collective.Spec{Op: op, P: 2})) > 1 {
			names = append(names, name)
		}
	}
	return names
}

// checkTuner checks what a benchmark would allow, and this does not.
func (t *tuneCmd) checkTuner(b *benchCmd) error {
	for _, op := range b.Op {
		if !slices.Contains(tunable(), op) {
			return fmt.Errorf("operation %q; allowed, as there are several algorithms: %s, or all", op, strings.Join(tunable(), ", "))
		}
	}
	if !slices.Contains(benchTransports, b.Transport) {
		return fmt.Errorf("transport %q; allowed: %s", b.Transport, strings.Join(benchTransports, ", "))
	}
	return checkNewFile("--out", t.Out)
}

// checkNewFile finds out about a bad name before anything is measured.
func checkNewFile(flag, name string) error {
	if name == "" {
		return nil
	}
	dir := filepath.Dir(name)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return fmt.Errorf("%s %s: there is no directory %s; allowed: a file in an existing one", flag, name, dir)
	}
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s %s: that is no ordinary file; allowed: a new file, or one to write over", flag, name)
	}
	return nil
}

// table is the default one where the transport is used.
func (t *collectiveTuner) table() collective.Table {
	if t.transport == transport.Shared {
		return collective.InMemory.Table()
	}
	return collective.Default
}

// newTuneCell has all candidates: every algorithm that fits, in one and in pieces,
// and what the default table chooses. Sums of float64 have one order.
func newTuneCell(table collective.Table, op collective.Op, p int, bytes int64) tuneCell {
	c := tuneCell{table: table, op: op, p: p, bytes: bytes}
	add := func(one choice) {
		if c.find(one) == nil {
			c.candidates = append(c.candidates, candidate{choice: one})
		}
	}
	for _, a := range collective.Algorithms(collective.Spec{Op: op, P: p}) {
		add(choice{a, 0})
		for _, span := range tuneSpans {
			if collective.Spans(op, a) && bytes >= 2*span {
				add(choice{a, span})
			}
		}
	}
	add(c.usual())
	return c
}

// total is how many measurements there are, with those that may be left out.
func (t *collectiveTuner) total() (n int) {
	for _, c := range t.cells {
		n += len(c.candidates)
	}
	return n * t.rounds
}

// measureAll measures all candidates. done is told how many measurements are
// finished.
func (t *collectiveTuner) measureAll(done func(int)) error {
	finished := 0
	for i := 0; i < len(t.cells); {
		cells := sameGroup(t.cells[i:])
		for round := range t.rounds {
			choices := choicesOf(cells)
			if round%2 == 1 { // nobody is always the first
				slices.Reverse(choices)
			}
			for _, one := range choices {
				n, err := t.measure(one, i, len(cells), func(k int) { done(finished + k) })
				if err != nil {
					return err
				}
				finished += n
			}
			if round == 0 {
				finished += leaveOut(cells) * (t.rounds - 1)
			}
		}
		i += len(cells)
	}
	return nil
}

// choicesOf lists those of any size.
func choicesOf(cells []tuneCell) (all []choice) {
	for i := range cells {
		for _, c := range cells[i].candidates {
			all = append(all, c.choice)
		}
	}
	return unique(all)
}

// measure measures one choice once, at all sizes of the group of n cells from i on
// where it is a candidate, and returns at how many.
func (t *collectiveTuner) measure(one choice, i, n int, done func(int)) (int, error) {
	var loops []benchCell
	var measured []*candidate
	for k := i; k < i+n; k++ {
		if c := t.cells[k].find(one); c != nil && !c.out {
			loops, measured = append(loops, t.loops[k]), append(measured, c)
		}
	}
	if len(loops) == 0 {
		return 0, nil
	}
	rule := collective.Rule{Op: t.cells[i].op, Algorithm: one.Algorithm, Span: one.Span}
	if err := t.run(rulesText(collective.Table{rule}), loops, done); err != nil {
		return 0, fmt.Errorf("%v by %v among %d processes: %w", rule.Op, one, t.cells[i].p, err)
	}
	for k, c := range measured {
		c.rounds = append(c.rounds, loops[k].Median)
	}
	return len(loops), nil
}

// leaveOut ends the measurements of hopeless candidates, and returns how many they
// are. The default is never hopeless: what replaces it must have beaten it in all
// rounds together.
func leaveOut(cells []tuneCell) (n int) {
	for i := range cells {
		c := &cells[i]
		limit := tuneHopeless * c.best(nil).us()
		for k := range c.candidates {
			one := &c.candidates[k]
			if one.us() > limit && one.choice != c.usual() {
				one.out = true
				n++
			}
		}
	}
	return n
}

// runTuned runs a benchmark whose processes have these rules.
func runTuned(c *console, b *benchCmd, rules []byte, loops []benchCell, done func(int)) error {
	file, err := os.CreateTemp("", "coppice-rules-*.json")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	_, err = file.Write(rules)
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	return b.measure(c, loops, done, tuningVariable+"="+file.Name())
}

// rulesText is rules as collective.ParseTable reads them, one a line.
func rulesText(rules collective.Table) []byte {
	if len(rules) == 0 {
		return []byte("[]\n")
	}
	lines := each(rules, func(r collective.Rule) string {
		line, err := json.Marshal(r)
		if err != nil {
			panic(err) // numbers and names
		}
		return string(line)
	})
	return []byte("[\n  " + strings.Join(lines, ",\n  ") + "\n]\n")
}

// tuneCollectivesReport is what measuring came to.
type tuneCollectivesReport struct {
	Transport string           `json:"transport"`
	Rounds    int              `json:"rounds"`
	Rules     collective.Table `json:"rules"`
	Measured  []tuneMeasured   `json:"measured"`
	Seconds   float64          `json:"seconds"`
}

// tuneMeasured is a cell as the report has it.
type tuneMeasured struct {
	Op         string     `json:"op"`
	Processes  int        `json:"processes"`
	Bytes      int64      `json:"bytes"`
	Best       tuneTime   `json:"best"`
	Default    tuneTime   `json:"default"`
	Ratio      float64    `json:"ratio"` // of the default's time to the best
	Chosen     tuneTime   `json:"chosen"`
	Candidates []tuneTime `json:"candidates"`
}

// tuneTime is a candidate as the report has it.
type tuneTime struct {
	Algorithm string  `json:"algorithm"`
	Span      int64   `json:"span,omitempty"`
	US        float64 `json:"median_us"`
	Rounds    int     `json:"rounds"`
	choice    `json:"-"`
}

func newTuneTime(c *candidate) tuneTime {
	return tuneTime{c.Algorithm.String(), c.Span, c.us(), len(c.rounds), c.choice}
}

// newTuneCollectivesReport derives the rules.
func newTuneCollectivesReport(t *collectiveTuner) *tuneCollectivesReport {
	r := &tuneCollectivesReport{Transport: t.transport, Rounds: t.rounds, Rules: deriveRules(t.cells)}
	table := slices.Concat(t.table(), r.Rules)
	for i := range t.cells {
		c := &t.cells[i]
		m := tuneMeasured{Op: c.op.String(), Processes: c.p, Bytes: c.bytes}
		m.Best, m.Default = newTuneTime(c.best(nil)), newTuneTime(c.find(c.usual()))
		m.Ratio = m.Default.US / m.Best.US
		m.Chosen = m.Default
		if one := c.find(c.chosen(table)); one != nil {
			m.Chosen = newTuneTime(one)
		}
		for k := range c.candidates {
			m.Candidates = append(m.Candidates, newTuneTime(&c.candidates[k]))
		}
		r.Measured = append(r.Measured, m)
	}
	return r
}

// write prints the report for people; the rules are in the file, if it has a name.
func (r *tuneCollectivesReport) write(w *bufio.Writer, file string) {
	fmt.Fprintf(w, "%s; rounds: %d\n\n", r.Transport, r.Rounds)
	tabulate(newTable(w), "         \tp\tsize\tbest\tµs\tdefault\tµs\tratio\trule\t", r.Measured, func(m tuneMeasured) string {
		rule := ""
		if m.Chosen.choice != m.Default.choice {
			rule = m.Chosen.choice.String()
		}
		return fmt.Sprintf("%-9s\t%d\t%s\t%v\t%.1f\t%v\t%.1f\t%.2f\t%s\t", m.Op, m.Processes, sizeText(int(m.Bytes)),
			m.Best.choice, m.Best.US, m.Default.choice, m.Default.US, m.Ratio, rule)
	})
	fmt.Fprintln(w)
	switch {
	case len(r.Rules) == 0:
		fmt.Fprintf(w, "No rules: nothing beats the default by more than %.0f%%.\n", 100*(noise-1))
		return
	case file == "":
		w.Write(rulesText(r.Rules))
		file = "FILE"
		fmt.Fprint(w, "\n--out FILE writes the rules to a file. ")
	default:
		fmt.Fprintf(w, "Rules in %s: %d. ", file, len(r.Rules))
	}
	fmt.Fprintf(w, "To use them: %s=%s coppice run …; the file must be the same on all hosts.\n", tuningVariable, file)
}
