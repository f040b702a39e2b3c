package chaos

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-go/coppice/internal/extent"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
)

// Every dissemination with every correction, in every mode.
var (
	disseminations = []string{"binomial", "kary:2", "lame:2", "optimal", "gossip:3", "big"}
	corrections    = []string{
		"none", "ack", "checked", "opportunistic:1", "opportunistic:2", "opportunistic-sends:3", "optimized:1", "optimized:2",
		"delayed:0", "delayed:3", "failure-proof:0", "failure-proof:1", "failure-proof:2",
	}
	rings = []broadcast.Ring{
		{},
		{First: broadcast.ToRight},
		{Open: true},
		{Open: true, First: broadcast.ToRight},
		{OneSided: true},
		{OneSided: true, Open: true},
		{OneSided: true, Open: true, First: broadcast.ToRight},
	}
	modes = []broadcast.Spec{{}, {Early: broadcast.Serve}, {Synchronized: true}}
)

// broadcasts calls f for every combination of dissemination, correction and mode that exists.
func broadcasts(p int, f func(broadcast.Spec)) {
	root := protocol.Rank(0)
	for _, tree := range disseminations {
		for _, correction := range corrections {
			for _, ring := range rings {
				for _, mode := range modes {
					root = (root + 1) % protocol.Rank(p)
					spec := broadcast.Spec{
						P: p, Root: root, Tree: tree, Correction: correction, Ring: ring, L: 2, O: 1,
						Synchronized: mode.Synchronized, Early: mode.Early, Counted: true,
					}
					if _, err := spec.Build(); err == nil {
						f(spec)
					}
				}
			}
		}
	}
}

func TestBroadcastsKeepTheirPromises(t *testing.T) {
	runs := extent.Of(t, 20, 80)
	schedules := uint64(0)
	for _, p := range []int{1, 2, 3, 5, 9} {
		broadcasts(p, func(spec broadcast.Spec) {
			b := Broadcast{Spec: spec, Failed: p - 1, Crashes: PromiseOf(spec).Crashes, EagerTimers: !spec.Synchronized, ExtraNext: p == 3}
			report, err := b.Random(uint64(p), runs, 0)
			schedules += report.Schedules
			if err != nil {
				t.Errorf("%s %s %+v sync=%v early=%d, P=%d: %v", spec.Tree, spec.Correction, spec.Ring, spec.Synchronized, spec.Early, p, err)
			}
		})
	}
	t.Logf("%d schedules", schedules)
	if floor := uint64(3000 * runs); schedules < floor {
		t.Errorf("only %d schedules, want %d: has Build begun to refuse what it should not?", schedules, floor)
	}
}

// TestBroadcastsUnderEverySchedule explores all schedules, all sets of dead processes and all crashes of
// small groups. Checked correction has too many states for four processes unless synchronized, and many even
// then; failure-proof correction against a crash has a million for three. These take the time:
//
//	coppice chaos --exhaustive --protocol checked -P 4 --sync synchronized
//	coppice chaos --exhaustive --protocol failure-proof:1 -P 3 --crashes 1 --sync synchronized
func TestBroadcastsUnderEverySchedule(t *testing.T) {
	few := extent.Few(t, "three processes with trees that are not binomial")
	var schedules, states float64
	explore := func(b Broadcast) {
		t.Helper()
		report, err := b.Exhaustive()
		schedules += float64(report.Schedules)
		states += float64(report.States)
		if err != nil {
			t.Errorf("%+v: %v", b, err)
		}
	}
	for p := 1; p <= 3; p++ {
		broadcasts(p, func(spec broadcast.Spec) {
			proof := strings.HasPrefix(spec.Correction, "failure-proof") && (spec.Correction != "failure-proof:0" || spec.Tree != "binomial")
			if p == 3 && (proof || spec.Tree == "optimal" || spec.Tree == "lame:2" || few && (spec.Tree != "binomial" || spec.Ring.First == broadcast.ToRight)) {
				return
			}
			explore(Broadcast{Spec: spec, Failed: p - 1, Crashes: min(PromiseOf(spec).Crashes, p)})
		})
	}
	for _, correction := range []string{"opportunistic:1", "optimized:1", "delayed:2"} {
		for _, mode := range modes {
			spec := broadcast.Spec{P: 4, Tree: "kary:1", Correction: correction, O: 1, Synchronized: mode.Synchronized, Early: mode.Early}
			explore(Broadcast{Spec: spec, Failed: 3})
		}
	}
	t.Logf("%.3g schedules, %.3g states", schedules, states)
}

// A lossy crash can lose all messages of a process: then its deliveries promise nothing. The survivors still
// deliver all or none.
func TestFailureProofCorrectionUnderLossyCrashes(t *testing.T) {
	b := Broadcast{Spec: broadcast.Spec{P: 2, Tree: "binomial", Correction: "failure-proof:1", O: 1}, Failed: 1, Crashes: 1, LossyCrashes: true}
	if _, err := b.Exhaustive(); err != nil {
		t.Errorf("survivors: %v", err)
	}
	built, err := b.Spec.Build()
	if err != nil {
		t.Fatal(err)
	}
	cfg := BroadcastConfig(b, built.(*broadcast.Provers), PromiseOf(b.Spec))
	for way, find := range map[string]func() (Report, error){
		"random":     func() (Report, error) { return Random(cfg, 1, 10_000, 0) },
		"exhaustive": func() (Report, error) { return Exhaustive(cfg) },
	} {
		report, err := find()
		if report.First == nil {
			t.Fatalf("%s: a delivery that is lost with its sender is not found: %v", way, err)
		}
		last := report.First.Steps[len(report.First.Steps)-3:]
		want := []string{"p0 delivers spread[0 0 0 0 0 0 0 0]", "p0 crashes", "… and the last of its messages to p1 are lost: 4"}
		if !slices.Equal(last, want) {
			t.Errorf("%s: the script ends with %q, want %q", way, last, want)
		}
	}
	for _, f := range []int{1, 2, 3} {
		b.Spec.P, b.Spec.Tree, b.Spec.Correction, b.Spec.Early = 7, "kary:1", fmt.Sprintf("failure-proof:%d", f), broadcast.Serve
		b.Failed, b.Crashes, b.EagerTimers = 6, f, true
		if _, err := b.Random(uint64(f), 5_000, 0); err != nil {
			t.Errorf("survivors, f=%d: %v", f, err)
		}
	}
}

// Identifying messages by their effect loses no end of a broadcast.
func TestCumulativeBroadcastsHaveTheSameEnds(t *testing.T) {
	compared, tooMany := 0, 0
	count := func(same bool) {
		if same {
			compared++
		} else {
			tooMany++
		}
	}
	for _, p := range []int{2, 3} {
		broadcasts(p, func(spec broadcast.Spec) {
			built, err := spec.Build()
			if err != nil {
				t.Fatal(err)
			}
			if p == 3 && (!extent.Full() || spec.Tree != "binomial" || spec.Ring.First == broadcast.ToRight) {
				return
			}
			if !cumulative(spec) {
				return
			}
			switch proto := built.(type) {
			case *broadcast.Plain:
				count(sameEnds(t, spec, proto))
			case *broadcast.Provers:
				count(sameEnds(t, spec, proto))
			}
		})
	}
	t.Logf("%d compared, %d have too many states without the reduction", compared, tooMany)
	if compared < 200 && extent.Full() || compared == 0 {
		t.Errorf("only %d broadcasts compared", compared)
	}
}

// sameEnds compares the ends of a broadcast with and without the reduction, and reports whether it could.
func sameEnds[C, E any](t *testing.T, spec broadcast.Spec, proto *broadcast.Protocol[C, E]) bool {
	t.Helper()
	b := Broadcast{Failed: spec.P - 1, Crashes: 1, StatesMax: 3_000}
	var ends [2]map[string]bool
	for i := range ends {
		ends[i] = map[string]bool{}
		cfg := BroadcastConfig(b, proto, Promise{})
		cfg.Cumulative = i == 1
		cfg.Check = func(w *World[broadcast.State[C], broadcast.Message[E]]) error {
			ends[i][endOfBroadcast(w, proto)] = true
			return nil
		}
		if _, err := Exhaustive(cfg); errors.Is(err, ErrIncomplete) {
			return false
		} else if err != nil {
			t.Fatalf("%+v: %v", spec, err)
		}
	}
	if !maps.Equal(ends[0], ends[1]) {
		t.Fatalf("%+v: the ends differ\n%s", spec, difference(ends[1], ends[0]))
	}
	return true
}

// endOfBroadcast is all that checkBroadcast looks at. What a process learns between its last message and Done
// is not part of it.
func endOfBroadcast[C, E any](w *World[broadcast.State[C], broadcast.Message[E]], proto *broadcast.Protocol[C, E]) string {
	s := fmt.Sprintf("now %d crashes %d", w.Now(), w.Crashes())
	for r := range protocol.Rank(w.P()) {
		corrects := w.Alive(r) && proto.Corrects(w.State(r))
		s += fmt.Sprintf("; p%d %t %d %t %t %d %t", r, w.Alive(r), w.Rest(r), w.Reached(r), w.Sent(r), len(w.Delivered(r)), corrects)
	}
	return s
}

// TestPapersOptimizationFails shows how often the paper's optimization fails, and that ours does not.
func TestPapersOptimizationFails(t *testing.T) {
	spec := broadcast.Spec{P: 16, Tree: "binomial", Correction: "optimized-paper:2", O: 1}
	b, runs := Broadcast{Spec: spec, Failed: 4, KeepGoing: true}, extent.Of(t, 5000, 30_000)
	report, err := b.Random(1, runs, 0)
	if report.Violations == 0 {
		t.Errorf("none of %d schedules breaks the paper's rule (%v)", report.Schedules, err)
	}
	t.Logf("the paper's rule fails in %d of %d schedules", report.Violations, report.Schedules)
	b.Spec.Correction = "optimized:2"
	if report, err = b.Random(1, runs, 0); err != nil {
		t.Errorf("ours: %v", err)
	}
}

func TestManyBroadcastsAreEachDeliveredOnce(t *testing.T) {
	for _, reorder := range []bool{false, true} {
		m := Many{
			Spec:  broadcast.Spec{P: 5, Tree: "lame:2", Correction: "checked", O: 1},
			Roots: []protocol.Rank{0, 0, 2, 0}, Failed: 2, Reorder: reorder, ExtraNext: !reorder,
		}
		if _, err := m.Random(1, 5_000, 0); err != nil {
			t.Errorf("reorder %v: %v", reorder, err)
		}
	}
}

func TestEagerTimersBreakACommonClock(t *testing.T) {
	b := Broadcast{Spec: broadcast.Spec{P: 4, Tree: "binomial", Correction: "checked", Synchronized: true}, EagerTimers: true}
	if _, err := b.Random(1, 1, 1); err == nil || errors.As(err, new(*Violation)) {
		t.Errorf("synchronized correction with eager timers: %v", err)
	}
}
