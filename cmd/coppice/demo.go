package main

import (
	"bufio"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/coppice-go/coppice/apps/tpch"
	"github.com/coppice-go/coppice/internal/control"
)

type demoCmd struct {
	N         int            `name:"processes" short:"n" default:"8" placeholder:"N" help:"Number of processes (default ${default})."`
	Sf        float64        `name:"sf" default:"1" placeholder:"F" help:"Scale factor of the tables (default ${default})."`
	Kill      []control.Kill `placeholder:"TASK@WHEN" sep:"none" help:"SIGKILL the process of a task, as in coppice run (default: ${demoKills}). May be repeated."`
	Simulator bool           `help:"Show broadcasts in the simulator instead."`
	JSON      bool           `name:"json" help:"Print JSON."`
}

// demoKills are the orders to die that the demo gives unless others are asked for.
const demoKills = "3@alltoall#1 5@reduce#1"

// demoPace is how long a task waits before each step when people watch it.
const demoPace = 350 * time.Millisecond

// demo is a performance: what it has measured.
type demo struct {
	*demoCmd
	*console
	ctx context.Context

	free    *tpchReport // nobody dies
	through *tpchReport // some do
	views   uint64      // the last one's number
	again   float64     // seconds, started again after each death
	begun   int         // so often was it
}

// demoReport is what it comes to.
type demoReport struct {
	OK       bool    `json:"ok"`
	Killed   []int   `json:"killed"`
	Views    uint64  `json:"views"`
	Rows     [][]any `json:"rows"`
	Official bool    `json:"official"` // the rows are those that were published with the benchmark
	Free     float64 `json:"failure_free_seconds"`
	Through  float64 `json:"run_through_seconds"`
	Restart  float64 `json:"restart_seconds"`
	Seconds  float64 `json:"seconds"`
}

func (d *demoCmd) Run(c *console) error {
	if d.Simulator {
		return d.simulator(c)
	}
	if d.Kill == nil {
		for _, text := range strings.Fields(demoKills) {
			var k control.Kill
			if err := k.UnmarshalText([]byte(text)); err != nil {
				return err
			}
			d.Kill = append(d.Kill, k)
		}
	}
	if len(d.Kill) >= d.N {
		return badInput{fmt.Errorf("%d processes, of which %d are to die; allowed: fewer than there are", d.N, len(d.Kill))}
	}
	ctx, stop := untilSignal()
	defer stop()
	began := time.Now()
	show := demo{demoCmd: d, console: c, ctx: ctx}
	query := show.query(replayMode, d.Kill)
	if _, err := query.prepare(); err != nil {
		return badInput{err}
	}
	if _, err := (&appJob{appFlags: query.appFlags}).plan(); err != nil {
		return err
	}
	if err := show.perform(); err != nil {
		return err
	}
	stop()
	report := show.report()
	report.Seconds = time.Since(began).Seconds()
	return c.show(d.JSON, report, func(w *bufio.Writer) { show.write(w, report) })
}

// perform runs all jobs. What is measured runs at full speed, after what people watch: the first run has caches to fill.
func (d *demo) perform() error {
	live := isTerminal(d.stdout) && !d.JSON && screenRoom(d.stdout) >= demoRoom
	d.say("building the tables of TPC-H, scale %v, in %d processes", d.Sf, d.N)
	shown, err := d.watch(live, d.JSON)
	if err != nil {
		return err
	}
	d.say("measuring at full speed: no deaths, deaths, beginning again")
	for range demoRounds {
		if err := d.measure(); err != nil {
			return err
		}
	}
	return d.check(shown)
}

// demoRounds is how often each is measured, in turns. The fastest counts: whatever else the machine does takes time.
const demoRounds = 2

// measure runs one round of what is compared.
func (d *demo) measure() error {
	free, err := d.query(replayMode, nil).answer(d.ctx, &appJob{stderr: d.stderr}, nil)
	if err != nil {
		return err
	}
	if d.free == nil || free.Seconds < d.free.Seconds {
		d.free = free
	}
	through, err := d.watch(false, true)
	if err == nil {
		err = d.check(through)
	}
	if err != nil {
		return err
	}
	if d.through == nil || through.Seconds < d.through.Seconds {
		d.through = through
	}
	again, begun, err := d.restart()
	if err == nil && (d.again == 0 || again < d.again) {
		d.again, d.begun = again, begun
	}
	return err
}

// say tells people what takes its time.
func (d *demo) say(format string, args ...any) {
	if !d.JSON {
		fmt.Fprintf(d.stderr, "coppice: "+format+"\n", args...)
	}
}

// query is a run of the query.
func (d *demo) query(mode string, kills []control.Kill) *tpchCmd {
	return &tpchCmd{tpchFlags: tpchFlags{Sf: &d.Sf, Query: 3, Mode: mode}, appFlags: appFlags{N: d.N, Kill: kills}}
}

// watch has processes die, and shows what happens, unless it is to be quiet.
func (d *demo) watch(live, quiet bool) (*tpchReport, error) {
	view := newDemoView(d.console, d.N, live, quiet)
	job := appJob{stderr: d.stderr, events: func(e control.Event) {
		if d.ctx.Err() == nil { // else all are about to die
			view.event(e)
		}
	}}
	if live {
		job.args = []string{"--pace", demoPace.String()}
	}
	defer view.end()
	report, err := d.query(replayMode, d.Kill).answer(d.ctx, &job, view.step)
	d.views = view.last()
	return report, err
}

// check compares the answers of a run in which processes died.
func (d *demo) check(run *tpchReport) error {
	for _, k := range d.Kill { // others may have died, too
		if !slices.Contains(run.Killed, k.Task) {
			return fmt.Errorf("%v did not come about; dead are: %v", k, run.Killed)
		}
	}
	if !reflect.DeepEqual(d.free.Rows, run.Rows) {
		return fmt.Errorf("the survivors' answer is %v; without deaths it is %v", run.Rows, d.free.Rows)
	}
	answer := tpch.Answer{Columns: run.Columns, Rows: run.Rows}
	if want, ok := tpch.Official(3, d.Sf); ok && answer.CSV() != want {
		return fmt.Errorf("the answer is %v; the official one is %s", run.Rows, want)
	}
	return nil
}

// demoExtra is how many deaths that nobody has ordered may come where all begin again.
const demoExtra = 3

// restart does what one does without fault tolerance: after each death all begins again. Kill points are for the first
// start of a job, so each death has a job of its own, of which only the last counts to its end.
func (d *demo) restart() (seconds float64, begun int, err error) {
	for i, k := range d.Kill {
		query := d.query(plainMode, []control.Kill{k})
		query.Restart = 1 + demoExtra
		report, err := query.answer(d.ctx, &appJob{}, nil)
		switch {
		case err != nil:
			return 0, 0, err
		case len(report.Restarts) == 0:
			return 0, 0, fmt.Errorf("%v did not come about where all begin again", k)
		case !reflect.DeepEqual(d.free.Rows, report.Rows):
			return 0, 0, fmt.Errorf("the answer after a restart is %v; without deaths it is %v", report.Rows, d.free.Rows)
		case i < len(d.Kill)-1:
			seconds += report.Restarts[0].Seconds
			begun++
		default:
			seconds += report.Seconds
			begun += len(report.Restarts)
		}
	}
	return seconds, begun, nil
}

func (d *demo) report() demoReport {
	_, official := tpch.Official(3, d.Sf)
	return demoReport{
		OK: true, Killed: d.through.Killed, Views: d.views, Rows: d.through.Rows, Official: official,
		Free: d.free.Seconds, Through: d.through.Seconds, Restart: d.again,
	}
}

// write prints the end for people.
func (d *demo) write(w *bufio.Writer, r demoReport) {
	fmt.Fprintf(w, "\n%s\n\n", d.in(bold, "The answer of the survivors"))
	writeRows(w, d.through.Columns, r.Rows)
	same := "the same rows as of the run in which nobody died"
	if len(d.free.Killed) > 0 {
		same = "the same rows as of the run in which nobody was to die"
	}
	if r.Official {
		same += ", and those that were published with the benchmark"
	}
	fmt.Fprintf(w, "\n%s %s.\n\n", d.in(green, "✓"), same)
	most := max(r.Free, r.Through, r.Restart)
	for _, line := range []struct {
		name    string
		seconds float64
		paint   paint
	}{
		{deaths(len(d.free.Killed), "the others go on"), r.Free, faint},
		{deaths(len(r.Killed), "the others go on"), r.Through, green},
		{deaths(d.begun, "all begin again"), r.Restart, red},
	} {
		fmt.Fprintf(w, "  %-36s %6.2f s  %s\n", line.name, line.seconds, d.in(line.paint, bar(line.seconds/most)))
	}
	fmt.Fprintf(w, "\nEach from the start of the processes to the end of the last, the faster of two runs.\nThe demo took %.1f s.\n", r.Seconds)
}

// deaths says how many there are, and what comes then.
func deaths(n int, then string) string {
	if n == 0 {
		return "nobody dies"
	}
	return countOf(n, "process dies", "processes die") + ", " + then
}

// bar draws a share.
func bar(share float64) string { return strings.Repeat("█", int(share*30+0.5)) }
