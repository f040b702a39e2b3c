package recovery

import (
	"slices"
	"testing"

	"github.com/coppice-go/coppice/chaos"
	"github.com/coppice-go/coppice/chaos/replay"
	"github.com/coppice-go/coppice/internal/extent"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
)

// A world in which no task resumes, or no task is ever lost, would prove nothing.
func TestEpochsMeetWhatTheyAreToSurvive(t *testing.T) {
	met := map[string]int{}
	for _, r := range []Job{
		{P: 4, Tasks: 5, Crashes: 3, Operations: 3, Saves: 2, LossyCrashes: true},
		{P: 4, Crashes: 3, Operations: 3, Saves: 1, Copies: 1, LossyCrashes: true, Ops: []replay.Op{replay.Broadcast, replay.Gather}},
		{P: 3, Tasks: 5, Joiners: 1, Crashes: 2, Operations: 3, Saves: 2, Moves: true},
	} {
		cfg, _, err := r.random()
		if err != nil {
			t.Fatal(err)
		}
		check := cfg.Check
		cfg.Check = func(w *replayWorld) error {
			meetEpochs(w, met)
			return check(w)
		}
		if _, err := chaos.Random(cfg, 1, 1000, 1); err != nil {
			t.Fatal(err)
		}
	}
	for _, what := range []string{
		"resumed", "resumed again", "resumed before the last", "saved again", "lost", "completed again", "value of a dead owner",
		"lost for a value", "value drawn anew", "moved", "moved to a joiner",
	} {
		if met[what] == 0 {
			t.Errorf("nothing is %s", what)
		}
	}
	t.Log(met)
}

// meetEpochs counts what happened in a run.
func meetEpochs(w *replayWorld, met map[string]int) {
	type name struct {
		task       protocol.Rank
		epoch, key uint64
	}
	complete, resumed := map[name]map[protocol.Rank]bool{}, map[protocol.Rank]int{}
	views, values := map[name]map[uint64]bool{}, map[name]*replay.Copy{}
	for r := range jobOf(w).Coordinator() {
		if w.Alive(r) && w.State(r).Lost() != nil {
			met["lost"]++
			if w.State(r).Lost().Name > 0 {
				met["lost for a value"]++
			}
		}
		for _, d := range w.Delivered(r) {
			if l := d.Msg.Letter.Letter; l != nil && l.Kind == membership.Opened && l.Base.Epoch > 0 && l.Base.Members[0].ID == r {
				met["moved"]++
				if slices.Contains(l.Base.Owners, jobOf(w).Coordinator()-1) {
					met["moved to a joiner"]++
				}
			}
			m := d.Msg.Copy
			switch d.Msg.Kind {
			case replay.Resumed:
				met["resumed"]++
				resumed[m.Task]++
				if int(m.Epoch) < jobOf(w).Program().Saves() {
					met["resumed before the last"]++
				}
			case replay.Complete:
				n := name{m.Task, m.Epoch, m.Name}
				if complete[n] == nil {
					complete[n], views[n] = map[protocol.Rank]bool{}, map[uint64]bool{}
				}
				complete[n][r], views[n][d.Msg.View] = true, true
				if values[n] == nil {
					values[n] = m
				}
				if m.Name > 0 && values[n] != m {
					met["value drawn anew"]++
				}
			}
		}
	}
	for _, n := range resumed {
		if n > 1 {
			met["resumed again"]++
		}
	}
	for n, owners := range complete {
		switch {
		case len(owners) > 1 && n.key > 0:
			met["value of a dead owner"]++
		case len(owners) > 1:
			met["saved again"]++
		case len(views[n]) > 1:
			met["completed again"]++
		}
	}
}

// With as many copies as there are victims no task is lost; with fewer, a task is lost only if all processes
// die that have a copy.
func TestTasksThatSaveSurviveCrashesAtEveryPoint(t *testing.T) {
	cases := []Job{
		{P: 2, Crashes: 1, Saves: 2, LossyCrashes: true},
		{P: 3, Crashes: 1, Saves: 2, LossyCrashes: true, Ops: []replay.Op{replay.Gather, replay.Send}},
		{P: 2, Crashes: 1, Saves: 2, Cancels: 1, LossyCrashes: true, Ops: []replay.Op{replay.Barrier, replay.AllReduce}},
	}
	if extent.Full() {
		cases = append(
			cases,
			Job{P: 3, Tasks: 2, Crashes: 2, Saves: 1, Ops: []replay.Op{replay.Send}},
			Job{P: 3, Tasks: 2, Crashes: 2, Saves: 1, Copies: 1, Ops: []replay.Op{replay.Send}},
		)
	}
	for _, r := range cases {
		report, err := r.CrashPoints(0)
		if err != nil {
			t.Fatalf("%+v: %v", r, err)
		}
		t.Logf("%+v: %d cases in %.1f s", r, report.Schedules, report.Seconds)
	}
}
