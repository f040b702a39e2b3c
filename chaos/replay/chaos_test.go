package replay_test

import (
	"errors"
	"os"
	"testing"

	"github.com/coppice-go/coppice/chaos"
	"github.com/coppice-go/coppice/chaos/recovery"
	"github.com/coppice-go/coppice/chaos/replay"
	"github.com/coppice-go/coppice/internal/extent"
	"github.com/coppice-go/coppice/internal/plant"
)

// recoveries are the worlds in which the tests look for mistakes in the recovery rule.
var recoveries = []struct {
	name  string
	world recovery.Job
	runs  int
}{
	{"two", recovery.Job{P: 2, Crashes: 1, Operations: 6}, 4000},
	{"three that lose what is on its way", recovery.Job{P: 3, Crashes: 2, Operations: 6, LossyCrashes: true}, 4000},
	{"four with two tasks each", recovery.Job{P: 4, Tasks: 8, Crashes: 3, Operations: 4}, 1500},
	{"six of whom three are spares", recovery.Job{P: 6, Tasks: 3, Crashes: 5, Operations: 6}, 3000},
	{"three and two joiners", recovery.Job{P: 3, Joiners: 2, Crashes: 2, Operations: 6}, 3000},
	{"four of whom three crash", recovery.Job{P: 4, Crashes: 3, Operations: 4}, 3000},
	{"six of whom five crash", recovery.Job{P: 6, Crashes: 5, Operations: 6, LossyCrashes: true}, 2000},
	{"two and sums", recovery.Job{P: 2, Tasks: 4, Crashes: 1, Operations: 30, Ops: []replay.Op{replay.Broadcast, replay.Reduce, replay.AllReduce}}, 1000},
	{"four suspected and cut", recovery.Job{P: 4, Crashes: 1, Suspicions: 1, Cuts: 1, Operations: 4, LossyCrashes: true}, 2000},
	{"four suspected and cut that abort", recovery.Job{P: 4, Joiners: 1, Crashes: 1, Suspicions: 1, Cuts: 1, Cancels: 2, Operations: 3, Ops: loose}, 3000},
	{"three that come back", recovery.Job{P: 3, Crashes: 2, Restarts: 2, Cancels: 2, Operations: 3, LossyCrashes: true, Ops: loose}, 6000},
	{"two that abort", recovery.Job{P: 2, Crashes: 1, Operations: 4, Cancels: 2}, 4000},
	{"three that abort", recovery.Job{P: 3, Crashes: 2, Operations: 3, Cancels: 2, LossyCrashes: true, Ops: loose}, 6000},
	{"four that abort", recovery.Job{P: 4, Crashes: 3, Operations: 2, Cancels: 1, LossyCrashes: true, Ops: loose}, 5000},
	{"two that save", recovery.Job{P: 2, Crashes: 1, Operations: 5, Saves: 2}, 2000},
	{"three that save", recovery.Job{P: 3, Tasks: 4, Crashes: 2, Operations: 4, Saves: 2, LossyCrashes: true, Ops: loose}, 3000},
	{"three that save often", recovery.Job{P: 3, Crashes: 1, Operations: 5, Saves: 4, Ops: loose}, 1500},
	{"three with a copy each", recovery.Job{P: 3, Crashes: 2, Operations: 4, Saves: 2, Copies: 1, LossyCrashes: true, Ops: loose}, 2000},
	{"three with values", recovery.Job{P: 3, Crashes: 2, Operations: 2, Saves: 1, LossyCrashes: true, Ops: loose}, 8000},
	{"four whose values are lost", recovery.Job{P: 4, Crashes: 3, Operations: 3, Saves: 1, Copies: 1, LossyCrashes: true, Ops: loose}, 6000},
	{"four of whom one crashes that save", recovery.Job{P: 4, Tasks: 5, Crashes: 1, Operations: 3, Saves: 1, LossyCrashes: true, Ops: loose}, 3000},
	{"four suspected and cut that save", recovery.Job{P: 4, Joiners: 1, Crashes: 1, Suspicions: 1, Cuts: 1, Operations: 3, Saves: 2, LossyCrashes: true, Ops: loose}, 2000},
	{"three and joiners that save", recovery.Job{P: 3, Joiners: 2, Crashes: 2, Operations: 4, Saves: 2, Ops: loose}, 1500},
	{"four that save and abort", recovery.Job{P: 4, Crashes: 3, Operations: 3, Saves: 2, Cancels: 1, LossyCrashes: true, Ops: loose}, 2000},
	{"two that move", recovery.Job{P: 2, Tasks: 3, Moves: true, Crashes: 1, Operations: 4, Saves: 2, LossyCrashes: true}, 3000},
	{"four that move", recovery.Job{P: 4, Tasks: 5, Joiners: 1, Moves: true, Crashes: 2, Operations: 4, Saves: 3, LossyCrashes: true, Ops: loose}, 3000},
	{"three that are given tasks back", recovery.Job{P: 3, Tasks: 6, Moves: true, Whole: true, Crashes: 1, Operations: 1, Saves: 1, Ops: []replay.Op{replay.Gather, replay.Send}}, 20000},
	{"four that move, suspected and cut", recovery.Job{P: 4, Joiners: 1, Moves: true, Crashes: 1, Suspicions: 1, Cuts: 1, Restarts: 1, Cancels: 1, Operations: 3, Saves: 2, LossyCrashes: true, Ops: loose}, 3000},
	{"two of whom a joiner is left", recovery.Job{P: 2, Joiners: 1, Crashes: 2, Operations: 3, Cancels: 2, LossyCrashes: true, Ops: loose}, 6000},
	{"two of whom one of two joiners is left", recovery.Job{P: 2, Joiners: 2, Crashes: 3, Operations: 3, LossyCrashes: true}, 3000},
	{"two and a joiner that save and abort", recovery.Job{P: 2, Joiners: 1, Crashes: 2, Operations: 3, Saves: 1, Cancels: 2, LossyCrashes: true, Ops: loose}, 12000},
	{"a swarm that gives up logs", recovery.Job{P: 4, Joiners: 2, Crashes: 4, Operations: 3, LossyCrashes: true, Logless: true, Swarm: true, Ops: loose}, 30000},
	{"a swarm that joins", recovery.Job{
		P: 4, Joiners: 3, Tasks: 5, Operations: 3, Crashes: 6, Suspicions: 2, Cuts: 2, Restarts: 2, Cancels: 2, Frozen: 2, Saves: 2,
		LossyCrashes: true, OneWay: true, Logless: true, Hosts: 3, Swarm: true,
	}, 8000},
	{"two with streams", recovery.Job{P: 2, Tasks: 3, Crashes: 1, Operations: 3, LossyCrashes: true, Ops: flows}, 4000},
	{"four with streams", recovery.Job{P: 4, Joiners: 1, Crashes: 3, Operations: 4, LossyCrashes: true, Ops: flows}, 3000},
	{"three with streams that save", recovery.Job{P: 3, Tasks: 4, Joiners: 1, Crashes: 2, Operations: 4, Saves: 2, LossyCrashes: true, Ops: flows}, 3000},
	{"a swarm with streams", recovery.Job{
		P: 4, Joiners: 2, Tasks: 5, Operations: 4, Crashes: 5, Suspicions: 2, Cuts: 2, Restarts: 2, Frozen: 2, Saves: 2,
		LossyCrashes: true, OneWay: true, Swarm: true, Ops: flows,
	}, 20000},
	{"a swarm that stores", recovery.Job{
		P: 4, Joiners: 2, Tasks: 5, Operations: 3, Crashes: 5, Suspicions: 2, Cuts: 2, Restarts: 2, Cancels: 2, Frozen: 2, Saves: 2,
		LossyCrashes: true, OneWay: true, Stored: true, Swarm: true, Ops: loose,
	}, 20000},
	{"three agreed in parts", recovery.Job{P: 3, Crashes: 2, Operations: 3, Cancels: 2, LossyCrashes: true, Ops: oneSided}, 8000},
	{"four that correct", recovery.Job{P: 4, Crashes: 3, Operations: 3, LossyCrashes: true, Ops: []replay.Op{replay.Corrected, replay.AllToAll}}, 6000},
	{"three that correct and save", recovery.Job{P: 3, Tasks: 5, Joiners: 1, Crashes: 2, Operations: 3, Saves: 2, LossyCrashes: true, Ops: []replay.Op{replay.Corrected, replay.Send}}, 3000},
	{"four that wait for each other", recovery.Job{P: 4, Crashes: 3, Operations: 8, LossyCrashes: true, Ops: []replay.Op{replay.Broadcast, replay.Reduce, replay.Scatter, replay.Gather, replay.Send}}, 8000},
	{"six tasks that correct and wait", recovery.Job{P: 5, Tasks: 6, Crashes: 1, Operations: 6, Ops: []replay.Op{replay.Corrected}}, 12000},
	{"four of whom two leave", recovery.Job{P: 4, Tasks: 5, Drains: 2, Operations: 4, Saves: 3, Copies: 1, Ops: loose}, 4000},
	{"four of whom three leave", recovery.Job{P: 4, Drains: 3, Operations: 2, Saves: 3, Copies: 1, Ops: loose}, 30000},
	{"five of whom two leave and one dies", recovery.Job{P: 5, Drains: 2, Crashes: 1, Operations: 3, Saves: 3, Copies: 1, Ops: loose}, 20000},
	{"four of whom two leave and one dies", recovery.Job{P: 4, Tasks: 5, Joiners: 1, Crashes: 1, Drains: 2, Restarts: 1, Operations: 3, Saves: 3, LossyCrashes: true, Ops: loose}, 4000},
	{"three inside of whom two leave", recovery.Job{P: 3, Tasks: 4, Joiners: 1, Crashes: 1, Drains: 2, Operations: 3, Saves: 2, LossyCrashes: true, Inside: true, Ops: loose}, 4000},
	{"a swarm that leaves", recovery.Job{
		P: 4, Joiners: 2, Tasks: 5, Operations: 3, Crashes: 5, Suspicions: 2, Cuts: 2, Restarts: 2, Cancels: 2, Frozen: 2, Saves: 3, Drains: 4,
		LossyCrashes: true, OneWay: true, Logless: true, Hosts: 3, Stored: true, SomeInside: true, Swarm: true, Ops: loose,
	}, 20000},
	{"five of whom four begin late", recovery.Job{P: 5, Late: 4, Crashes: 2, Operations: 2, Saves: 1, Ops: loose}, 20000},
	{"four inside of whom three begin late", recovery.Job{P: 4, Tasks: 5, Joiners: 1, Late: 3, Crashes: 2, Restarts: 2, Operations: 2, Saves: 1, LossyCrashes: true, Inside: true, Ops: loose}, 20000},
	{"a swarm that begins late", recovery.Job{
		P: 5, Joiners: 2, Tasks: 5, Operations: 3, Crashes: 5, Suspicions: 2, Cuts: 2, Restarts: 2, Cancels: 2, Frozen: 2, Saves: 3, Drains: 4, Late: 4,
		LossyCrashes: true, OneWay: true, Logless: true, Hosts: 3, Stored: true, SomeInside: true, Swarm: true, Ops: loose,
	}, 40000},
	{"three inside", recovery.Job{P: 3, Crashes: 2, Operations: 2, LossyCrashes: true, Inside: true}, 4000},
	{"three and joiners inside", recovery.Job{P: 3, Joiners: 2, Crashes: 2, Operations: 2, Cancels: 2, LossyCrashes: true, Inside: true, Ops: loose}, 4000},
	{"two that come back inside", recovery.Job{P: 2, Joiners: 2, Crashes: 3, Restarts: 2, Operations: 1, Cancels: 2, LossyCrashes: true, Inside: true, Ops: []replay.Op{replay.Barrier, replay.AllReduce}}, 300000},
	{"four inside that save", recovery.Job{P: 4, Crashes: 3, Operations: 2, Saves: 2, Copies: 1, LossyCrashes: true, Inside: true, Ops: loose}, 8000},
	{"four inside of whom one has the task", recovery.Job{P: 4, Tasks: 1, Suspicions: 2, Cuts: 1, Operations: 1, Cancels: 2, Inside: true, Ops: []replay.Op{replay.Barrier}}, 60000},
	{"four inside, suspected and cut", recovery.Job{P: 4, Crashes: 2, Suspicions: 1, Cuts: 1, Restarts: 1, Operations: 2, LossyCrashes: true, Inside: true, Ops: loose}, 4000},
	{"a swarm inside", recovery.Job{
		P: 4, Joiners: 2, Tasks: 5, Operations: 3, Crashes: 5, Suspicions: 2, Cuts: 2, Restarts: 2, Cancels: 2, Frozen: 2, Saves: 2,
		LossyCrashes: true, OneWay: true, Logless: true, Stored: true, Inside: true, Swarm: true,
	}, 20000},
	{"three and joiners that abort", recovery.Job{P: 3, Joiners: 2, Crashes: 2, Operations: 3, Cancels: 2, Ops: loose}, 4000},
}

// loose are operations that can be agreed, and some after which tasks go on without waiting.
var loose = []replay.Op{replay.Barrier, replay.AllReduce, replay.AllGather, replay.AllToAll, replay.Send, replay.Broadcast, replay.Gather}

// oneSided are operations that need parts to be agreed.
var oneSided = []replay.Op{replay.Broadcast, replay.Scatter, replay.Gather, replay.Reduce, replay.Scan}

// flows are streams, an operation after which tasks go on without waiting, and one after which they wait.
var flows = []replay.Op{replay.Stream, replay.Broadcast, replay.AllReduce}

func TestRecoveryKeepsItsPromises(t *testing.T) {
	for _, w := range recoveries {
		t.Run(w.name, func(t *testing.T) {
			runs, planted := w.runs, os.Getenv(plant.Variable) != ""
			if w.world.AsFound = planted; !planted { // .ci/run runs many more; planted mistakes need all
				runs /= extent.Of(t, 32, 8)
			}
			report, err := w.world.Random(plant.Seed(), runs, 0)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d schedules in %.1f s", report.Schedules, report.Seconds)
		})
	}
}

func TestLongProgramsOutliveAllProcessesButOne(t *testing.T) {
	programs := extent.Of(t, 4, 20)
	for _, r := range []recovery.Job{
		{P: 5, Crashes: 4, Operations: 300},
		{P: 12, Crashes: 11, Operations: 60},
	} {
		report, err := r.Random(1, programs, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d processes: %d programs in %.1f s", r.P, report.Schedules, report.Seconds)
	}
}

func TestTasksSurviveACrashAtEveryPointOfEveryOperation(t *testing.T) {
	cases := []recovery.Job{
		{P: 1},
		{P: 2, Crashes: 1, LossyCrashes: true},
		{P: 2, Tasks: 4, Crashes: 1},
		{P: 3, Crashes: 1, LossyCrashes: true},
		{P: 4, Crashes: 1},
		{P: 3, Tasks: 1, Crashes: 2},
		{P: 2, Crashes: 1, Cancels: 1, LossyCrashes: true},
		{P: 3, Crashes: 1, Cancels: 1, LossyCrashes: true},
		{P: 2, Crashes: 1, LossyCrashes: true, Inside: true},
		{P: 3, Crashes: 2, LossyCrashes: true, Inside: true, Ops: []replay.Op{replay.Send, replay.AllReduce}[:extent.Of(t, 1, 2)]},
	}
	if !extent.Few(t, "more processes and tasks") {
		cases = append(
			cases,
			recovery.Job{P: 3, Crashes: 2},
			recovery.Job{P: 2, Tasks: 5, Crashes: 1, LossyCrashes: true},
			recovery.Job{P: 5, Crashes: 1},
			recovery.Job{P: 6, Crashes: 1, Ops: []replay.Op{replay.Barrier, replay.AllToAll, replay.AllReduce, replay.Scan}},
		)
	}
	sum := uint64(0)
	for _, r := range cases {
		report, err := r.CrashPoints(0)
		if err != nil {
			t.Fatalf("%+v: %v", r, err)
		}
		t.Logf("%+v: %d cases in %.1f s", r, report.Schedules, report.Seconds)
		sum += report.Schedules
	}
	t.Logf("%d cases", sum)
}

func TestTasksSurviveACrashInEverySchedule(t *testing.T) {
	for _, r := range []recovery.Job{
		{P: 2, Crashes: 1, Ops: []replay.Op{replay.Barrier, replay.AllReduce, replay.Scan, replay.Send}},
		{P: 2, Crashes: 1, Cancels: 1, LossyCrashes: true, Ops: []replay.Op{replay.Barrier}},
		{P: 2, Crashes: 1, LossyCrashes: true, Inside: true, Ops: []replay.Op{replay.Barrier, replay.Send}},
	} {
		report, err := r.Exhaustive(0)
		if err != nil {
			t.Fatalf("%+v: %v", r, err)
		}
		t.Logf("%d schedules, %d states in %.1f s", report.Schedules, report.States, report.Seconds)
	}
}

func TestTasksSurviveCrashesWithDelays(t *testing.T) {
	for _, r := range []recovery.Job{
		{P: 3, Crashes: 1, Ops: []replay.Op{replay.Scan, replay.Send}},
		{P: 3, Crashes: 2, Inside: true, Ops: []replay.Op{replay.Send}},
		{P: 2, Joiners: 1, Crashes: 1, Inside: true, Ops: []replay.Op{replay.Send}},
	} {
		report, err := r.DelayBounded(2, 0)
		if err != nil {
			t.Fatalf("%+v: %v", r, err)
		}
		t.Logf("%d schedules, %d states in %.1f s", report.Schedules, report.States, report.Seconds)
	}
}

func TestRecoveryWithoutSurvivorsIsRefused(t *testing.T) {
	for _, r := range []recovery.Job{
		{P: 0, Operations: 1},
		{P: 2, Crashes: 2, Operations: 1},
		{P: 2, Joiners: 1, Crashes: 3, Operations: 1},
		{P: 2, Crashes: -1, Operations: 1},
		{P: 2, Operations: 0},
	} {
		_, err := r.Random(1, 1, 1)
		if found := new(chaos.Violation); err == nil || errors.As(err, &found) {
			t.Errorf("%+v: %v", r, err)
		}
	}
}
