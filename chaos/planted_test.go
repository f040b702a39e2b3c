package chaos

import (
	"errors"
	"fmt"
	"testing"

	"github.com/coppice-go/coppice/protocol"
)

// Mistakes of the kinds protocols have, planted to check that they are found: each needs a particular
// schedule, crash or moment.

// toy is a machine made of functions, on a state that is a few numbers.
type toy struct {
	receive func(s *toyState, now protocol.Time, from protocol.Rank, m string)
	notify  func(s *toyState, n protocol.Notice)
	next    func(s *toyState, now protocol.Time) protocol.Action[string]
}

type toyState struct {
	self protocol.Rank
	step int
	a, b bool
	seed uint64
}

func (t toy) Init(s *toyState, self protocol.Rank, seed uint64) {
	*s = toyState{self: self, seed: seed}
}

func (t toy) Receive(s *toyState, now protocol.Time, from protocol.Rank, m string) {
	if t.receive != nil {
		t.receive(s, now, from, m)
	}
}

func (t toy) Notify(s *toyState, _ protocol.Time, n protocol.Notice) {
	if t.notify != nil {
		t.notify(s, n)
	}
}

func (t toy) Next(s *toyState, now protocol.Time) protocol.Action[string] { return t.next(s, now) }

func idle() protocol.Action[string] { return protocol.Action[string]{Kind: protocol.Idle} }

func send(to protocol.Rank, m string) protocol.Action[string] {
	return protocol.Action[string]{Kind: protocol.Send, To: to, Msg: m}
}

func deliver(m string) protocol.Action[string] {
	return protocol.Action[string]{Kind: protocol.Deliver, Msg: m}
}

// once does each of the actions of a list, then rests.
func once(s *toyState, actions ...protocol.Action[string]) protocol.Action[string] {
	if s.step == len(actions) {
		return idle()
	}
	s.step++
	return actions[s.step-1]
}

type (
	toyConfig = Config[toyState, string]
	toyWorld  = World[toyState, string]
)

var errPlanted = errors.New("planted")

// everyone demands that every live process delivers.
func everyone(w *toyWorld) error {
	for r := range protocol.Rank(w.P()) {
		if w.Alive(r) && len(w.Delivered(r)) == 0 {
			return fmt.Errorf("%w: p%d never delivers", errPlanted, r)
		}
	}
	return nil
}

// crossed: both ask each other. A process that is asked while its own question is out relies on the answer to
// that question and does not answer.
func crossed() toyConfig {
	return toyConfig{
		P: 2, Check: everyone,
		Protocol: toy{
			receive: func(s *toyState, _ protocol.Time, _ protocol.Rank, m string) {
				if m == "answer" {
					s.a = true
				} else if s.step != 1 || s.a {
					s.b = true // owes an answer
				}
			},
			next: func(s *toyState, _ protocol.Time) protocol.Action[string] {
				other := 1 - s.self
				switch {
				case s.b:
					s.b = false
					return send(other, "answer")
				case s.step == 0:
					s.step = 1
					return send(other, "question")
				case s.a && s.step == 1:
					s.step = 2
					return deliver("answer")
				}
				return idle()
			},
		},
	}
}

// deadlock: p0 locks at p2, then at p3; p1 the other way round.
func deadlock() toyConfig {
	return toyConfig{
		P: 4,
		Check: func(w *toyWorld) error {
			if len(w.Delivered(0)) == 0 || len(w.Delivered(1)) == 0 {
				return fmt.Errorf("%w: deadlock", errPlanted)
			}
			return nil
		},
		Protocol: toy{
			receive: func(s *toyState, _ protocol.Time, from protocol.Rank, m string) {
				switch {
				case m == "granted":
					s.step++
				case m == "lock" && from == 0:
					s.a = true
				case m == "lock":
					s.b = true
				case m == "unlock":
					s.step = 0
				}
			},
			next: lockNext,
		},
	}
}

func lockNext(s *toyState, _ protocol.Time) protocol.Action[string] {
	if s.self >= 2 { // step 1: the lock is taken
		switch {
		case s.step == 0 && s.a:
			s.step, s.a = 1, false
			return send(0, "granted")
		case s.step == 0 && s.b:
			s.step, s.b = 1, false
			return send(1, "granted")
		}
		return idle()
	}
	first, second := 2+s.self, 3-s.self
	switch s.step { // even: asks; odd: waits for the answer
	case 0, 2:
		s.step++
		return send([]protocol.Rank{first, 0, second}[s.step-1], "lock")
	case 4, 5, 6:
		s.step++
		return []protocol.Action[string]{deliver("both"), send(first, "unlock"), send(second, "unlock")}[s.step-5]
	}
	return idle()
}

// secondSend: all or none deliver, unless p0 crashes after exactly its second
// send: p1 and p2 confirm each other then, and forget p3.
func secondSend() toyConfig {
	return toyConfig{
		P: 4, Crashes: 1, MayCrash: func(r protocol.Rank) bool { return r == 0 },
		Check: func(w *toyWorld) error {
			if len(w.Delivered(1)) != len(w.Delivered(3)) {
				return fmt.Errorf("%w: p1 delivers and p3 does not", errPlanted)
			}
			return nil
		},
		Protocol: toy{
			receive: func(s *toyState, _ protocol.Time, from protocol.Rank, _ string) {
				if from == 0 {
					s.a = true
				} else {
					s.b = true
				}
			},
			next: func(s *toyState, _ protocol.Time) protocol.Action[string] {
				switch {
				case s.self == 0:
					return once(s, send(1, "m"), send(2, "m"), send(3, "m"))
				case s.self == 1 && s.a && !s.b && s.step == 0:
					return once(s, send(2, "have"))
				case s.self == 1 && s.b && s.step == 1:
					return once(s, idle(), deliver("m"))
				case s.self == 2 && s.a && s.b:
					return once(s, send(1, "go"), deliver("m"))
				case s.self == 3 && s.a:
					return once(s, deliver("m"))
				}
				return idle()
			},
		},
	}
}

// premature: p0 gives up when its timer fires before the answer, though p1
// lives and answers.
func premature() toyConfig {
	return toyConfig{
		P: 2, EagerTimers: true,
		Check: func(w *toyWorld) error {
			if d := w.Delivered(0); len(d) != 1 || d[0].Msg != "answer" {
				return fmt.Errorf("%w: p0 gave up", errPlanted)
			}
			return nil
		},
		Protocol: toy{
			receive: func(s *toyState, _ protocol.Time, _ protocol.Rank, _ string) { s.a = true },
			next: func(s *toyState, now protocol.Time) protocol.Action[string] {
				switch {
				case s.self == 1 && s.a:
					return once(s, send(0, "answer"))
				case s.self == 1 || s.b:
					return idle()
				case s.step == 0:
					return once(s, send(1, "question"))
				case s.a:
					s.b = true
					return deliver("answer")
				case now < 10:
					return protocol.Action[string]{Kind: protocol.Wait, At: 10}
				}
				s.b = true
				return deliver("time-out")
			},
		},
	}
}

// late: p0's timer is not cancelled by the answer, and its firing undoes it.
func late() toyConfig {
	cfg := premature()
	cfg.EagerTimers = false
	cfg.Check = func(w *toyWorld) error {
		if len(w.Delivered(0)) > 1 {
			return fmt.Errorf("%w: p0 delivers again at %d", errPlanted, w.Now())
		}
		return nil
	}
	cfg.Protocol = toy{next: func(s *toyState, now protocol.Time) protocol.Action[string] {
		switch {
		case s.self == 1:
			return once(s, send(0, "answer"))
		case s.step == 0:
			return once(s, deliver("answer"))
		case now < 10:
			return protocol.Action[string]{Kind: protocol.Wait, At: 10}
		}
		return once(s, idle(), deliver("time-out"))
	}}
	return cfg
}

// overtaken: p1 mistakes the second message for the first when the second comes first.
func overtaken() toyConfig {
	return toyConfig{
		P: 2, Reorder: true,
		Check: func(w *toyWorld) error {
			if d := w.Delivered(1); len(d) == 1 && d[0].Msg == "second" {
				return fmt.Errorf("%w: the second message was delivered alone", errPlanted)
			}
			return nil
		},
		Protocol: toy{
			receive: func(s *toyState, _ protocol.Time, _ protocol.Rank, m string) {
				if !s.a && !s.b {
					s.a, s.b = m == "first", m == "second"
				}
			},
			next: func(s *toyState, _ protocol.Time) protocol.Action[string] {
				switch {
				case s.self == 0:
					return once(s, send(1, "first"), send(1, "second"))
				case s.a:
					return once(s, deliver("first"))
				case s.b:
					return once(s, deliver("second"))
				}
				return idle()
			},
		},
	}
}

// told: p2 blames the first process that it is notified has crashed; notices of two crashes can come in
// either order.
func told() toyConfig {
	return toyConfig{
		P: 3, Detect: true, Crashes: 1, Failed: []protocol.Rank{0},
		Check: func(w *toyWorld) error {
			if d := w.Delivered(2); len(d) == 1 && d[0].Msg == "p1" {
				return fmt.Errorf("%w: p2 blames p1", errPlanted)
			}
			return nil
		},
		Protocol: toy{
			notify: func(s *toyState, n protocol.Notice) {
				if !s.a && !s.b {
					s.a, s.b = n.Rank == 0, n.Rank == 1
				}
			},
			next: func(s *toyState, _ protocol.Time) protocol.Action[string] {
				switch {
				case s.self != 2:
					return idle()
				case s.a:
					return once(s, deliver("p0"))
				case s.b:
					return once(s, deliver("p1"))
				}
				return idle()
			},
		},
	}
}

func TestPlantedMistakesAreFoundAndTheScriptIsShort(t *testing.T) {
	for _, c := range []struct {
		name  string
		cfg   toyConfig
		runs  int // within which Random finds it, whatever the seed
		lines int // of the script
	}{
		{"crossed questions", crossed(), 50, 4},
		{"deadlock", deadlock(), 500, 12},
		{"crash after the second send", secondSend(), 200, 11},
		{"premature timer", premature(), 50, 7},
		{"late timer", late(), 1, 7},
		{"overtaken message", overtaken(), 50, 5},
		{"deaths told in the wrong order", told(), 500, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := range uint64(20) {
				report, err := Random(c.cfg, seed, c.runs, 1)
				if !errors.Is(err, errPlanted) {
					t.Fatalf("seed %d: %v after %d schedules", seed, err, report.Schedules)
				}
				if n := len(report.First.Steps); n > c.lines {
					t.Fatalf("seed %d: %d lines, want at most %d:\n%v", seed, n, c.lines, err)
				}
			}
			report, err := Exhaustive(c.cfg)
			if !errors.Is(err, errPlanted) {
				t.Fatalf("Exhaustive: %v", err)
			}
			if n := len(report.First.Steps); n > c.lines {
				t.Fatalf("Exhaustive: %d lines, want at most %d:\n%v", n, c.lines, err)
			}
			t.Logf("%v", report.First.Script())
		})
	}
}

// Without the conditions they need, the same mistakes do not show: the world does no more than it was
// configured to do.
func TestPlantedMistakesNeedTheirConditions(t *testing.T) {
	patient, inOrder, unkilled, alone := premature(), overtaken(), secondSend(), told()
	patient.EagerTimers = false
	inOrder.Reorder = false
	unkilled.Crashes = 0
	alone.Crashes = 0
	for name, cfg := range map[string]toyConfig{
		"no premature timer": patient, "no overtaking": inOrder, "no crash": unkilled, "one death": alone,
	} {
		if _, err := Random(cfg, 1, 2000, 1); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := Exhaustive(cfg); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDuplicateDeliveryIsFound(t *testing.T) {
	cfg := Config[floodState, wave]{Protocol: flood{p: 4, sends: 3, bug: deliverTwice}, P: 4, Check: reliable[floodState, wave]}
	for seed := range uint64(20) {
		report, err := Random(cfg, seed, 200, 1)
		if err == nil {
			t.Fatalf("seed %d: nothing in %d schedules", seed, report.Schedules)
		}
		if n := len(report.First.Steps); n > 40 {
			t.Errorf("seed %d: %d lines:\n%v", seed, n, err)
		}
	}
	if _, err := Exhaustive(cfg); err == nil {
		t.Error("Exhaustive found nothing")
	}
}

// A message that no process relays is lost with its sender: a crash after a delivery and before the sends is
// harmless only where no other process matters.
func TestUniformDeliveryFailsWhereDeliveryComesFirst(t *testing.T) {
	cfg := Config[floodState, wave]{P: 4, Crashes: 1, Check: reliable[floodState, wave]}
	cfg.Protocol = flood{p: 4, sends: 3}
	if _, err := Random(cfg, 1, 500, 1); err == nil {
		t.Error("Random: a process that delivers, then crashes, is not noticed")
	}
	if _, err := Exhaustive(cfg); err == nil {
		t.Error("Exhaustive: a process that delivers, then crashes, is not noticed")
	}
	cfg.Protocol = flood{p: 4, sends: 3, bug: sendFirst}
	if _, err := Random(cfg, 1, 5000, 1); err != nil {
		t.Error(err)
	}
	if _, err := Exhaustive(cfg); err != nil {
		t.Error(err)
	}
}

// With AsFound, Random reports the violation that it otherwise shortens.
func TestViolationsAreToldAsFound(t *testing.T) {
	cfg := Config[floodState, wave]{Protocol: flood{p: 4, sends: 3, bug: deliverTwice}, P: 4, Check: reliable[floodState, wave]}
	short, _ := Random(cfg, 1, 200, 1)
	cfg.AsFound = true
	long, err := Random(cfg, 1, 200, 1)
	if err == nil || long.First.Seed != short.First.Seed || len(long.First.Choices) <= len(short.First.Choices) {
		t.Errorf("%v\nmade shorter: %v", err, short.First)
	}
}
