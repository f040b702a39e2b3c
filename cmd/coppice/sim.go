package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/coppice-go/coppice/logp"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
)

// simCmd has the flags. The report of a simulation repeats those that its results depend on, under the keys that are said here.
type simCmd struct {
	P int `json:"P" name:"processes" short:"P" required:"" placeholder:"N" help:"Number of processes."`
	groupFlags
	G          int64  `json:"g" name:"gap" short:"g" default:"0" placeholder:"g" help:"LogP gap between sends, and between receives; less than o counts as o."`
	Correction string `json:"correction" default:"checked" placeholder:"C" help:"none, ack, opportunistic:D, opportunistic-sends:N, optimized:D, optimized-paper:D, checked, failure-proof:F or delayed:STEPS; D is per side, N messages in all; none with bfb (default ${default})."`
	ringFlags

	Runs    int    `json:"runs" default:"1" placeholder:"R" help:"Number of runs (default ${default})."`
	Seed    uint64 `json:"seed" default:"1" placeholder:"S" help:"Same seed, same results (default ${default})."`
	Workers int    `json:"-" default:"0" placeholder:"W" help:"Cores to use, 0 for all; the results do not depend on it."`
	JSON    bool   `json:"-" name:"json" help:"Print JSON."`

	Faults     *share          `json:"-" group:"faults" xor:"faults" placeholder:"1%" help:"So many per cent of the processes are dead from the start, drawn anew in each run, never the root."`
	FaultCount *int            `json:"fault_count" group:"faults" xor:"faults" placeholder:"N" help:"The same as a number."`
	Failed     []protocol.Rank `json:"failed,omitempty" group:"faults" xor:"faults" placeholder:"RANK" help:"These are dead from the start."`
	Block      int             `json:"block" group:"faults" default:"1" placeholder:"K" help:"Drawn processes die in blocks of K neighbours."`
	Die        []death         `json:"die,omitempty" group:"faults" placeholder:"RANK@t|RANK#k" help:"A process dies at time t, or after its k-th send; may be repeated."`
	Detect     *int64          `json:"detect,omitempty" group:"faults" placeholder:"D" help:"With --tree bfb and corrected reductions: every live process is told of a death so many steps after it (default 1)."`

	collectiveFlags `json:"-"`

	Queue bool `json:"queue" group:"ring" default:"true" negatable:"" help:"A process receives one message at a time; --queue=false lets receives overlap, as in Corrected Gossip."`

	Trace string `json:"-" placeholder:"FILE.html" help:"Draw one run, of up to 500 processes, into a page for the browser: of several runs the one with the longest quiescence."`
}

func (s *simCmd) Run(c *console) error {
	if s.Collective != "" {
		report, err := s.simulateCollective()
		return c.showOrRefuse(s.JSON, report, err)
	}
	if flag := changed(s, "algorithm", "size", "pieces", "per-byte", "hosts", "host-latency", "host-per-byte"); flag != "" {
		return badInput{fmt.Errorf("%s without --collective; allowed: with it", flag)}
	}
	report, err := s.simulate(c)
	if err != nil {
		return badInput{err}
	}
	if s.Trace != "" {
		if err := s.writeTrace(c, report.longest); err != nil {
			return err
		}
	}
	return c.show(s.JSON, report, report.write)
}

// simulate runs the simulation. All errors are about its input.
func (s *simCmd) simulate(c *console) (*simReport, error) {
	spec, net, runs, err := s.plan()
	if err != nil {
		return nil, err
	}
	var results []logp.Result
	seconds, err := c.timed(runs.Runs, func(done func(int)) error {
		runs.Progress = done
		results, err = logp.Broadcast(spec, net, runs)
		return err
	})
	if err != nil {
		return nil, err
	}
	return newSimReport(s.config(runs), results, seconds), nil
}

// plan turns the flags into what the simulator takes. What it does not check
// itself is checked by the simulator before it begins.
func (s *simCmd) plan() (spec broadcast.Spec, net logp.Network, runs logp.Runs, err error) {
	net = logp.Network{P: s.P, L: protocol.Time(s.L), O: protocol.Time(s.O), G: protocol.Time(s.G), NoQueue: !s.Queue}
	if err := cmp.Or(net.Check(), s.checkTrace()); err != nil {
		return spec, net, runs, err
	}
	if spec, err = s.groupFlags.spec(s.P, s.Correction, s.ringFlags); err != nil {
		return spec, net, runs, err
	}
	runs = logp.Runs{Runs: s.Runs, Seed: s.Seed, Workers: s.Workers}
	if runs.Faults, err = s.sampling(); err != nil {
		return spec, net, runs, err
	}
	if net.Detect, err = s.detector(); err != nil {
		return spec, net, runs, err
	}
	return spec, net, runs, checkMemory(net, runs)
}

// config is the configuration as the report repeats it, with what the flags leave open.
func (s *simCmd) config(runs logp.Runs) simCmd {
	c := *s
	c.FaultCount, c.Detect = &runs.Faults.Count, nil
	if after, _ := s.detector(); after > 0 {
		c.Detect = new(int64(after))
	}
	if s.Early == "" && s.Sync == "overlapped" {
		c.Early = "join"
	}
	return c
}

// sampling turns the flags about faults into what the simulator takes.
func (s *simCmd) sampling() (logp.Sampling, error) {
	f := logp.Sampling{Block: s.Block, Spare: protocol.Rank(s.Root), Fixed: logp.Faults{Failed: s.Failed}}
	switch {
	case s.Faults != nil:
		f.Count = s.Faults.of(s.P)
	case s.FaultCount != nil:
		f.Count = *s.FaultCount
	case s.Block != 1:
		return f, errors.New("--block without processes to draw; allowed with: --faults, --fault-count")
	}
	if s.Block < 1 {
		return f, fmt.Errorf("blocks of %d; allowed: 1 to %d", s.Block, max(s.P-1, 1))
	}
	dies := map[protocol.Rank]bool{}
	for _, r := range s.Failed {
		if dies[r] {
			return f, fmt.Errorf("--failed names rank %d twice; allowed: once", r)
		}
		dies[r] = true
	}
	for _, d := range s.Die {
		if dies[d.Rank] {
			return f, fmt.Errorf("rank %d dies twice; allowed: once in --failed and --die", d.Rank)
		}
		dies[d.Rank] = true
		f.Fixed.Deaths = append(f.Fixed.Deaths, logp.Death(d))
	}
	return f, f.Check(s.P)
}

// detector is how long after a death it is known; 0: there is no detector.
func (s *simCmd) detector() (protocol.Time, error) {
	switch {
	case s.Tree != "bfb" && s.Detect != nil:
		return 0, fmt.Errorf("--detect with tree %s, which needs no detector; allowed with: --tree bfb", s.Tree)
	case s.Tree != "bfb":
		return 0, nil
	}
	return s.detection()
}

// detection is how long after a death a detector tells of it.
func (s *simCmd) detection() (protocol.Time, error) {
	after := protocol.Time(given(s.Detect, 1))
	if after < 1 || after > 1<<30 {
		return 0, fmt.Errorf("detection after %d; allowed: 1 to 2^30", after)
	}
	return after, nil
}

// share is a part of all processes, written in per cent. It is exact: 0.7% of
// 1000 are 7.
type share struct{ per100 big.Rat }

// UnmarshalText reads 1%, 0.01% and the like.
func (s *share) UnmarshalText(text []byte) error {
	number, percent := strings.CutSuffix(string(text), "%")
	if percent && number != "" && strings.Trim(number, "0123456789.") == "" {
		if _, ok := s.per100.SetString(number); ok && s.per100.Cmp(big.NewRat(100, 1)) <= 0 {
			return nil
		}
	}
	return fmt.Errorf("%q; allowed: 0%% to 100%% with the percent sign, such as 0.5%%; a number of processes is --fault-count", text)
}

// of returns round(p·share).
func (s *share) of(p int) int {
	n := new(big.Rat).Mul(&s.per100, big.NewRat(int64(p), 100))
	n.Add(n, big.NewRat(1, 2))
	return int(new(big.Int).Quo(n.Num(), n.Denom()).Int64())
}

// death is written RANK@t or RANK#k.
type death logp.Death

// UnmarshalText reads what MarshalText writes.
func (d *death) UnmarshalText(text []byte) error {
	s := string(text)
	i := strings.IndexAny(s, "@#")
	rank, wrong := strconv.ParseInt(s[:max(i, 0)], 10, 32) // no rank where there is neither
	n, also := strconv.ParseInt(s[i+1:], 10, 64)
	if wrong != nil || also != nil || n < 0 || s[i] == '#' && n == 0 {
		return fmt.Errorf("%q; allowed: RANK@t with a time t from 0, or RANK#k with a number of sends k from 1", s)
	}
	d.Rank = protocol.Rank(rank)
	if s[i] == '@' {
		d.At = protocol.Time(n)
	} else {
		d.AfterSends = int(n)
	}
	return nil
}

// MarshalText writes the death as the flag has it.
func (d death) MarshalText() ([]byte, error) {
	if d.AfterSends > 0 {
		return fmt.Appendf(nil, "%d#%d", d.Rank, d.AfterSends), nil
	}
	return fmt.Appendf(nil, "%d@%d", d.Rank, d.At), nil
}

// summary is the configuration in one line. What is as usual is left out.
func (c *simCmd) summary() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s, %s", c.Tree, c.Order, c.Correction)
	if c.Correction != "none" && c.Correction != "ack" {
		fmt.Fprintf(&b, " %s", c.Sync)
	}
	fmt.Fprintf(&b, "; P=%d L=%d o=%d", c.P, c.L, c.O)
	for _, unusual := range []struct {
		is   bool
		text string
	}{
		{c.G > 0, fmt.Sprintf(" g=%d", c.G)},
		{!c.Queue, " no queue"},
		{c.Root > 0, fmt.Sprintf("; root %d", c.Root)},
		{c.Early == "serve", "; early serve"},
		{c.First != "left", "; first " + c.First},
		{!c.Wrap, "; open ring"},
		{c.Sides == 1, "; one side"},
		{*c.FaultCount > 0, fmt.Sprintf("; %d dead", *c.FaultCount)},
		{c.Block > 1, fmt.Sprintf(" in blocks of %d", c.Block)},
		{len(c.Failed) > 0, fmt.Sprintf("; dead: %v", c.Failed)},
		{len(c.Die) > 0, fmt.Sprintf("; %d die on the way", len(c.Die))},
		{given(c.Detect, 0) > 1, fmt.Sprintf("; detected after %d", given(c.Detect, 0))},
	} {
		if unusual.is {
			b.WriteString(unusual.text)
		}
	}
	fmt.Fprintf(&b, "; %s, seed %d", count(c.Runs, "run"), c.Seed)
	return b.String()
}

// simReport is what a simulation came to. Everything but the last two is the
// same for the same configuration.
type simReport struct {
	Config simCmd `json:"config"`
	logp.Summary
	Seconds           float64 `json:"seconds"`
	MessagesPerSecond float64 `json:"messages_per_second"`

	messages int64
	longest  int // the first run with the longest quiescence
}

func newSimReport(c simCmd, results []logp.Result, seconds float64) *simReport {
	r := &simReport{Config: c, Summary: logp.Summarize(results, c.P), Seconds: seconds}
	for i := range results {
		r.messages += results[i].Sent()
		if results[i].Quiescence > results[r.longest].Quiescence {
			r.longest = i
		}
	}
	r.MessagesPerSecond = float64(r.messages) / r.Seconds
	return r
}

// write prints the report for people.
func (r *simReport) write(w *bufio.Writer) {
	fmt.Fprintf(w, "%s\n\n", r.Config.summary())
	table := newTable(w)
	if r.Runs > 1 {
		fmt.Fprintln(table, "\tmean\tp50\tp99\tp999\tmax\t")
	}
	for _, row := range []struct {
		name   string
		figure logp.Statistic
	}{
		{"coloring (steps)", r.Coloring},
		{"quiescence (steps)", r.Quiescence},
		{"correction (steps)", r.Correction},
		{"messages per process", r.MessagesPerProcess},
		{"dissemination messages", r.DisseminationMessages},
		{"correction messages", r.CorrectionMessages},
		{"largest gap", r.GapMax},
		{"uncolored", r.Uncolored},
	} {
		f := row.figure
		figures := []float64{f.Mean, f.P50, f.P99, f.P999, f.Max}
		if r.Runs == 1 {
			figures = figures[:1]
		}
		// Names to the left, figures to the right.
		fmt.Fprintf(table, "%-22s", row.name)
		for _, f := range figures {
			fmt.Fprintf(table, "\t%s", number(f))
		}
		fmt.Fprintln(table, "\t")
	}
	table.Flush()
	fmt.Fprintf(w, "\n%s messages in %.2g s: %.1f million a second\n", thousands(r.messages), r.Seconds, r.MessagesPerSecond/1e6)
}

// number writes whole numbers without a fraction, others with two digits.
func number(f float64) string {
	if f == float64(int64(f)) {
		return strconv.FormatInt(int64(f), 10)
	}
	return strconv.FormatFloat(f, 'f', 2, 64)
}

// thousands writes 1234567 as 1,234,567.
func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
