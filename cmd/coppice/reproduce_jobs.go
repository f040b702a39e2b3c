package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coppice-go/coppice/apps/tpch"
	benchloop "github.com/coppice-go/coppice/bench/loop"
	"github.com/coppice-go/coppice/bench/openmpi"
	"github.com/coppice-go/coppice/experiment"
	"github.com/coppice-go/coppice/internal/control"
	"github.com/coppice-go/coppice/internal/launch"
)

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
	m := &membershipBench{plan: membershipPlan{fanout: fanout}}
	for round := range rounds {
		_, v, err := m.killOne(ctx, processes, victimOf(processes, round))
		if err != nil {
			return nil, err
		}
		us = append(us, v.stabilization())
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
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	out, _, err := benchloop.Launch(ctx, append([]string{self}, benchWords(l)...), len(l.Bytes)*len(launchOps(l)))
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
	number := strconv.Itoa
	words := []string{
		"bench", "--json", "--op", strings.Join(launchOps(l), ","), "-n", number(l.Processes),
		"--iterations", number(l.Iterations), "--warmup", number(l.Warmup),
	}
	if l.Tree != "" {
		words = append(words, "--tree", l.Tree)
	}
	switch {
	case l.Mode != "":
		words = append(words, "--mode", l.Mode)
	case l.Correction == "":
		words = append(words, "--mode", plainMode)
	default:
		words = append(words, "--mode", correctedMode, "--correction", l.Correction)
	}
	if len(l.Failed) > 0 {
		words = append(words, "--failed", joined(l.Failed))
	}
	return append(words, "--size", joined(l.Bytes))
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
	c := tpchCmd{Sf: &l.Query.Scale, Query: 3, Mode: l.Mode, appFlags: appFlags{N: l.Processes}}
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
