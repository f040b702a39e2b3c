package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-go/coppice"
	benchloop "github.com/coppice-go/coppice/bench/loop"
)

func TestARecoveryPlanIsWhatWasAskedFor(t *testing.T) {
	for _, c := range []struct{ asked, want []string }{
		{[]string{all}, benchloop.Collectives},
		{[]string{"scan", "barrier"}, []string{"scan", "barrier"}},
	} {
		cmd := benchRecoveryCmd{N: 8, Op: c.asked, Size: "1KiB", Mode: agreedMode, Backups: backupsAuto, Rounds: 2}
		if err := cmd.check(); err != nil || cmd.bytes != 1024 || !slices.Equal(cmd.Op, c.want) {
			t.Errorf("%q: %+v, %v; want %q of 1024 bytes", c.asked, cmd, err, c.want)
		}
	}
}

// recoveryLines are what the tasks of three processes wrote when rank 2 was killed at
// 1000: task 0 needed nobody, and its connection had broken long before.
var recoveryLines = []string{
	`[0] {"rank":0,"death":0,"ready":true,"pid":10}`, `[1] {"rank":1,"death":0,"ready":true,"pid":11}`, `[2] {"rank":2,"death":0,"ready":true,"pid":12}`,
	`[0] {"rank":0,"death":0,"noticed":100,"learned":4000,"opened":6000,"entered":500,"done":600}`,
	`[1] {"rank":1,"death":0,"noticed":3000,"learned":5000,"opened":7000,"entered":500,"done":11000}`,
	`[1] {"rank":2,"death":0,"noticed":3000,"learned":5000,"opened":7000,"started":8000,"entered":9000,"done":10000}`,
}

func TestARecoveryIsSummedUpFromWhatTasksSaw(t *testing.T) {
	sink := newDeathSink(3, 1, true)
	writeInPieces(t, sink, recoveryLines)
	if !isClosed(sink.ready[0]) {
		t.Error("all are ready, and it does not say so")
	}
	if sink.pid(2) != 12 {
		t.Errorf("processes %v", sink.pids)
	}
	got, err := sink.survival(0, 1000, []int{2})
	if want := (survival{Noticed: 2, Detection: 3, View: 6, Started: 7, Resumed: 8, Total: 10}); err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
}

// A task that is run again says for the second time that it is ready, from elsewhere.
func TestWhoIsRunAgainIsNotWaitedForTwice(t *testing.T) {
	sink := newDeathSink(2, 2, true)
	sinkTakes(
		t, sink,
		`{"rank":0,"death":0,"ready":true,"pid":10}`, `{"rank":1,"death":0,"ready":true,"pid":11}`, `{"rank":1,"death":0,"ready":true}`,
		`{"rank":1,"death":1,"ready":true}`,
	)
	if isClosed(sink.ready[1]) {
		t.Error("one of two is ready for the second death, and it says all are")
	}
	if sink.pid(1) != 11 {
		t.Errorf("process of rank 1: %d, want the first", sink.pid(1))
	}
}

func TestNonsenseOfRecoveriesIsRefused(t *testing.T) {
	change := func(at int, old, new string) []string {
		lines := slices.Clone(recoveryLines)
		lines[at] = strings.Replace(lines[at], old, new, 1)
		return lines
	}
	for what, lines := range map[string][]string{
		"one is missing":               recoveryLines[:5],
		"the dead was not run again":   change(5, `"started":8000,`, ""),
		"another was run again":        change(4, `"entered"`, `"started":8000,"entered"`),
		"no view":                      change(4, `"opened":7000,`, ""),
		"in it before it began":        change(5, `"entered":9000`, `"entered":7500`),
		"through before it was in":     {recoveryLines[3], change(4, "11000", "8500")[4], change(5, "10000", "8500")[5]},
		"known before it happened":     change(3, `"learned":4000`, `"learned":400`),
		"nobody knew of it":            {`{"rank":0,"opened":6000,"done":600}`, `{"rank":1,"opened":6000,"done":11000}`, `{"rank":2,"opened":6000,"started":8000,"entered":9000,"done":9500}`},
		"a view before anybody knew":   {`{"rank":0,"learned":4000,"opened":3000,"done":600}`, `{"rank":1,"opened":3000,"done":11000}`, `{"rank":2,"opened":3000,"started":8000,"entered":9000,"done":9500}`},
		"run again before it was dead": change(5, `"started":8000`, `"started":3500`),
	} {
		sink := newDeathSink(3, 1, true)
		sinkTakes(t, sink, lines...)
		if r, err := sink.survival(0, 1000, []int{2}); err == nil {
			t.Errorf("%s: %+v, want an error", what, r)
		}
	}
	sinkRefuses(
		t, func() io.Writer { return newDeathSink(3, 1, true) },
		"", "hello", `{"rank":3,"pid":1}`, `{"rank":-1}`, `{"rank":0,"death":1}`, `{"rank"`,
	)
}

func TestTheLibrarysLogTellsWhen(t *testing.T) {
	var shown bytes.Buffer
	p := newDeathLog([]int{4, 2}, &shown)
	log := slog.New(p).With("process", 3)
	log.Info("view", "number", uint64(1), "members", 5)
	log.Info("connection broken", "peer", 1)
	log.Info("dead", "peer", 1)
	log.Debug("dead", "peer", 2)
	if p.deaths() != 0 || p.learned[1].Load() != 0 || p.noticed[0].Load()+p.noticed[1].Load() != 0 || shown.Len() > 0 {
		t.Errorf("%d deaths, noticed or learned, shown %q; want nothing", p.deaths(), shown.String())
	}
	log.Info("connection broken", "peer", 2)
	early := p.noticed[1].Load()
	log.Info("connection broken", "peer", 2)
	log.Info("dead", "peer", 2)
	learned := p.learned[1].Load()
	log.Info("dead", "peer", 2)
	if early == 0 || p.noticed[1].Load() <= early || learned == 0 || p.learned[1].Load() != learned {
		t.Error("the last break and the first word of a death count")
	}
	log.Info("view", "number", uint64(2), "members", 4)
	log.Info("view", "number", uint64(3), "members", 3)
	if p.deaths() != 2 || p.opened[0].Load() == 0 {
		t.Errorf("%d deaths, want 2", p.deaths())
	}
	<-p.views[1]
	if log.Error("broken"); !strings.Contains(shown.String(), "broken") {
		t.Errorf("an error is not shown: %q", shown.String())
	}
}

// Every operation checks what it brings, whoever is to die in it, in both modes.
func TestOperationsToDieInCheckTheirData(t *testing.T) {
	for _, mode := range recoveryModes {
		for _, op := range benchloop.Collectives {
			err := coppice.Local(t.Context(), 4, func(ctx context.Context, task *coppice.Task) error {
				p := recoveryProcess{benchRecoveryProcessCmd: benchRecoveryProcessCmd{Mode: mode, Op: op, Bytes: 16}}
				for victim := range 4 {
					if err := p.operate(ctx, task, 5+victim, victim); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Errorf("%s, %s: %v", op, mode, err)
			}
		}
	}
}

func TestWrongSumsAreNoticed(t *testing.T) {
	sum := []float64{24, 24} // 7+0, 7+1, 7+2
	if !sums(sum, 16, 7, 3) {
		t.Errorf("%v is not what was sent", sum)
	}
	if sums(sum, 16, 7, 2) || sums(sum[:1], 16, 7, 3) || sums([]float64{24, 25}, 16, 7, 3) {
		t.Error("what is wrong is not noticed")
	}
}

// threeDeaths are three rounds; the second was disturbed.
func threeDeaths(op string) recoverySides {
	return recoverySides{
		op:    op,
		any:   []survival{{120, 0, 1, 2, 60, 70, 75}, {9000, 0, 1, 2, 900, 901, 902}, {150, 0, 3, 4, 80, 90, 95}},
		first: []survival{{500, 0, 1, 2, 3, 4, 5}},
		floor: []float64{100, 9000, 50}, noticed: []float64{9, 90, 10},
	}
}

func TestRecoveriesAreHeldAgainstTheirNeighbours(t *testing.T) {
	s := threeDeaths("scan")
	got := s.sumUp(8)
	want := recoveryCell{
		Op: "scan", Bytes: 8,
		survival: survival{Total: 150, P99: 9000, Noticed: 1, Detection: 2, View: 80, Started: 90, Resumed: 95},
		First:    survival{Total: 500, P99: 500, Noticed: 1, Detection: 2, View: 3, Started: 4, Resumed: 5},
		Floor:    100, Seen: 10,
		Ratios: recoveryRatios{TotalToFloor: 1.2, ViewToFloor: 0.6, TotalToView: 2},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestRecoveryReportHasOneShape(t *testing.T) {
	for _, sides := range [][]recoverySides{{threeDeaths("scan")}, {threeDeaths("scan"), threeDeaths("reduce")}} {
		report := keysOf(t, newRecoveryReport(&benchRecoveryCmd{N: 8, bytes: 8, Rounds: 3, Mode: replayMode}, sides))
		cells, _ := report["cells"].([]any)
		if len(cells) != len(sides) || report["median_us"] != nil || report["processes"] == nil || report["mode"] == nil || report["rounds"] == nil {
			t.Fatalf("%d operations: %v", len(sides), report)
		}
		cell, _ := cells[0].(map[string]any)
		for _, key := range []string{"op", "median_us", "p99_us", "floor_us", "ratios", "view_us", "started_us", "first"} {
			if cell[key] == nil {
				t.Errorf("%d operations: no key %s in %v", len(sides), key, cell)
			}
		}
	}
}

func TestAMissedRecoveryIsMarked(t *testing.T) {
	late := threeDeaths("reduce")
	late.floor = []float64{10, 10, 10}
	rows := rowsOf(newRecoveryReport(&benchRecoveryCmd{N: 8, bytes: 8, Rounds: 3, Mode: replayMode}, []recoverySides{threeDeaths("scan"), late}).write)
	for _, want := range []string{"scan 8B 1 2 80 90 95 150 9000 500 10 100 1.20", "reduce 8B 1 2 80 90 95 150 9000 500 10 10 15.00 !"} {
		if !slices.Contains(rows, want) {
			t.Errorf("no line %q in\n%s", want, strings.Join(rows, "\n"))
		}
	}
}
