package chaos

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-go/coppice/protocol"
)

// Toys for faults: each has a mistake that only one kind of event, at one kind of moment, reveals.

// heir: p1 delivers the record that p0 left, which says how far p0 had come. That p0 left nothing is found
// only if p0 crashes before its first step, "b" only if p0 crashes between its last two.
func heir(bad string) toyConfig {
	return toyConfig{
		P: 2, Crashes: 1, Detect: true, MayCrash: func(r protocol.Rank) bool { return r == 0 },
		Testament: func(s *toyState) (string, bool) { return string(rune('a' - 1 + s.step)), s.step > 0 },
		Protocol: toy{
			receive: func(s *toyState, _ protocol.Time, _ protocol.Rank, m string) { s.step = int(m[0]) },
			notify: func(s *toyState, n protocol.Notice) {
				s.a = n.Kind == protocol.Death && n.Rank == 0 && n.Value == 1
			},
			next: func(s *toyState, _ protocol.Time) protocol.Action[string] {
				switch {
				case s.self == 0:
					return once(s, deliver(""), deliver(""), deliver(""))
				case s.a:
					s.a = false
					return deliver(string(rune(s.step)))
				}
				return idle()
			},
		},
		Check: func(w *toyWorld) error {
			if d := w.Delivered(1); len(d) > 0 && d[0].Msg == bad {
				return errPlanted
			}
			return nil
		},
	}
}

// returner: p0 sends the number of its life to p1 and crashes; p1 delivers what it hears and the crashes that
// it is notified of.
func returner(lives int, bad ...string) toyConfig {
	return toyConfig{
		P: 2, Crashes: lives - 1, Restarts: lives - 1, Detect: true, MayCrash: func(r protocol.Rank) bool { return r == 0 },
		Inputs: []Input{{Rank: 0, Notice: protocol.Notice{Kind: protocol.Begin, Value: 1}}},
		Protocol: toy{
			receive: func(s *toyState, _ protocol.Time, _ protocol.Rank, m string) { s.step = 10 + int(m[0]-'0') },
			notify: func(s *toyState, n protocol.Notice) {
				if n.Kind == protocol.Begin {
					s.step = int(n.Value)
				} else {
					s.step = 20 + int(n.Value)
				}
			},
			next: func(s *toyState, _ protocol.Time) protocol.Action[string] {
				switch {
				case s.self == 0 && s.step > 0 && !s.a:
					s.a = true
					return send(1, fmt.Sprint(s.step))
				case s.self == 1 && s.step > 0:
					m := fmt.Sprint(s.step)
					s.step = 0
					return deliver(m)
				}
				return idle()
			},
		},
		Check: func(w *toyWorld) error {
			var got []string
			for _, d := range w.Delivered(1) {
				got = append(got, d.Msg)
			}
			if slices.Equal(got, bad) {
				return errPlanted
			}
			return nil
		},
	}
}

// parted: p0 sends p1 a question and gives up after a time-out, which happens only when a cut holds up the
// question or the answer.
func parted() toyConfig {
	cfg := premature()
	cfg.EagerTimers, cfg.Cuts = false, 1
	return cfg
}

// doubtful: p1 delivers on a suspicion that comes after the message and before the next call of Next.
func doubtful() toyConfig {
	return toyConfig{
		P: 2, Suspicions: 1,
		Protocol: toy{
			receive: func(s *toyState, _ protocol.Time, _ protocol.Rank, _ string) { s.a = true },
			notify:  func(s *toyState, n protocol.Notice) { s.b = s.a && n.Kind == protocol.Suspect && n.Rank == 0 },
			next: func(s *toyState, _ protocol.Time) protocol.Action[string] {
				switch {
				case s.self == 0:
					return once(s, send(1, "m"))
				case s.b:
					return once(s, deliver("doubt"))
				}
				s.a = false
				return idle()
			},
		},
		Check: func(w *toyWorld) error {
			if len(w.Delivered(1)) > 0 {
				return errPlanted
			}
			return nil
		},
	}
}

// killer: p0 has p1 killed, and p2 delivers that p1 is dead. Whether p1 has delivered before depends on the
// moment.
func killer() toyConfig {
	return toyConfig{
		P: 3, Detect: true,
		Fence: func(m string) (protocol.Rank, uint64, bool) { return 1, 1, m == "p1" },
		Protocol: toy{
			notify: func(s *toyState, n protocol.Notice) { s.a = s.a || n.Kind == protocol.Death && n.Rank == 1 },
			next: func(s *toyState, _ protocol.Time) protocol.Action[string] {
				switch {
				case s.self == 0:
					return once(s, protocol.Action[string]{Kind: protocol.Work, Msg: "p1"})
				case s.self == 1:
					return once(s, deliver("alive"))
				case s.a:
					return once(s, deliver("dead"))
				}
				return idle()
			},
		},
		Check: func(w *toyWorld) error {
			switch {
			case w.Alive(1) || len(w.Delivered(2)) == 0:
				return errors.New("p1 was not killed, or p2 not told")
			case len(w.Delivered(1)) == 0:
				return errPlanted
			}
			return nil
		},
	}
}

func TestWhatBefallsProcessesIsFound(t *testing.T) {
	across := killer()
	across.Cuts = 1
	for _, c := range []struct {
		name   string
		cfg    toyConfig
		runs   int // within which Random finds it, whatever the seed
		delays int // with which DelayBounded finds it
	}{
		{"a testament of the first step", heir("a"), 500, 1},
		{"a testament of the second step", heir("b"), 500, 1},
		{"no testament", heir(string(rune(0))), 500, 1},
		{"a second life after its first's death was told", returner(2, "11", "21", "12"), 2000, 2},
		{"a second life before its first's death is told", returner(2, "11", "12", "21"), 5000, 6},
		{"a third life", returner(3, "11", "21", "12", "22", "13"), 50000, 4},
		{"time passes during a cut", parted(), 500, 1},
		{"a wrong suspicion", doubtful(), 500, 1},
		{"killed before its first step", killer(), 100, 1},
		{"killed across a cut", across, 500, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := range uint64(10) {
				report, err := Random(c.cfg, seed, c.runs, 1)
				if !errors.Is(err, errPlanted) {
					t.Fatalf("seed %d: %v after %d schedules", seed, err, report.Schedules)
				}
			}
			for how, explore := range map[string]func() (Report, error){
				"Exhaustive":   func() (Report, error) { return Exhaustive(c.cfg) },
				"DelayBounded": func() (Report, error) { return DelayBounded(c.cfg, c.delays) },
			} {
				report, err := explore()
				if !errors.Is(err, errPlanted) {
					t.Fatalf("%s: %v", how, err)
				}
				again, err := Replay(c.cfg, report.First.Choices)
				if err != nil || again == nil || again.Script() != report.First.Script() {
					t.Fatalf("%s: replays to %v, %v", how, again, err)
				}
			}
			if _, err := DelayBounded(c.cfg, c.delays-1); err != nil {
				t.Errorf("found with %d delays: %v", c.delays-1, err)
			}
		})
	}
}

// Without the conditions they need, the same mistakes do not show.
func TestWhatBefallsProcessesNeedsItsConditions(t *testing.T) {
	uncut, sure, mortal, unread := parted(), doubtful(), returner(2, "11", "21", "12"), heir("a")
	uncut.Cuts, sure.Suspicions, mortal.Restarts, unread.Testament = 0, 0, 0, nil
	for name, cfg := range map[string]toyConfig{"no cut": uncut, "no suspicion": sure, "no restart": mortal, "no testament": unread} {
		if _, err := Random(cfg, 1, 5000, 1); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := Exhaustive(cfg); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A cut heals before the run ends, and then everything that waited arrives. Check sees a cut that stays.
func TestCutsHealOrStay(t *testing.T) {
	cfg := toyConfig{
		P: 3, Cuts: 1, DetectCuts: true,
		Protocol: toy{
			receive: func(s *toyState, _ protocol.Time, _ protocol.Rank, _ string) { s.a = true },
			notify:  func(s *toyState, n protocol.Notice) { s.b = s.b || n.Kind == protocol.Suspect && n.Rank == 0 },
			next: func(s *toyState, _ protocol.Time) protocol.Action[string] {
				switch {
				case s.self == 0:
					return once(s, send(1, "m"), send(2, "m"))
				case s.a:
					return once(s, deliver("m"))
				}
				return idle()
			},
		},
		Check: func(w *toyWorld) error {
			if w.Cut() || len(w.Delivered(1)) == 0 || len(w.Delivered(2)) == 0 {
				return errors.New("a message was not delivered")
			}
			return nil
		},
	}
	if _, err := Exhaustive(cfg); err != nil {
		t.Error(err)
	}
	cfg.CutsStay = true
	cfg.Check = func(w *toyWorld) error {
		if w.Cut() && len(w.Delivered(1)) == 0 && !w.State(1).b {
			return errors.New("p1 was cut off, and not told to suspect p0")
		}
		if w.Cut() && len(w.Delivered(2)) == 0 {
			return errPlanted
		}
		return nil
	}
	if _, err := Exhaustive(cfg); !errors.Is(err, errPlanted) {
		t.Errorf("a cut that stays: %v", err)
	}
}

// A process that is cut off from the one that has it killed lives until the cut heals.
func TestFencingWaitsAtACut(t *testing.T) {
	cfg := killer()
	cfg.Cuts, cfg.CutsStay = 1, true
	cfg.Check = func(w *toyWorld) error {
		if w.Alive(1) && w.Cut() {
			return errPlanted
		}
		return nil
	}
	_, err := Exhaustive(cfg)
	if !errors.Is(err, errPlanted) || !strings.Contains(err.Error(), "is cut from") {
		t.Error(err)
	}
	cfg.CutsStay = false
	if _, err := Exhaustive(cfg); err != nil {
		t.Error(err)
	}
}

// Witness is called at each delivery, before the other processes take further steps.
func TestWitnessSeesTheMomentOfDelivery(t *testing.T) {
	cfg := toyConfig{
		P: 2,
		Protocol: toy{
			receive: func(s *toyState, _ protocol.Time, _ protocol.Rank, _ string) { s.a = true },
			next: func(s *toyState, _ protocol.Time) protocol.Action[string] {
				if s.self == 0 {
					return once(s, send(1, "m"), deliver("done"))
				}
				return idle()
			},
		},
		Witness: func(w *toyWorld, r protocol.Rank) error {
			if r != 0 || len(w.Delivered(0)) != 1 {
				return errors.New("asked about nothing")
			}
			if !w.State(1).a {
				return errPlanted
			}
			return nil
		},
	}
	if _, err := Random(cfg, 1, 200, 1); !errors.Is(err, errPlanted) {
		t.Error(err)
	}
	if _, err := Exhaustive(cfg); !errors.Is(err, errPlanted) {
		t.Error(err)
	}
}

// What two processes say of the same thing must agree, even if one has crashed since: p0 and p1 each say
// which process leads, and p1's answer depends on whether it has heard p0.
func TestContradictionsAreFound(t *testing.T) {
	cfg := toyConfig{
		P: 2, Crashes: 1,
		Protocol: toy{
			receive: func(s *toyState, _ protocol.Time, _ protocol.Rank, _ string) { s.a = true },
			next: func(s *toyState, _ protocol.Time) protocol.Action[string] {
				switch {
				case s.self == 0:
					return once(s, deliver("p0 leads"), send(1, "hello"))
				case s.a:
					return once(s, deliver("p0 leads"))
				}
				return once(s, deliver("p1 leads"))
			},
		},
		Claim: func(m string) (key, value uint64, ok bool) { return 1, uint64(m[1]), m != "hello" },
	}
	if _, err := Random(cfg, 1, 200, 1); !errors.Is(err, ErrClaims) {
		t.Error(err)
	}
	report, err := Exhaustive(cfg)
	if !errors.Is(err, ErrClaims) {
		t.Fatal(err)
	}
	if again, err := Replay(cfg, report.First.Choices); err != nil || !errors.Is(again, ErrClaims) {
		t.Errorf("replays to %v, %v", again, err)
	}
	cfg.Claim = func(m string) (key, value uint64, ok bool) { return uint64(m[1]), 0, true }
	if _, err := Exhaustive(cfg); err != nil {
		t.Error(err)
	}
}

func TestRunsOfEventfulWorldsRepeat(t *testing.T) {
	cfg := returner(3, "11", "21", "12", "22", "13")
	cfg.Cuts, cfg.DetectCuts, cfg.Suspicions = 1, true, 1
	for seed := range uint64(20) {
		report, _ := Random(cfg, seed, 20000, 1)
		if report.First == nil {
			continue
		}
		again, _ := Random(cfg, report.First.Seed, 1, 1)
		if again.First == nil || again.First.Script() != report.First.Script() {
			t.Fatalf("seed %d: found\n%vits seed finds\n%v", seed, report.First, again.First)
		}
	}
}
