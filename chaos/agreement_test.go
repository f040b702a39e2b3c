package chaos

import (
	"errors"
	"fmt"
	"testing"

	"github.com/coppice-go/coppice/internal/extent"
)

// agreementWorlds are the worlds whose random schedules are tested.
var agreementWorlds = []struct {
	name  string
	world Agreement
	runs  int
}{
	{"four of whom three crash", Agreement{Membership: Membership{P: 4, Crashes: 3}, Instances: 2}, 6_000},
	{"four suspected and voting to abort", Agreement{Membership: Membership{P: 4, Crashes: 1, Suspicions: 1, ExtraNext: true}, Instances: 2, Cancels: 2}, 2_000},
	{"five cut in two", Agreement{Membership: Membership{P: 5, Crashes: 1, Cuts: 1}, Instances: 3}, 3_000},
	{"four that change", Agreement{Membership: Membership{P: 4, Joiners: 1, Crashes: 2, Suspicions: 1, Cuts: 1, Restarts: 1, LossyCrashes: true}, Instances: 3, Cancels: 1}, 3_000},
	{"five without agents", Agreement{Membership: Membership{P: 5, Crashes: 2, Cuts: 1, Restarts: 1, Agentless: true}, Instances: 2}, 3_000},
	{"three with impatient clocks", Agreement{Membership: Membership{P: 3, Crashes: 1, EagerTimers: true}, Instances: 2}, 5_000},
	{"nine of whom eight crash", Agreement{Membership: Membership{P: 9, Crashes: 8}, Instances: 2}, 500},
}

func TestAgreementKeepsItsPromises(t *testing.T) {
	for _, w := range agreementWorlds {
		t.Run(w.name, func(t *testing.T) {
			report, err := w.world.Random(1, orFewer(t, w.runs), 0)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d schedules in %.1f s", report.Schedules, report.Seconds)
		})
	}
}

func TestAgreementKeepsItsPromisesInEverySchedule(t *testing.T) {
	for _, world := range []Agreement{
		{Membership: Membership{P: 1}, Instances: 2, Cancels: 1},
		{Membership: Membership{P: 2, Crashes: 1}, Instances: 2, Cancels: 1},
		{Membership: Membership{P: 2, Crashes: 1, Cuts: 1}},
		{Membership: Membership{P: 3, Crashes: 1}},
	}[:extent.Of(t, 3, 4)] {
		report, err := world.Exhaustive()
		if err != nil {
			t.Fatalf("%+v: %v", world, err)
		}
		t.Logf("%d processes: %d states in %.1f s", world.P, report.States, report.Seconds)
	}
}

func TestAgreementKeepsItsPromisesWithEveryFewDelays(t *testing.T) {
	for _, c := range []struct {
		world  Agreement
		delays int
	}{
		{Agreement{Membership: Membership{P: 4, Crashes: 1}}, 2},
		{Agreement{Membership: Membership{P: 5, Crashes: 2}}, 1},
		{Agreement{Membership: Membership{P: 5, Crashes: 1, Suspicions: 1}}, 1},
	}[:extent.Of(t, 1, 3)] {
		report, err := c.world.DelayBounded(c.delays)
		if err != nil {
			t.Fatalf("%+v: %v", c.world, err)
		}
		t.Logf("%d processes: %d schedules in %.1f s", c.world.P, report.Schedules, report.Seconds)
	}
}

// A world in which no process ever falls behind, votes to abort or sees two views would prove nothing.
func TestAgreementsMeetWhatTheyAreToSurvive(t *testing.T) {
	cfg, err := Agreement{Membership: Membership{P: 4, Crashes: 2}, Instances: 2, Cancels: 1}.Config()
	if err != nil {
		t.Fatal(err)
	}
	met := map[string]bool{}
	check := cfg.Check
	cfg.Check = func(w *agreementWorld) error {
		for r := range w.procs {
			for i := range w.procs[r].delivered {
				f := w.procs[r].delivered[i].Msg
				m, op := f.Body, f.Number
				met["aborted"] = met["aborted"] || op > 0 && m.Abort
				met["without a dead one"] = met["without a dead one"] || op > 0 && len(m.Failed) > 0
				met["decided in a view before"] = met["decided in a view before"] || op > 0 && m.Decided < m.View
				met["unlike the dead"] = met["unlike the dead"] || op > 0 && unlikeTheDead(w, op)
			}
		}
		return check(w)
	}
	if _, err := Random(cfg, 1, 4000, 1); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"aborted", "without a dead one", "decided in a view before", "unlike the dead"} {
		if !met[what] {
			t.Errorf("no agreement is %s", what)
		}
	}
}

// unlikeTheDead reports whether a crashed process returned something else than the others.
func unlikeTheDead(w *agreementWorld, op uint64) bool {
	values := map[string]bool{}
	for r := range w.procs {
		for i := range w.procs[r].delivered {
			if m := w.procs[r].delivered[i].Msg.Body; w.procs[r].delivered[i].Msg.Number == op {
				values[fmt.Sprint(m.Abort, string(m.Value))] = true
			}
		}
	}
	return len(values) > 1
}

func TestAgreementRefusesWhatItCannotBe(t *testing.T) {
	for _, a := range []Agreement{
		{},
		{Membership: Membership{P: 2}, Cancels: -1},
		{Membership: Membership{P: 2}, Instances: InstancesMax + 1},
	} {
		_, err := a.Random(1, 1, 1)
		if found := new(Violation); err == nil || errors.As(err, &found) {
			t.Errorf("%+v: %v", a, err)
		}
	}
}
