package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/coppice-go/coppice"
	benchloop "github.com/coppice-go/coppice/bench/loop"
	"github.com/coppice-go/coppice/bench/ops"
	"github.com/coppice-go/coppice/internal/node"
	"github.com/coppice-go/coppice/internal/posix"
	"github.com/coppice-go/coppice/logp"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
)

// benchProcessCmd is what `coppice bench` starts: one process of the job that
// measures.
type benchProcessCmd struct {
	benchHow
	Jobs []string `arg:""`
}

func (b *benchProcessCmd) Run(c *console) error {
	jobs, err := benchloop.Parse(b.Jobs)
	if err != nil {
		return badInput{err}
	}
	ctx, stop := untilFirstSignal()
	defer stop()
	watch := newLogWatch(slog.NewTextHandler(c.stderr, logLevel))
	return b.job(watch).Run(ctx, func(ctx context.Context, t *coppice.Task) error {
		return benchTask(ctx, t, jobs, b.benchHow, watch, os.Stdout)
	})
}

// benchTask measures jobs as one task. The one of rank 0 writes the figures, a
// line for each.
func benchTask(ctx context.Context, t *coppice.Task, jobs []benchloop.Job, b benchHow, watch *logWatch, out io.Writer) error {
	alive, err := b.survivors(ctx, t)
	if err != nil {
		return err
	}
	for _, job := range jobs {
		job.Copies = b.Copies
		before := node.Logged()
		spans, err := b.measure(ctx, t, alive, job)
		if err != nil {
			return err
		}
		times, logged, err := groupTimes(ctx, alive, job.Op, spans, watch, node.Logged()-before)
		if err == nil && t.Rank() == 0 {
			figures := benchFiguresOf(job, t.Size(), times)
			figures.LogBytes = logged
			err = json.NewEncoder(out).Encode(figures)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// groupTimes returns, at rank 0, the nanoseconds that each iteration took the
// group: all processes read the same clock, on one machine; and the most that any has
// logged. They count only if the library has complained nowhere.
func groupTimes(ctx context.Context, t *coppice.Task, op string, spans []benchloop.Span, watch *logWatch, logged int64) (times []int64, most int64, err error) {
	const fields = 3
	extremes := make([]int64, 0, fields*len(spans)+2)
	for _, s := range spans {
		extremes = append(extremes, s.Begin, s.End, s.End-s.Begin)
	}
	extremes = append(extremes, watch.errors.Load(), logged)
	extremes, err = coppice.Reduce(ctx, t, extremes, coppice.Max)
	if err != nil || t.Rank() != 0 {
		return nil, 0, err
	}
	if extremes[fields*len(spans)] > 0 {
		return nil, 0, fmt.Errorf("no figures of %s: the library has logged an error", op)
	}
	times = make([]int64, len(spans))
	for i, s := range spans {
		e := extremes[fields*i:]
		times[i] = benchloop.Iteration{Root: s, LastBegin: e[0], LastEnd: e[1], Slowest: e[2]}.Time(op)
	}
	return times, extremes[fields*len(spans)+1], nil
}

// benchFiguresOf sums up the nanoseconds of a job's iterations on p processes.
func benchFiguresOf(job benchloop.Job, p int, times []int64) (f benchFigures) {
	slices.Sort(times)
	f.Median, f.P99 = percentile(times, 50)/1e3, percentile(times, 99)/1e3
	if f.Median > 0 {
		f.BytesPerSecond = math.Round(float64(busiest(job, p)) / f.Median * 1e6)
	}
	return f
}

// percentile is the least of sorted values that so many percent do not exceed.
func percentile[N int64 | float64](sorted []N, percent int) float64 {
	if len(sorted) == 0 {
		return 0
	}
	at := (len(sorted)*percent + 99) / 100
	return float64(sorted[max(at, 1)-1])
}

// busiest is how many bytes the busiest of p processes must send or receive.
func busiest(job benchloop.Job, p int) int {
	bytes := job.Bytes
	switch job.Op {
	case benchloop.Save:
		return bytes * min(job.Copies, p-1)
	case benchloop.Barrier:
		return 0
	case benchloop.PingPong:
		return 2 * bytes
	case benchloop.Scatter, benchloop.Gather, benchloop.AllGather, benchloop.AllToAll, benchloop.ReduceScatter:
		return bytes * (p - 1)
	default:
		return bytes * min(1, p-1)
	}
}

// benchHow is how operations are carried out while they are measured, and
// which processes are dead. Tree and Correction may be empty.
type benchHow struct {
	Mode             string `arg:""`
	Tree, Correction string
	Failed           []int
	Copies           int // of what is saved; 0: nothing is
}

func (b *benchCmd) how() benchHow {
	return benchHow{b.Mode, b.Tree, b.Correction, b.Failed, b.copies()}
}

// words start a process that measures so; its jobs follow.
func (b benchHow) words() []string {
	return slices.Concat([]string{"bench-process"}, repeated(&b), []string{b.Mode})
}

// parse is what the library has for it.
func (b benchHow) parse() (how ops.How, err error) {
	how.Mode = coppice.Plain()
	switch b.Mode {
	case correctedMode:
		how.Correction, err = coppice.ParseCorrection(b.correction())
	case replayMode, sendsMode:
		how.Mode = coppice.Replayed()
	case agreedMode, reportMode, twiceMode:
		how.Mode = coppice.Agreed()
	}
	if err == nil && b.Tree != "" {
		var tree coppice.Tree
		tree, err = coppice.ParseTree(b.Tree)
		how.Along = []coppice.Option{coppice.Along(tree)}
	}
	return how, err
}

// measure runs a job's loop at one task.
func (b benchHow) measure(ctx context.Context, t, alive *coppice.Task, job benchloop.Job) ([]benchloop.Span, error) {
	job.Twice = b.Mode == twiceMode
	if b.Mode == sendsMode {
		job.Op = benchloop.Sends
	}
	how, err := b.parse()
	if err != nil {
		return nil, err
	}
	return ops.Measure(ctx, t, alive, job, how)
}

// job has the settings that the mode is about.
func (b benchHow) job(watch *logWatch) *coppice.Job {
	job := &coppice.Job{Recovery: coppice.Report, Logger: slog.New(watch)}
	if logged(b.Mode) {
		job.Recovery, job.LogBytes, job.Copies = coppice.Replay, benchLogBytes, b.Copies
	}
	return job
}

func (b benchHow) correction() string { return cmp.Or(b.Correction, "checked") }

// corrected are the operations that can be corrected, and alongTrees those that have a tree.
var (
	corrected  = []string{benchloop.Broadcast, benchloop.Reduce, benchloop.AllReduce}
	alongTrees = []string{benchloop.Broadcast}
)

// outside is the first of the operations that is not among some, or "".
func outside(some, ops []string) string {
	if i := slices.IndexFunc(ops, func(op string) bool { return !slices.Contains(some, op) }); i >= 0 {
		return ops[i]
	}
	return ""
}

// checkFlags checks what is said of trees, corrections and failed ranks.
func (b *benchCmd) checkFlags(ops []string) error {
	switch op := outside(alongTrees, ops); {
	case b.Tree != "" && op != "":
		return fmt.Errorf("--tree with operation %s; allowed with: %s", op, benchloop.Broadcast)
	case b.Mode != correctedMode && b.Correction != "":
		return fmt.Errorf("--correction with mode %s; allowed with: corrected", b.Mode)
	case b.Mode != correctedMode && len(b.Failed) > 0:
		return fmt.Errorf("--failed with mode %s; allowed with: corrected", b.Mode)
	case len(b.Failed) > 0 && op != "":
		return fmt.Errorf("--failed with operation %s; allowed with: %s", op, benchloop.Broadcast)
	case b.Transport == memory && len(b.Failed) > 0:
		return fmt.Errorf("--failed with transport memory; allowed with: %s", strings.Join(benchTransports, ", "))
	case b.Tree == "" && b.Correction == "":
		return nil
	}
	how, err := b.how().parse()
	if err != nil || outside(alongTrees, ops) == "" {
		return err
	}
	var wrong error // what the library says to it
	err = coppice.Local(context.Background(), 1, func(ctx context.Context, t *coppice.Task) error {
		_, wrong = coppice.Reduce(ctx, t, 0, coppice.Sum, coppice.Corrected(how.Correction))
		return nil
	})
	return errors.Join(err, wrong)
}

// checkFailed checks the failed among n processes: the root is not, and nobody who
// waits would wait forever.
func (b *benchCmd) checkFailed(n int) error {
	if len(b.Failed) == 0 {
		return nil
	}
	seen := map[int]bool{}
	faults := logp.Faults{}
	for _, r := range b.Failed {
		if r < 1 || r >= n || seen[r] {
			return fmt.Errorf("failed rank %d of %d processes; allowed: 1 to %d, each once", r, n, n-1)
		}
		seen[r] = true
		faults.Failed = append(faults.Failed, protocol.Rank(r))
	}
	p := b.how()
	name, reach, err := broadcast.ParseCorrection(p.correction())
	if err != nil || name != "opportunistic" && name != "optimized" {
		return err
	}
	p.Tree = cmp.Or(p.Tree, "binomial")
	if strings.HasPrefix(p.Tree, "gossip") {
		return fmt.Errorf("--failed with tree %s and correction %s, which may leave some unreached; allowed: correction checked", p.Tree, p.Correction)
	}
	runs, err := logp.Broadcast(broadcast.Spec{Tree: p.Tree, Correction: "checked", Synchronized: true},
		logp.Network{P: n, L: 2, O: 1}, logp.Runs{Runs: 1, Workers: 1, Faults: logp.Sampling{Fixed: faults}})
	if err == nil && int(runs[0].GapMax) > 2*int(reach) {
		err = fmt.Errorf("without the failed ranks %d in a row are not reached along the tree, more than correction %s mends; allowed: correction checked", runs[0].GapMax, p.Correction)
	}
	return err
}

// survivors returns the group of those that live, when all that are to fail are
// dead and this task knows it. A task that is to fail does not return.
func (b benchHow) survivors(ctx context.Context, t *coppice.Task) (*coppice.Task, error) {
	if len(b.Failed) == 0 {
		return t, nil
	}
	const last = 1 // the tag of the message upon which a process dies
	color := 0
	fails := slices.Contains(b.Failed, t.Rank())
	if fails {
		color = -1
	}
	alive, err := t.Split(ctx, color, t.Rank())
	if err != nil {
		return nil, err
	}
	if fails {
		if _, err := coppice.Recv[int](ctx, t, 0, last); err != nil {
			return nil, err
		}
		if err := posix.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
			return nil, err
		}
		select {}
	}
	// Nobody dies before all are through with the split.
	if err := coppice.Barrier(ctx, alive); err != nil {
		return nil, err
	}
	for _, r := range b.Failed {
		if t.Rank() == 0 {
			if err := coppice.Send(ctx, t, r, last, 0); err != nil {
				return nil, err
			}
		}
		if _, err := coppice.Recv[int](ctx, t, r, last); !errors.Is(err, coppice.ErrLost) {
			return nil, fmt.Errorf("rank %d, which is to be dead: %w", r, err)
		}
	}
	return alive, nil
}
