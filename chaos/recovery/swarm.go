package recovery

import (
	"cmp"

	"github.com/coppice-go/coppice/chaos"
	"github.com/coppice-go/coppice/chaos/replay"
	"github.com/coppice-go/coppice/protocol"
)

// A swarm is a set of random runs, each of which draws its own mix of faults, sizes and options (Groce,
// Zhang, Eide, Chen, Regehr, Swarm Testing, ISSTA 2012): a run with a bit of everything seldom has much of
// anything, and some faults hide others.

// swarmed is the job that a run of a swarm has drawn.
type swarmed struct {
	Job
	some uint64 // its operations, a bit each, by their places on the menu
}

// draw draws a job of at most this one's size, with some of its faults.
func (r Job) draw(s *replaySetup) swarmed {
	some := func(most int) int { // half of the runs go without
		if most <= 0 || s.Choose(2) == 0 {
			return 0
		}
		return 1 + s.Choose(most)
	}
	d := swarmed{Job: r}
	d.P = 1 + s.Choose(r.P)
	d.Tasks = 1 + s.Choose(r.tasks())
	d.Joiners = some(r.Joiners)
	d.Crashes = min(some(r.Crashes), d.P+d.Joiners-1)
	d.Suspicions, d.Cuts, d.Restarts = some(r.Suspicions), some(r.Cuts), some(r.Restarts)
	d.Frozen, d.Cancels, d.Saves = some(r.Frozen), some(r.Cancels), some(r.savesMax())
	d.LossyCrashes = r.LossyCrashes && s.Choose(2) == 1
	d.OneWay = r.OneWay && s.Choose(2) == 1
	d.Moves, d.Whole = s.Choose(2) == 1, s.Choose(2) == 1
	d.Logless = r.Logless && s.Choose(8) == 1
	if r.Hosts > 0 {
		d.Hosts = s.Choose(r.Hosts + 1)
	}
	d.Stored = r.Stored && protocol.Mix(s.Seed, storedSalt)%4 == 0
	d.Inside = r.Inside || r.SomeInside && protocol.Mix(s.Seed, insideSalt)%4 == 0
	if d.Drains = 0; r.Drains > 0 && protocol.Mix(s.Seed, drainSalt)%4 == 0 {
		d.Drains = 1 + s.Choose(r.Drains)
	}
	if d.Late = 0; r.Late > 0 && protocol.Mix(s.Seed, lateSalt)%4 == 0 {
		d.Late = 1 + s.Choose(r.Late)
	}
	places := cmp.Or(len(r.Ops), int(replay.Stream)) // menus have streams in any case
	d.some = 1 + uint64(s.Choose(1<<places-1))
	return d
}

// storedSalt is mixed with a seed to draw whether there are files: none in the runs whose seeds .ci/run has.
// Runs without files are the ones that the same seeds drew before files existed.
const storedSalt = 0x73746f726565

// insideSalt is the same for the place of the coordinator.
const insideSalt = 0x696e736964655c

// drainSalt is the same for whether processes leave.
const drainSalt = 0x647261696e00d0

// lateSalt is the same for whether processes begin late.
const lateSalt = 0x6c61746500000707

// faults returns the bounds on the faults of a run.
func (r Job) faults(mayCrash func(protocol.Rank) bool) chaos.Faults {
	return chaos.Faults{
		Crashes: r.Crashes, Restarts: r.Restarts, Cuts: r.Cuts, Suspicions: r.Suspicions, Frozen: r.Frozen, Late: r.Late,
		LossyCrashes: r.LossyCrashes, OneWay: r.OneWay, MayCrash: mayCrash,
	}
}
