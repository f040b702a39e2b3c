package chaos

import (
	"errors"
	"strings"
	"testing"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
)

// Every dissemination with every correction, in every mode.
var (
	disseminations = []string{"binomial", "kary:2", "lame:2", "optimal", "gossip:3"}
	corrections    = []string{
		"none", "ack", "checked", "opportunistic:1", "opportunistic:2", "optimized:1", "optimized:2",
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

// broadcasts calls f for every combination that exists.
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
	runs := 200
	if testing.Short() {
		runs = 40
	}
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
}

// TestBroadcastsUnderEverySchedule explores all schedules, all sets of dead
// processes and all crashes of small groups. Failure-proof correction has too
// many for three processes, checked correction for four unless synchronized:
// coppice chaos --exhaustive takes the time.
func TestBroadcastsUnderEverySchedule(t *testing.T) {
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
			proof := strings.HasPrefix(spec.Correction, "failure-proof")
			if p == 3 && (proof || spec.Tree == "optimal" || spec.Tree == "lame:2") {
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
	if !testing.Short() {
		explore(Broadcast{Spec: broadcast.Spec{P: 4, Tree: "binomial", Correction: "checked", O: 1, Synchronized: true}, Failed: 3})
	}
	t.Logf("%.3g schedules, %.3g states", schedules, states)
}

// TestPapersOptimizationFails shows how often, and that ours does not.
func TestPapersOptimizationFails(t *testing.T) {
	spec := broadcast.Spec{P: 16, Tree: "binomial", Correction: "optimized-paper:2", O: 1}
	b := Broadcast{Spec: spec, Failed: 4, KeepGoing: true}
	report, err := b.Random(1, 30_000, 0)
	if report.Violations == 0 {
		t.Errorf("none of %d schedules breaks the paper's rule (%v)", report.Schedules, err)
	}
	t.Logf("the paper's rule fails in %d of %d schedules", report.Violations, report.Schedules)
	b.Spec.Correction = "optimized:2"
	if report, err = b.Random(1, 30_000, 0); err != nil {
		t.Errorf("ours: %v", err)
	}
}

func TestManyBroadcastsAreEachDeliveredOnce(t *testing.T) {
	for _, reorder := range []bool{false, true} {
		m := Many{
			Spec:  broadcast.Spec{P: 5, Tree: "lame:2", Correction: "checked", O: 1},
			Roots: []protocol.Rank{0, 0, 2, 0}, Failed: 2, Reorder: reorder,
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
