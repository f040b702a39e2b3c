package chaos

import (
	"errors"
	"fmt"
	"testing"

	"github.com/coppice-go/coppice/protocol"
)

// counted makes p0 send six messages to p1. A process that is notified of a suspicion or of a crash records
// it.
func counted() toyConfig {
	return toyConfig{
		P: 3, Frozen: 2, Detect: true,
		Protocol: toy{
			receive: func(s *toyState, _ protocol.Time, _ protocol.Rank, _ string) { s.step++ },
			notify: func(s *toyState, n protocol.Notice) {
				s.a, s.b = s.a || n.Kind == protocol.Suspect, s.b || n.Kind == protocol.Death
			},
			next: func(s *toyState, _ protocol.Time) protocol.Action[string] {
				if s.self > 0 {
					return idle()
				}
				return once(s, send(1, ""), send(1, ""), send(1, ""), send(1, ""), send(1, ""), send(1, ""))
			},
		},
	}
}

func TestFrozenProcessesStandStill(t *testing.T) {
	for _, suspected := range []bool{false, true} {
		cfg := counted()
		cfg.Without = func(*toyWorld, []bool) bool { return suspected }
		var before [3]int
		frozen, suspects := 0, 0
		cfg.Step = func(w *toyWorld) error {
			settled, _ := w.Settled()
			if w.Steps() == 1 {
				before = [3]int{}
			}
			for r := range protocol.Rank(3) {
				stands := w.Frozen(r) || w.Frozen(0) && r == 1 // or nothing reaches it
				if settled && stands && w.Alive(r) && w.State(r).step != before[r] {
					return fmt.Errorf("p%d goes on", r)
				}
				if w.Alive(r) {
					before[r] = w.State(r).step
				}
			}
			return nil
		}
		cfg.Check = func(w *toyWorld) error {
			settled, sure := w.Settled()
			dead := 0
			for r := range protocol.Rank(3) {
				switch {
				case w.Frozen(r):
					frozen++
				case !w.Alive(r):
					dead++
				}
			}
			if dead > 0 && (!settled || !sure || !w.Found()) {
				return errors.New("somebody is dead")
			}
			for r := range protocol.Rank(3) {
				if !w.Alive(r) || w.Frozen(r) {
					continue
				}
				if w.State(r).b != (dead > 0) {
					return fmt.Errorf("of %d dead p%d is told: %v", dead, r, w.State(r).b)
				}
				if w.State(r).a {
					suspects++
				}
			}
			return nil
		}
		if _, err := Random(cfg, 1, 2000, 1); err != nil {
			t.Fatal(err)
		}
		if (frozen > 0) != suspected || (suspects > 0) != suspected {
			t.Errorf("suspected %v: %d stand still in the end, %d suspect them", suspected, frozen, suspects)
		}
	}
}

// A process that waits forever for a frozen one is found, and the seed finds it again.
func TestWaitingForTheFrozenIsNoProgress(t *testing.T) {
	cfg := toyConfig{
		P: 2, Frozen: 1, StepsMax: 200, Without: func(*toyWorld, []bool) bool { return true },
		Protocol: toy{
			receive: func(s *toyState, _ protocol.Time, _ protocol.Rank, _ string) { s.a = true },
			next: func(s *toyState, now protocol.Time) protocol.Action[string] {
				switch {
				case s.self == 1:
					return once(s, deliver(""), send(0, ""))
				case s.a:
					return idle()
				}
				return protocol.Action[string]{Kind: protocol.Wait, At: now + 1}
			},
		},
		Check: func(*toyWorld) error { return nil },
	}
	_, err := Random(cfg, 1, 2000, 0)
	var v *Violation
	if !errors.As(err, &v) || !errors.Is(err, ErrStalled) {
		t.Fatal(err)
	}
	if _, err := Random(cfg, v.Seed, 1, 1); !errors.Is(err, ErrStalled) {
		t.Errorf("seed %d: %v", v.Seed, err)
	}
	cfg.Frozen = 0
	if _, err := Random(cfg, 1, 2000, 0); err != nil {
		t.Error(err)
	}
}

// In a one-way cut, the processes that hear nothing of the others are notified to suspect them. The others
// are not: what is sent to them arrives.
func TestOneWayCutLetsOneSideHearTheOther(t *testing.T) {
	cfg := counted()
	cfg.P, cfg.Frozen, cfg.Cuts, cfg.CutsStay, cfg.DetectCuts = 2, 0, 1, true, true
	met := map[[2]bool]int{}
	cfg.Check = func(w *toyWorld) error {
		told := [2]bool{w.State(0).a, w.State(1).a}
		if w.Cut() {
			met[told]++
		}
		if !told[1] && w.State(1).step < 6 {
			return fmt.Errorf("p1 hears %d of 6", w.State(1).step)
		}
		return nil
	}
	for _, oneWay := range []bool{false, true} {
		clear(met)
		cfg.OneWay = oneWay
		if _, err := Random(cfg, 1, 500, 1); err != nil {
			t.Fatal(err)
		}
		if met[[2]bool{true, true}] == 0 || (met[[2]bool{false, true}] > 0) != oneWay || len(met) > 2 {
			t.Errorf("one-way %v: suspicions at p0 and p1: %v", oneWay, met)
		}
	}
}
