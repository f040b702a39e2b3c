package chaos

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
)

func nothing[S, M any](*World[S, M]) error { return nil }

func TestRandomReportsTheSameWhateverTheNumberOfWorkers(t *testing.T) {
	cfg := Config[floodState, wave]{
		Protocol: flood{p: 5, sends: 4}, P: 5, Crashes: 1, MayCrash: func(r protocol.Rank) bool { return r == 0 },
	}
	cfg.Check = func(w *World[floodState, wave]) error {
		if w.Crashed(0) && !w.Sent(0) && len(w.Delivered(0)) == 1 {
			return errPlanted
		}
		return nil
	}
	for _, keepGoing := range []bool{false, true} {
		cfg.KeepGoing = keepGoing
		want, err := Random(cfg, 7, 3000, 1)
		if !errors.Is(err, errPlanted) {
			t.Fatal(err)
		}
		want.Seconds = 0
		for workers := 2; workers < 9; workers++ {
			got, _ := Random(cfg, 7, 3000, workers)
			got.Seconds = 0
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%d workers: %+v, 1 worker: %+v", workers, got, want)
			}
		}
		if keepGoing && (want.Schedules != 3000 || want.Violations < 10) {
			t.Errorf("kept going: %d schedules, %d violations", want.Schedules, want.Violations)
		}
		if !keepGoing && (want.Schedules != uint64(want.First.Run)+1 || want.Violations != 1) {
			t.Errorf("stopped: %d schedules, %d violations, first in run %d", want.Schedules, want.Violations, want.First.Run)
		}
	}
}

func TestSeedOfAViolationReplaysItAsTheFirstRun(t *testing.T) {
	cfg := secondSend()
	later := 0
	for seed := range uint64(50) {
		report, _ := Random(cfg, seed, 500, 1)
		again, _ := Random(cfg, report.First.Seed, 1, 1)
		if again.First == nil || again.First.Run != 0 || again.First.Seed != report.First.Seed ||
			!slices.Equal(again.First.Choices, report.First.Choices) {
			t.Fatalf("seed %d: run %d found\n%vand its seed %d finds\n%v",
				seed, report.First.Run, report.First, report.First.Seed, again.First)
		}
		v, err := Replay(cfg, report.First.Choices)
		if err != nil || !slices.Equal(v.Steps, report.First.Steps) || v.Err.Error() != report.First.Err.Error() {
			t.Fatalf("seed %d: Replay: %v, %v", seed, v, err)
		}
		if report.First.Run > 0 {
			later++
		}
	}
	if later == 0 {
		t.Error("every violation was in the first run: nothing was tested")
	}
}

// In worlds small enough to know all ends, Random invents none, and in enough schedules reaches all.
func TestRandomReachesEveryEndAndInventsNone(t *testing.T) {
	reached, ends := 0, 0
	for seed := range sample(t, 60, 120) {
		cfg := randomWorld(rand.New(rand.NewPCG(seed, 3)))
		want, _, ok := naiveEnds(cfg, 400)
		if !ok {
			continue
		}
		got := map[string]bool{}
		cfg.Check = func(w *World[tableState, uint8]) error {
			got[endOf(w)] = true
			return nil
		}
		// The tables choose their first phase by Init's seed; the naive version uses seed 0.
		cfg.Vary = func(s *Setup[tableState, uint8]) { s.Seed = 0 }
		if _, err := Random(cfg, seed, 3000, 1); err != nil {
			t.Fatalf("seed %d (%s): %v", seed, describe(cfg), err)
		}
		for end := range got {
			if !want[end] {
				t.Fatalf("seed %d (%s): invented %s", seed, describe(cfg), end)
			}
		}
		reached += len(got)
		ends += len(want)
	}
	t.Logf("%d of %d ends", reached, ends)
	if float64(reached) < 0.98*float64(ends) {
		t.Errorf("only %d of %d ends reached", reached, ends)
	}
}

// overtakenBySixty is a message that arrives after sixty others that overtake it.
func overtakenBySixty() toyConfig {
	const rounds = 30
	return toyConfig{
		P: 3,
		Protocol: toy{
			receive: func(s *toyState, _ protocol.Time, from protocol.Rank, m string) {
				switch {
				case s.self == 2 && from == 0:
					s.a = true
				case s.self == 2:
					s.b = !s.a
				default:
					s.a = true
				}
			},
			next: func(s *toyState, _ protocol.Time) protocol.Action[string] {
				switch {
				case s.self == 2 && s.b:
					return once(s, deliver("late"))
				case s.self == 2:
					return idle()
				case s.self == 0 && s.step == 0:
					s.step, s.a = 1, true
					return send(2, "early")
				case s.step < rounds && s.a:
					s.step++
					s.a = false
					return send(1-s.self, "ping")
				case s.self == 1 && s.step == rounds-1:
					s.step++
					return send(2, "end")
				}
				return idle()
			},
		},
		Check: func(w *toyWorld) error {
			if len(w.Delivered(2)) > 0 {
				return errPlanted
			}
			return nil
		},
	}
}

func TestRandomKeepsMessagesBackForLong(t *testing.T) {
	for seed := range sample(t, 3, 10) {
		if report, err := Random(overtakenBySixty(), seed, 2000, 1); err == nil {
			t.Errorf("seed %d: not found in %d schedules", seed, report.Schedules)
		}
	}
}

// Each strategy made for keeping messages back finds it alone; uniform schedules do not.
func TestStrategiesThatKeepMessagesBack(t *testing.T) {
	cfg := overtakenBySixty()
	w := newWorld(&cfg)
	for kind, want := range map[strategyKind]bool{uniform: false, starving: true, parting: true, newest: true} {
		found := false
		for seed := range uint64(2000) {
			w.choices.fromSeed(mix(seed), false)
			w.strategy.set(kind, 1000, 16, mix(seed))
			found = found || w.play() != nil
		}
		if found != want {
			t.Errorf("strategy %d: found %t, want %t", kind, found, want)
		}
	}
}

// When all choices are 0, no process starves: p0 and p1 play on until p2 has been heard, and an unfair
// schedule would never hear it.
func TestOrdinaryScheduleIsFair(t *testing.T) {
	cfg := toyConfig{
		P: 3, Check: nothing[toyState, string],
		Protocol: toy{
			receive: func(s *toyState, _ protocol.Time, from protocol.Rank, _ string) { s.a, s.b = true, s.b || from == 2 },
			next: func(s *toyState, _ protocol.Time) protocol.Action[string] {
				switch {
				case s.self == 2:
					return once(s, send(0, "stop"), send(1, "stop"))
				case !s.b && (s.a || s.step == 0):
					s.step, s.a = 1, false
					return send(1-s.self, "ping")
				}
				return idle()
			},
		},
	}
	if v, err := Replay(cfg, nil); v != nil || err != nil {
		t.Error(v, err)
	}
}

// The first effect, the last and all between are equally likely crash points.
func TestCrashPointsAreDrawnFairly(t *testing.T) {
	const sends, runs = 6, 20000
	after := make([]int, sends+1)
	cfg := Config[floodState, wave]{
		Protocol: flood{p: 4, sends: sends}, P: 4, Crashes: 1,
		MayCrash: func(r protocol.Rank) bool { return r == 0 },
		Check: func(w *World[floodState, wave]) error {
			if w.Crashed(0) {
				after[w.procs[0].sends]++
			}
			return nil
		},
	}
	if _, err := Random(cfg, 1, runs, 1); err != nil {
		t.Fatal(err)
	}
	for n, times := range after {
		if times < runs/40 {
			t.Errorf("crashed after %d sends in %d of %d runs: %v", n, times, runs, after)
		}
	}
}

func TestRunsThatDoNotEndAreLivelocks(t *testing.T) {
	pingPong := toy{next: func(s *toyState, _ protocol.Time) protocol.Action[string] { return send(1-s.self, "ping") }}
	spin := toy{next: func(_ *toyState, now protocol.Time) protocol.Action[string] {
		return protocol.Action[string]{Kind: protocol.Wait, At: now}
	}}
	deliverer := toy{next: func(*toyState, protocol.Time) protocol.Action[string] { return deliver("more") }}
	ticking := toy{next: func(_ *toyState, now protocol.Time) protocol.Action[string] {
		return protocol.Action[string]{Kind: protocol.Wait, At: now + 1}
	}}
	for name, machine := range map[string]toy{"sends": pingPong, "spins": spin, "delivers": deliverer, "ticks": ticking} {
		for _, eager := range []bool{false, true} {
			cfg := toyConfig{Protocol: machine, P: 2, Check: nothing[toyState, string], StepsMax: 200, EagerTimers: eager}
			if name == "ticks" && eager {
				cfg.P = 1 // otherwise every interleaving of the two, until the bound
			}
			if _, err := Random(cfg, 1, 10, 1); !errors.Is(err, ErrLivelock) {
				t.Errorf("%s, Random: %v", name, err)
			}
			if _, err := Exhaustive(cfg); !errors.Is(err, ErrLivelock) {
				t.Errorf("%s, eager %t, Exhaustive: %v", name, eager, err)
			}
		}
	}
}

// The script of an endless run shows only its beginning.
func TestLivelocksAreToldInPart(t *testing.T) {
	cfg := toyConfig{P: 2, Check: nothing[toyState, string], StepsMax: 600, Protocol: toy{
		next: func(s *toyState, _ protocol.Time) protocol.Action[string] { return send(1-s.self, "ping") },
	}}
	report, err := Random(cfg, 1, 1, 1)
	if !errors.Is(err, ErrLivelock) || len(report.First.Steps) != loopLines+1 {
		t.Errorf("%d lines, %.100v", len(report.First.Steps), err)
	}
}

// Only the number of sends grows, which is not part of a state: p0 is where it was, and a crash in between
// does not help.
func TestSameStateAgainAndAgainIsALivelock(t *testing.T) {
	stubborn := toy{next: func(s *toyState, _ protocol.Time) protocol.Action[string] {
		if s.self == 0 {
			s.step = (s.step + 1) % 3
			return send(1, "hello?")
		}
		return idle()
	}}
	cfg := toyConfig{Protocol: stubborn, P: 3, Failed: []protocol.Rank{1}, Crashes: 1, Check: nothing[toyState, string], StepsMax: 200}
	report, err := Exhaustive(cfg)
	if !errors.Is(err, ErrLivelock) || report.First == nil {
		t.Fatalf("%+v, %v", report, err)
	}
	if again, err := Replay(cfg, report.First.Choices); err != nil || !errors.Is(again, ErrLivelock) {
		t.Errorf("the choices replay to %v, %v", again, err)
	}
}

func TestPanicsAndBrokenContractsAreViolations(t *testing.T) {
	restless := toy{next: func(s *toyState, _ protocol.Time) protocol.Action[string] {
		s.step++
		return idle()
	}}
	forgetful := toy{next: func(s *toyState, _ protocol.Time) protocol.Action[string] {
		s.a = !s.a
		if s.a {
			return idle()
		}
		return deliver("after all")
	}}
	impatient := toy{next: func(_ *toyState, now protocol.Time) protocol.Action[string] {
		if now < 5 {
			return protocol.Action[string]{Kind: protocol.Wait, At: 5 + now}
		}
		return idle()
	}}
	clockwork := toy{next: func(s *toyState, now protocol.Time) protocol.Action[string] {
		if s.self == 0 && now < 5 {
			return protocol.Action[string]{Kind: protocol.Wait, At: 5}
		}
		s.a = now == 5 // p1 was idle at 0, and an extra Next at 5 is not harmless
		return idle()
	}}
	for _, c := range []struct {
		name    string
		machine toy
		want    error
	}{
		{"panic in Next", toy{next: func(s *toyState, _ protocol.Time) protocol.Action[string] { panic("oh") }}, ErrPanic},
		{"panic in Receive", toy{
			receive: func(*toyState, protocol.Time, protocol.Rank, string) { panic("oh") },
			next:    func(s *toyState, _ protocol.Time) protocol.Action[string] { return once(s, send(1-s.self, "m")) },
		}, ErrPanic},
		{"send to nobody", toy{next: func(s *toyState, _ protocol.Time) protocol.Action[string] { return send(2, "m") }}, ErrContract},
		{"send to less than nobody", toy{next: func(s *toyState, _ protocol.Time) protocol.Action[string] { return send(-1, "m") }}, ErrContract},
		{"no such kind", toy{next: func(s *toyState, _ protocol.Time) protocol.Action[string] {
			return protocol.Action[string]{Kind: protocol.Done + 1}
		}}, ErrContract},
		{"extra Next changes the state", restless, ErrContract},
		{"extra Next acts", forgetful, ErrContract},
		{"harmless extra Next", impatient, nil},
		{"extra Next at a later time changes the state", clockwork, ErrContract},
	} {
		cfg := toyConfig{Protocol: c.machine, P: 2, Check: nothing[toyState, string], ExtraNext: true}
		if _, err := Random(cfg, 1, 10, 1); !errors.Is(err, c.want) {
			t.Errorf("%s: Random: %v", c.name, err)
		}
		report, err := Exhaustive(cfg)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: Exhaustive: %v", c.name, err)
		}
		if c.want != nil && report.First == nil {
			t.Errorf("%s: Exhaustive: no violation to replay: %v", c.name, err)
		}
	}
}

func TestStepSeesWhatTheEndDoesNot(t *testing.T) {
	cfg := toyConfig{
		P: 2,
		Protocol: toy{
			receive: func(s *toyState, _ protocol.Time, _ protocol.Rank, _ string) { s.a = true },
			next: func(s *toyState, _ protocol.Time) protocol.Action[string] {
				if s.a {
					s.a = false
				}
				return once(s, send(1-s.self, "m"))
			},
		},
		Check: func(w *toyWorld) error {
			if w.State(0).a || w.State(1).a {
				return errPlanted
			}
			return nil
		},
	}
	if _, err := Random(cfg, 1, 1000, 1); err != nil {
		t.Fatalf("at the end: %v", err)
	}
	cfg.Step = func(w *toyWorld) error {
		if w.State(0).a && w.State(1).a {
			return errPlanted
		}
		return nil
	}
	if _, err := Random(cfg, 1, 1000, 1); !errors.Is(err, errPlanted) {
		t.Errorf("in between: %v", err)
	}
	if _, err := Exhaustive(cfg); err == nil || errors.Is(err, errPlanted) {
		t.Errorf("Exhaustive with Step: %v, want a refusal", err)
	}
}

func TestShorteningDropsDeathsThatDoNotMatter(t *testing.T) {
	cfg := crossed()
	cfg.P, cfg.Crashes, cfg.Detect = 5, 2, true
	inner := cfg.Protocol
	cfg.Protocol = toy{
		receive: func(s *toyState, now protocol.Time, from protocol.Rank, m string) { inner.Receive(s, now, from, m) },
		next: func(s *toyState, now protocol.Time) protocol.Action[string] {
			if s.self > 1 {
				return idle()
			}
			return inner.Next(s, now)
		},
	}
	cfg.Vary = func(s *Setup[toyState, string]) { s.FailUpTo(2, 0, 1) }
	cfg.Check = func(w *toyWorld) error {
		if w.Alive(0) && w.Alive(1) && len(w.Delivered(0)) == 0 && len(w.Delivered(1)) == 0 {
			return errPlanted
		}
		return nil
	}
	for seed := range uint64(30) {
		_, err := Random(cfg, seed, 1000, 1)
		if err == nil {
			t.Fatalf("seed %d: nothing", seed)
		}
		if strings.Contains(err.Error(), "dead") || strings.Contains(err.Error(), "crashes") {
			t.Errorf("seed %d: deaths left:\n%v", seed, err)
		}
	}
}

// A shorter run that violates something else is no shorter run.
func TestShorteningKeepsTheNatureOfTheViolation(t *testing.T) {
	quiet := toy{next: func(*toyState, protocol.Time) protocol.Action[string] { return idle() }}
	cfg := toyConfig{
		P: 1, Protocol: quiet, StepsMax: 100,
		Vary: func(s *Setup[toyState, string]) {
			s.Seed = uint64(s.Choose(4))
			if s.Seed == 1 {
				s.Protocol = toy{next: func(*toyState, protocol.Time) protocol.Action[string] { panic("oh") }}
			}
			if s.Seed == 2 {
				s.Protocol = toy{next: func(*toyState, protocol.Time) protocol.Action[string] { return send(9, "") }}
			}
		},
		Check: func(w *toyWorld) error {
			if w.State(0).seed == 3 {
				return errPlanted
			}
			return nil
		},
	}
	for choice, want := range map[uint64]error{1: ErrPanic, 2: ErrContract, 3: errPlanted} {
		if v := newWorld(&cfg).shrink([]uint64{0, choice}); v == nil || !errors.Is(v, want) {
			t.Errorf("choice %d became %v, want %v", choice, v, want)
		}
	}
}

// Long runs shrink to the few choices that are not ordinary.
func TestShorteningLeavesFewChoices(t *testing.T) {
	cfg := Config[floodState, wave]{
		Protocol: flood{p: 8, sends: 7, bug: deliverTwice}, P: 8, Crashes: 3,
		Vary:  func(s *Setup[floodState, wave]) { s.FailUpTo(3, 0) },
		Check: reliable[floodState, wave],
	}
	total, seeds := 0, sample(t, 8, 20)
	for seed := range seeds {
		report, err := Random(cfg, seed, 100, 1)
		if err == nil {
			t.Fatalf("seed %d: nothing", seed)
		}
		total += len(report.First.Choices)
	}
	if total > 20*int(seeds) {
		t.Errorf("%d choices a violation", total/int(seeds))
	}
}

// A run allocates no memory: it reuses that of the run before.
func TestRunsDoNotAllocate(t *testing.T) {
	cfg := Config[floodState, wave]{
		Protocol: flood{p: 5, sends: 5}, P: 5, Crashes: 2, Detect: true, Reorder: true, EagerTimers: true,
		Inputs: []Input{{Rank: 1, Notice: protocol.Notice{Kind: protocol.Cancel}}},
		Vary:   func(s *Setup[floodState, wave]) { s.FailUpTo(2, 0) },
		Check:  nothing[floodState, wave],
	}
	w := newWorld(&cfg)
	w.horizon = horizons{6, 20}
	seed := uint64(0)
	run := func() {
		seed++
		if err := w.draw(mix(seed), false); err != nil {
			t.Fatal(err)
		}
	}
	for range 5000 {
		run()
	}
	if n := testing.AllocsPerRun(2000, run); n > 0 {
		t.Errorf("%v allocations a run", n)
	}
}

func TestMistakesInTheConfigurationAreNotViolations(t *testing.T) {
	good := toyConfig{Protocol: toy{next: func(*toyState, protocol.Time) protocol.Action[string] { return idle() }}, P: 2, Check: nothing[toyState, string]}
	for name, spoil := range map[string]func(*toyConfig){
		"no protocol":       func(c *toyConfig) { c.Protocol = nil },
		"no processes":      func(c *toyConfig) { c.P = 0 },
		"too many":          func(c *toyConfig) { c.P = 1 << 20 },
		"negative crashes":  func(c *toyConfig) { c.Crashes = -1 },
		"negative restarts": func(c *toyConfig) { c.Restarts = -1 },
		"negative cuts":     func(c *toyConfig) { c.Cuts = -1 },
		"negative doubts":   func(c *toyConfig) { c.Suspicions = -1 },
		"nothing to check":  func(c *toyConfig) { c.Check = nil },
		"unknown failed":    func(c *toyConfig) { c.Failed = []protocol.Rank{2} },
		"unknown input":     func(c *toyConfig) { c.Inputs = []Input{{Rank: -1}} },
		"death as input":    func(c *toyConfig) { c.Inputs = []Input{{Notice: protocol.Notice{Kind: protocol.Death}}} },
		"work as input":     func(c *toyConfig) { c.Inputs = []Input{{Notice: protocol.Notice{Kind: protocol.WorkDone}}} },
		"protocol varied":   func(c *toyConfig) { c.Vary = func(s *Setup[toyState, string]) { s.Protocol = nil } },
		"bad input by Vary": func(c *toyConfig) { c.Vary = func(s *Setup[toyState, string]) { s.Inputs = []Input{{Rank: 7}} } },
	} {
		cfg := good
		spoil(&cfg)
		var v *Violation
		if report, err := Random(cfg, 1, 10, 1); err == nil || errors.As(err, &v) || report.Schedules != 0 {
			t.Errorf("%s: Random: %+v, %v", name, report, err)
		}
		if report, err := Exhaustive(cfg); err == nil || errors.As(err, &v) || report.States != 0 {
			t.Errorf("%s: Exhaustive: %+v, %v", name, report, err)
		}
		if v, err := Replay(cfg, nil); err == nil || v != nil {
			t.Errorf("%s: Replay: %v, %v", name, v, err)
		}
	}
	if _, err := Random(good, 1, 0, 1); err == nil {
		t.Error("no runs: no error")
	}
}

// Every set of initial failures is as likely as the others of its size.
func TestFailUpToIsUniform(t *testing.T) {
	counts := map[string]int{}
	cfg := toyConfig{
		P: 5, Protocol: toy{next: func(*toyState, protocol.Time) protocol.Action[string] { return idle() }},
		Failed: []protocol.Rank{4},
		Vary:   func(s *Setup[toyState, string]) { s.FailUpTo(2, 0) },
		Check: func(w *toyWorld) error {
			if w.Failed(0) || !w.Failed(4) {
				return errPlanted
			}
			counts[fmt.Sprint(w.Failed(1), w.Failed(2), w.Failed(3))]++
			return nil
		},
	}
	if _, err := Random(cfg, 1, 9000, 1); err != nil {
		t.Fatal(err)
	}
	if len(counts) != 7 {
		t.Errorf("%d sets, want 7: %v", len(counts), counts)
	}
	for set, n := range counts {
		if set == "false false false" {
			n /= 3
		}
		if n < 850 || n > 1150 {
			t.Errorf("%s: %d times: %v", set, n, counts)
		}
	}
	clear(counts)
	report, err := Exhaustive(cfg)
	if err != nil || report.Terminals != 7 {
		t.Errorf("Exhaustive: %+v, %v", report, err)
	}
	for _, n := range counts {
		if n != 1 {
			t.Errorf("Exhaustive: not every set once: %v", counts)
		}
	}
	if len(slices.Collect(maps.Keys(counts))) != 7 {
		t.Errorf("Exhaustive: %v", counts)
	}
}

// Init's seeds differ between processes and runs, and Vary may fix them.
func TestSeedsOfInit(t *testing.T) {
	seeds := map[uint64]bool{}
	cfg := toyConfig{
		P: 3, Protocol: toy{next: func(*toyState, protocol.Time) protocol.Action[string] { return idle() }},
		Check: func(w *toyWorld) error {
			for r := range protocol.Rank(3) {
				seeds[w.State(r).seed] = true
			}
			return nil
		},
	}
	if _, err := Random(cfg, 1, 100, 1); err != nil || len(seeds) != 100 {
		t.Errorf("%d different seeds of 100, %v", len(seeds), err)
	}
	clear(seeds)
	cfg.Vary = func(s *Setup[toyState, string]) { s.Seed = uint64(s.Choose(4)) }
	if _, err := Exhaustive(cfg); err != nil || len(seeds) != 4 {
		t.Errorf("%d different seeds of 4, %v", len(seeds), err)
	}
}

func BenchmarkRandom(b *testing.B) {
	for _, crashes := range []int{0, 2} {
		b.Run(fmt.Sprintf("flood5/crashes=%d", crashes), func(b *testing.B) {
			cfg := Config[floodState, wave]{
				Protocol: flood{p: 5, sends: 5}, P: 5, Crashes: crashes,
				Check: nothing[floodState, wave],
			}
			b.ReportAllocs()
			if _, err := Random(cfg, 1, b.N, 1); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "schedules/s")
		})
	}
}

// TestProgressCountsAllRuns: Progress counts every run, whichever worker makes it.
func TestProgressCountsAllRuns(t *testing.T) {
	const runs = 1000
	var most atomic.Int64
	b := Broadcast{Spec: broadcast.Spec{P: 3, Tree: "binomial", Correction: "checked", O: 1}, Progress: func(made int) {
		for {
			before := most.Load()
			if int64(made) <= before || most.CompareAndSwap(before, int64(made)) {
				return
			}
		}
	}}
	if _, err := b.Random(1, runs, 3); err != nil {
		t.Fatal(err)
	}
	if most.Load() != runs {
		t.Errorf("%d runs told, want %d", most.Load(), runs)
	}
}
