package main

import (
	"bufio"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/coppice-go/coppice/logp"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
	"github.com/coppice-go/coppice/topology"
)

// The demo of the simulator: a broadcast among 16 processes, drawn; ways to broadcast among 65,536 with 1% dead,
// compared; one broadcast among 1,048,576.

// simulatorDemo is a performance: what it prints as it goes and what it comes to.
type simulatorDemo struct {
	*console
	silent bool  // it prints JSON in the end
	lost   error // what it said and did not get through

	OK      bool            `json:"ok"`
	Killed  []protocol.Rank `json:"killed"` // in the first act
	Small   smallAct        `json:"small"`
	Large   []demoRow       `json:"large"`
	Million demoRow         `json:"million"`
	Seconds float64         `json:"seconds"`
}

// smallAct is a broadcast that can be drawn.
type smallAct struct {
	Processes  int             `json:"processes"`
	Missed     []protocol.Rank `json:"missed"`    // by the tree
	Corrected  []coloring      `json:"corrected"` // by correction
	Uncolored  int             `json:"uncolored"` // in the end
	Coloring   protocol.Time   `json:"coloring"`
	Quiescence protocol.Time   `json:"quiescence"`
}

// demoRow is a simulation of the demo.
type demoRow struct {
	Name    string `json:"name"`
	Command string `json:"command"` // that repeats it
	*simReport

	colorsAll bool // claimed; otherwise that some are missed
}

func (d *demoCmd) simulator(c *console) error {
	began := time.Now()
	show := simulatorDemo{console: c, silent: d.JSON, Killed: []protocol.Rank{2, 5}}
	for _, act := range []func() error{show.small, show.large, show.million} {
		if err := act(); err != nil {
			return fmt.Errorf("demo: %w", err)
		}
	}
	wrong := show.check()
	show.OK = wrong == nil
	show.Seconds = time.Since(began).Seconds()
	if d.JSON {
		show.lost = c.printJSON(show)
	} else if show.OK {
		show.say("\n%s\n", c.in(green, fmt.Sprintf("What is claimed above was checked. %.1f s.", show.Seconds)))
	}
	return errors.Join(wrong, show.lost)
}

func (d *simulatorDemo) say(format string, args ...any) {
	if d.silent {
		return
	}
	if _, err := fmt.Fprintf(d.stdout, format, args...); err != nil {
		d.lost = err
	}
}

// check compares the results with what the demo claims.
func (d *simulatorDemo) check() error {
	s := &d.Small
	if len(s.Missed) == 0 || len(s.Corrected) != len(s.Missed) || s.Uncolored != 0 {
		return fmt.Errorf("demo: the tree missed %v, correction colored %v, %d stay uncolored", s.Missed, s.Corrected, s.Uncolored)
	}
	for _, row := range append(slices.Clone(d.Large), d.Million) {
		if all := row.Uncolored.Max == 0; all != row.colorsAll {
			return fmt.Errorf("demo: %s: up to %g processes stay uncolored", row.Name, row.Uncolored.Max)
		}
	}
	return nil
}

// small is the first act.
func (d *simulatorDemo) small() error {
	net := logp.Network{P: 16, L: 2, O: 1}
	spec := broadcast.Spec{Tree: "binomial", Correction: "checked", Synchronized: true}
	tree, err := topology.Binomial(net.P, spec.Order)
	if err != nil {
		return err
	}
	runs := logp.Runs{Runs: 1, Faults: logp.Sampling{Fixed: logp.Faults{Failed: d.Killed}}}
	records, result, err := logp.TraceBroadcast(spec, net, runs, 0)
	if err != nil {
		return err
	}
	colored := colorings(records)
	reached := append(slices.Clone(d.Killed), protocol.Rank(tree.Root())) // by the tree, or dead
	d.Small = smallAct{
		Processes: net.P, Uncolored: result.Uncolored, Coloring: result.Coloring, Quiescence: result.Quiescence,
	}
	for _, c := range colored {
		if c.Tree {
			reached = append(reached, c.Rank)
		} else {
			d.Small.Corrected = append(d.Small.Corrected, c)
		}
	}
	for r := range protocol.Rank(net.P) {
		if !slices.Contains(reached, r) {
			d.Small.Missed = append(d.Small.Missed, r)
		}
	}
	d.drawSmall(tree, colored)
	return nil
}

// coloring tells how a process got the message.
type coloring struct {
	Rank protocol.Rank `json:"rank"`
	From protocol.Rank `json:"from"`
	At   protocol.Time `json:"at"`
	Tree bool          `json:"-"` // dissemination brought it, not correction
}

// colorings are those of a run, in the order of time. Who delivers before it receives has the message by itself.
func colorings(records []logp.Record) (all []coloring) {
	has := map[protocol.Rank]bool{}
	for _, r := range records {
		if r.Kind == logp.Received && !has[r.To] {
			all = append(all, coloring{Rank: r.To, From: r.From, At: r.At, Tree: !r.Correction})
		}
		if r.Kind == logp.Received || r.Kind == logp.Delivered {
			has[r.To] = true
		}
	}
	return all
}

func (d *simulatorDemo) drawSmall(tree topology.Tree, colored []coloring) {
	var drawing strings.Builder
	w := bufio.NewWriter(&drawing)
	drawTree(w, tree, func(rank int) string {
		name := fmt.Sprint(rank)
		i := slices.IndexFunc(colored, func(by coloring) bool { return int(by.Rank) == rank })
		switch {
		case slices.Contains(d.Killed, protocol.Rank(rank)):
			return d.in(red, name+" dead")
		case rank == tree.Root():
			return d.in(green, name) + d.in(faint, " root")
		case i < 0:
			return d.in(red, name+" uncolored")
		case colored[i].Tree:
			return d.in(green, name) + d.in(faint, fmt.Sprintf(" at step %d", colored[i].At))
		default:
			return d.in(yellow, fmt.Sprintf("%s missed by the tree, corrected by %d at step %d", name, colored[i].From, colored[i].At))
		}
	})
	w.Flush()
	d.say("%s\n\n", d.in(bold, "A broadcast among 16 processes, 2 and 5 are dead"))
	for line := range strings.Lines(drawing.String()) {
		d.say("  %s", line)
	}
	d.say("\nThe tree misses %d live processes. Their neighbours on the ring of ranks have the message and\n", len(d.Small.Missed))
	d.say("send it to them: %d uncolored, all colored after %d steps, all quiet after %d.\n", d.Small.Uncolored, d.Small.Coloring, d.Small.Quiescence)
}

// large is the second act.
func (d *simulatorDemo) large() error {
	d.say("\n%s\n\n", d.in(bold, "65,536 processes, 655 of them dead: means of 10 runs, L=2, o=1"))
	d.say("  %-43s %9s %9s %10s %9s\n", "", "uncolored", "coloring", "quiescence", "messages")
	d.say("  %-43s %9s %9s %10s %9s\n", "", "processes", "steps", "steps", "/process")
	for _, row := range []demoRow{
		{Name: "binomial tree", Command: "--correction none"},
		{Name: "the same, with acknowledgements", Command: "--correction ack"},
		{Name: "the same in-order, checked correction", Command: "--order in-order", colorsAll: true},
		{Name: "the same interleaved, checked correction", Command: "", colorsAll: true},
		{Name: "Lamé tree of order 2, checked correction", Command: "--tree lame:2", colorsAll: true},
		{Name: "optimal tree, overlapped checked correction", Command: "--tree optimal --sync overlapped", colorsAll: true},
		{Name: "gossip of 36 steps, checked correction", Command: "--tree gossip:36", colorsAll: true},
	} {
		if err := row.simulate(d.console, "-P 65536 --faults 1% --runs 10 "+row.Command); err != nil {
			return err
		}
		d.Large = append(d.Large, row)
		look := green
		if row.Uncolored.Max > 0 {
			look = red
		}
		d.say("  %-43s %s %9.1f %10.1f %9.2f\n", row.Name, d.in(look, fmt.Sprintf("%9.0f", row.Uncolored.Mean)),
			row.Coloring.Mean, row.Quiescence.Mean, row.MessagesPerProcess.Mean)
	}
	d.say("\nA dead process takes its subtree along, and acknowledgements only make its ancestors wait for it.\n")
	d.say("Correction reaches every live process; how the tree is numbered decides how soon.\n")
	return nil
}

// million is the third act.
func (d *simulatorDemo) million() error {
	d.say("\n%s\n\n", d.in(bold, "1,048,576 processes, 10,486 of them dead: one run"))
	row := demoRow{Name: "a million processes", colorsAll: true}
	if err := row.simulate(d.console, "-P 1048576 --faults 1% --tree lame:2"); err != nil {
		return err
	}
	d.Million = row
	d.say("  Lamé tree of order 2, checked correction: %.0f uncolored, all quiet after %.0f steps.\n", row.Uncolored.Max, row.Quiescence.Max)
	d.say("  %s messages in %.2f s: %s.\n", thousands(row.messages), row.Seconds, d.in(cyan, fmt.Sprintf("%.1f million a second", row.MessagesPerSecond/1e6)))
	d.say("  Again, in full: %s\n", row.Command)
	return nil
}

// simulate does what `coppice sim` does with these flags.
func (r *demoRow) simulate(c *console, flags string) error {
	r.Command = "coppice sim " + strings.TrimSpace(flags)
	sim, err := parseSim(flags)
	if err != nil {
		return err
	}
	r.simReport, err = sim.simulate(c)
	return err
}

func parseSim(flags string) (*simCmd, error) {
	var sim simCmd
	parser, err := kong.New(&sim, words)
	if err != nil {
		return nil, err
	}
	_, err = parser.Parse(strings.Fields(flags))
	return &sim, err
}
