package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	benchloop "github.com/coppice-go/coppice/bench/loop"
)

type benchRecoveryCmd struct {
	N       int           `name:"processes" short:"n" default:"16" placeholder:"N" help:"Number of processes, 3 or more (default ${default})."`
	Op      []string      `default:"allreduce" placeholder:"OP" help:"What a process dies in: broadcast, reduce, allreduce, scan, scatter, gather, allgather, alltoall, barrier, or all of these (default ${default})."`
	Size    string        `default:"8B" placeholder:"SIZE" help:"Bytes of a task's block, for alltoall of a pair's (default ${default})."`
	Mode    string        `default:"replay" placeholder:"M" help:"How the operation is protected: ${recoveryModes} (default ${default})."`
	Work    time.Duration `placeholder:"D" help:"Values are combined by a function that takes so long, such as 5ms: for reduce, allreduce and scan (default: they are added)."`
	Backups string        `default:"auto" placeholder:"B" help:"With --work, what was combined is kept at other processes: on, off, or auto, by cost (default ${default})."`
	Rounds  int           `default:"9" placeholder:"R" help:"Deaths in each operation, each in a job of its own (default ${default})."`
	JSON    bool          `name:"json" help:"Print JSON."`
}

// recoveryModes are the protections that outlive a death.
var recoveryModes = []string{replayMode, agreedMode}

// recoveryPlan is what was asked for, checked.
type recoveryPlan struct {
	n, bytes, rounds int
	ops              []string
	mode             string
	work             time.Duration
	backups          string
}

func (b *benchRecoveryCmd) plan() (p recoveryPlan, err error) {
	p = recoveryPlan{n: b.N, rounds: b.Rounds, ops: b.Op, mode: b.Mode, work: b.Work, backups: b.Backups}
	if p.bytes, err = parseSize(b.Size); err != nil {
		return p, err
	}
	if slices.Equal(b.Op, []string{all}) {
		p.ops = benchloop.Collectives
	}
	for i, op := range p.ops {
		switch {
		case !slices.Contains(benchloop.Collectives, op) || slices.Contains(p.ops[:i], op):
			return p, fmt.Errorf("operation %q; allowed: %s, each once, or all", op, strings.Join(benchloop.Collectives, ", "))
		case benchloop.Sums(op) && p.bytes%8 != 0:
			return p, fmt.Errorf("%d bytes for %s; allowed: multiples of 8", p.bytes, op)
		case b.Work > 0 && !benchloop.Sums(op):
			return p, fmt.Errorf("--work with %s; allowed with: reduce, allreduce, scan", op)
		}
	}
	switch {
	case b.N < membershipProcessesMin || b.N > membershipProcessesMax:
		return p, fmt.Errorf("%d processes; allowed: %d to %d", b.N, membershipProcessesMin, membershipProcessesMax)
	case b.Rounds < 1 || b.Rounds > membershipRoundsMax:
		return p, fmt.Errorf("%d rounds; allowed: 1 to %d", b.Rounds, membershipRoundsMax)
	case b.Work < 0 || b.Work > time.Minute:
		return p, fmt.Errorf("--work %v; allowed: up to %v", b.Work, time.Minute)
	case !slices.Contains([]string{backupsAuto, backupsOn, backupsOff}, b.Backups):
		return p, fmt.Errorf("--backups %q; allowed: on, off, auto", b.Backups)
	case b.Work == 0 && b.Backups != backupsAuto:
		return p, errors.New("--backups without --work; allowed with it")
	case !slices.Contains(recoveryModes, b.Mode):
		return p, fmt.Errorf("mode %q; allowed: %s", b.Mode, strings.Join(recoveryModes, ", "))
	}
	return p, nil
}

func (b *benchRecoveryCmd) Run(c *console) error {
	plan, err := b.plan()
	if err != nil {
		return badInput{err}
	}
	ctx, stop := untilFirstSignal()
	defer stop()
	var sides []recoverySides
	seconds, err := c.timed(plan.rounds*len(plan.ops), func(done func(int)) error {
		sides, err = plan.measure(ctx, done)
		return err
	})
	if err != nil {
		return interruptedOr(ctx, err)
	}
	report := newRecoveryReport(plan, sides)
	report.Seconds = seconds
	return c.show(b.JSON, report, report.write)
}

// recoverySides is what was measured of one operation.
type recoverySides struct {
	op      string
	any     []survival
	first   []survival // from the first death of each job, of one process more
	floor   []float64  // µs
	noticed []float64  // µs: the first survivor of the floor has seen a connection break
}

// measure does all rounds. In each, every operation has a death, and the floor beside
// it.
func (p recoveryPlan) measure(ctx context.Context, done func(int)) ([]recoverySides, error) {
	sides := make([]recoverySides, len(p.ops))
	for i, op := range p.ops {
		sides[i].op = op
	}
	for round := range p.rounds {
		victim := victimOf(p.n, round)
		for i := range sides {
			s := &sides[i]
			err := inTurn(
				ctx, round,
				func() error { return p.kills(ctx, s, victim) },
				func() error { return p.floor(ctx, s, victim) },
			)
			if err != nil {
				return nil, err
			}
			done(round*len(sides) + i + 1)
		}
	}
	return sides, nil
}

// kills measures two deaths in a job, each in an operation of its own; the first is a rehearsal.
func (p recoveryPlan) kills(ctx context.Context, s *recoverySides, victim int) error {
	first, second, err := killTwo(ctx, p.n, victim, true, p.words(s.op), nil, (*deathSink).survival)
	if err != nil {
		return fmt.Errorf("%s: %w", s.op, err)
	}
	s.first, s.any = append(s.first, first), append(s.any, second)
	return nil
}

// floor is a death among plain processes.
func (p recoveryPlan) floor(ctx context.Context, s *recoverySides, victim int) error {
	times, err := floorTimes(ctx, p.n, victim)
	if err != nil {
		return err
	}
	s.floor = append(s.floor, microseconds(times.Took()))
	s.noticed = append(s.noticed, float64(slices.Min(times.Noticed)-times.Killed)/1e3)
	return nil
}

// words start a process of such a job.
func (p recoveryPlan) words(op string) []string {
	return []string{"bench-recovery-process", "--work", p.work.String(), "--backups", p.backups, p.mode, op, fmt.Sprint(p.bytes)}
}
