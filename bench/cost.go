package main

import (
	"context"
	"fmt"

	"github.com/coppice-go/coppice/bench/calls"
	"github.com/coppice-go/coppice/bench/loop"
)

// cost is what one iteration cost all processes together: the operation and the barrier after it. Other
// work on the machine can only increase it.
type cost struct {
	CPU         float64 `json:"cpu_us"`
	Switches    float64 `json:"switches"`         // context switches because a thread waited: as many threads are woken
	Involuntary float64 `json:"involuntary"`      // context switches because another thread had to run
	Allocations float64 `json:"allocations"`      // objects
	Calls       float64 `json:"system_calls"`     // without those by which Go's runtime schedules goroutines
	AllCalls    float64 `json:"all_system_calls"` // with them
	Sends       float64 `json:"sends"`            // writes of messages to sockets
	Bytes       float64 `json:"sent_bytes"`
}

// quantity is one of the counts of a cost.
type quantity struct {
	name string
	of   func(*cost) *float64

	// sleeps: it depends on how often processes sleep. In shared memory that is hardly ever, or for every message: beside other
	// work, and under ptrace, a process gives up looking at the memory. So there it is not limited.
	sleeps bool

	// A limit is factor times what was counted, plus slack. That covers the effect of the machine's
	// load, and is less than a change that matters. A process that runs ahead of others needs memory
	// once: allocations vary most from run to run.
	factor, slack float64
}

// quantities are the limited ones. Involuntary context switches and processor time depend on the
// machine's load, and so, mostly, does the count of all system calls: an idle thread of Go's runtime
// looks for work before it sleeps.
var quantities = []quantity{
	{"allocations", func(c *cost) *float64 { return &c.Allocations }, false, 1.5, 4},
	{"switches", func(c *cost) *float64 { return &c.Switches }, true, 1.5, 0.75},
	{"calls", func(c *cost) *float64 { return &c.Calls }, true, 1.3, 1},
	{"sends", func(c *cost) *float64 { return &c.Sends }, true, 1.2, 0.5},
	{"bytes", func(c *cost) *float64 { return &c.Bytes }, true, 1.1, 50},
}

// limits reports whether a quantity has a limit on a side.
func (q quantity) limits(s side) bool { return !q.sleeps || s != coppiceShared }

// countedUsage returns the cost of an iteration as far as processes can measure it themselves.
func countedUsage(u loop.Usage, iterations int) cost {
	n := float64(iterations)
	return cost{
		CPU: float64(u.CPU) / 1e3 / n, Switches: float64(u.Voluntary) / n,
		Involuntary: float64(u.Involuntary) / n, Allocations: float64(u.Allocations) / n,
	}
}

// How often the loop of a traced job is repeated.
const (
	tracedWarmup     = 20
	tracedIterations = 60
)

// trace launches a side once more and counts the system calls of its jobs.
func (ps *programs) trace(ctx context.Context, s side, p int, jobs []loop.Job, costs []*cost) error {
	traced := make([]loop.Job, len(jobs))
	for i, job := range jobs {
		job.Warmup, job.Iterations = min(job.Warmup, tracedWarmup), min(job.Iterations, tracedIterations)
		traced[i] = job
	}
	sections, err := calls.Run(ctx, ps.command(s, p, traced))
	if err != nil {
		return err
	}
	if len(sections) != len(jobs) {
		return fmt.Errorf("%d sections of system calls, want %d", len(sections), len(jobs))
	}
	for i, section := range sections {
		if section.Processes != p {
			return fmt.Errorf("the system calls of %d processes, want %d", section.Processes, p)
		}
		n := float64(traced[i].Iterations)
		c := costs[i]
		c.Calls, c.AllCalls = float64(section.Library)/n, float64(section.All)/n
		c.Sends, c.Bytes = float64(section.Sends)/n, float64(section.Bytes)/n
	}
	return nil
}

// least returns the lesser of every count of two costs, of which either may be missing.
func (c cost) least(d cost) cost {
	if c == (cost{}) {
		return d
	}
	if d == (cost{}) {
		return c
	}
	return cost{
		min(c.CPU, d.CPU), min(c.Switches, d.Switches), min(c.Involuntary, d.Involuntary), min(c.Allocations, d.Allocations),
		min(c.Calls, d.Calls), min(c.AllCalls, d.AllCalls), min(c.Sends, d.Sends), min(c.Bytes, d.Bytes),
	}
}

// cost returns the least of every count over the rounds.
func (r result) cost(in func(round) figure) (c cost) {
	for _, x := range r.rounds {
		c = c.least(in(x).Cost)
	}
	return c
}
