package membership_test

import (
	"flag"
	"fmt"
	"testing"

	"github.com/coppice-go/coppice/chaos"
	"github.com/coppice-go/coppice/internal/extent"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
)

type (
	localWorld = chaos.World[membership.LocalWatchedState, membership.LocalMessage]
	localChaos = chaos.Config[membership.LocalWatchedState, membership.LocalMessage]
)

func newLocal(t testing.TB, c membership.LocalConfig) *membership.Localized {
	t.Helper()
	l, err := membership.NewLocalized(c)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// localConfig is a world of localized views in which every process may die.
func localConfig(t testing.TB, c membership.LocalConfig, crashes int) localChaos {
	t.Helper()
	c.Capacity = max(c.Capacity, c.Members)
	l := newLocal(t, c)
	var all []protocol.Rank
	for r := range c.Capacity {
		all = append(all, protocol.Rank(r))
	}
	w, err := l.Watched(all...)
	if err != nil {
		t.Fatal(err)
	}
	cfg := localChaos{
		Protocol: w, P: c.Capacity, Crashes: crashes, Detect: true, LossyCrashes: true,
		Check: func(w *localWorld) error { return checkLocal(l, w) },
		Step:  func(w *localWorld) error { return checkLocalStep(l, w) },
	}
	for r := range min(c.Members, 3) { // is the highest id alive, and the like
		ask := protocol.Notice{Kind: protocol.Begin, Value: uint64(c.Capacity - 1 - r)}
		cfg.Inputs = append(cfg.Inputs, chaos.Input{Rank: protocol.Rank(r), Notice: ask})
	}
	for j := c.Members; j < c.Capacity; j++ {
		cfg.Inputs = append(cfg.Inputs, chaos.Input{Rank: protocol.Rank(j), Notice: protocol.Notice{Kind: protocol.Begin}})
	}
	return cfg
}

// checkLocalStep demands that no view removes a process that lives.
func checkLocalStep(l *membership.Localized, w *localWorld) error {
	for r := range protocol.Rank(w.P()) {
		seen := w.Delivered(r)
		if len(seen) == 0 || seen[len(seen)-1].Msg.Kind != membership.LocalOpened {
			continue
		}
		m := seen[len(seen)-1].Msg
		for _, c := range m.Changes[:m.N] {
			for x := c.At(); x < m.Base; x++ {
				if w.Alive(x) && (x == c.At() || c.All() && l.Contains(c.At(), x)) {
					return fmt.Errorf("p%d lives, and p%d opens view %d without it", x, r, m.Number)
				}
			}
		}
	}
	return nil
}

// localHistory is what all processes have seen together.
type localHistory struct {
	views   map[uint32]membership.LocalMessage
	last    uint32
	end     protocol.Rank
	removed map[protocol.Rank]bool
}

// history merges what was delivered, and returns an error where two processes differ.
func history(l *membership.Localized, w *localWorld) (*localHistory, error) {
	h := &localHistory{views: map[uint32]membership.LocalMessage{}, last: 1, end: l.First(), removed: map[protocol.Rank]bool{}}
	for r := range protocol.Rank(w.P()) {
		before := uint32(1)
		for _, d := range w.Delivered(r) {
			m := d.Msg
			if m.Kind != membership.LocalOpened {
				continue
			}
			if m.Number != before+1 && (r < l.First() || before != 1) {
				return nil, fmt.Errorf("p%d opens view %d after %d", r, m.Number, before)
			}
			before = m.Number
			if w.Alive(r) || h.last <= m.Number {
				h.last = max(h.last, m.Number)
			}
			if seen, ok := h.views[m.Number]; !ok {
				h.views[m.Number] = m
			} else if seen.Changes != m.Changes || seen.N != m.N || seen.Base != m.Base || seen.End != m.End {
				return nil, fmt.Errorf("view %d is %v and, at p%d, %v", m.Number, seen, r, m)
			}
		}
	}
	for n := uint32(2); n <= h.last; n++ {
		h.take(l, h.views[n])
	}
	return h, nil
}

// take adds a view.
func (h *localHistory) take(l *membership.Localized, m membership.LocalMessage) {
	for _, c := range m.Changes[:m.N] {
		for r := range m.Base {
			if r == c.At() || c.All() && l.Contains(c.At(), r) {
				h.removed[r] = true
			}
		}
	}
	h.end = m.End
}

// checkLocal returns what is wrong at the end of a run.
func checkLocal(l *membership.Localized, w *localWorld) error {
	h, err := history(l, w)
	if err != nil {
		return err
	}
	live, settled := 0, 0
	for r := range protocol.Rank(w.P()) {
		if !w.Alive(r) {
			continue
		}
		if h.removed[r] {
			return fmt.Errorf("p%d lives and was removed", r)
		}
		live++
		if w.State(r).Settled() {
			settled++
		}
	}
	if settled == 0 {
		return nil // no process is left to let the others in
	}
	for r := range protocol.Rank(w.P()) {
		if !w.Alive(r) {
			if r < h.end && !h.removed[r] {
				return fmt.Errorf("p%d is dead and was not removed", r)
			}
			continue
		}
		if number, size := w.State(r).View(); number != uint64(h.last) || size != live {
			return fmt.Errorf("p%d stays in view %d of %d, the last is %d, and %d live", r, number, size, h.last, live)
		}
	}
	if err := checkLocalAnswers(l, w); err != nil {
		return err
	}
	return checkLocalTree(l, live, func(r protocol.Rank) *membership.LocalState {
		if w.State(r) == nil {
			return nil
		}
		return &w.State(r).LocalState
	}, w.P())
}

// checkLocalAnswers demands that questions get answers, and true ones.
func checkLocalAnswers(l *membership.Localized, w *localWorld) error {
	for r := range protocol.Rank(w.P()) {
		if w.Alive(r) && w.State(r).Query() >= 0 {
			return fmt.Errorf("p%d has no answer about p%d", r, w.State(r).Query())
		}
		for _, d := range w.Delivered(r) {
			if m := d.Msg; m.Kind == membership.LocalAnswer && m.Size == 0 && m.At < l.First() && w.Alive(m.At) {
				return fmt.Errorf("p%d was told that p%d is dead", r, m.At)
			}
		}
	}
	return nil
}

// checkLocalTree demands that the processes below each other form one tree that reaches all live ones, within the bounds
// of degree and depth.
func checkLocalTree(l *membership.Localized, live int, state func(protocol.Rank) *membership.LocalState, p int) error {
	root := protocol.Rank(0)
	for state(root) == nil {
		root++
	}
	reached := map[protocol.Rank]bool{}
	var walk func(r, up protocol.Rank, depth int) error
	walk = func(r, up protocol.Rank, depth int) error {
		if reached[r] || state(r) == nil {
			return fmt.Errorf("p%d stands below p%d and is dead, or elsewhere too", r, up)
		}
		reached[r] = true
		above, below := l.Neighbours(state(r))
		switch {
		case above != up:
			return fmt.Errorf("p%d sees p%d above, but it is p%d", r, above, up)
		case len(below) > l.DegreeMax(p):
			return fmt.Errorf("p%d has %d below; allowed: %d", r, len(below), l.DegreeMax(p))
		case depth > l.Level(protocol.Rank(p-1)):
			return fmt.Errorf("p%d is %d links from the root", r, depth)
		}
		for _, b := range below {
			if err := walk(b, r, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	if err := walk(root, -1, 0); err != nil {
		return err
	}
	if len(reached) != live {
		return fmt.Errorf("the tree reaches %d of %d", len(reached), live)
	}
	return nil
}

// localSeed is the seed that schedules are drawn from.
const localSeed = 1

var localTimes = flag.Int("local-times", 1, "how many times as many random schedules of localized views")

func TestLocalizedInRandomSchedules(t *testing.T) {
	for _, c := range []struct {
		membership.LocalConfig
		crashes, runs int
	}{
		{membership.LocalConfig{Members: 2, Fanout: 2}, 1, 1_250},
		{membership.LocalConfig{Members: 3, Fanout: 2}, 2, 1_250},
		{membership.LocalConfig{Members: 5, Fanout: 2}, 4, 2_500},
		{membership.LocalConfig{Members: 8, Fanout: 2}, 7, 1_250},
		{membership.LocalConfig{Members: 13, Fanout: 4}, 9, 625},
		{membership.LocalConfig{Members: 21, Fanout: 2}, 15, 312},
		{membership.LocalConfig{Members: 40, Fanout: 2}, 39, 62},
		{membership.LocalConfig{Members: 1, Capacity: 3, Fanout: 2}, 1, 1_250},
		{membership.LocalConfig{Members: 3, Capacity: 5, Fanout: 2}, 3, 2_500},
		{membership.LocalConfig{Members: 2, Capacity: 5, Fanout: 2}, 4, 2_500},
		{membership.LocalConfig{Members: 6, Capacity: 10, Fanout: 2}, 6, 1_250},
		{membership.LocalConfig{Members: 4, Capacity: 12, Fanout: 4}, 5, 625},
	} {
		t.Run(fmt.Sprintf("%d of %d by %d, %d die", c.Members, c.Capacity, c.Fanout, c.crashes), func(t *testing.T) {
			cfg := localConfig(t, c.LocalConfig, c.crashes)
			cfg.ExtraNext = c.Members < 8
			if _, err := chaos.Random(cfg, localSeed, extent.Of(t, c.runs/4, c.runs)**localTimes, 0); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestLocalizedMistakesAreFound plants mistakes: a test that does not find these cannot be trusted when it finds nothing.
func TestLocalizedMistakesAreFound(t *testing.T) {
	for _, mistake := range membership.LocalMistakes {
		t.Run(mistake.Name, func(t *testing.T) {
			for _, c := range []membership.LocalConfig{{Members: 6, Fanout: 2}, {Members: 2, Capacity: 5, Fanout: 2}} {
				cfg := localConfig(t, c, 4)
				cfg.Protocol.(*membership.LocalWatched).Plant(mistake.Before, mistake.After)
				if report, err := chaos.Random(cfg, localSeed, 20_000, 0); err != nil {
					t.Logf("after %d schedules: %v", report.Schedules, report.First.Err)
					return
				}
			}
			t.Error("not found")
		})
	}
}

func TestLocalizedInEverySchedule(t *testing.T) {
	for _, c := range []struct {
		membership.LocalConfig
		crashes int
	}{
		{membership.LocalConfig{Members: 2, Fanout: 2}, 1},
		{membership.LocalConfig{Members: 3, Fanout: 2}, 1},
		{membership.LocalConfig{Members: 3, Fanout: 2}, 2},
		{membership.LocalConfig{Members: 4, Fanout: 2}, 1},
		{membership.LocalConfig{Members: 1, Capacity: 2, Fanout: 2}, 1},
		{membership.LocalConfig{Members: 1, Capacity: 3, Fanout: 2}, 0},
		{membership.LocalConfig{Members: 2, Capacity: 3, Fanout: 2}, 1},
		{membership.LocalConfig{Members: 4, Fanout: 2}, 2},
		{membership.LocalConfig{Members: 4, Fanout: 2}, 3},
		{membership.LocalConfig{Members: 1, Capacity: 3, Fanout: 2}, 1},
		{membership.LocalConfig{Members: 2, Capacity: 3, Fanout: 2}, 2},
		{membership.LocalConfig{Members: 5, Fanout: 2}, 2},
		{membership.LocalConfig{Members: 5, Fanout: 4}, 2},
		{membership.LocalConfig{Members: 3, Capacity: 4, Fanout: 2}, 1},
		{membership.LocalConfig{Members: 2, Capacity: 4, Fanout: 2}, 1},
	}[:extent.Of(t, 11, 15)] {
		t.Run(fmt.Sprintf("%d of %d, %d die", c.Members, c.Capacity, c.crashes), func(t *testing.T) {
			cfg := localConfig(t, c.LocalConfig, c.crashes)
			cfg.Step = nil
			cfg.Inputs = cfg.Inputs[min(c.Members, 3):] // no process asks
			report, err := chaos.Exhaustive(cfg)
			t.Logf("%d states, %d ends, %.1f s", report.States, report.Terminals, report.Seconds)
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}
