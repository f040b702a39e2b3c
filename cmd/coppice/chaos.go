package main

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/coppice-go/coppice/chaos"
	"github.com/coppice-go/coppice/chaos/oracle"
	"github.com/coppice-go/coppice/chaos/reduction"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
	"github.com/coppice-go/coppice/protocol/collective"
)

type chaosCmd struct {
	Processes *int   `bounds:"number of processes P is %d; allowed: 1 to 256" name:"processes" short:"P" placeholder:"N" help:"Number of processes, at most 256 (default 5, and 3 with --exhaustive)."`
	Protocol  string `default:"all" placeholder:"C" help:"What is attacked: all (the default: the broadcasts listed above, and nothing else), a correction as for sim, many (several checked broadcasts at once), corrected-reduce:F, corrected-allreduce:F, membership, agreement or replay."`
	groupFlags
	ringFlags

	Crashes *int `placeholder:"K" help:"So many processes at most crash during the run, at any moment (default: as many as the protocol survives)."`
	Dead    *int `placeholder:"K" help:"So many processes at most are dead from the start (default: all but the root; of corrected reductions, F)."`

	Joiners    int  `placeholder:"K" help:"Membership, agreement, replay: so many processes join."`
	Suspicions int  `placeholder:"K" help:"Membership, agreement, replay: so often at most a process is told that another may be dead, for no reason."`
	Cuts       int  `placeholder:"K" help:"Membership, agreement, replay: so often at most the processes are cut in two sides; a cut heals."`
	Restarts   int  `placeholder:"K" help:"Membership, agreement, replay: so often at most a dead process comes back."`
	Agentless  bool `help:"Membership, agreement: no host agents; a majority is needed."`

	Instances *int `placeholder:"K" help:"Agreement: so many, one after the other (default 2; 1 with --exhaustive and --delays)."`
	Cancels   int  `placeholder:"K" help:"Agreement: so often at most a process votes to abort one. Replay: so many contexts at most end; some operations are agreed then."`

	Op         string `placeholder:"OP" help:"Replay: only this operation (default: all but exscan and reducescatter)."`
	Operations int    `bounds:"programs of %d operations; allowed: 1 or more" default:"300" placeholder:"N" help:"Replay: length of random programs (default ${default})."`
	Saves      *int   `bounds:"%d saves; allowed: 0 to 1000" placeholder:"N" help:"Replay: so often programs call Save (default: up to 3 times in half of the random programs, otherwise never)."`
	Tasks      int    `bounds:"%d tasks; allowed: 1 to 256, or 0 for as many as processes" placeholder:"T" help:"Replay: number of tasks (default: as many as processes)."`

	Frozen int  `placeholder:"K" help:"Replay: at a random moment all faults end and at most so many processes stand still; the others must come to the end."`
	Inside bool `help:"Replay: the coordinator is part of a process, which may crash like any other. Otherwise it is apart, and never does; in a swarm it is inside in a quarter of the runs."`
	Swarm  bool `help:"Replay: every run draws its own sizes, faults and options, up to those given."`

	RequireSituations bool `name:"require-situations" help:"Replay: fail if one of the situations that are counted never occurs."`

	Delays     *int   `bounds:"%d delays; allowed: 0 or more" placeholder:"D" help:"Membership, agreement, replay: explore every schedule that differs from the ordinary one in at most so many steps."`
	Exhaustive bool   `help:"Explore every schedule instead of drawing some."`
	States     int    `bounds:"%d states; allowed: 1 or more" default:"2000000" placeholder:"N" help:"Give up an exhaustive exploration beyond so many states (default ${default})."`
	Runs       int    `bounds:"%d runs; allowed: 1 or more" default:"100000" placeholder:"R" help:"Number of schedules, for each protocol (default ${default})."`
	Seed       uint64 `default:"1" placeholder:"S" help:"Same seed, same schedules (default ${default})."`
	Workers    int    `bounds:"%d workers; allowed: 1 or more, or 0 for all cores" default:"0" placeholder:"W" help:"Cores to use, 0 for all; the schedules do not depend on it."`
	Count      bool   `help:"Go on after a violation and count how many there are."`
	Reorder    bool   `help:"Messages between two processes may overtake each other."`
	Lossy      bool   `help:"A crash takes the tail of what the dead sent with it; survivors then all deliver or none."`
	JSON       bool   `name:"json" help:"Print JSON."`

	Check []string `placeholder:"FILE" sep:"none" help:"Attack nothing: check what a job did that was started with coppice run --trace FILE. May be repeated."`

	P    int            `kong:"-"`
	made func(runs int) `kong:"-"` // is told how many schedules of a protocol are made
}

// promised lists the protocols that keep their promises under every schedule.
var promised = []string{
	"none", "ack", "opportunistic:1", "opportunistic:2", "opportunistic-sends:3", "optimized:1", "optimized:2", "checked",
	"delayed:0", "delayed:5", "failure-proof:0", "failure-proof:1", "failure-proof:2", many,
}

const (
	many  = "many"
	views = "membership"
	agree = "agreement"
	rerun = "replay"
)

// chaosReport is what the command prints.
type chaosReport struct {
	Schedules  uint64        `json:"schedules"`
	Violations uint64        `json:"violations"`
	Seconds    float64       `json:"seconds"`
	Complete   bool          `json:"complete"` // false: --states were not enough
	Protocols  []chaosResult `json:"protocols"`
}

// chaosResult is what came of attacking one protocol.
type chaosResult struct {
	Protocol    string   `json:"protocol"`
	P           int      `json:"processes"`
	Schedules   uint64   `json:"schedules"`
	States      uint64   `json:"states,omitempty"`
	Transitions uint64   `json:"transitions,omitempty"`
	Violations  uint64   `json:"violations"`
	Complete    bool     `json:"complete"`
	Error       string   `json:"error,omitempty"`
	Seed        *uint64  `json:"seed,omitempty"`   // replays the violation with --runs 1
	Replay      string   `json:"replay,omitempty"` // the command that does
	Script      []string `json:"script,omitempty"`

	Situations map[string]uint64 `json:"situations,omitempty"` // runs in which each has occurred
	Seconds    float64           `json:"seconds"`
}

func (x *chaosCmd) Run(c *console) error {
	if len(x.Check) > 0 {
		return x.checkTraces(c)
	}
	if err := x.check(); err != nil {
		return badInput{err}
	}
	protocols := []string{x.Protocol}
	if x.Protocol == "all" {
		protocols = promised
	}
	if !x.Exhaustive && x.Delays == nil {
		// A run leaves nothing behind: with so small a heap a third of the time would go into
		// collecting it.
		defer debug.SetGCPercent(debug.SetGCPercent(1000))
	}
	report := chaosReport{Complete: true}
	var missing []string
	for i, name := range protocols {
		stop := x.progress(c, name, i, len(protocols))
		result, err := x.attack(name)
		stop()
		switch {
		case errors.Is(err, chaos.ErrIncomplete):
			report.Complete = false
		case err != nil && result.First == nil:
			if x.Protocol == "all" && (name == many || x.builds(name) != nil) {
				continue // such as acknowledgements of gossip
			}
			if _, _, unknown := broadcast.ParseCorrection(name); unknown != nil && name != many && name != rerun && !x.inViews() && !isReduction(name) {
				err = fmt.Errorf("%w, corrected-reduce:F, corrected-allreduce:F, agreement, replay, many, all, membership", unknown)
			}
			return badInput{err}
		}
		one := report.add(name, x, result, err)
		missing = x.missing(result.Situations)
		if x.JSON {
			continue
		}
		err = c.print(func(w *bufio.Writer) {
			if x.Swarm || x.RequireSituations {
				for _, s := range result.Situations {
					fmt.Fprintf(w, "%10d  %s\n", s.Runs, s.Name)
				}
			}
			one.write(w, x.Exhaustive || x.Delays != nil)
		})
		if err != nil {
			return err
		}
	}
	if x.JSON {
		if err := c.printJSON(report); err != nil {
			return err
		}
	}
	switch {
	case report.Violations > 0:
		return fmt.Errorf("violations: %d in %s schedules", report.Violations, schedules(report.Schedules))
	case len(missing) > 0:
		return fmt.Errorf("situations that never occurred in %s schedules: %s", schedules(report.Schedules), strings.Join(missing, "; "))
	case !report.Complete:
		return fmt.Errorf("incomplete: more than %d states; allowed: a larger --states or fewer processes", x.States)
	}
	return nil
}

// progress shows how many of the schedules of a protocol are done. How many an exploration has, nobody knows before its end.
func (x *chaosCmd) progress(c *console, name string, i, protocols int) (stop func()) {
	if x.Exhaustive || x.Delays != nil {
		return func() {}
	}
	x.made, stop = c.schedules(name, i, protocols, x.Runs)
	return stop
}

func (x *chaosCmd) check() error {
	x.P = given(x.Processes, 5)
	if x.Processes == nil && x.Exhaustive {
		x.P = 3
	}
	switch {
	case x.Crashes != nil && (*x.Crashes < 0 || *x.Crashes > x.P && x.Protocol != rerun):
		return fmt.Errorf("%d crashes; allowed: 0 to %d", *x.Crashes, x.P)
	case x.Dead != nil && (*x.Dead < 0 || *x.Dead > x.P-1):
		return fmt.Errorf("%d dead from the start; allowed: 0 to %d, since the root stays", *x.Dead, x.P-1)
	case x.Exhaustive && x.Count:
		return errors.New("--count with --exhaustive, which ends at the first violation; allowed with: random schedules")
	case x.Protocol != agree && (x.Instances != nil || x.Protocol != rerun && x.Cancels != 0):
		return fmt.Errorf("--instances or --cancels with --protocol %s; allowed with: agreement, and --cancels with replay", x.Protocol)
	case x.Protocol != rerun && (x.Op != "" || x.Tasks != 0 || x.Saves != nil || x.Operations != operationsDefault):
		return fmt.Errorf("--op, --tasks, --saves or --operations with --protocol %s; allowed with: replay", x.Protocol)
	case x.Protocol != rerun && (x.Swarm || x.Inside || x.Frozen != 0 || x.RequireSituations):
		return fmt.Errorf("--swarm, --inside, --frozen or --require-situations with --protocol %s; allowed with: replay", x.Protocol)
	case x.Protocol == rerun:
		return x.checkReplay()
	case !x.inViews() && (x.Joiners != 0 || x.Suspicions != 0 || x.Cuts != 0 || x.Restarts != 0 || x.Agentless || x.Delays != nil):
		return fmt.Errorf("--joiners, --suspicions, --cuts, --restarts, --agentless or --delays with --protocol %s; allowed with: membership", x.Protocol)
	case x.inViews():
		return x.checkViews()
	case x.Exhaustive && x.Protocol == many:
		return errors.New("--exhaustive with many broadcasts; allowed: random schedules")
	case x.Protocol == many && x.Crashes != nil && *x.Crashes > 0:
		return errors.New("--crashes with many broadcasts, of which none survives a crash; allowed: 0")
	}
	return x.builds("none") // the tree, whatever the correction
}

// builds returns an error if a correction does not exist with the other flags.
func (x *chaosCmd) builds(correction string) error {
	spec, err := x.groupFlags.spec(x.P, correction, x.ringFlags)
	if err == nil {
		_, err = spec.Build()
	}
	return err
}

// inViews tells whether what is attacked lives in views.
func (x *chaosCmd) inViews() bool { return x.Protocol == views || x.Protocol == agree }

// checkViews is check for what lives in views.
func (x *chaosCmd) checkViews() error {
	for _, number := range []struct {
		name string
		is   int
	}{{"joiners", x.Joiners}, {"suspicions", x.Suspicions}, {"cuts", x.Cuts}, {"restarts", x.Restarts}, {"cancels", x.Cancels}} {
		if number.is < 0 {
			return fmt.Errorf("%d %s; allowed: 0 or more", number.is, number.name)
		}
	}
	switch {
	case x.P+x.Joiners > chaosMax:
		return fmt.Errorf("%d processes and joiners; allowed: at most %d", x.P+x.Joiners, chaosMax)
	case x.Delays != nil && (x.Exhaustive || x.Count):
		return errors.New("--delays with --exhaustive or --count; allowed: one of them")
	case x.Dead != nil || x.Reorder:
		return fmt.Errorf("--dead or --reorder with %s, which has neither; allowed: --crashes, --lossy", x.Protocol)
	case x.Instances != nil && (*x.Instances < 1 || *x.Instances > chaos.InstancesMax):
		return fmt.Errorf("%d instances; allowed: 1 to %d", *x.Instances, chaos.InstancesMax)
	}
	return nil
}

// chaosMax bounds the group: a schedule costs at least P² steps.
const chaosMax = 256

// attacked is a world that can be explored in three ways.
type attacked interface {
	Random(seed uint64, runs, workers int) (chaos.Report, error)
	Exhaustive() (chaos.Report, error)
	DelayBounded(delays int) (chaos.Report, error)
}

func (x *chaosCmd) attackViews() (chaos.Report, error) {
	m := chaos.Membership{
		P: x.P, Joiners: x.Joiners, Crashes: x.P - 1, Suspicions: x.Suspicions, Cuts: x.Cuts, Restarts: x.Restarts,
		Agentless: x.Agentless, LossyCrashes: x.Lossy, KeepGoing: x.Count, StatesMax: x.States, Progress: x.made,
	}
	instances := 2
	if x.Exhaustive || x.Delays != nil {
		m.Crashes, instances = min(m.Crashes, 1), 1
	}
	m.Crashes = given(x.Crashes, m.Crashes)
	var w attacked = m
	if x.Protocol == agree {
		w = chaos.Agreement{Membership: m, Instances: given(x.Instances, instances), Cancels: x.Cancels}
	}
	switch {
	case x.Delays != nil:
		return w.DelayBounded(*x.Delays)
	case x.Exhaustive:
		return w.Exhaustive()
	}
	return w.Random(x.Seed, x.Runs, x.Workers)
}

func (x *chaosCmd) attack(name string) (chaos.Report, error) {
	if x.inViews() {
		return x.attackViews()
	}
	if name == rerun {
		return x.attackReplay()
	}
	if isReduction(name) {
		return x.attackReduction(name)
	}
	dead := given(x.Dead, x.P-1)
	if name == many {
		spec, err := x.groupFlags.spec(x.P, "checked", x.ringFlags)
		if err != nil {
			return chaos.Report{}, err
		}
		roots := []protocol.Rank{spec.Root, spec.Root, protocol.Rank((x.Root + x.P/2) % x.P), spec.Root}
		m := chaos.Many{Spec: spec, Roots: roots, Failed: dead, Reorder: x.Reorder, KeepGoing: x.Count, Progress: x.made}
		return m.Random(x.Seed, x.Runs, x.Workers)
	}
	spec, err := x.groupFlags.spec(x.P, name, x.ringFlags)
	if err != nil {
		return chaos.Report{}, err
	}
	b := chaos.Broadcast{
		Spec: spec, Failed: dead, Crashes: given(x.Crashes, min(chaos.PromiseOf(spec).Crashes, x.P)),
		Reorder: x.Reorder, LossyCrashes: x.Lossy, KeepGoing: x.Count, StatesMax: x.States, Progress: x.made,
	}
	if x.Exhaustive {
		return b.Exhaustive()
	}
	b.EagerTimers = !spec.Synchronized
	return b.Random(x.Seed, x.Runs, x.Workers)
}

func (r *chaosReport) add(name string, x *chaosCmd, result chaos.Report, err error) chaosResult {
	one := chaosResult{
		Complete: !errors.Is(err, chaos.ErrIncomplete),
		Protocol: name, P: x.P, Schedules: result.Schedules, States: result.States, Transitions: result.Transitions,
		Violations: result.Violations, Seconds: result.Seconds,
	}
	if v := result.First; v != nil {
		one.Error = v.Err.Error()
		one.Script = v.Steps
		if result.States == 0 {
			one.Seed = &v.Seed
			one.Replay = x.replay(name, v.Seed)
		}
	}
	for _, s := range result.Situations {
		if one.Situations == nil {
			one.Situations = map[string]uint64{}
		}
		one.Situations[s.Name] = s.Runs
	}
	r.Protocols = append(r.Protocols, one)
	r.Schedules += min(one.Schedules, math.MaxUint64-r.Schedules) // the largest number stands for all above it
	r.Violations += one.Violations
	r.Seconds += one.Seconds
	return one
}

// schedules writes a number of schedules; the largest stands for all above it.
func schedules(n uint64) string {
	if n == math.MaxUint64 {
		return "more than 10^19"
	}
	return strconv.FormatUint(n, 10)
}

func (p *chaosResult) write(w *bufio.Writer, exhaustive bool) {
	fmt.Fprintf(w, "%-18s P=%d  %s schedules", p.Protocol, p.P, schedules(p.Schedules))
	if exhaustive {
		fmt.Fprintf(w, ", %d states, %d transitions", p.States, p.Transitions)
	}
	fmt.Fprintf(w, " in %.2f s", p.Seconds)
	switch {
	case p.Violations == 0 && p.Complete:
		fmt.Fprintln(w, ": every promise kept")
		return
	case p.Violations == 0:
		fmt.Fprintln(w, ": incomplete, no violation so far")
		return
	}
	fmt.Fprintf(w, ": violations: %d, the first:\n\n", p.Violations)
	fmt.Fprintf(w, "    %s\n    => %s\n\n", strings.Join(p.Script, "\n    "), p.Error)
	if p.Seed != nil {
		fmt.Fprintf(w, "replay: %s\n", p.Replay)
	}
}

// reductionPrefix begins the names of corrected reductions; the operation follows.
const reductionPrefix = "corrected-"

func isReduction(name string) bool { return strings.HasPrefix(name, reductionPrefix) }

// parseReduction reads the name of a corrected reduction and how many deaths it outlives.
func parseReduction(text string) (op collective.Op, failures int, err error) {
	name, digits, found := strings.Cut(strings.TrimPrefix(text, reductionPrefix), ":")
	op, err = collective.ParseOp(name)
	if err == nil && found {
		failures, err = strconv.Atoi(digits)
	} else {
		failures = 1
	}
	if err != nil || op != collective.Reduce && op != collective.AllReduce || failures < 0 || failures > collective.FailuresMax {
		return 0, 0, fmt.Errorf("protocol %q; allowed: corrected-reduce:F, corrected-allreduce:F with F from 0 to %d", text, collective.FailuresMax)
	}
	return op, failures, nil
}

func (x *chaosCmd) attackReduction(name string) (chaos.Report, error) {
	op, failures, err := parseReduction(name)
	if err != nil {
		return chaos.Report{}, err
	}
	a := reduction.Attack{
		Spec:   collective.Spec{Op: op, P: x.P, Root: protocol.Rank(x.Root), Failures: failures},
		Failed: given(x.Dead, min(failures, x.P-1)), Crashes: given(x.Crashes, min(failures, x.P)),
		LossyCrashes: x.Lossy, Reorder: x.Reorder, KeepGoing: x.Count, StatesMax: x.States, Progress: x.made,
	}
	if x.Exhaustive {
		return a.Exhaustive()
	}
	return a.Random(x.Seed, x.Runs, x.Workers)
}

// checkedTrace is what came of checking the trace of a job.
type checkedTrace struct {
	File string `json:"file"`
	oracle.Report
	Error string `json:"error,omitempty"`
}

// checkTraces checks what jobs have written down.
func (x *chaosCmd) checkTraces(c *console) error {
	var all []checkedTrace
	wrong := 0
	for _, name := range x.Check {
		f, err := os.Open(name)
		if err != nil {
			return badInput{err}
		}
		report, err := oracle.Check(f)
		f.Close()
		t := checkedTrace{File: name, Report: report}
		if err != nil {
			t.Error = err.Error()
			wrong++
		}
		if all = append(all, t); x.JSON {
			continue
		}
		if err := c.print(t.write); err != nil {
			return err
		}
	}
	if x.JSON {
		if err := c.printJSON(struct {
			Traces []checkedTrace `json:"traces"`
		}{all}); err != nil {
			return err
		}
	}
	if wrong > 0 {
		return fmt.Errorf("violations: %d in %d traces", wrong, len(all))
	}
	return nil
}

func (t checkedTrace) write(w *bufio.Writer) {
	fmt.Fprintf(w, "%s: %d processes, %d steps, %d effects, %d letters, %d messages, %d views, %d epochs, %d tasks run again (%d from a saved state), "+
		"%d decisions, %d messages of streams, %d credits\n",
		t.File, t.Processes, t.Steps, t.Effects, t.Letters, t.Messages, t.Views, t.Epochs, t.Adoptions, t.Resumptions, t.Decisions, t.Arrivals, t.Credits)
	if t.Error != "" {
		fmt.Fprintf(w, "  violation: %s\n", t.Error)
	}
}
