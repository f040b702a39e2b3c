package main

import (
	"cmp"
	"fmt"

	"github.com/coppice-go/coppice/logp"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
)

type simCmd struct {
	P int `name:"processes" short:"P" required:"" placeholder:"N" help:"Number of processes."`
	groupFlags
	G          int64  `name:"gap" short:"g" default:"0" placeholder:"g" help:"LogP gap between sends, and between receives; less than o counts as o."`
	Correction string `default:"checked" placeholder:"C" help:"none, ack, opportunistic:D, opportunistic-sends:N, optimized:D, optimized-paper:D, checked, failure-proof:F or delayed:STEPS; D is per side, N messages in all; none with bfb (default ${default})."`
	ringFlags

	Runs    int    `default:"1" placeholder:"R" help:"Number of runs (default ${default})."`
	Seed    uint64 `default:"1" placeholder:"S" help:"Same seed, same results (default ${default})."`
	Workers int    `default:"0" placeholder:"W" help:"Cores to use, 0 for all; the results do not depend on it."`
	JSON    bool   `name:"json" help:"Print JSON."`

	Faults     *share          `group:"faults" xor:"faults" placeholder:"1%" help:"So many per cent of the processes are dead from the start, drawn anew in each run, never the root."`
	FaultCount *int            `group:"faults" xor:"faults" placeholder:"N" help:"The same as a number."`
	Failed     []protocol.Rank `group:"faults" xor:"faults" placeholder:"RANK" help:"These are dead from the start."`
	Block      int             `group:"faults" default:"1" placeholder:"K" help:"Drawn processes die in blocks of K neighbours."`
	Die        []death         `group:"faults" placeholder:"RANK@t|RANK#k" help:"A process dies at time t, or after its k-th send; may be repeated."`
	Detect     *int64          `group:"faults" placeholder:"D" help:"With --tree bfb and corrected reductions: every live process is told of a death so many steps after it (default 1)."`

	collectiveFlags

	Queue bool `group:"ring" default:"true" negatable:"" help:"A process receives one message at a time; --queue=false lets receives overlap, as in Corrected Gossip."`

	Trace string `placeholder:"FILE.html" help:"Draw one run, of up to 500 processes, into a page for the browser: of several runs the one with the longest quiescence."`
}

func (s *simCmd) Run(c *console) error {
	if s.Collective != "" {
		report, err := s.simulateCollective()
		return c.showOrRefuse(s.JSON, report, err)
	}
	if flag := changed(s, "algorithm", "size", "pieces", "per-byte"); flag != "" {
		return badInput{fmt.Errorf("%s without --collective; allowed: with it", flag)}
	}
	report, err := s.simulate(c)
	if err != nil {
		return badInput{err}
	}
	if s.Trace != "" {
		if err := s.writeTrace(c, report.longest); err != nil {
			return err
		}
	}
	return c.show(s.JSON, report, report.write)
}

// simulate runs the simulation. All errors are about its input.
func (s *simCmd) simulate(c *console) (*simReport, error) {
	spec, net, runs, err := s.plan()
	if err != nil {
		return nil, err
	}
	var results []logp.Result
	seconds, err := c.timed(runs.Runs, func(done func(int)) error {
		runs.Progress = done
		results, err = logp.Broadcast(spec, net, runs)
		return err
	})
	if err != nil {
		return nil, err
	}
	return newSimReport(s.config(runs), results, seconds), nil
}

// plan turns the flags into what the simulator takes. What it does not check
// itself is checked by the simulator before it begins.
func (s *simCmd) plan() (spec broadcast.Spec, net logp.Network, runs logp.Runs, err error) {
	net = logp.Network{P: s.P, L: protocol.Time(s.L), O: protocol.Time(s.O), G: protocol.Time(s.G), NoQueue: !s.Queue}
	if err := cmp.Or(net.Check(), s.checkTrace()); err != nil {
		return spec, net, runs, err
	}
	if spec, err = s.groupFlags.spec(s.P, s.Correction, s.ringFlags); err != nil {
		return spec, net, runs, err
	}
	runs = logp.Runs{Runs: s.Runs, Seed: s.Seed, Workers: s.Workers}
	if runs.Faults, err = s.sampling(); err != nil {
		return spec, net, runs, err
	}
	if net.Detect, err = s.detector(); err != nil {
		return spec, net, runs, err
	}
	return spec, net, runs, checkMemory(net, runs)
}

// config is the configuration as the report repeats it. The number of workers
// is left out, since nothing depends on it.
func (s *simCmd) config(runs logp.Runs) simConfig {
	c := simConfig{
		P: s.P, L: s.L, O: s.O, G: s.G, Root: s.Root,
		Tree: s.Tree, Order: s.Order, Correction: s.Correction, Sync: s.Sync, Early: s.Early,
		First: s.First, Wrap: s.Wrap, Sides: s.Sides, Queue: s.Queue,
		FaultCount: runs.Faults.Count, Block: s.Block, Failed: s.Failed, Die: s.Die,
		Runs: s.Runs, Seed: s.Seed,
	}
	c.Detect, _ = s.detector()
	if s.Early == "" && s.Sync == "overlapped" {
		c.Early = "join"
	}
	return c
}
