package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/bits"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/bench/clock"
	benchloop "github.com/coppice-go/coppice/bench/loop"
	"github.com/coppice-go/coppice/model"
	"github.com/coppice-go/coppice/topology"
)

type benchMembershipCmd struct {
	N          *int  `name:"processes" short:"n" placeholder:"N" help:"Number of processes, 3 or more (default 64)."`
	Sizes      []int `placeholder:"N" help:"Instead of -n: several numbers of processes, and how stabilization grows with their logarithm."`
	Rounds     int   `bounds:"%d rounds; allowed: 1 to 10000" default:"9" placeholder:"R" help:"Deaths of each kind, each in a job of its own (default ${default})."`
	Fanout     int   `default:"0" placeholder:"A" help:"Fan-out of the tree that carries proposals, a power of two (default: the library's)."`
	Memberlist *bool `placeholder:"B" help:"Measure hashicorp/memberlist too, for a few rounds (default true, with --sizes false)."`
	JSON       bool  `name:"json" help:"Print JSON."`
}

// Bounds of what can be asked for.
const (
	membershipProcesses    = 64 // unless said otherwise
	membershipProcessesMin = 3
	membershipProcessesMax = 512 // the floor has a socket for each pair
	membershipFanoutMax    = 64
	memberlistRounds       = 3 // a round takes several seconds
)

// check checks what is asked for, and fills in the rest.
func (b *benchMembershipCmd) check() error {
	b.Memberlist = new(given(b.Memberlist, len(b.Sizes) == 0))
	switch {
	case b.N != nil && len(b.Sizes) > 0:
		return errors.New("-n with --sizes; allowed: one of them")
	case len(b.Sizes) == 1:
		return errors.New("--sizes with one number; allowed: 2 or more, or -n")
	case len(b.Sizes) == 0:
		b.Sizes = []int{given(b.N, membershipProcesses)}
	}
	for i, n := range b.Sizes {
		if n < membershipProcessesMin || n > membershipProcessesMax || slices.Contains(b.Sizes[:i], n) {
			return fmt.Errorf("%d processes; allowed: %d to %d, each number once", n, membershipProcessesMin, membershipProcessesMax)
		}
	}
	if b.Fanout != 0 && (b.Fanout < 2 || b.Fanout > membershipFanoutMax || bits.OnesCount(uint(b.Fanout)) != 1) {
		return fmt.Errorf("fan-out %d; allowed: powers of two, 2 to %d", b.Fanout, membershipFanoutMax)
	}
	return nil
}

func (b *benchMembershipCmd) Run(c *console) error {
	if err := b.check(); err != nil {
		return badInput{err}
	}
	ctx, stop := untilFirstSignal()
	defer stop()
	began := time.Now()
	m := &membershipBench{benchMembershipCmd: b, console: c}
	defer func() { os.RemoveAll(m.dir) }()
	if *b.Memberlist {
		m.buildMemberlist(ctx)
	}
	var sides []membershipSides
	_, err := c.timed(len(b.Sizes)*b.Rounds, func(done func(int)) error {
		for i, n := range b.Sizes {
			one, err := m.measure(ctx, n, func(rounds int) { done(i*b.Rounds + rounds) })
			if err != nil {
				return err
			}
			sides = append(sides, one)
		}
		return nil
	})
	if err != nil {
		return interruptedOr(ctx, err)
	}
	report := newMembershipReport(b, sides)
	report.Seconds = time.Since(began).Seconds()
	return c.show(b.JSON, report, report.write)
}

// membershipBench measures the sides in turns.
type membershipBench struct {
	*benchMembershipCmd
	console *console
	dir     string // of what was built; "": nothing
	peer    string // the program that measures memberlist; "": none
}

// membershipSides is what was measured with one number of processes.
type membershipSides struct {
	n          int
	any, root  []viewChange // the death of another rank than 0, and of rank 0
	first      []viewChange // the first death of a job, of one process more
	barrier    []float64    // µs, the median of each launch
	floor      []float64    // µs
	memberlist []float64    // µs
}

// measure does all rounds with n processes.
func (m *membershipBench) measure(ctx context.Context, n int, done func(rounds int)) (s membershipSides, err error) {
	s.n = n
	for round := range m.Rounds {
		victim := victimOf(n, round)
		steps := []func() error{
			func() error { return m.kills(ctx, &s, &s.any, victim) },
			func() error { return measured(&s.barrier, func() (float64, error) { return m.barrier(n) }) },
			func() error { return measured(&s.floor, func() (float64, error) { return m.floor(ctx, n, victim) }) },
			func() error { return m.kills(ctx, &s, &s.root, 0) },
		}
		if m.peer != "" && round < memberlistRounds {
			steps = append(steps, func() error {
				return measured(&s.memberlist, func() (float64, error) { return m.memberlist(ctx, n) })
			})
		}
		if err := inTurn(ctx, round, steps...); err != nil {
			return s, err
		}
		done(round + 1)
	}
	return s, nil
}

// kills measures one death.
func (m *membershipBench) kills(ctx context.Context, s *membershipSides, to *[]viewChange, victim int) error {
	first, v, err := m.killOne(ctx, s.n, victim)
	if err == nil {
		s.first = append(s.first, first)
		*to = append(*to, v)
	}
	return err
}

// measured appends what was measured.
func measured[T any](to *[]T, measure func() (T, error)) error {
	one, err := measure()
	if err == nil {
		*to = append(*to, one)
	}
	return err
}

// victimOf is who dies in a round: the ranks but 0 take turns, in steps of about the
// golden section, so that a few rounds see leaves and inner nodes of the tree.
func victimOf(n, round int) int {
	others := n - 1
	step := others*618/1000 + 1
	for topology.GCD(step, others) > 1 { // all come before one comes again
		step++
	}
	return 1 + (round*step+others/2)%others
}

// barrier is the median of a launch of barriers.
func (m *membershipBench) barrier(n int) (float64, error) {
	const seconds = 0.25
	iterations := max(benchIterationsMin, benchloop.Iterations(benchloop.Barrier, 1, n, seconds))
	b := benchCmd{Op: []string{benchloop.Barrier}, Size: []string{"8B"}, N: []int{n}, Transport: "unix", Mode: plainMode, Iterations: &iterations}
	cells, err := b.cells()
	if err == nil {
		err = b.measure(m.console, cells, func(int) {})
	}
	if err != nil {
		return 0, fmt.Errorf("barrier of %d processes: %w", n, err)
	}
	return cells[0].Median, nil
}

// fanoutVariable sets the fan-out of the tree that carries proposals of views.
const fanoutVariable = "COPPICE_FANOUT"

// benchMembershipProcessCmd is what `coppice bench membership` starts: one process
// of a job in which others, or itself, are killed one after the other. It waits in
// views and in nothing else.
type benchMembershipProcessCmd struct {
	Victims []int `arg:""`
}

func (b *benchMembershipProcessCmd) Run(c *console) error {
	death := newDeathLog(b.Victims, c.stderr)
	job := coppice.Job{Recovery: coppice.Report, Logger: slog.New(death)}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return job.Run(ctx, func(ctx context.Context, t *coppice.Task) error {
		if err := coppice.Barrier(ctx, t); err != nil {
			return err
		}
		out := json.NewEncoder(c.stdout)
		ready := deathLine{Rank: t.Rank(), Ready: true, PID: os.Getpid()}
		if err := out.Encode(ready); err != nil {
			return err
		}
		return outlive(ctx, t, b.Victims, func(i int, opened int64) error {
			time.Sleep(reportAfter) // to report is not to get in the way of those who are not through
			err := out.Encode(deathLine{Rank: t.Rank(), Death: i, Learned: death.learned[i].Load(), Opened: opened})
			if ready.Death = i + 1; err == nil && ready.Death < len(b.Victims) {
				err = out.Encode(ready)
			}
			return err
		})
	})
}

// reportAfter is when a process reports a view: all have it by then.
const reportAfter = 300 * time.Millisecond

// outlive waits for the views without the victims, one after the other, and tells
// when each was there. If somebody else is missing, what is measured would be another
// thing.
func outlive(ctx context.Context, t *coppice.Task, victims []int, tell func(i int, opened int64) error) error {
	gone := 0
	for v := range t.Views(ctx) {
		now := clock.Now()
		missing := t.Size() - len(v.Processes)
		if missing == gone {
			continue
		}
		in := slices.ContainsFunc(v.Processes, func(p coppice.Process) bool { return p.ID == victims[gone] })
		if missing != gone+1 || in {
			return fmt.Errorf("view %d is without %d processes; want %v", v.Number, missing, victims[:gone+1])
		}
		if err := tell(gone, now); err != nil {
			return err
		}
		if gone++; gone == len(victims) {
			return nil
		}
	}
	return fmt.Errorf("no view without rank %d: %w", victims[gone], cmp.Or(context.Cause(ctx), errNoMoreViews))
}

var errNoMoreViews = errors.New("this process is in no view any more")

// membershipRatios are medians of the rounds' own ratios; memberlist's is one of medians, as it has fewer rounds.
type membershipRatios struct {
	StabilizationToBarrier float64  `json:"stabilization_to_barrier"`
	TotalToFloor           float64  `json:"total_to_floor"`
	MemberlistToTotal      *float64 `json:"memberlist_to_total,omitempty"`
}

// What the ratios should be.
const (
	stabilizationToBarrierMax = 3
	totalToFloorMax           = 2
	memberlistToTotalMin      = 200
)

// membershipSize is what came of one number of processes.
type membershipSize struct {
	Processes int `json:"processes"`
	viewChange
	Root       viewChange       `json:"root"`  // the same when rank 0 is killed, the proposer
	First      viewChange       `json:"first"` // the first death of a job, in which everything is new
	Barrier    float64          `json:"barrier_us"`
	Floor      float64          `json:"floor_us"`
	Memberlist *float64         `json:"memberlist_us,omitempty"`
	Ratios     membershipRatios `json:"ratios"`
}

// membershipReport is the whole.
type membershipReport struct {
	Sizes      []membershipSize `json:"sizes"`
	Fit        *logFit          `json:"fit,omitempty"`
	Rounds     int              `json:"rounds"`
	Fanout     int              `json:"fanout,omitempty"`
	Processors int              `json:"processors"`
	Seconds    float64          `json:"seconds"`
}

func newMembershipReport(b *benchMembershipCmd, sides []membershipSides) *membershipReport {
	r := &membershipReport{Sizes: each(sides, membershipSides.sumUp), Rounds: b.Rounds, Fanout: b.Fanout, Processors: runtime.NumCPU()}
	if len(r.Sizes) > 1 {
		r.Fit = new(logFit(model.FitLine(each(r.Sizes, func(s membershipSize) model.Point {
			return model.Point{X: math.Log2(float64(s.Processes)), Y: s.Stabilization}
		}))))
	}
	return r
}

func (s membershipSides) sumUp() membershipSize {
	m := membershipSize{
		Processes: s.n, viewChange: summedUp(s.any), Root: summedUp(s.root), First: summedUp(s.first),
		Barrier: model.Median(s.barrier), Floor: model.Median(s.floor),
	}
	m.Ratios.StabilizationToBarrier = medianRatio(each(s.any, func(v viewChange) float64 { return v.Stabilization }), s.barrier)
	m.Ratios.TotalToFloor = medianRatio(each(s.any, func(v viewChange) float64 { return v.Total }), s.floor)
	if len(s.memberlist) > 0 {
		us := model.Median(s.memberlist)
		m.Memberlist, m.Ratios.MemberlistToTotal = &us, new(us/m.Total)
	}
	return m
}

// logFit is the straight line that fits stabilization over log2 N best, by least
// squares: intercept + slope·log2 N.
type logFit struct {
	Slope     float64 `json:"slope_us"` // for each doubling of N
	Intercept float64 `json:"intercept_us"`
	R2        float64 `json:"r2"` // the part of the variance that it explains
}

// write prints the report for people.
func (r *membershipReport) write(w *bufio.Writer) {
	fmt.Fprintf(w, "a process is killed; %s, medians in µs, %.0f s\n\n", count(r.Rounds, "round"), r.Seconds)
	table := newTable(w)
	fmt.Fprintln(table, "n\tkilled\tfirst knows\tproposer knows\tstabilization\tall have the view\tp99\t")
	for _, s := range r.Sizes {
		for _, row := range []struct {
			killed string
			viewChange
		}{{"another", s.viewChange}, {"rank 0", s.Root}, {"the first", s.First}} {
			fmt.Fprintf(table, "%d\t%s\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t\n",
				s.Processes, row.killed, row.Detection, row.Proposer, row.Stabilization, row.Total, row.P99)
		}
	}
	table.Flush()
	fmt.Fprintln(w)
	tabulate(newTable(w), "n\tbarrier\tfloor\tmemberlist\tstabilization/barrier\ttotal/floor\tmemberlist/total\t", r.Sizes, func(s membershipSize) string {
		theirs, ratio := "", ""
		if s.Memberlist != nil {
			theirs = fmt.Sprintf("%.0f", *s.Memberlist)
			ratio = verdict(*s.Ratios.MemberlistToTotal, *s.Ratios.MemberlistToTotal >= memberlistToTotalMin)
		}
		b, f := s.Ratios.StabilizationToBarrier, s.Ratios.TotalToFloor
		return fmt.Sprintf("%d\t%.0f\t%.0f\t%s\t%s\t%s\t%s\t", s.Processes, s.Barrier, s.Floor, theirs,
			verdict(b, b <= stabilizationToBarrierMax), verdict(f, f <= totalToFloorMax), ratio)
	})
	fmt.Fprintf(w, "\ntargets: stabilization/barrier ≤ %d, total/floor ≤ %d, memberlist/total ≥ %d; ! misses\n",
		stabilizationToBarrierMax, totalToFloorMax, memberlistToTotalMin)
	if f := r.Fit; f != nil {
		fmt.Fprintf(w, "stabilization ≈ %.0f µs + %.0f µs · log2 n, r² = %.2f\n", f.Intercept, f.Slope, f.R2)
	}
}

// verdict marks a ratio that misses its target.
func verdict(ratio float64, ok bool) string {
	text := fmt.Sprintf("%.2f", ratio)
	if !ok {
		text += " !"
	}
	return text
}

// viewChange is one death, or what several came to: µs since SIGKILL, medians over the rounds unless said otherwise.
type viewChange struct {
	Total         float64 `json:"median_us"` // all survivors have opened the view without the dead
	P99           float64 `json:"p99_us"`
	Detection     float64 `json:"detection_us"`     // the first survivor knows
	Proposer      float64 `json:"proposer_us"`      // the proposer knows: the lowest rank that lives
	Stabilization float64 `json:"stabilization_us"` // from then until all have the view
}

// change sums up what the survivors of a death saw.
func (s *deathSink) change(death int, killed int64, victims []int) (v viewChange, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen, victim := s.seen[death], victims[death]
	if _, sees := seen[victim]; sees || len(seen) != s.n-1-death {
		return v, fmt.Errorf("%d survivors of rank %d saw a new view; want %d", len(seen), victim, s.n-1-death)
	}
	since := func(at int64) float64 { return float64(at-killed) / 1e3 }
	proposer := 0
	for slices.Contains(victims[:death+1], proposer) {
		proposer++
	}
	if seen[proposer].Learned == 0 {
		return v, fmt.Errorf("death of rank %d: no word of it in the log of rank %d, which proposes the view", victim, proposer)
	}
	v.Proposer = since(seen[proposer].Learned)
	v.Detection = v.Proposer
	for _, l := range seen {
		if l.Learned != 0 {
			v.Detection = min(v.Detection, since(l.Learned))
		}
		v.Total = max(v.Total, since(l.Opened))
	}
	if v.Detection < 0 || v.Total < v.Proposer {
		return v, fmt.Errorf("death of rank %d: known after %.1f µs, a view after %.1f µs", victim, v.Detection, v.Total)
	}
	v.Stabilization = v.Total - v.Proposer
	return v, nil
}

// killOne measures two deaths in a job, of which the first is a rehearsal.
func (m *membershipBench) killOne(ctx context.Context, n, victim int) (first, v viewChange, err error) {
	var env []string
	if m.Fanout > 0 {
		env = append(env, fanoutVariable+"="+strconv.Itoa(m.Fanout))
	}
	return killTwo(ctx, n, victim, false, []string{"bench-membership-process"}, env, (*deathSink).change)
}

// memberlistProgram is what measures memberlist: not part of this command, which
// would take half as long again to build.
const memberlistProgram = "github.com/coppice-go/coppice/bench/memberlistloop"

// buildMemberlist builds the program, or says why not: then that side is left out.
func (m *membershipBench) buildMemberlist(ctx context.Context) {
	err := func() (err error) {
		if m.dir, err = os.MkdirTemp("", "coppice-bench-"); err != nil {
			return err
		}
		path := filepath.Join(m.dir, "memberlistloop")
		out, err := exec.CommandContext(ctx, "go", "build", "-o", path, memberlistProgram).CombinedOutput()
		if err != nil {
			return errors.New(benchloop.Gist(out, err))
		}
		m.peer = path
		return nil
	}()
	if err != nil && ctx.Err() == nil {
		fmt.Fprintf(m.console.stderr, "coppice: memberlist is left out, as its program does not build here: %v\n", err)
	}
}

// memberlist is a crash among its members.
func (m *membershipBench) memberlist(ctx context.Context, n int) (float64, error) {
	var diagnosis bytes.Buffer
	cmd := exec.CommandContext(ctx, m.peer, strconv.Itoa(n))
	cmd.Stderr = &diagnosis
	out, err := cmd.Output()
	if err != nil {
		return 0, errors.New(benchloop.Gist(diagnosis.Bytes(), err))
	}
	return strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
}

// floor is a death among plain processes.
func (m *membershipBench) floor(ctx context.Context, n, victim int) (float64, error) {
	times, err := floorTimes(ctx, n, victim)
	return microseconds(times.Took()), err
}
