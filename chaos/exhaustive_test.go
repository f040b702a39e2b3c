package chaos

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/coppice-go/coppice/internal/extent"
	"github.com/coppice-go/coppice/protocol"
)

// randomWorld draws a small world with a random machine.
func randomWorld(r *rand.Rand) Config[tableState, uint8] {
	kinds := []protocol.Kind{
		protocol.Send, protocol.Send, protocol.Send, protocol.Idle, protocol.Deliver,
		protocol.Deliver, protocol.Wait, protocol.Work, protocol.Done,
	}
	kinds = kinds[:4+r.IntN(len(kinds)-3)]
	p := 2 + r.IntN(2)
	phases := 2 + r.IntN(3)
	cumulative := r.IntN(3) == 0
	if cumulative {
		phases = 4 << r.IntN(2)
	}
	machine := newTable(r, p, phases, 1+r.IntN(4), kinds)
	machine.learns = cumulative
	cfg := Config[tableState, uint8]{
		Protocol: machine, P: p, Cumulative: cumulative,
		Crashes: max(0, r.IntN(4)-1),
		Detect:  r.IntN(3) == 0, Reorder: r.IntN(3) == 0, EagerTimers: r.IntN(3) == 0,
		ExtraNext: r.IntN(2) == 0,
	}
	cfg.LossyCrashes = cfg.Crashes > 0 && !cfg.Reorder && r.IntN(2) == 0
	if r.IntN(4) == 0 {
		cfg.Failed = []protocol.Rank{protocol.Rank(r.IntN(p))}
	}
	if r.IntN(4) == 0 {
		cfg.MayCrash = func(r protocol.Rank) bool { return r != 0 }
	}
	for range r.IntN(3) {
		cfg.Inputs = append(cfg.Inputs, Input{protocol.Rank(r.IntN(p)), protocol.Notice{Kind: protocol.Suspect}})
	}
	return cfg
}

func describe(cfg Config[tableState, uint8]) string {
	return fmt.Sprintf("P %d crashes %d lossy %t detect %t cumulative %t reorder %t eager %t failed %v inputs %d",
		cfg.P, cfg.Crashes, cfg.LossyCrashes, cfg.Detect, cfg.Cumulative, cfg.Reorder, cfg.EagerTimers, cfg.Failed, len(cfg.Inputs))
}

// The reduction loses no end of a run and invents none: on random machines it finds exactly the ends that
// trying every interleaving finds.
func TestExhaustiveFindsExactlyTheEndsThatEveryInterleavingFinds(t *testing.T) {
	cases, naiveStates, states := 0, 0, uint64(0)
	options := map[string]int{}
	for seed := range sample(t, 100, 1000) { // half of all miss a message that cannot overtake two
		cfg := randomWorld(rand.New(rand.NewPCG(seed, 1)))
		want, n, ok := naiveEnds(cfg, 1500)
		if !ok {
			continue
		}
		got := map[string]bool{}
		cfg.Check = func(w *World[tableState, uint8]) error {
			got[endOf(w)] = true
			return nil
		}
		report, err := Exhaustive(cfg)
		if err != nil {
			t.Fatalf("seed %d (%s): %v", seed, describe(cfg), err)
		}
		if !maps.Equal(got, want) {
			t.Fatalf("seed %d (%s): the ends differ\n%s", seed, describe(cfg), difference(got, want))
		}
		if report.Terminals != uint64(len(want)) {
			t.Fatalf("seed %d: %d terminals reported, there are %d", seed, report.Terminals, len(want))
		}
		cases++
		naiveStates += n
		states += report.States
		if len(want) > 1 {
			options[describe(Config[tableState, uint8]{
				LossyCrashes: cfg.LossyCrashes, Detect: cfg.Detect, Cumulative: cfg.Cumulative, Reorder: cfg.Reorder, EagerTimers: cfg.EagerTimers,
			})]++
		}
	}
	t.Logf("%d worlds: %d states, naively %d", cases, states, naiveStates)
	for o, n := range options {
		t.Logf("%d with several ends: %s", n, o)
	}
	if extent.Full() && len(options) < 24 { // losses and reordering exclude each other
		t.Errorf("only %d of 24 combinations of options had several ends", len(options))
	}
}

func difference(got, want map[string]bool) string {
	s := ""
	for _, end := range slices.Sorted(maps.Keys(got)) {
		if !want[end] {
			s += "invented: " + end + "\n"
		}
	}
	for _, end := range slices.Sorted(maps.Keys(want)) {
		if !got[end] {
			s += "lost:     " + end + "\n"
		}
	}
	return s
}

// Whatever end Check forbids, Exhaustive finds a run to it that replays.
func TestExhaustiveFindsARunToAnyForbiddenEnd(t *testing.T) {
	for seed := range extent.Of(t, uint64(100), 300) {
		r := rand.New(rand.NewPCG(seed, 2))
		cfg := randomWorld(r)
		ends, _, ok := naiveEnds(cfg, 500)
		if !ok {
			continue
		}
		sorted := slices.Sorted(maps.Keys(ends))
		forbidden := sorted[r.IntN(len(sorted))]
		wrong := errors.New("forbidden end")
		cfg.Check = func(w *World[tableState, uint8]) error {
			if endOf(w) == forbidden {
				return wrong
			}
			return nil
		}
		report, err := Exhaustive(cfg)
		if !errors.Is(err, wrong) || report.First == nil {
			t.Fatalf("seed %d (%s): got %v, want the forbidden end", seed, describe(cfg), err)
		}
		again, err := Replay(cfg, report.First.Choices)
		if err != nil || again == nil || !errors.Is(again, wrong) {
			t.Fatalf("seed %d: the choices replay to %v, %v", seed, again, err)
		}
		if !slices.Equal(again.Steps, report.First.Steps) {
			t.Fatalf("seed %d: the script is\n%vand replays as\n%v", seed, report.First.Script(), again.Script())
		}
	}
}

// listState is a state with references, which its methods copy and compare.
type listState struct {
	heard []protocol.Rank // in the order of their greetings
	count *int            // how many
}

func (s *listState) Clone() listState {
	n := *s.count
	return listState{slices.Clone(s.heard), &n}
}

func (s *listState) Fingerprint() [2]uint64 {
	f := uint64(*s.count)
	for _, r := range s.heard {
		f = f*64 + uint64(r) + 1
	}
	return [2]uint64{f, f}
}

// listener hears greetings from p1 and p2, in either order.
type listener struct{}

func (listener) Init(s *listState, self protocol.Rank, _ uint64) {
	*s = listState{count: new(int)}
	if self > 0 {
		s.heard = []protocol.Rank{self}
	}
}

func (listener) Receive(s *listState, _ protocol.Time, from protocol.Rank, _ wave) {
	s.heard = append(s.heard, from)
	*s.count++
}

func (listener) Notify(*listState, protocol.Time, protocol.Notice) {}

func (listener) Next(s *listState, _ protocol.Time) protocol.Action[wave] {
	if len(s.heard) == 1 && s.heard[0] > 0 && *s.count == 0 {
		s.heard = append(s.heard, 0)
		return protocol.Action[wave]{Kind: protocol.Send, To: 0}
	}
	return protocol.Action[wave]{Kind: protocol.Idle}
}

func TestStatesWithReferencesNeedTheirMethods(t *testing.T) {
	ends := map[string]int{}
	cfg := Config[listState, wave]{Protocol: listener{}, P: 4, Failed: []protocol.Rank{3}, Check: func(w *World[listState, wave]) error {
		ends[fmt.Sprint(w.State(0).heard, *w.State(0).count)]++
		return nil
	}}
	if _, err := Exhaustive(cfg); err != nil {
		t.Fatal(err)
	}
	if want := map[string]int{"[1 2] 2": 1, "[2 1] 2": 1}; !maps.Equal(ends, want) {
		t.Errorf("ends: %v, want %v", ends, want)
	}
	bare := Config[bareState, wave]{Protocol: bareListener{}, P: 1, Check: nothing[bareState, wave]}
	if _, err := Exhaustive(bare); err == nil {
		t.Error("a state with a slice and no methods was accepted")
	}
}

type bareState struct{ Heard []protocol.Rank }

type bareListener struct{}

func (bareListener) Init(*bareState, protocol.Rank, uint64)                   {}
func (bareListener) Receive(*bareState, protocol.Time, protocol.Rank, wave)   {}
func (bareListener) Notify(*bareState, protocol.Time, protocol.Notice)        {}
func (bareListener) Next(*bareState, protocol.Time) (a protocol.Action[wave]) { return a }

func TestTooManyStatesAreAnAnswerNotASilence(t *testing.T) {
	cfg := Config[floodState, wave]{Protocol: flood{p: 4, sends: 3}, P: 4, Check: reliable[floodState, wave], StatesMax: 1000}
	report, err := Exhaustive(cfg)
	if !errors.Is(err, ErrIncomplete) || report.States != 1000 {
		t.Errorf("%d states, %v", report.States, err)
	}
}

// Two processes send each other one message: either may send first, and either may receive before it sends or
// after.
func TestExhaustiveCountsPaths(t *testing.T) {
	greet := toy{next: func(s *toyState, _ protocol.Time) protocol.Action[string] { return once(s, send(1-s.self, "hi")) }}
	report, err := Exhaustive(toyConfig{Protocol: greet, P: 2, Check: nothing[toyState, string]})
	if err != nil || report.States != 4 || report.Schedules != 2 || report.Terminals != 1 {
		t.Errorf("%+v, %v; want 4 states, 2 paths, 1 end", report, err)
	}
}

func BenchmarkExhaustive(b *testing.B) {
	cfg := Config[floodState, wave]{Protocol: flood{p: 4, sends: 3}, P: 4, Crashes: 1, Check: nothing[floodState, wave]}
	transitions := 0.0
	for b.Loop() {
		report, err := Exhaustive(cfg)
		if err != nil {
			b.Fatal(err)
		}
		transitions += float64(report.Transitions)
	}
	b.ReportMetric(transitions/b.Elapsed().Seconds(), "transitions/s")
}
