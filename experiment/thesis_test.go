package experiment_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-go/coppice/experiment"
)

// thesisFigures are the reproduced figures.
var thesisFigures = strings.Fields("5.3 5.4 5.5 5.6 5.7 5.8 5.9 5.10 5.11 5.12 5.13 5.14 5.23")

// cheap returns factors with which fault tolerance costs less than in the thesis, and our operations without
// it cost as much as MPI's.
func cheap() map[string]float64 {
	return map[string]float64{"replay": 1.05, "agreed-report": 1.1, "agreed-twice": 1.2, "openmpi-shared": 0.5}
}

// TestThesisClaimsAreJudgedByRatios plants costs, one at a time: the claims about them, and no others, must
// differ.
func TestThesisClaimsAreJudgedByRatios(t *testing.T) {
	for _, c := range []struct {
		figures string
		planted map[string]float64
		differ  []string // the beginnings of the claims that differ
	}{
		{"5.3 5.4 5.5 5.6 5.7 5.8 5.9 5.10 5.11 5.12 5.23", nil, nil},
		{"5.13", nil, []string{"agreed before and after, over plain"}}, // the reimplementation costs nothing
		{"5.13", map[string]float64{"openmpi-tcp": 0.7}, nil},
		{"5.13", map[string]float64{"openmpi-tcp": 0.7, "replay alltoall": 1.3}, []string{"replay, over plain"}},
		{"5.14", nil, []string{"agreed before", "agreed after", "replay"}},
		{"5.14", map[string]float64{"openmpi-tcp": 1.5}, nil},
		{"5.3", map[string]float64{"agreed-twice": 0.9}, []string{"agreed before and after, over plain"}},
		{"5.3", map[string]float64{"openmpi-tcp": 0.3}, []string{"ours without fault tolerance"}},
		{"5.6 5.8 5.10", map[string]float64{"openmpi-tcp": 0.3}, nil}, // the thesis's operations cost even more
		{"5.10", map[string]float64{"openmpi-tcp": 0.15}, []string{"ours without fault tolerance"}},
		{"5.12", map[string]float64{"openmpi-tcp": 0.6}, []string{"ours without fault tolerance"}},
		{"5.4", map[string]float64{"replay broadcast": 5}, []string{"replay, over plain"}},
		{"5.4", map[string]float64{"replay scatter": 5}, nil}, // another operation
		{"5.4", map[string]float64{"openmpi-tcp": 0.1}, []string{"agreed before and after, over Open MPI"}},
		{"5.7", map[string]float64{"agreed-report": 1.4}, []string{"agreed after, over plain"}},
		{"5.9", map[string]float64{"agreed-twice": 6}, []string{"agreed before and after, over Open MPI", "agreed before and after, over plain"}},
		{"5.11", map[string]float64{"replay at 32": 2}, nil}, // one of four
		{"5.23", map[string]float64{"agreed-report reduce": 1.3}, []string{"agreed after, over agreed before and after"}},
		{"5.23", map[string]float64{"openmpi-tcp": 0.17}, []string{"agreed after, over Open MPI"}},
		{"5.23", map[string]float64{"replay": 1.15}, []string{"replay, over agreed after"}},
	} {
		for _, figure := range strings.Fields(c.figures) {
			s := &stage{factors: cheap()}
			maps.Copy(s.factors, c.planted)
			f := measured(t, "thesis-fig"+figure, &experiment.Lab{Runs: 1000, Starter: s})
			var differ []string
			for _, claim := range f.Claims {
				if claim.Verdict == experiment.Differs {
					differ = append(differ, claim.What)
				}
			}
			if !slices.EqualFunc(differ, c.differ, strings.HasPrefix) {
				t.Errorf("%s with %v: differs in %q, want %q", figure, c.planted, differ, c.differ)
			}
		}
	}
}

// TestThesisFiguresShareLaunches: a figure and its ratios are one measurement, and so are the operations;
// only operations of other sizes are measured apart.
func TestThesisFiguresShareLaunches(t *testing.T) {
	s := &stage{factors: cheap()}
	lab := &experiment.Lab{Runs: 2, Starter: s, Dir: t.TempDir(), Processes: []int{4, 8}}
	for _, figure := range thesisFigures {
		f := measured(t, "thesis-fig"+figure, lab)
		if !f.Measured || f.Chart == nil || len(f.Claims) == 0 || len(f.Tables) != 1 || !strings.Contains(f.Source, "Figure "+figure+" ") {
			t.Errorf("figure %s: %+v", figure, f)
		}
		if err := f.Chart.Check(); err != nil {
			t.Errorf("figure %s: %v", figure, err)
		}
	}
	count := map[string]int{}
	for _, l := range s.launches {
		count[fmt.Sprint(l.Ops, l.Bytes, l.Processes)]++
	}
	const each = 6 * 2 // contenders and rounds
	want := map[string]int{
		"[broadcast scatter gather reduce alltoall] [8] 4": each, "[broadcast scatter gather reduce alltoall] [8] 8": each,
		"[broadcast] [8 64 512 4096 32768 262144] 8": each,
		"[alltoall] [1048576] 4":                     each, "[alltoall] [524288] 8": each,
	}
	if !maps.Equal(count, want) {
		t.Errorf("launches %v, want %v", count, want)
	}
}

// Large values are measured so little that logs hold everything.
func TestLargeValuesAreMeasuredLess(t *testing.T) {
	for figure, most := range map[string]int{"5.3": 500, "5.5": 50, "5.14": 5} {
		s := &stage{}
		measured(t, "thesis-fig"+figure, &experiment.Lab{Runs: 100_000, Starter: s, Processes: []int{64}})
		for _, l := range s.launches {
			if l.Iterations != most || l.Warmup < 1 || l.Warmup > most || figure == "5.5" && l.Processes != 32 {
				t.Errorf("figure %s: %+v, want %d iterations", figure, l, most)
			}
		}
	}
}

func TestWithoutOpenMPIThesisFiguresAreSkipped(t *testing.T) {
	s := &stage{missing: "no Open MPI here"}
	for _, figure := range thesisFigures {
		f := measured(t, "thesis-fig"+figure, &experiment.Lab{Runs: 1, Starter: s})
		if f.Verdict() != experiment.Skipped || f.Skipped != s.missing || len(s.launches) > 0 {
			t.Errorf("figure %s: %s, %q, %d launches", figure, f.Verdict(), f.Skipped, len(s.launches))
		}
	}
}

// The cost of fault tolerance, if it grows with the size, is no constant.
func TestGrowingCostIsNoConstant(t *testing.T) {
	grown := &growing{stage: stage{factors: cheap()}}
	f := measured(t, "thesis-fig5.5", &experiment.Lab{Runs: 10, Starter: grown})
	for _, claim := range f.Claims {
		want := experiment.Agrees
		if strings.HasPrefix(claim.What, "replay") {
			want = experiment.Differs
		}
		if claim.Verdict != want {
			t.Errorf("%s: %s, want %s", claim.What, claim.Verdict, want)
		}
	}
}

// growing is a stage on which replay costs more, the larger values are.
type growing struct{ stage }

func (g *growing) Launch(ctx context.Context, l experiment.Launch) ([]float64, error) {
	us, err := g.stage.Launch(ctx, l)
	for i := range us {
		if l.Mode == "replay" {
			us[i] *= 1 + float64(i)/5
		}
	}
	return us, err
}
