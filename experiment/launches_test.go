package experiment_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-go/coppice/experiment"
)

// stage is a Starter whose launches take planted times: 10 µs for each process, times the factors of all that
// apply.
type stage struct {
	missing  string
	factors  map[string]float64
	slowing  float64 // by which each launch slows the machine
	launches []experiment.Launch
	after    func(launches int) error
}

func (s *stage) Missing(_ context.Context, side experiment.Side) (string, error) {
	if side == experiment.Coppice {
		return "", nil
	}
	return s.missing, nil
}

func (s *stage) Launch(_ context.Context, l experiment.Launch) ([]float64, error) {
	s.launches = append(s.launches, l)
	if s.after != nil {
		if err := s.after(len(s.launches)); err != nil {
			return nil, err
		}
	}
	factor := 1 + s.slowing*float64(len(s.launches))
	words := []string{string(l.Side), l.Mode, strings.Split(l.Tree, ":")[0], l.Correction}
	if len(l.Failed) > 0 {
		words = append(words, "failed")
	}
	for _, word := range words {
		if f := s.factors[word]; f > 0 {
			factor *= f
		}
		if f := s.factors[fmt.Sprintf("%s at %d", word, l.Processes)]; f > 0 {
			factor *= f
		}
	}
	ops := l.Ops
	if len(ops) == 0 {
		ops = []string{"broadcast"}
	}
	var us []float64
	for _, op := range ops {
		own := 1.0
		if f := s.factors[l.Mode+" "+op]; f > 0 {
			own = f
		}
		for _, bytes := range l.Bytes {
			us = append(us, own*factor*float64(10*l.Processes+bytes))
		}
	}
	return us, nil
}

// asPrinted returns factors with which everything is as the paper says.
func asPrinted() map[string]float64 {
	return map[string]float64{
		"openmpi-tcp": 0.9, "openmpi-shared": 0.5, "gossip": 2,
		"optimized:1": 1.1, "optimized:2": 1.2, "checked": 1.15, "lame": 1.05,
	}
}

func measured(t *testing.T, name string, lab *experiment.Lab) *experiment.Finding {
	t.Helper()
	found, err := experiment.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	f, err := found[0].Run(t.Context(), lab)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestMeasuredClaimsAreJudgedByRatios plants deviations from the paper, one at a time: only the claim about
// each must differ.
func TestMeasuredClaimsAreJudgedByRatios(t *testing.T) {
	for _, c := range []struct {
		name    string
		planted map[string]float64
		differs string // the beginning of the only claim that differs; empty: none
	}{
		{"trees-fig11", nil, ""},
		{"trees-fig11", map[string]float64{"openmpi-tcp": 3}, ""}, // ours is faster
		{"trees-fig11", map[string]float64{"openmpi-tcp": 0.6}, "our tree without correction"},
		{"trees-fig11", map[string]float64{"openmpi-tcp at 16": 0.6}, "our tree without correction"},
		{"trees-fig11", map[string]float64{"gossip": 0.99}, "Corrected Gossip"},
		{"trees-fig11", map[string]float64{"gossip at 8": 0.4}, "Corrected Gossip"},
		{"trees-fig12", nil, ""},
		{"trees-fig12", map[string]float64{"optimized:1": 1.35, "optimized:2": 1.4}, "two correction messages"},
		{"trees-fig12", map[string]float64{"optimized:1": 0.85}, "two correction messages"},
		{"trees-fig12", map[string]float64{"optimized:1 at 32": 1.3, "optimized:2 at 32": 1.3}, ""}, // one of four
		{"trees-fig12", map[string]float64{"optimized:2": 1.0}, "four correction messages"},
		{"trees-fig12", map[string]float64{"lame": 0.9}, "Lamé tree"},
		{"trees-fig12", map[string]float64{"failed": 1.3}, "one failed process"},
		{"trees-fig12", map[string]float64{"failed": 0.7}, "one failed process"},
		{"trees-fig12", map[string]float64{"failed at 4": 3}, ""}, // too few to tell
	} {
		s := &stage{factors: asPrinted()}
		maps.Copy(s.factors, c.planted)
		f := measured(t, c.name, &experiment.Lab{Runs: 1000, Starter: s})
		var differ []string
		for _, claim := range f.Claims {
			if !strings.HasPrefix(claim.Reason, "agrees if ") {
				t.Errorf("%s, %s does not say when it agrees: %q", c.name, claim.What, claim.Reason)
			}
			if claim.Verdict != experiment.Agrees {
				differ = append(differ, claim.What)
			}
		}
		if want := c.differs != ""; want && (len(differ) != 1 || !strings.HasPrefix(differ[0], c.differs)) || !want && len(differ) > 0 {
			t.Errorf("%s with %v: differs in %q, want %q", c.name, c.planted, differ, c.differs)
		}
	}
}

// TestRatiosAreOfNeighbours makes the machine slower all the time: neighbours in time hardly differ by that,
// first and last launches do.
func TestRatiosAreOfNeighbours(t *testing.T) {
	s := &stage{factors: asPrinted(), slowing: 1}
	f := measured(t, "trees-fig12", &experiment.Lab{Runs: 1000, Starter: s, Processes: []int{8}})
	if got := f.Claims[0].Ours; f.Verdict() != experiment.Agrees || !strings.HasPrefix(got, "ratio 1.1") {
		t.Errorf("%s, %s", f.Verdict(), got)
	}
}

// TestNoiseMakesVerdictsLessFirm makes three of seven launches take half as long again.
func TestNoiseMakesVerdictsLessFirm(t *testing.T) {
	for _, noise := range []float64{0, 0.5} {
		s := &stage{factors: asPrinted()}
		s.after = func(n int) error {
			s.slowing = 0
			if n%7 < 3 {
				s.slowing = noise / float64(n)
			}
			return nil
		}
		f := measured(t, "trees-fig12", &experiment.Lab{Runs: 1000, Starter: s})
		loose := slices.ContainsFunc(f.Claims, func(c experiment.Claim) bool { return strings.Contains(c.Reason, "not firm") })
		if loose != (noise > 0) {
			t.Errorf("noise of %g: not firm %t: %+v", noise, loose, f.Claims)
		}
	}
}

func TestLaunchesTakeTurnsAndShareTheRuns(t *testing.T) {
	for _, c := range []struct{ runs, launches, iterations int }{{1, 1, 1}, {5, 5, 1}, {1000, 10, 100}, {1_000_000, 10, 500}} {
		s := &stage{}
		f := measured(t, "trees-fig12", &experiment.Lab{Runs: c.runs, Starter: s, Processes: []int{8}})
		contenders := len(s.launches) / c.launches
		if len(s.launches) != 6*c.launches || s.launches[0].Iterations != c.iterations || s.launches[0].Warmup < 10 {
			t.Errorf("%d runs: %d launches, the first %+v", c.runs, len(s.launches), s.launches[0])
		}
		if c.launches > 1 && reflect.DeepEqual(s.launches[0], s.launches[contenders]) {
			t.Error("the same one goes first in both rounds")
		}
		if want := "-n 8"; !strings.HasSuffix(f.Repeat(), want) {
			t.Errorf("%q does not end with %q", f.Repeat(), want)
		}
	}
}

func TestTheFailedAreDrawnAnewWithoutTheRoot(t *testing.T) {
	s := &stage{}
	measured(t, "trees-fig12", &experiment.Lab{Runs: 10, Seed: 1, Starter: s, Processes: []int{2, 32}})
	seen := map[int]map[int]bool{2: {}, 32: {}}
	n := 0
	for _, l := range s.launches {
		if len(l.Failed) == 0 {
			continue
		}
		n++
		if len(l.Failed) != 1 || l.Failed[0] < 1 || l.Failed[0] >= l.Processes {
			t.Errorf("failed of %d: %v", l.Processes, l.Failed)
		}
		seen[l.Processes][l.Failed[0]] = true
	}
	if n != 20 || len(seen[2]) != 1 || len(seen[32]) < 3 {
		t.Errorf("%d launches with a failed process, drawn: %v", n, seen)
	}
}

// TestInterruptedLaunchesGoOn interrupts an experiment twice, and makes a launch fail.
func TestInterruptedLaunchesGoOn(t *testing.T) {
	dir := t.TempDir()
	found, err := experiment.Find("trees-fig11")
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	s := &stage{factors: asPrinted()}
	for _, c := range []struct {
		at   int
		want error
	}{{7, context.Canceled}, {7, broken}, {20, context.Canceled}} {
		ctx, stop := context.WithCancel(t.Context())
		s.after = func(n int) error {
			if n < c.at {
				return nil
			}
			if c.want == broken {
				return broken
			}
			stop()
			return nil
		}
		lab := &experiment.Lab{Runs: 3, Starter: s, Dir: dir, Processes: []int{4, 8}}
		_, err := found[0].Run(ctx, lab)
		stop()
		if !errors.Is(err, c.want) {
			t.Fatalf("after %d launches: %v, want %v", len(s.launches), err, c.want)
		}
		s.launches = s.launches[:len(s.launches)-1] // it did not count
	}
	s.after = nil
	lab := &experiment.Lab{Runs: 3, Starter: s, Dir: dir, Processes: []int{4, 8}}
	f := measured(t, "trees-fig11", lab)
	if len(s.launches) != 36 || f.Verdict() != experiment.Agrees {
		t.Errorf("%d launches in all, want 36; %s", len(s.launches), f.Verdict())
	}
	again := measured(t, "trees-fig11", lab)
	if len(s.launches) != 36 || !reflect.DeepEqual(f, again) {
		t.Errorf("the second time: %d launches; took %g, want %g", len(s.launches), again.Seconds, f.Seconds)
	}
}

func TestDamagedLaunchesAreRefused(t *testing.T) {
	dir := t.TempDir()
	lab := func() *experiment.Lab {
		return &experiment.Lab{Runs: 1, Starter: &stage{}, Dir: dir, Processes: []int{4}}
	}
	measured(t, "trees-fig12", lab())
	files, err := filepath.Glob(filepath.Join(dir, "launches-*.json"))
	if err != nil || len(files) != 6 {
		t.Fatal(files, err)
	}
	path, whole := files[0], read(t, files[0])
	found, _ := experiment.Find("trees-fig12")
	for name, damaged := range map[string]string{
		"half":        whole[:len(whole)/2],
		"nothing":     "",
		"fewer sizes": strings.Replace(whole, `"us":[[`, `"us":[[1],[`, 1),
		"no time":     strings.Replace(whole, `"us":[[`, `"us":[[0,1,1],[`, 1),
		"endless":     strings.Replace(whole, `"seconds":`, `"seconds":1e300,"was":`, 1),
	} {
		if damaged == whole {
			t.Fatalf("%s: not damaged", name)
		}
		if err := os.WriteFile(path, []byte(damaged), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := found[0].Run(t.Context(), lab()); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWhatIsMissingIsSkipped: a missing side is no failure, needs no launch, and does not replace what was
// measured before.
func TestWhatIsMissingIsSkipped(t *testing.T) {
	const missing = "no vendor here; to install one: ask it"
	s := &stage{missing: missing, factors: asPrinted()}
	f := measured(t, "trees-fig11", &experiment.Lab{Runs: 1, Starter: s})
	if f.Verdict() != experiment.Skipped || f.Skipped != missing || len(s.launches) > 0 || len(f.Claims) > 0 {
		t.Errorf("%s, %q, %d launches", f.Verdict(), f.Skipped, len(s.launches))
	}
	if without := measured(t, "trees-fig12", &experiment.Lab{Runs: 1}); without.Verdict() != experiment.Skipped {
		t.Errorf("with nothing that starts processes: %s", without.Verdict())
	}
	if own := measured(t, "trees-fig12", &experiment.Lab{Runs: 1, Starter: s}); own.Verdict() == experiment.Skipped {
		t.Error("what needs no vendor is skipped")
	}
	dir := t.TempDir()
	keep := func(f *experiment.Finding) (report string) {
		t.Helper()
		if err := errors.Join(f.Keep(dir), experiment.Report(dir)); err != nil {
			t.Fatal(err)
		}
		return read(t, filepath.Join(dir, "report.md")) + read(t, filepath.Join(dir, "report.html"))
	}
	if report := keep(f); strings.Count(report, missing) != 2 {
		t.Errorf("reports without what is missing:\n%s", report)
	}
	s.missing = ""
	whole := measured(t, "trees-fig11", &experiment.Lab{Runs: 1, Starter: s})
	if report := keep(whole); strings.Contains(report, missing) || !strings.Contains(report, "Measured in") {
		t.Errorf("reports after it was measured:\n%s", report)
	}
	if report := keep(f); strings.Contains(report, missing) {
		t.Errorf("what was measured is lost:\n%s", report)
	}
}

func TestMeasuredFindingsLeaveWholeFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"trees-fig11", "trees-fig12"} {
		f := measured(t, name, &experiment.Lab{Runs: 20, Starter: &stage{factors: asPrinted()}})
		if err := f.Keep(dir); err != nil {
			t.Fatal(err)
		}
		checkTables(t, dir, f)
		wellFormed(t, filepath.Join(dir, name+".svg"))
		var names []string
		for _, table := range f.Tables {
			names = append(names, table.Name)
			if len(table.Rows) != 24 {
				t.Errorf("%s %s: %d rows, want 6 broadcasts on 4 numbers of processes", name, table.Name, len(table.Rows))
			}
		}
		if want := []string{"", "1024B", "65536B"}; !slices.Equal(names, want) {
			t.Errorf("%s: tables %q, want %q", name, names, want)
		}
	}
}
