package main

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"slices"
	"time"

	benchloop "github.com/coppice-go/coppice/bench/loop"
	"github.com/coppice-go/coppice/topology"
)

type benchMembershipCmd struct {
	N          *int  `name:"processes" short:"n" placeholder:"N" help:"Number of processes, 3 or more (default 64)."`
	Sizes      []int `placeholder:"N" help:"Instead of -n: several numbers of processes, and how stabilization grows with their logarithm."`
	Rounds     int   `default:"9" placeholder:"R" help:"Deaths of each kind, each in a job of its own (default ${default})."`
	Fanout     int   `default:"0" placeholder:"A" help:"Fan-out of the tree that carries proposals, a power of two (default: the library's)."`
	Memberlist *bool `placeholder:"B" help:"Measure hashicorp/memberlist too, for a few rounds (default true, with --sizes false)."`
	JSON       bool  `name:"json" help:"Print JSON."`
}

// Bounds of what can be asked for.
const (
	membershipProcesses    = 64 // unless said otherwise
	membershipProcessesMin = 3
	membershipProcessesMax = 512 // the floor has a socket for each pair
	membershipRoundsMax    = 10_000
	membershipFanoutMax    = 64
	memberlistRounds       = 3 // a round takes several seconds
)

// membershipPlan is what was asked for, checked.
type membershipPlan struct {
	sizes      []int
	rounds     int
	fanout     int
	memberlist bool
}

func (b *benchMembershipCmd) plan() (p membershipPlan, err error) {
	p = membershipPlan{sizes: b.Sizes, rounds: b.Rounds, fanout: b.Fanout, memberlist: given(b.Memberlist, len(b.Sizes) == 0)}
	switch {
	case b.N != nil && len(b.Sizes) > 0:
		return p, errors.New("-n with --sizes; allowed: one of them")
	case b.N != nil:
		p.sizes = []int{*b.N}
	case len(b.Sizes) == 0:
		p.sizes = []int{membershipProcesses}
	}
	for i, n := range p.sizes {
		if n < membershipProcessesMin || n > membershipProcessesMax || slices.Contains(p.sizes[:i], n) {
			return p, fmt.Errorf("%d processes; allowed: %d to %d, each number once", n, membershipProcessesMin, membershipProcessesMax)
		}
	}
	switch {
	case len(b.Sizes) == 1:
		return p, errors.New("--sizes with one number; allowed: 2 or more, or -n")
	case b.Rounds < 1 || b.Rounds > membershipRoundsMax:
		return p, fmt.Errorf("%d rounds; allowed: 1 to %d", b.Rounds, membershipRoundsMax)
	case b.Fanout != 0 && (b.Fanout < 2 || b.Fanout > membershipFanoutMax || bits.OnesCount(uint(b.Fanout)) != 1):
		return p, fmt.Errorf("fan-out %d; allowed: powers of two, 2 to %d", b.Fanout, membershipFanoutMax)
	}
	return p, nil
}

func (b *benchMembershipCmd) Run(c *console) error {
	plan, err := b.plan()
	if err != nil {
		return badInput{err}
	}
	ctx, stop := untilFirstSignal()
	defer stop()
	began := time.Now()
	m := &membershipBench{plan: plan, console: c}
	defer func() { os.RemoveAll(m.dir) }()
	if plan.memberlist {
		m.buildMemberlist(ctx)
	}
	var sides []membershipSides
	_, err = c.timed(len(plan.sizes)*plan.rounds, func(done func(int)) error {
		for i, n := range plan.sizes {
			one, err := m.measure(ctx, n, func(rounds int) { done(i*plan.rounds + rounds) })
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
	report := newMembershipReport(plan, sides)
	report.Seconds = time.Since(began).Seconds()
	return c.show(b.JSON, report, report.write)
}

// membershipBench measures the sides in turns.
type membershipBench struct {
	plan    membershipPlan
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
	for round := range m.plan.rounds {
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
