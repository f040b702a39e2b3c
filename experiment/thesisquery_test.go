package experiment_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-go/coppice/experiment"
)

// queryStage is a Starter whose queries take planted times: a second, times the factors of all that apply.
type queryStage struct {
	stage
	planted map[string]float64
}

func (s *queryStage) Launch(_ context.Context, l experiment.Launch) ([]float64, error) {
	s.launches = append(s.launches, l)
	words := []string{l.Mode}
	if l.Query.Restart {
		words = append(words, "restart")
	}
	if l.Query.Respawn {
		words = append(words, "respawn")
	}
	us := []float64{1e6, 1e5}
	for _, word := range words {
		for i, what := range []string{"job", "query"} {
			for _, key := range []string{word, word + " " + what, fmt.Sprintf("%s at %d", word, l.Processes), fmt.Sprintf("%s scale %g", word, l.Query.Scale)} {
				if f := s.planted[key]; f > 0 {
					us[i] *= f
				}
			}
		}
	}
	return us, nil
}

// TestQueryClaimsAreJudgedByRatios plants times, one at a time: the claims about them, and no others, must
// differ.
func TestQueryClaimsAreJudgedByRatios(t *testing.T) {
	const phases = "5.18 5.19 5.20 5.21"
	for _, c := range []struct {
		figures string
		planted map[string]float64
		differ  []string // the claims that differ
	}{
		{"5.17", nil, nil},
		{"5.17", map[string]float64{"replay job": 1.1}, []string{"run-through over plain, the whole job, scale 0.1", "run-through over plain, the whole job, scale 1"}},
		{"5.17", map[string]float64{"plain query": 0.9}, []string{"run-through over plain, the query alone, scale 0.1", "run-through over plain, the query alone, scale 1"}},
		{"5.17", map[string]float64{"replay at 8": 1.06}, nil}, // one of three
		{phases, map[string]float64{"restart": 1.5}, nil},
		{phases, map[string]float64{"restart": 1.5, "restart scale 1": 0.5}, []string{"run-through over restart, scale 1", "run-through over restart, scale 1", "run-through, respawn over restart, scale 1"}},
		{phases, map[string]float64{"restart": 1.5, "respawn": 2}, []string{"run-through, respawn over restart, scale 0.1", "run-through, respawn over restart, scale 1"}},
		{phases, map[string]float64{"restart": 1.5, "replay at 8": 2}, []string{"run-through over restart, scale 0.1", "run-through over restart, scale 1"}},
		{"5.24", map[string]float64{"restart": 1.5, "agreed": 1.2}, nil},
		{"5.24", map[string]float64{"restart": 1.5, "agreed at 4": 1.6}, []string{"run-through, agreed over restart, scale 0.1", "run-through, agreed over restart, scale 1"}},
		{"5.24", map[string]float64{"restart": 1.5, "agreed at 2": 0.9, "agreed at 8": 0.95}, []string{"run-through over run-through, agreed, scale 0.1", "run-through over run-through, agreed, scale 1"}},
	} {
		for _, figure := range strings.Fields(c.figures) {
			f := measured(t, "thesis-fig"+figure, &experiment.Lab{Runs: 3, Starter: &queryStage{planted: c.planted}})
			var differ []string
			for _, claim := range f.Claims {
				if claim.Verdict == experiment.Differs {
					differ = append(differ, claim.What)
				}
			}
			if !slices.Equal(differ, c.differ) {
				t.Errorf("%s with %v: differs in %q, want %q", figure, c.planted, differ, c.differ)
			}
			if err := f.Chart.Check(); err != nil || len(f.Tables[0].Rows) == 0 {
				t.Errorf("%s: %v", figure, err)
			}
		}
	}
}

// TestSidesHaveTheSameVictims: in a round the same process dies at the same point, whichever side is
// measured; not in all rounds, and in the figure's phase.
func TestSidesHaveTheSameVictims(t *testing.T) {
	for figure, op := range map[string]string{"5.17": "", "5.18": "gather", "5.19": "broadcast", "5.20": "alltoall", "5.21": "reduce", "5.24": "reduce"} {
		s := &queryStage{}
		measured(t, "thesis-fig"+figure, &experiment.Lab{Runs: 10, Starter: s, Processes: []int{8}, Scales: []float64{0.01}})
		ways := len(s.launches) / 10
		drawn := map[string]bool{}
		for i, l := range s.launches {
			if l.Query.Kill != s.launches[i/ways*ways].Query.Kill || l.Query.Scale != 0.01 {
				t.Errorf("figure %s: %+v beside %+v", figure, *l.Query, *s.launches[i/ways*ways].Query)
			}
			if task, when, _ := strings.Cut(l.Query.Kill, "@"); task > "7" || op != "" && when != op+"#1" && when != op+"#1/1" || op == "" && when != "" {
				t.Errorf("figure %s: %q", figure, l.Query.Kill)
			}
			drawn[l.Query.Kill] = true
		}
		if many := len(drawn) > 3; many != (op != "") {
			t.Errorf("figure %s: %d victims", figure, len(drawn))
		}
	}
}
