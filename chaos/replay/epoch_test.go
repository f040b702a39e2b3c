package replay

import (
	"testing"

	"github.com/coppice-go/coppice/protocol"
)

// drill kills processes of a crew, each set of them pause rounds after the one before.
func drill(t *testing.T, cfg Config, pause int, deaths [][]protocol.Rank) *crew {
	t.Helper()
	c := newCrew(t, cfg)
	for round := 1; c.round(); round++ {
		if i := round/pause - 1; round%pause == 0 && i < len(deaths) {
			for _, victim := range deaths[i] {
				c.kill(victim)
			}
		}
	}
	return c
}

// With time to make new copies, one other copy survives any number of crashes.
func TestCopiesOutlive(t *testing.T) {
	for _, d := range []struct {
		name   string
		once   bool
		saves  []int
		deaths [][]protocol.Rank
	}{
		{"one death after the other", false, []int{2}, [][]protocol.Rank{{1}, {2}, {3}, {4}}},
		{"the neighbours first", false, []int{2, 3}, [][]protocol.Rank{{2}, {3}, {1}, {4}}},
		{"values", true, []int{3, 100}, [][]protocol.Rank{{4}, {0}, {2}, {1}}},
	} {
		t.Run(d.name, func(t *testing.T) {
			m := menu(t, 5)
			m.Once = d.once
			c := drill(t, Config{Program: m.Random(7, 200).Saved(d.saves...), Processes: 5}, 150, d.deaths)
			c.check(t)
			for r := range c.states {
				if lost := c.states[r].Lost(); lost != nil {
					t.Errorf("process %d: task %d is lost", r, lost.Task)
				}
			}
		})
	}
}

// If an owner crashes together with all processes that have its copies, every survivor names the task.
func TestLostTasksAreNamed(t *testing.T) {
	g := menu(t, 5).Random(7, 200).Saved(2)
	c := drill(t, Config{Program: g, Processes: 5, Copies: 2}, 150, [][]protocol.Rank{{1, 2, 3}})
	for r := range c.states[:5] {
		if lost := c.states[r].Lost(); !c.dead[r] && (lost == nil || lost.Task != 1) {
			t.Errorf("process %d: %v is lost, want task 1", r, lost)
		}
	}
}

func TestStatesWithEpochsGoTheirOwnWay(t *testing.T) {
	m := menu(t, 4)
	m.Once, m.Agreed = true, true
	follow(t, Config{Program: m.Random(3, 25).Saved(0, 6, 12, 25), Processes: 3, Copies: 2})
}
