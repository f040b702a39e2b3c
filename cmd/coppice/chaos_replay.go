package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/coppice-go/coppice/chaos"
	"github.com/coppice-go/coppice/chaos/recovery"
	"github.com/coppice-go/coppice/chaos/replay"
)

// operationsDefault is the length of random programs.
const operationsDefault = 300

// checkReplay is check for replay.
func (x *chaosCmd) checkReplay() error {
	if x.Swarm {
		x.swarm()
	}
	switch {
	case x.Agentless || x.Dead != nil || x.Reorder:
		return errors.New("--agentless, --dead or --reorder with replay; allowed: --crashes, --lossy, --joiners, --suspicions, --cuts, --restarts, --cancels")
	case min(x.Suspicions, x.Cuts, x.Restarts, x.Cancels, x.Frozen) < 0:
		return fmt.Errorf("%d suspicions, %d cuts, %d restarts, %d cancels, %d frozen; allowed: 0 or more", x.Suspicions, x.Cuts, x.Restarts, x.Cancels, x.Frozen)
	case x.Joiners < 0 || x.P+x.Joiners > chaosMax:
		return fmt.Errorf("%d joiners; allowed: 0 to %d", x.Joiners, chaosMax-x.P)
	case x.Crashes != nil && *x.Crashes > x.P+x.Joiners-1:
		return fmt.Errorf("%d crashes with replay; allowed: 0 to %d, since one process survives", *x.Crashes, x.P+x.Joiners-1)
	case x.Delays != nil && (x.Exhaustive || x.Count):
		return errors.New("--delays with --exhaustive or --count; allowed: one of them")
	case (x.Swarm || x.Frozen > 0 || x.RequireSituations) && (x.Exhaustive || x.Delays != nil):
		return errors.New("--swarm, --frozen or --require-situations with --exhaustive or --delays; allowed with: random schedules")
	case x.Op == "":
		return nil
	}
	_, err := replay.ParseOp(x.Op)
	return err
}

func (x *chaosCmd) attackReplay() (chaos.Report, error) {
	r := recovery.Job{
		P: x.P, Tasks: x.Tasks, Joiners: x.Joiners, Operations: x.Operations, Crashes: x.P - 1,
		LossyCrashes: x.Lossy, KeepGoing: x.Count, StatesMax: x.States, Progress: x.made,
		Cancels: x.Cancels, Suspicions: x.Suspicions, Cuts: x.Cuts, Restarts: x.Restarts, Saves: recovery.Some,
		Frozen: x.Frozen, Inside: x.Inside,
	}
	if x.Swarm {
		r.Swarm, r.OneWay, r.Logless, r.Stored, r.SomeInside, r.Hosts, r.Drains, r.Late = true, true, true, true, true, swarmHosts, x.P-1, x.P-1
	}
	if op, err := replay.ParseOp(x.Op); err == nil {
		r.Ops = []replay.Op{op}
	}
	if x.Exhaustive || x.Delays != nil {
		r.Crashes, r.Saves = min(r.Crashes, 2), 0
	}
	r.Crashes, r.Saves = given(x.Crashes, r.Crashes), given(x.Saves, r.Saves)
	switch {
	case x.Delays != nil:
		return r.DelayBounded(*x.Delays, x.Workers)
	case x.Exhaustive:
		return r.CrashPoints(x.Workers)
	}
	return r.Random(x.Seed, x.Runs, x.Workers)
}

// swarmHosts is on how many hosts the processes of a swarm are at most.
const swarmHosts = 3

// swarm fills in up to what a run of a swarm draws where nothing is said: small jobs, of which
// there are many a second, with some of every fault.
func (x *chaosCmd) swarm() {
	for _, number := range []struct {
		is   *int
		most int
	}{
		{&x.Joiners, 2},
		{&x.Suspicions, 2},
		{&x.Cuts, 2},
		{&x.Restarts, 2},
		{&x.Cancels, 2},
		{&x.Frozen, 2},
		{&x.Tasks, x.P + 1},
	} {
		if *number.is == 0 {
			*number.is = number.most
		}
	}
	if x.Operations == operationsDefault {
		x.Operations = 5
	}
	if x.Crashes == nil {
		x.Crashes = new(x.P + x.Joiners - 1)
	}
	x.Lossy = true
}

// replay is the command that makes a run again.
func (x *chaosCmd) replay(name string, seed uint64) string {
	if !x.Swarm {
		return fmt.Sprintf("the same flags with --protocol %s --runs 1 --seed %d", name, seed)
	}
	one := *x
	one.Processes, one.Runs, one.Seed = &x.P, 1, seed
	one.Workers, one.Count, one.JSON, one.RequireSituations = 0, false, false, false
	return "coppice chaos " + strings.Join(repeated(&one, "runs", "seed"), " ")
}

// missing lists the situations that must occur and did not.
func (x *chaosCmd) missing(all []chaos.Situation) (names []string) {
	for _, s := range all {
		if x.RequireSituations && s.Runs == 0 {
			names = append(names, s.Name)
		}
	}
	return names
}
