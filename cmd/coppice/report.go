package main

import (
	"bufio"
	"fmt"
	"strconv"
	"strings"

	"github.com/coppice-go/coppice/logp"
	"github.com/coppice-go/coppice/protocol"
)

// simConfig is the configuration of a simulation, as its report repeats it.
type simConfig struct {
	P          int             `json:"P"`
	L          int64           `json:"L"`
	O          int64           `json:"o"`
	G          int64           `json:"g"`
	Root       int             `json:"root"`
	Tree       string          `json:"tree"`
	Order      string          `json:"order"`
	Correction string          `json:"correction"`
	Sync       string          `json:"sync"`
	Early      string          `json:"early,omitempty"`
	First      string          `json:"first"`
	Wrap       bool            `json:"wrap"`
	Sides      int             `json:"sides"`
	Queue      bool            `json:"queue"`
	Detect     protocol.Time   `json:"detect,omitempty"`
	FaultCount int             `json:"fault_count"`
	Block      int             `json:"block"`
	Failed     []protocol.Rank `json:"failed,omitempty"`
	Die        []death         `json:"die,omitempty"`
	Runs       int             `json:"runs"`
	Seed       uint64          `json:"seed"`
}

// String is the configuration in one line. What is as usual is left out.
func (c simConfig) String() string {
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
		{c.FaultCount > 0, fmt.Sprintf("; %d dead", c.FaultCount)},
		{c.Block > 1, fmt.Sprintf(" in blocks of %d", c.Block)},
		{len(c.Failed) > 0, fmt.Sprintf("; dead: %v", c.Failed)},
		{len(c.Die) > 0, fmt.Sprintf("; %d die on the way", len(c.Die))},
		{c.Detect > 1, fmt.Sprintf("; detected after %d", c.Detect)},
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
	Config simConfig `json:"config"`
	logp.Summary
	Seconds           float64 `json:"seconds"`
	MessagesPerSecond float64 `json:"messages_per_second"`

	messages int64
	longest  int // the first run with the longest quiescence
}

func newSimReport(c simConfig, results []logp.Result, seconds float64) *simReport {
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
	fmt.Fprintf(w, "%v\n\n", r.Config)
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
