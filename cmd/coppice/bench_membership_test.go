package main

import (
	"bytes"
	"io"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestVictimsAreSpreadOverAllRanksButZero(t *testing.T) {
	for n := membershipProcessesMin; n <= membershipProcessesMax; n++ {
		for round := range 3 * n {
			if v := victimOf(n, round); v < 1 || v >= n {
				t.Fatalf("round %d of %d processes: %d dies", round, n, v)
			}
		}
	}
	for _, n := range []int{8, 16, 32, 64, 128, 256, 512} {
		died := map[int]bool{}
		for round := range 9 {
			died[victimOf(n, round)] = true
		}
		if len(died) < min(n-1, 9) {
			t.Errorf("%d processes: %d of 9 victims differ", n, len(died))
		}
	}
}

func TestAMembershipPlanIsWhatWasAskedFor(t *testing.T) {
	number, yes, no := func(n int) *int { return &n }, true, false
	for _, c := range []struct{ cmd, want benchMembershipCmd }{
		{benchMembershipCmd{}, benchMembershipCmd{Sizes: []int{64}, Memberlist: &yes}},
		{benchMembershipCmd{N: number(3), Memberlist: &no}, benchMembershipCmd{N: number(3), Sizes: []int{3}, Memberlist: &no}},
		{benchMembershipCmd{Sizes: []int{8, 4}, Fanout: 4}, benchMembershipCmd{Sizes: []int{8, 4}, Fanout: 4, Memberlist: &no}},
		{benchMembershipCmd{Sizes: []int{4, 8}, Memberlist: &yes}, benchMembershipCmd{Sizes: []int{4, 8}, Memberlist: &yes}},
	} {
		got := c.cmd
		if err := got.check(); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%+v: %+v, %v; want %+v", c.cmd, got, err, c.want)
		}
	}
}

// death is what four processes wrote when rank 2 was killed at 1000.
var deathLines = []string{
	`[0] {"rank":0,"ready":true,"pid":10}`, `[1] {"rank":1,"ready":true,"pid":11}`, `[2] {"rank":2,"ready":true,"pid":12}`, `[3] {"rank":3,"ready":true,"pid":13}`,
	`[3] {"rank":3,"learned":3000,"opened":9000}`,
	`[0] {"rank":0,"learned":4000,"opened":7000}`,
	`[1] {"rank":1,"learned":5000,"opened":8000}`,
}

func TestADeathIsSummedUpFromWhatSurvivorsSaw(t *testing.T) {
	sink := newDeathSink(4, 1, false)
	writeInPieces(t, sink, deathLines)
	if !isClosed(sink.ready[0]) {
		t.Error("all are ready, and it does not say so")
	}
	if sink.pids[2] != 12 {
		t.Errorf("processes %v", sink.pids)
	}
	got, err := sink.change(0, 1000, []int{2})
	if want := (viewChange{Detection: 2, Proposer: 3, Total: 8, Stabilization: 5}); err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
}

// The proposal may be faster than the news: then a survivor learns by the view.
func TestASurvivorMayLearnByTheView(t *testing.T) {
	sink := newDeathSink(3, 1, false)
	sinkTakes(t, sink, `{"rank":0,"learned":3000,"opened":7000}`, `{"rank":2,"opened":8000}`)
	got, err := sink.change(0, 1000, []int{1})
	if want := (viewChange{Detection: 2, Proposer: 2, Total: 7, Stabilization: 5}); err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
}

func TestTheFirstWordOfADeathCounts(t *testing.T) {
	var shown bytes.Buffer
	d := newDeathLog([]int{7, 3}, &shown)
	log := slog.New(d).With("process", 3)
	log.Info("dead", "peer", 2)
	log.Info("connection broken", "peer", 3)
	log.Warn("process given up", "peer", 3)
	log.Debug("dead", "peer", 3)
	log.Info("dead", "process", 3)
	if at := d.learned[1].Load(); at != 0 || shown.Len() > 0 {
		t.Errorf("dead at %d, shown %q; want neither", at, shown.String())
	}
	log.Info("dead", "peer", 3)
	at := d.learned[1].Load()
	log.Info("dead", "peer", 3)
	if at == 0 || d.learned[1].Load() != at {
		t.Errorf("dead at %d, then %d", at, d.learned[1].Load())
	}
	if log.Error("broken"); !strings.Contains(shown.String(), "broken") {
		t.Errorf("an error is not shown: %q", shown.String())
	}
}

func TestWhoProposesWhenRankZeroDies(t *testing.T) {
	sink := newDeathSink(3, 1, false)
	sinkTakes(t, sink, `{"rank":1,"learned":4000,"opened":7000}`, `{"rank":2,"learned":3000,"opened":8000}`)
	got, err := sink.change(0, 1000, []int{0})
	if want := (viewChange{Detection: 2, Proposer: 3, Total: 7, Stabilization: 4}); err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
}

func TestNonsenseOfSurvivorsIsRefused(t *testing.T) {
	for what, lines := range map[string][]string{
		"one is missing":              deathLines[:6],
		"the proposer does not know":  {`{"rank":0,"opened":9000}`, deathLines[4], deathLines[6]},
		"the dead saw it too":         append(slices.Clone(deathLines[:6]), `{"rank":2,"learned":5000,"opened":8000}`),
		"known before it happened":    append(slices.Clone(deathLines[:6]), `{"rank":1,"learned":500,"opened":8000}`),
		"a view before it is decided": {`{"rank":0,"learned":9000,"opened":1500}`, `{"rank":1,"learned":9000,"opened":1500}`, `{"rank":3,"learned":9000,"opened":1500}`},
	} {
		sink := newDeathSink(4, 1, false)
		sinkTakes(t, sink, lines...)
		if v, err := sink.change(0, 1000, []int{2}); err == nil {
			t.Errorf("%s: %+v, want an error", what, v)
		}
	}
	sinkRefuses(
		t, func() io.Writer { return newDeathSink(4, 1, false) },
		"", "hello", `{"rank":4,"pid":1}`, `{"rank":-1,"pid":1}`, `{"rank"`,
	)
}

// sides are three rounds with so many processes; the second was disturbed.
func sides(n int, memberlist ...float64) membershipSides {
	return membershipSides{
		n:   n,
		any: []viewChange{{120, 0, 10, 20, 100}, {9020, 0, 10, 20, 9000}, {150, 0, 12, 30, 120}},
		root: []viewChange{
			{220, 0, 10, 20, 200}, {320, 0, 10, 20, 300}, {420, 0, 10, 20, 400},
		},
		first:   []viewChange{{500, 0, 10, 20, 480}},
		barrier: []float64{50, 4500, 40}, floor: []float64{100, 9020, 50}, memberlist: memberlist,
	}
}

func TestRatiosAreThoseOfNeighboursInTime(t *testing.T) {
	s := sides(8, 30_000, 60_000)
	got := s.sumUp()
	memberlist, ratio := 45_000.0, 300.0
	want := membershipSize{
		Processes:  8,
		viewChange: viewChange{Total: 150, P99: 9020, Detection: 10, Proposer: 20, Stabilization: 120},
		Root:       viewChange{Total: 320, P99: 420, Detection: 10, Proposer: 20, Stabilization: 300},
		First:      viewChange{Total: 500, P99: 500, Detection: 10, Proposer: 20, Stabilization: 480},
		Barrier:    50, Floor: 100, Memberlist: &memberlist,
		Ratios: membershipRatios{StabilizationToBarrier: 2, TotalToFloor: 1.2, MemberlistToTotal: &ratio},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestMembershipReportHasOneShape(t *testing.T) {
	for _, sizes := range [][]membershipSides{{sides(8)}, {sides(8), sides(16)}} {
		report := keysOf(t, newMembershipReport(&benchMembershipCmd{Rounds: 3}, sizes))
		cells, _ := report["sizes"].([]any)
		if len(cells) != len(sizes) || report["median_us"] != nil || (report["fit"] != nil) != (len(sizes) > 1) {
			t.Fatalf("%d sizes: %v", len(sizes), report)
		}
		cell, _ := cells[0].(map[string]any)
		for _, key := range []string{
			"processes", "median_us", "p99_us", "detection_us", "proposer_us", "stabilization_us",
			"root", "barrier_us", "floor_us", "ratios",
		} {
			if cell[key] == nil {
				t.Errorf("%d sizes: no key %s in %v", len(sizes), key, cell)
			}
		}
		if report["rounds"] == nil || report["seconds"] == nil || cell["memberlist_us"] != nil {
			t.Errorf("%d sizes: %v", len(sizes), report)
		}
	}
}

func TestAMissedTargetIsMarked(t *testing.T) {
	late := sides(16, 15_000) // 100 times as long as ours
	late.floor = []float64{10, 10, 10}
	rows := rowsOf(newMembershipReport(&benchMembershipCmd{Rounds: 3}, []membershipSides{sides(8, 45_000), late}).write)
	for _, want := range []string{
		"8 another 10 20 120 150 9020", "16 rank 0 10 20 300 320 420",
		"8 50 100 45000 2.00 1.20 300.00", "16 50 10 15000 2.00 15.00 ! 100.00 !",
		"stabilization ≈ 120 µs + 0 µs · log2 n, r² = 1.00",
	} {
		if !slices.Contains(rows, want) {
			t.Errorf("no line %q in\n%s", want, strings.Join(rows, "\n"))
		}
	}
}

// The second death has one survivor less, and is waited for.
func TestASecondDeathIsSummedUpByItself(t *testing.T) {
	sink := newDeathSink(4, 2, false)
	sinkTakes(
		t, sink,
		`{"rank":0,"learned":2000,"opened":3000}`, `{"rank":1,"learned":2000,"opened":3000}`, `{"rank":2,"learned":2000,"opened":3000}`,
		`{"rank":0,"death":1,"ready":true,"pid":10}`, `{"rank":1,"death":1,"ready":true,"pid":11}`, `{"rank":2,"death":1,"ready":true,"pid":12}`,
		`{"rank":1,"death":1,"learned":14000,"opened":17000}`, `{"rank":2,"death":1,"learned":13000,"opened":18000}`,
	)
	if !isClosed(sink.ready[1]) {
		t.Error("all are over the first death, and it does not say so")
	}
	got, err := sink.change(1, 10_000, []int{3, 0})
	if want := (viewChange{Detection: 3, Proposer: 4, Total: 8, Stabilization: 4}); err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
}
