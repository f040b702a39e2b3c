package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coppice-go/coppice/apps/tpch"
	benchloop "github.com/coppice-go/coppice/bench/loop"
	"github.com/coppice-go/coppice/bench/openmpi"
	"github.com/coppice-go/coppice/experiment"
	"github.com/coppice-go/coppice/internal/control"
	"github.com/coppice-go/coppice/internal/launch"
	"github.com/coppice-go/coppice/internal/transport"
)

type reproduceCmd struct {
	Names   []string  `arg:"" optional:"" name:"name" help:"Experiments, or «all»; «list» lists them."`
	Runs    int       `bounds:"%d runs; allowed: 1 or more" default:"1000" placeholder:"R" help:"Runs of each cell, at least; figures at large sizes take fewer where they say so (default ${default})."`
	Out     string    `default:"reproduction" placeholder:"DIR" help:"Where CSV, SVG and the report go, and cells/, from which interrupted work goes on (default ${default})."`
	Seed    uint64    `default:"1" placeholder:"S" help:"Same seed, same results (default ${default})."`
	Workers int       `bounds:"%d workers; allowed: 1 or more, or 0 for all cores" default:"0" placeholder:"W" help:"Cores to use, 0 for all; the results do not depend on it."`
	N       []int     `bounds:"%d processes; allowed: 2 to 4096" name:"processes" short:"n" placeholder:"N" help:"Numbers of processes of what is measured, not simulated (default 4,8,16,32)."`
	Sf      []float64 `name:"sf" placeholder:"F" help:"Scale factors of the tables of queries that are measured (default 0.1,1)."`
	JSON    bool      `name:"json" help:"Print JSON."`
}

func (r *reproduceCmd) Run(c *console) error {
	if len(r.Names) == 0 || len(r.Names) == 1 && r.Names[0] == "list" {
		return r.list(c)
	}
	experiments, err := experiment.Find(r.Names...)
	switch {
	case err != nil:
		return badInput{err}
	case r.Out == "":
		return badInput{errors.New("no directory given; allowed: --out DIR")}
	}
	for _, sf := range r.Sf {
		if _, err := (&tpchCmd{tpchFlags: tpchFlags{Sf: &sf, Query: 3, Mode: replayMode}}).prepare(); err != nil {
			return badInput{err}
		}
	}
	if err := os.MkdirAll(r.Out, 0o777); err != nil {
		return badInput{err}
	}
	ctx, stop := untilFirstSignal()
	defer stop()
	jobs := new(jobStarter)
	defer func() { os.RemoveAll(jobs.dir) }()
	lab := &experiment.Lab{
		Runs: r.Runs, Seed: r.Seed, Workers: r.Workers, Dir: filepath.Join(r.Out, "cells"),
		Starter: jobs, Processes: r.N, Scales: r.Sf,
	}
	report, err := r.reproduce(ctx, c, lab, experiments)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w; the same command goes on from here", context.Cause(ctx))
	}
	if err != nil {
		return err
	}
	return c.show(r.JSON, report, func(w *bufio.Writer) {
		fmt.Fprintf(w, "report: %s\n", filepath.Join(r.Out, "report.html"))
	})
}

// listed is an experiment as the list shows it.
type listed struct {
	Name   string `json:"name"`
	Title  string `json:"title"`
	Source string `json:"source"`
}

func (r *reproduceCmd) list(c *console) error {
	all := each(experiment.All(), func(e experiment.Experiment) listed { return listed{e.Name, e.Title, e.Source} })
	return c.show(r.JSON, map[string]any{"experiments": all}, func(w *bufio.Writer) {
		for _, e := range all {
			fmt.Fprintf(w, "%-16s %s (%s)\n", e.Name, e.Title, e.Source)
		}
	})
}

// reproduceReport is what --json prints.
type reproduceReport struct {
	Experiments []reproduced `json:"experiments"`
	Report      string       `json:"report"`
	Seconds     float64      `json:"seconds"`
}

type reproduced struct {
	Name    string             `json:"name"`
	Paper   string             `json:"paper"`
	Ours    string             `json:"ours"`
	Verdict experiment.Verdict `json:"verdict"`
	Claims  []experiment.Claim `json:"claims"`
	Skipped string             `json:"skipped,omitempty"`
	Seconds float64            `json:"seconds"`
}

// reproduce makes the experiments. What is finished is kept at once.
func (r *reproduceCmd) reproduce(ctx context.Context, c *console, lab *experiment.Lab, experiments []experiment.Experiment) (*reproduceReport, error) {
	began := time.Now()
	report := &reproduceReport{Report: filepath.Join(r.Out, "report.html")}
	for i, e := range experiments {
		line := &reproduceLine{prefix: fmt.Sprintf("%s (%d of %d)", e.Name, i+1, len(experiments))}
		stop := c.progress(0, line.text)
		lab.Progress = line.at
		f, err := e.Run(ctx, lab)
		stop()
		if err != nil {
			return nil, err
		}
		if err := f.Keep(r.Out); err != nil {
			return nil, err
		}
		if err := experiment.Report(r.Out); err != nil {
			return nil, err
		}
		head := f.Headline()
		report.Experiments = append(report.Experiments, reproduced{
			Name: f.Name, Paper: head.Paper, Ours: head.Ours, Verdict: f.Verdict(), Claims: f.Claims, Skipped: f.Skipped, Seconds: f.Seconds,
		})
		if !r.JSON {
			if err := c.print(func(w *bufio.Writer) { writeFinding(w, f) }); err != nil {
				return nil, err
			}
		}
	}
	report.Seconds = time.Since(began).Seconds()
	return report, nil
}

// writeFinding prints a finding's claims.
func writeFinding(w io.Writer, f *experiment.Finding) {
	fmt.Fprintf(w, "%s: %s (%s)\n", f.Name, f.Title, f.Source)
	if f.Skipped != "" {
		fmt.Fprintf(w, "  %-8s %s\n", f.Verdict(), f.Skipped)
		return
	}
	for _, c := range f.Claims {
		fmt.Fprintf(w, "  %-8s %s: paper %s, ours %s", c.Verdict, c.What, c.Paper, c.Ours)
		if c.Reason != "" {
			fmt.Fprintf(w, " (%s)", c.Reason)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "  %s in %s\n", strings.ToLower(f.How()), f.Took())
}

// reproduceLine is the line that shows progress.
type reproduceLine struct {
	prefix string
	mu     sync.Mutex
	state  experiment.Progress
	began  time.Time // of what state is about
}

func (l *reproduceLine) at(p experiment.Progress) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.Total != l.state.Total || p.Cells != l.state.Cells || p.Done < l.state.Done && p.Cell < l.state.Cell {
		l.began = time.Now()
	}
	l.state = p
}

// text is the line and the share that is done.
func (l *reproduceLine) text() (line string, share float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.state
	if p.Total == 0 {
		return l.prefix, 0
	}
	share = float64(p.Done) / float64(p.Total)
	parts := []string{l.prefix, fmt.Sprintf("cell %d of %d", p.Cell, p.Cells)}
	if share > 0.005 {
		parts = append(parts, timeLeft(l.began, share))
	}
	return strings.Join(parts, ", "), share
}

// jobStarter starts the jobs of experiments: this command's own bench, or Open
// MPI's loop, which it builds when it is first asked for.
type jobStarter struct {
	dir   string // of what is built and written; made when it is needed
	built bool
	mpi   openmpi.MPI
	err   error // why there is no mpi
}

// Missing says what a side needs that is not installed.
func (j *jobStarter) Missing(ctx context.Context, s experiment.Side) (string, error) {
	if s == experiment.Coppice {
		return "", nil
	}
	err := j.build(ctx)
	if errors.Is(err, openmpi.ErrMissing) {
		return err.Error(), nil
	}
	return "", err
}

// build finds and builds what Open MPI's side needs, once.
func (j *jobStarter) build(ctx context.Context) error {
	if !j.built {
		if j.dir, j.err = os.MkdirTemp("", "coppice-reproduce-"); j.err == nil {
			j.mpi, j.err = openmpi.Build(ctx, j.dir)
		}
		j.built = true
	}
	if ctx.Err() != nil { // else what was not built for that reason is called broken
		return ctx.Err()
	}
	return j.err
}

// Stabilize implements experiment.Stabilizer.
func (j *jobStarter) Stabilize(ctx context.Context, processes, fanout, rounds int) (us []float64, err error) {
	m := &membershipBench{benchMembershipCmd: &benchMembershipCmd{Fanout: fanout}}
	for round := range rounds {
		_, v, err := m.killOne(ctx, processes, victimOf(processes, round))
		if err != nil {
			return nil, err
		}
		us = append(us, v.Stabilization)
	}
	return us, nil
}

// Launch runs one job.
func (j *jobStarter) Launch(ctx context.Context, l experiment.Launch) ([]float64, error) {
	switch {
	case l.Query != nil:
		return launchQuery(ctx, l)
	case l.Side == experiment.Coppice:
		return launchOurs(ctx, l)
	}
	if err := j.build(ctx); err != nil {
		return nil, err
	}
	return j.launchTheirs(ctx, l)
}

// launchOurs measures with `coppice bench`.
func launchOurs(ctx context.Context, l experiment.Launch) ([]float64, error) {
	out, _, err := benchloop.Launch(ctx, append([]string{self()}, benchWords(l)...), len(l.Bytes)*len(launchOps(l)))
	if err != nil {
		return nil, err
	}
	return benchMedians(out)
}

// benchMedians are those in what `coppice bench` printed.
func benchMedians(out []byte) (us []float64, err error) {
	var report benchReport
	if err := json.Unmarshal(out, &report); err != nil {
		return nil, fmt.Errorf("what coppice bench printed: %w", err)
	}
	return each(report.Cells, func(c benchCell) float64 { return c.Median }), nil
}

// benchWords are those by which `coppice bench` measures a launch.
func benchWords(l experiment.Launch) []string {
	b := benchCmd{
		Op: launchOps(l), Size: decimals(l.Bytes), N: []int{l.Processes}, Iterations: &l.Iterations, Warmup: &l.Warmup,
		Transport: transport.Unix, Mode: cmp.Or(l.Mode, plainMode), Tree: l.Tree, Correction: l.Correction, Failed: l.Failed, JSON: true,
	}
	if l.Mode == "" && l.Correction != "" {
		b.Mode = correctedMode
	}
	return append([]string{"bench"}, repeated(&b)...)
}

// launchOps are a launch's operations.
func launchOps(l experiment.Launch) []string {
	if len(l.Ops) == 0 {
		return []string{benchloop.Broadcast}
	}
	return l.Ops
}

// joined writes numbers with commas between them.
func joined[N ~int | ~int32](numbers []N) string { return strings.Join(decimals(numbers), ",") }

// launchTheirs measures with Open MPI's loop.
func (j *jobStarter) launchTheirs(ctx context.Context, l experiment.Launch) ([]float64, error) {
	if l.Mode != "" || l.Tree != "" || l.Correction != "" || len(l.Failed) > 0 {
		return nil, errors.New("modes, trees, corrections and failed processes for Open MPI; allowed: none")
	}
	transport, ok := map[experiment.Side]openmpi.Transport{
		experiment.OpenMPITCP: openmpi.TCP, experiment.OpenMPIShared: openmpi.Shared,
	}[l.Side]
	if !ok {
		return nil, fmt.Errorf("side %q; allowed: %s, %s, %s", l.Side, experiment.Coppice, experiment.OpenMPITCP, experiment.OpenMPIShared)
	}
	out, err := os.MkdirTemp(j.dir, "spans")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(out)
	var jobs []benchloop.Job
	for _, op := range launchOps(l) {
		for _, bytes := range l.Bytes {
			jobs = append(jobs, benchloop.Job{
				Op: op, Bytes: bytes, Warmup: l.Warmup, Iterations: l.Iterations,
				Out: filepath.Join(out, strconv.Itoa(len(jobs))),
			})
		}
	}
	if _, _, err := benchloop.Launch(ctx, j.mpi.Command(l.Processes, transport, jobs), len(jobs)); err != nil {
		return nil, err
	}
	var medians []float64
	for _, job := range jobs {
		ranks, err := job.ReadRanks(l.Processes)
		if err != nil {
			return nil, err
		}
		us := benchloop.Times(job.Op, ranks)
		slices.Sort(us)
		medians = append(medians, percentile(us, 50))
	}
	return medians, nil
}

// launchQuery answers a query by a job as `coppice tpch` starts it: what the whole took, from before
// the first process is started until after all have ended, and the query alone. It is an error if
// who was to die did not, or if the answer is wrong.
func launchQuery(ctx context.Context, l experiment.Launch) ([]float64, error) {
	c := tpchCmd{tpchFlags: tpchFlags{Sf: &l.Query.Scale, Query: 3, Mode: l.Mode}, appFlags: appFlags{N: l.Processes}}
	var victims []int
	if l.Query.Kill != "" {
		var k control.Kill
		if err := k.UnmarshalText([]byte(l.Query.Kill)); err != nil {
			return nil, err
		}
		c.Kill, victims = []control.Kill{k}, []int{k.Task}
	}
	if l.Query.Restart {
		c.Restart = 1
	}
	if l.Query.Respawn {
		c.Respawn = launch.RespawnAlways
	}
	began := time.Now()
	report, err := c.answer(ctx, &appJob{}, nil)
	whole := time.Since(began)
	if err != nil {
		return nil, err
	}
	killed := report.Killed
	for _, start := range report.Restarts {
		killed = append(killed, start.Killed...)
	}
	if len(killed) != len(victims) || len(victims) > 0 && !reflect.DeepEqual(killed, victims) {
		return nil, fmt.Errorf("%v died instead of %v (%s)", killed, victims, l.Query.Kill)
	}
	answer := tpch.Answer{Columns: report.Columns, Rows: report.Rows}.CSV()
	if want, ok := tpch.Official(c.Query, c.scale()); ok && answer != want {
		return nil, fmt.Errorf("the answer is %s; the official one is %s", answer, want)
	}
	return []float64{float64(whole.Microseconds()), report.Ask * 1e6}, nil
}
