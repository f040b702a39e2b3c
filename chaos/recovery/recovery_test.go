package recovery

import (
	"math/rand"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/coppice-go/coppice/chaos"
	"github.com/coppice-go/coppice/chaos/replay"
	"github.com/coppice-go/coppice/protocol"
)

// A world in which no abort is ever lost with its process, or reaches a task that is run again, would prove
// nothing.
func TestAbortsMeetWhatTheyAreToSurvive(t *testing.T) {
	cfg, _, err := Job{P: 3, Joiners: 1, Crashes: 2, Cancels: 2, Operations: 3, LossyCrashes: true}.random()
	if err != nil {
		t.Fatal(err)
	}
	met := map[string]int{}
	check := cfg.Check
	cfg.Check = func(w *replayWorld) error {
		meet(w, met)
		return check(w)
	}
	if _, err := chaos.Random(cfg, 1, 16000, 1); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"aborted", "aborted in a later attempt", "aborted by the dead alone"} {
		if met[what] == 0 {
			t.Errorf("nothing is %s", what)
		}
	}
	t.Log(met)
}

// meet counts what happened in a run.
func meet(w *replayWorld, met map[string]int) {
	last := lastAttempts(w, w.State(jobOf(w).Coordinator()).Ending())
	for r := range protocol.Rank(w.P()) {
		for _, d := range w.Delivered(r) {
			a := d.Msg.Result
			switch {
			case a == nil || len(a.Aborted) == 0:
			case !w.Alive(r) && !slices.Equal(a.Aborted, last[a.Task].Aborted):
				met["aborted by the dead alone"]++
			case a.View > 1:
				met["aborted in a later attempt"]++
			default:
				met["aborted"]++
			}
		}
	}
}

// sampleVariable names the variable that says how many worlds of each operation are sampled for crash points
// of three victims.
const sampleVariable = "COPPICE_POINTS"

// All crash points of three victims are too many: a sample is a way to carry out an operation and a choice of
// victims, with every moment of their crashes.
func TestTasksSurviveSeveralDeathsInOneOperation(t *testing.T) {
	samples, victims, sizes := 1, 2, []int{5}
	if n, err := strconv.Atoi(os.Getenv(sampleVariable)); err == nil {
		samples, victims, sizes = n, 3, []int{5, 6}
	} else if testing.Short() {
		t.Skipf("every moment of two deaths takes long; runs without -short, and with %s=N for N samples of three deaths", sampleVariable)
	}
	for _, p := range sizes {
		for _, op := range append(replay.Ops(), replay.ExScan, replay.ReduceScatter) {
			r := Job{P: p, Crashes: victims, Ops: []replay.Op{op}}
			t.Logf("%d processes, %v: %d cases", p, op, sample(t, r, samples))
			if r.Cancels = 1; op < replay.Send || op > replay.Corrected {
				t.Logf("%d processes, %v, aborted: %d cases", p, op, sample(t, r, samples))
			}
		}
	}
}

// sample attacks some of the job's worlds, and returns how many cases there were.
func sample(t *testing.T, r Job, samples int) (cases uint64) {
	t.Helper()
	worlds, err := r.worlds()
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewSource(int64(r.P)))
	for range samples {
		w := worlds[rng.Intn(len(worlds))]
		who := rng.Perm(r.P)[:r.Crashes]
		w.config.MayCrash = func(p protocol.Rank) bool { return slices.Contains(who, int(p)) }
		report, err := chaos.CrashPoints(w.config)
		if err != nil {
			t.Fatalf("%v, victims %v: %v", w.plan, who, err)
		}
		cases += report.Schedules
	}
	return cases
}

func TestWhatCannotBeIsRefused(t *testing.T) {
	only := []replay.Op{replay.Stream, replay.Send}
	for _, d := range []struct {
		job  Job
		want string
	}{
		{Job{P: 3, Cancels: 1, Operations: 3, Ops: only}, "allowed are all but send"},
		{Job{P: 3, Cancels: -1, Operations: 3}, "allowed are 0 and more"},
		{Job{P: 3, Suspicions: -1, Operations: 3}, "allowed are 0 and more"},
		{Job{P: 3, Cuts: -1, Operations: 3}, "allowed are 0 and more"},
		{Job{P: 3, Restarts: -1, Operations: 3}, "allowed are 0 and more"},
		{Job{P: 3, Saves: -2, Operations: 3}, "allowed are 0 and more"},
		{Job{P: 3, Saves: 1, Copies: -1, Operations: 3}, "allowed are 0 and more"},
	} {
		_, random := d.job.Random(1, 1, 1)
		_, points := d.job.CrashPoints(1)
		for _, err := range []error{random, points} {
			if err == nil || !strings.Contains(err.Error(), d.want) {
				t.Errorf("%+v: %v", d.job, err)
			}
		}
	}
}
