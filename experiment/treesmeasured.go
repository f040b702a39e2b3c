package experiment

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/coppice-go/coppice/experiment/chart"
	"github.com/coppice-go/coppice/model"
)

// Corrected Trees, §4.4, measured an implementation on up to 512 nodes with 72 processes each. Its figures 11
// and 12 are measured here on the processes of one machine: absolute times have nothing in common, so ratios
// are compared. The figures' values are not in the paper's text; what the text says about them is.

var treesMeasured = []Experiment{
	treesWork.figure("11", "§4.4", "Broadcast on real processes, ours and the vendor's",
		"Median over launches of the median latency of a broadcast of 8 bytes, and quartiles of the launches; processes of this machine, ours over Unix sockets, Open MPI in the place of Cray's MPI.", treesFig11),
	treesWork.figure("12", "§4.4", "Corrected broadcasts on real processes",
		"Median over launches of the median latency of a broadcast of 8 bytes, and quartiles of the launches; processes of this machine, over Unix sockets.", treesFig12),
}

// The defaults if the Lab says nothing else: what one machine holds.
var (
	measuredProcesses = []int{4, 8, 16, 32}
	measuredBytes     = []int{smallest, 1 << 10, 64 << 10}
)

// smallest is the size that claims are about.
const smallest = 8

const gossipTree = "gossip"

// The contenders, as the figures name them.
var (
	plainTree   = contender{name: "binomial, no correction", side: Coppice, tree: "binomial"}
	checkedBin  = contender{name: "binomial, checked", side: Coppice, tree: "binomial", correction: "checked"}
	twoMessages = contender{name: "binomial, 2 corrections", side: Coppice, tree: "binomial", correction: "optimized:1"}
	fourMessage = contender{name: "binomial, 4 corrections", side: Coppice, tree: "binomial", correction: "optimized:2"}
	lameTree    = contender{name: "Lamé, 2 corrections", side: Coppice, tree: "lame:2", correction: "optimized:1"}
	oneFailed   = contender{name: "2 corrections, 1 failed", side: Coppice, tree: "binomial", correction: "optimized:1", failed: 1}
	vendorTCP   = contender{name: "Open MPI, TCP", side: OpenMPITCP}
	vendorOwn   = contender{name: "Open MPI, shared memory", side: OpenMPIShared}
	gossips     = []contender{
		{name: "gossip, fewer rounds", side: Coppice, tree: gossipTree, gossip: -1, correction: "checked"},
		{name: "gossip, more rounds", side: Coppice, tree: gossipTree, gossip: 1, correction: "checked"},
	}
)

// measure measures the contenders. The tables give ratios to the first. It returns nil if something is
// missing, which the finding then says.
func (f *attempt) measure(contenders ...contender) *view {
	c := &contest{bytes: measuredBytes, contenders: contenders}
	if !f.hold(f.Name, c) {
		return nil
	}
	f.tabulate(c)
	small := c.of("", smallest)
	f.plotLatency(small)
	f.Chart.Title = fmt.Sprintf("Broadcast of %d bytes", smallest)
	f.noteMachine(": with more processes than cores, a broadcast waits for its turns. Each configuration was launched %s, with %s of each size after a warm-up and a barrier, not timed, between them; contenders take turns, and ratios are medians of the ratios of launches that are neighbours in time. A broadcast counts from the root's beginning to the last end; the paper's benchmark averages over the processes.",
		times(c.rounds, "time"), times(c.iterations, "broadcast"))
	if c.rounds < launchesMax || c.iterations < 50 {
		f.note("So few broadcasts tell little: --runs 1000 is %d launches of 100.", launchesMax)
	}
	return &small
}

// noteMachine adds a note on which machine something was measured, and how.
func (f *Finding) noteMachine(how string, args ...any) {
	machine := []any{runtime.GOOS, runtime.GOARCH, runtime.NumCPU()}
	f.note("Measured on %s/%s, %d cores, over which the processes are spread"+how, append(machine, args...)...)
}

// hold runs a contest on the requested processes, unless the contest names some, with what was saved under a
// name. It returns false if something is missing, which the finding then says.
func (f *attempt) hold(name string, c *contest) bool {
	f.Measured = true
	if f.lab.Starter == nil {
		f.Skipped = "nothing here starts processes; the command coppice does"
		return false
	}
	for _, who := range c.contenders {
		missing, err := f.lab.Starter.Missing(f.ctx, who.side)
		if f.fail(err); missing != "" || f.err != nil {
			f.Skipped = missing
			return false
		}
	}
	f.Processes = f.lab.Processes
	if c.processes == nil {
		c.processes = f.lab.processes()
	}
	if c.processes[0] < 2 {
		f.fail(errors.New("fewer than 2 processes; allowed: 2 or more"))
		return false
	}
	f.fail(f.lab.compete(f.ctx, name, c))
	return f.err == nil
}

// processes returns the numbers of processes that an experiment is measured on, each number once.
func (l *Lab) processes() []int {
	if len(l.Processes) == 0 {
		return measuredProcesses
	}
	return slices.Compact(slices.Sorted(slices.Values(l.Processes)))
}

func times(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// tabulate adds the tables: the smallest size first, the others after it.
func (f *Finding) tabulate(c *contest) {
	base := c.contenders[0]
	for _, bytes := range c.bytes {
		t := f.table("", "broadcast", "processes", "median_us", "q25_us", "q75_us", "ratio", "ratio_q25", "ratio_q75", "launches", "iterations")
		if bytes != smallest {
			t.Name = fmt.Sprintf("%dB", bytes)
		}
		v := c.of("", bytes)
		for _, who := range c.contenders {
			for _, p := range c.processes {
				us, r := v.spread(who, p), v.ratio(who, base, p)
				t.Add(who.name, p, us.Median, us.Low, us.High, r.Median, r.Low, r.High, c.rounds, c.iterations)
			}
		}
	}
	sizes := each(c.bytes, strconv.Itoa)
	f.note("The tables are of broadcasts of %s bytes, in this order; ratios are to «%s». The paper's text does not say which size its figures show.", strings.Join(sizes, ", "), base.name)
}

// plotLatency draws how long every contender took, over the number of processes.
func (f *Finding) plotLatency(v view) { f.plot(v.contest, "median latency (µs)", v.spread) }

// plot draws a value of every contender over the number of processes.
func (f *Finding) plot(c *contest, label string, of func(who contender, p int) model.Spread) {
	f.Chart = &chart.Chart{Title: f.Title, X: chart.Axis{Label: "processes", Log: 2}, Y: chart.Axis{Label: label, Log: 10}}
	for _, who := range c.contenders {
		f.curve(who.name, c.processes, func(p int) model.Spread { return of(who, p) })
	}
}

// curve adds a line with whiskers to the chart.
func (f *Finding) curve(name string, xs []int, of func(x int) model.Spread) {
	s := f.Chart.Add(name, chart.Line|chart.Marks)
	for _, x := range xs {
		v := of(x)
		s.Points = append(s.Points, chart.Point{X: float64(x), Y: v.Median, Low: v.Low, High: v.High})
	}
}

// measured is a claim about ratios, one for each number of processes.
type measured struct {
	what, paper string
	ratios      []ratio
	mean        bool    // judge the geometric mean, not each ratio
	low, high   float64 // the bounds within which it agrees; high 0: none
	reading     string  // why these bounds
}

// judge adds the claim.
func (f *Finding) judge(m measured) {
	judged := medians(m.ratios)
	seen := each(m.ratios, func(r ratio) string { return fmt.Sprintf("%.2f (%.2f–%.2f) at %d", r.Median, r.Low, r.High, r.p) })
	ours, which := "ratio "+strings.Join(seen, ", "), "every ratio"
	if m.mean {
		judged, which = []float64{model.GeometricMean(judged)}, "the geometric mean"
		ours += fmt.Sprintf("; geometric mean %.2f", judged[0])
	}
	bounds := fmt.Sprintf("from %.2f to %.2f", m.low, m.high)
	switch {
	case m.high == 0:
		bounds = fmt.Sprintf("%.2f or more", m.low)
	case m.low == 0:
		bounds = fmt.Sprintf("at most %.2f", m.high)
	}
	c := Claim{
		What: m.what, Paper: m.paper, Ours: ours, Verdict: Agrees,
		Reason: fmt.Sprintf("agrees if %s is %s: %s", which, bounds, m.reading),
	}
	if !m.within(judged) {
		c.Verdict = Differs
	}
	if !m.firm(c.Verdict == Agrees) {
		c.Reason += "; not firm: launches at the quartiles would say otherwise"
	}
	f.Claims = append(f.Claims, c)
}

// within reports whether all values are within the bounds.
func (m measured) within(values []float64) bool {
	return !slices.ContainsFunc(values, func(v float64) bool { return v < m.low || m.high > 0 && v > m.high })
}

// firm reports whether the quartiles of the ratios lead to the same verdict as their medians.
func (m measured) firm(agrees bool) bool {
	for _, of := range []func(ratio) float64{func(r ratio) float64 { return r.Low }, func(r ratio) float64 { return r.High }} {
		values := each(m.ratios, of)
		if m.mean {
			values = []float64{model.GeometricMean(values)}
		}
		if m.within(values) != agrees {
			return false
		}
	}
	return true
}

// otherSizes describes the geometric means of ratios at the sizes that no claim is about.
func (c *contest) otherSizes(who, to contender) string {
	var parts []string
	for _, bytes := range c.bytes {
		if bytes != smallest {
			parts = append(parts, fmt.Sprintf("%.2f at %d bytes", c.of("", bytes).mean(who, to), bytes))
		}
	}
	return strings.Join(parts, ", ")
}

func treesFig11(f *attempt) {
	c := f.measure(append([]contender{vendorTCP, vendorOwn, plainTree, checkedBin}, gossips...)...)
	if c == nil {
		return
	}
	f.judge(measured{
		what: "our tree without correction, over the vendor's without shared memory", paper: "very similar, comparable especially up to 128 nodes",
		ratios: c.ratios(plainTree, vendorTCP), high: 1.5,
		reading: "what is claimed is an implementation that a vendor's does not outrun; below 1 ours is faster",
	})
	var best []ratio
	for _, p := range c.processes {
		fewer, more := c.ratio(gossips[0], checkedBin, p), c.ratio(gossips[1], checkedBin, p)
		if fewer.Median < more.Median {
			more = fewer
		}
		best = append(best, more)
	}
	f.judge(measured{
		what: "Corrected Gossip at its better number of rounds, over the corrected tree", paper: "consistently worse than trees",
		ratios: best, low: 1,
		reading: "both with checked correction, which reaches all after any number of rounds; the paper's sends four correction messages",
	})
	f.note("Claims are about %d bytes. Our tree without correction over the vendor's without shared memory, other sizes: %s. The tree is binomial at every size, as the paper's; a plain broadcast of large values that names no tree goes in pieces.", smallest, c.otherSizes(plainTree, vendorTCP))
	f.note("The vendor's with shared memory over that without: geometric mean %.2f. Gossip is tried with 2⌈log2 p⌉−1 and 2⌈log2 p⌉+1 rounds.", c.mean(vendorOwn, vendorTCP))
}

// failedFrom is the number of processes from which on a failed one is a small part of those that wait for the
// message.
const failedFrom = 8

func treesFig12(f *attempt) {
	c := f.measure(plainTree, twoMessages, fourMessage, checkedBin, lameTree, oneFailed)
	if c == nil {
		return
	}
	f.judge(measured{
		what: "two correction messages, over none", paper: "slight overhead for one message, more for two",
		ratios: c.ratios(twoMessages, plainTree), mean: true, low: 0.9, high: 1.3,
		reading: "«slight» is read as what bench/README.md allows a corrected broadcast; a gain of more than a tenth would be no overhead",
	})
	f.judge(measured{
		what: "four correction messages, over two", paper: "each one adds to the latency",
		ratios: c.ratios(fourMessage, twoMessages), mean: true, low: 0.95,
		reading: "a gain of up to 5% is none",
	})
	f.judge(measured{
		what: "Lamé tree, over binomial, both with two correction messages", paper: "almost no improvement; binomial outperforms",
		ratios: c.ratios(lameTree, twoMessages), mean: true, low: 0.95,
		reading: "a gain of up to 5% is none",
	})
	some := c.processes
	if from := slices.IndexFunc(some, func(p int) bool { return p >= failedFrom }); from >= 0 {
		some = some[from:]
	}
	f.judge(measured{
		what: "one failed process, over none, two correction messages", paper: "no change (72 failed processes)",
		ratios: c.ratiosOn(some, oneFailed, twoMessages), mean: true, low: 1 / 1.25, high: 1.25,
		reading: fmt.Sprintf("a quarter of noise; from %d processes on, where a failed one is a small part of the receivers", failedFrom),
	})
	f.note("Claims are about %d bytes. Two correction messages over none, other sizes: %s. One failed process over none: %s.", smallest, c.otherSizes(twoMessages, plainTree), c.otherSizes(oneFailed, twoMessages))
	f.note("The paper sends one or two correction messages, to one side; ours go to both sides: two are one to each (optimized:1), four are two to each (optimized:2). Checked correction is what Corrected(\"checked\") does by default, and is in no figure of the paper. The failed process, another in each launch and never the root, is killed before the first broadcast, and all know it: what is sent to it ends at the sender.")
}
