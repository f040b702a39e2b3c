package chaos

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/coppice-go/coppice/internal/extent"
	"github.com/coppice-go/coppice/protocol"
)

// eventfulWorld draws a small world with other faults than crashes.
func eventfulWorld(r *rand.Rand) Config[tableState, uint8] {
	cfg := randomWorld(r)
	cfg.Cumulative, cfg.ExtraNext = false, false
	cfg.Protocol.(*table).learns = false
	cfg.Restarts, cfg.Cuts, cfg.Suspicions = r.IntN(2), r.IntN(2), r.IntN(2)
	cfg.CutsStay, cfg.DetectCuts, cfg.CutTicks = r.IntN(2) == 0, r.IntN(2) == 0, 1+r.IntN(2)
	if r.IntN(2) == 0 {
		cfg.Testament = func(s *tableState) (uint8, bool) { return s.phase & 1, s.phase > 1 }
	}
	if r.IntN(2) == 0 {
		cfg.Fence = func(m uint8) (protocol.Rank, uint64, bool) { return protocol.Rank(m), 1, true }
	}
	return cfg
}

func describeFate(cfg Config[tableState, uint8]) string {
	return fmt.Sprintf("%s restarts %d cuts %d stay %t detected %t suspicions %d testament %t fence %t", describe(cfg),
		cfg.Restarts, cfg.Cuts, cfg.CutsStay, cfg.DetectCuts, cfg.Suspicions, cfg.Testament != nil, cfg.Fence != nil)
}

// fullEnd is all that a Check could see.
func fullEnd[S, M any](w *World[S, M]) string {
	s := fmt.Sprintf("%s; cut %t;", endOf(w), w.Cut())
	for r := range protocol.Rank(w.P()) {
		s += fmt.Sprint(" ", w.Life(r))
	}
	return s
}

// ends explores cfg and lists all ends of its runs.
func ends(cfg Config[tableState, uint8], whole bool, most int) (map[string]bool, Report, error) {
	all := map[string]bool{}
	cfg.Check = func(w *World[tableState, uint8]) error {
		all[fullEnd(w)] = true
		return nil
	}
	cfg.StatesMax = most
	x := newSearch(&cfg)
	x.whole = whole
	report, err := x.run(0)
	return all, report, err
}

// The reduction loses no end of a run and invents none.
func TestSearchFindsExactlyTheEndsThatEveryInterleavingFinds(t *testing.T) {
	cases, several, states, whole := 0, 0, uint64(0), uint64(0)
	options := map[string]int{}
	for seed := range sample(t, 40, 200) {
		cfg := eventfulWorld(rand.New(rand.NewPCG(seed, 5)))
		want, all, err := ends(cfg, true, 4000)
		if err != nil {
			continue
		}
		got, some, err := ends(cfg, false, 20_000)
		if errors.Is(err, ErrIncomplete) {
			continue // many moments for an eager timer or a cut
		}
		if err != nil {
			t.Fatalf("seed %d (%s): %v", seed, describeFate(cfg), err)
		}
		if !maps.Equal(got, want) {
			t.Fatalf("seed %d (%s): the ends differ\n%s", seed, describeFate(cfg), difference(got, want))
		}
		cases++
		states += some.States
		whole += all.States
		if len(want) > 1 {
			several++
			options[fmt.Sprintf("restarts %d cuts %d suspicions %d testament %t fence %t",
				cfg.Restarts, cfg.Cuts, cfg.Suspicions, cfg.Testament != nil, cfg.Fence != nil)]++
		}
	}
	t.Logf("%d worlds, %d with several ends: %d states, every interleaving %d; %d options", cases, several, states, whole, len(options))
	if extent.Full() && len(options) < 30 {
		t.Errorf("only %d of 32 combinations of options had several ends", len(options))
	}
}

// Without the new events, the search, the stretches of exhaustive.go and the naive world agree.
func TestSearchAgreesWithTheDumbWorld(t *testing.T) {
	cases := 0
	for seed := range sample(t, 80, 250) {
		cfg := randomWorld(rand.New(rand.NewPCG(seed, 7)))
		cfg.Cumulative = false
		want, _, ok := naiveEnds(cfg, 1000)
		if !ok {
			continue
		}
		cases++
		for _, whole := range []bool{true, false} {
			got := map[string]bool{}
			cfg.Check = func(w *World[tableState, uint8]) error {
				got[endOf(w)] = true
				return nil
			}
			x := newSearch(&cfg)
			x.whole = whole
			if _, err := x.run(0); err != nil {
				t.Fatalf("seed %d (%s): %v", seed, describe(cfg), err)
			}
			if !maps.Equal(got, want) {
				t.Fatalf("seed %d (%s), whole %t: the ends differ\n%s", seed, describe(cfg), whole, difference(got, want))
			}
		}
	}
	if extent.Full() && cases < 100 || cases == 0 {
		t.Errorf("only %d worlds", cases)
	}
}

// worldsVariable names the variable that says how many random worlds each test that draws worlds looks at:
//
//	COPPICE_WORLDS=2000 go test -count=1 -run 'Ends|Delays' ./chaos
const worldsVariable = "COPPICE_WORLDS"

// sample returns a number of worlds: few or all, unless the variable gives another.
func sample(t *testing.T, few, all uint64) uint64 {
	t.Helper()
	if n, err := strconv.ParseUint(os.Getenv(worldsVariable), 10, 64); err == nil {
		return n
	}
	return extent.Of(t, few, all)
}

// Random invents no end of a world with these faults, and reaches most.
func TestRandomReachesTheEndsOfEventfulWorlds(t *testing.T) {
	reached, all := 0, 0
	for seed := range sample(t, 12, 50) {
		cfg := eventfulWorld(rand.New(rand.NewPCG(seed, 9)))
		cfg.Vary = func(s *Setup[tableState, uint8]) { s.Seed = 0 }
		want, _, err := ends(cfg, true, 5000)
		if err != nil {
			continue
		}
		got := map[string]bool{}
		cfg.Check = func(w *World[tableState, uint8]) error {
			got[fullEnd(w)] = true
			return nil
		}
		if _, err := Random(cfg, seed, 5000, 1); err != nil {
			t.Fatalf("seed %d (%s): %v", seed, describeFate(cfg), err)
		}
		for end := range got {
			if !want[end] {
				t.Fatalf("seed %d (%s): invented %s", seed, describeFate(cfg), end)
			}
		}
		reached += len(got)
		all += len(want)
	}
	t.Logf("%d of %d ends", reached, all)
	if float64(reached) < 0.75*float64(all) {
		t.Errorf("only %d of %d ends reached", reached, all)
	}
}

// With enough delays, bounding them loses nothing; with fewer, it loses ends and invents none.
func TestDelaysBoundWhatIsExplored(t *testing.T) {
	smaller := 0
	for seed := range sample(t, 20, 40) {
		cfg := eventfulWorld(rand.New(rand.NewPCG(seed, 11)))
		want, _, err := ends(cfg, true, 2000)
		if err != nil {
			continue
		}
		for _, delays := range []int{0, 2, 40} {
			got := map[string]bool{}
			cfg.StatesMax = 200_000
			cfg.Check = func(w *World[tableState, uint8]) error {
				got[fullEnd(w)] = true
				return nil
			}
			if _, err := DelayBounded(cfg, delays); err != nil {
				t.Fatalf("seed %d (%s), %d delays: %v", seed, describeFate(cfg), delays, err)
			}
			for end := range got {
				if !want[end] {
					t.Fatalf("seed %d (%s), %d delays: invented %s", seed, describeFate(cfg), delays, end)
				}
			}
			switch {
			case delays == 0 && len(got) != 1:
				t.Fatalf("seed %d: %d ordinary ends", seed, len(got))
			case delays == 40 && len(got) < len(want):
				t.Fatalf("seed %d (%s): 40 delays lose ends\n%s", seed, describeFate(cfg), difference(got, want))
			case delays == 2 && len(got) < len(want):
				smaller++
			}
		}
	}
	if smaller == 0 {
		t.Error("two delays never lost an end: nothing was bounded")
	}
}

// Whatever end Check forbids, a search finds a run to it that replays.
func TestViolationsOfEventfulWorldsReplay(t *testing.T) {
	found := 0
	seeds := sample(t, 80, 200)
	for seed := range seeds {
		cfg := eventfulWorld(rand.New(rand.NewPCG(seed, 13)))
		want, _, err := ends(cfg, true, 1000)
		if err != nil {
			continue
		}
		for bad := range want {
			cfg.Check = func(w *World[tableState, uint8]) error {
				if fullEnd(w) == bad {
					return errPlanted
				}
				return nil
			}
			report, err := Exhaustive(cfg)
			if report.First == nil {
				if !cfg.eventful() {
					continue // explored otherwise, and tested elsewhere
				}
				t.Fatalf("seed %d (%s): %v", seed, describeFate(cfg), err)
			}
			again, err := Replay(cfg, report.First.Choices)
			if err != nil || again == nil || again.Script() != report.First.Script() {
				t.Fatalf("seed %d (%s): replays to %v, %v", seed, describeFate(cfg), again, err)
			}
			found++
			break
		}
	}
	if found < int(seeds/4) {
		t.Errorf("only %d violations", found)
	}
}
