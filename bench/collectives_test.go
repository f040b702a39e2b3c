package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coppice-go/coppice/bench/loop"
	"github.com/coppice-go/coppice/bench/openmpi"
)

func TestCollectivesCarryTheAgreedTargets(t *testing.T) {
	cells := map[int]int{}
	targets := map[string]string{}
	for _, l := range collectives(false, false) {
		if l.cell {
			cells[l.p]++
			if l.target.String() != "≤ 1.5" || l.ours != coppiceUnix || l.theirs != openMPITCP || l.beside != "" {
				t.Errorf("%s: %+v", l, l)
			}
			continue
		}
		targets[l.String()] = l.target.String()
	}
	for _, p := range []int{2, 4, 8, 16, 32} {
		if cells[p] != 6*4+1 {
			t.Errorf("p = %d: %d cells, want six operations of four sizes and a barrier", p, cells[p])
		}
		want := "≤ 0.9"
		if p <= 4 {
			want = "≤ 1.2"
		}
		if got := meanTarget(p).String(); got != want {
			t.Errorf("p = %d: target of the mean %s, want %s", p, got, want)
		}
	}
	want := map[string]string{"barrier beside two hogs, p = 8": "≤ 0.1"}
	for _, p := range []int{8, 16, 32} {
		want[fmt.Sprintf("allreduce 8 B in memory, p = %d", p)] = "< 1.0"
		for _, size := range []string{"8 B", "1 KiB", "64 KiB"} {
			want[fmt.Sprintf("corrected broadcast %s, p = %d", size, p)] = "≤ 1.3"
		}
	}
	for name, text := range want {
		if targets[name] != text {
			t.Errorf("%s: target %q, want %q", name, targets[name], text)
		}
	}
	if len(targets) != len(want) {
		t.Errorf("%d lines beside the table, want %d", len(targets), len(want))
	}
}

func TestABatchIsWhatOneLaunchMeasures(t *testing.T) {
	all := batches(collectives(true, false))
	if n := 5*7 + 3 + 1 + 3; len(all) != n {
		t.Errorf("%d batches, want %d: an operation on p processes each", len(all), n)
	}
	for _, b := range all {
		for _, l := range b {
			if l.op != b[0].op || l.p != b[0].p || !slices.Equal(batch{l}.sides(), b.sides()) || l.hogs != b[0].hogs {
				t.Errorf("%s is measured with %s", l, b[0])
			}
		}
	}
	if got, want := all[0].String(), "broadcast 8 B to broadcast 1 MiB, p = 2"; got != want {
		t.Errorf("named %q, want %q", got, want)
	}
	if n := len(batches(lines())); n != len(lines()) {
		t.Errorf("%d batches of %d other lines", n, len(lines()))
	}
}

// Against shared memory the table has the same cells, and nothing that can fall short.
func TestSharedMemoryHasNoTargets(t *testing.T) {
	shared, err := choose(collectives(false, true), options{quick: true})
	if err != nil {
		t.Fatal(err)
	}
	cells := 0
	for _, l := range collectives(false, false) {
		if l.cell {
			cells++
		}
	}
	var results []result
	for _, l := range shared {
		if !l.cell || l.theirs != openMPIShared || l.target != (target{}) {
			t.Errorf("%s: %+v", l, l)
		}
		results = append(results, result{line: l, rounds: []round{{Ours: figure{Median: 9, Mean: 9}, Theirs: figure{Median: 1, Mean: 1}}}})
	}
	if len(shared) != cells {
		t.Errorf("%d lines, want %d", len(shared), cells)
	}
	if got, want := geometric(results)[0].String(), "p = 2: geometric mean 9.00"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// cellsOf returns results of one round with the given ratios, ours to theirs.
func cellsOf(p int, ratios map[string]float64) (results []result) {
	for _, l := range collectives(true, false) {
		ratio, ok := ratios[l.what]
		if !l.cell || l.p != p || !ok {
			continue
		}
		r := result{line: l}
		if ratio > 0 {
			r.rounds = []round{{Ours: figure{Median: ratio, Mean: ratio}, Theirs: figure{Median: 1, Mean: 1}, Beside: figure{Median: 2 * ratio, Mean: 2 * ratio}}}
		} else {
			r.failed = errors.New("x")
		}
		results = append(results, r)
	}
	return results
}

func TestGeometricMeansDecideOnlyWhenAllCellsAreThere(t *testing.T) {
	for _, c := range []struct {
		name   string
		p      int
		ratios map[string]float64
		want   mean
		text   string
	}{
		{
			"met", 2,
			map[string]float64{"broadcast 8 B": 0.6, "barrier": 2.4},
			mean{P: 2, Ratio: 1.2, Beside: 2.4, Cells: 2, Of: 2, Above: 1, Target: "≤ 1.2", Verdict: "ok"},
			"p = 2: geometric mean 1.20, target ≤ 1.2: ok; above 1.5: 1 of 2 cells; over TCP: 2.40",
		},
		{
			"not met", 8,
			map[string]float64{"scatter 1 MiB": 1},
			mean{P: 8, Ratio: 1, Beside: 2, Cells: 1, Of: 1, Target: "≤ 0.9", Verdict: "short"},
			"p = 8: geometric mean 1.00, target ≤ 0.9: short; over TCP: 2.00",
		},
		{
			"one failed", 8,
			map[string]float64{"scatter 1 MiB": 0.5, "barrier": 0},
			mean{P: 8, Ratio: 0.5, Beside: 1, Cells: 1, Of: 2, Target: "≤ 0.9"},
			"p = 8: geometric mean 0.50, target ≤ 0.9: undecided, only 1 of 2 cells have a ratio; over TCP: 1.00",
		},
		{
			"all failed", 8,
			map[string]float64{"barrier": 0},
			mean{P: 8, Of: 1, Target: "≤ 0.9"},
			"p = 8: geometric mean –, target ≤ 0.9: undecided, only 0 of 1 cells have a ratio",
		},
	} {
		got := geometric(cellsOf(c.p, c.ratios))
		if len(got) != 1 {
			t.Errorf("%s: %d means, want 1", c.name, len(got))
			continue
		}
		for _, ratio := range []*float64{&got[0].Ratio, &got[0].Beside} {
			*ratio = math.Round(*ratio*1e9) / 1e9
		}
		if got[0] != c.want || got[0].String() != c.text {
			t.Errorf("%s:\n got %+v, %s\nwant %+v, %s", c.name, got[0], got[0], c.want, c.text)
		}
	}
}

func TestCollectivesAreOneTableForEachP(t *testing.T) {
	results := slices.Concat(
		cellsOf(2, map[string]float64{"broadcast 8 B": 0.5, "broadcast 1 MiB": 2, "gather 1 KiB": 0, "barrier": 1}),
		[]result{{line: besideTheTable()[0]}},
	)
	var plain, page bytes.Buffer
	err := errors.Join(
		writeCollectives(&plain, table, geometric(results), results),
		writeCollectives(&page, markdown, geometric(results), results),
	)
	if err != nil {
		t.Fatal(err)
	}
	want := `p = 2: geometric mean 1.00, target ≤ 1.2: undecided, only 3 of 4 cells have a ratio; above 1.5: 1 of 4 cells; over TCP: 2.00

ratio                       8 B   1 KiB  64 KiB   1 MiB
broadcast                  0.50                  ! 2.00
broadcast over TCP         1.00                    4.00
gather                           failed
gather over TCP                       –
barrier, no data           1.00
barrier over TCP, no data  2.00

The worst cells, and the lines beside the table:

`
	if !strings.HasPrefix(plain.String(), want) {
		t.Errorf("got\n%swant\n%s", plain.String(), want)
	}
	var order []string
	for line := range strings.Lines(strings.TrimPrefix(plain.String(), want)) {
		order = append(order, strings.TrimSpace(line[:min(len(line), 25)]))
	}
	for i, begin := range []string{"what", "gather 1 KiB", "broadcast 1 MiB", "barrier", "broadcast 8 B", "corrected broadcast 8 B"} {
		if i >= len(order) || !strings.HasPrefix(order[i], begin) {
			t.Errorf("row %d is not %q: %q", i, begin, order)
		}
	}
	if n := strings.Count(page.String(), "\n| broadcast | 0.50 |  |  | ! 2.00 |\n"); n != 1 {
		t.Errorf("the page has the row of broadcasts %d times:\n%s", n, page.String())
	}
}

func TestJSONOfCollectivesHoldsTheMeansAndTheSideBeside(t *testing.T) {
	results := cellsOf(4, map[string]float64{"reduce 64 KiB": 0.25})
	var out bytes.Buffer
	if err := writeJSON(&out, machine{}, geometric(results), results); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Means []mean `json:"geometric_means"`
		Lines []record
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if m := got.Means[0]; m.P != 4 || m.Ratio != 0.25 || m.Verdict != "ok" {
		t.Errorf("mean %+v", m)
	}
	if l := got.Lines[0]; l.Beside != coppiceTCP || l.BesideRatio != 0.5 || l.BesideUS != 0.5 || l.Rounds[0].Beside.Median != 0.5 {
		t.Errorf("line %+v", l)
	}
}

// A launch that fails midway has measured the jobs before, and the next one leaves out the job that
// failed.
func TestAFailedJobEndsItsOwnLineOnly(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "mpirun")
	// Writes the spans of both ranks for every job up to the one of 1024 bytes.
	script := `#!/bin/sh
while [ "$1" != alltoall ]; do shift; done
while [ $# -gt 0 ]; do
	[ "$2" = 1024 ] && { echo broken >&2; exit 1; }
	i=0
	while [ $i -lt "$4" ]; do echo 1000 2000 >>"$5.0"; echo 1000 2000 >>"$5.1"; i=$((i+1)); done
	shift 5
done
`
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	ps := &programs{mpi: openmpi.MPI{Mpirun: path}, launcher: program{err: errors.New("not asked")}}
	var b batch
	for _, bytes := range []int{8, 1024, 1 << 20} {
		b = append(b, line{what: sized(bytes), op: loop.AllToAll, p: 2, bytes: bytes, ours: coppiceUnix, theirs: openMPITCP})
	}
	rs := ps.measure(t.Context(), b, options{rounds: 3, quick: true}, dir, func() {})
	for i, want := range []struct {
		rounds, figures int
		failed          bool
	}{{3, 3, false}, {0, 0, true}, {3, 2, false}} {
		figures := 0
		for _, x := range rs[i].rounds {
			if x.Theirs.Median == 1 {
				figures++
			}
		}
		if len(rs[i].rounds) != want.rounds || figures != want.figures || (rs[i].failed != nil) != want.failed {
			t.Errorf("%s: %+v", rs[i].what, rs[i])
		}
	}
	if rs[2].theirs() != 1 {
		t.Errorf("a round without a figure counts: %v", rs[2].theirs())
	}
}

func TestProgressTellsTheTimeLeftOnATerminal(t *testing.T) {
	all := batches(collectives(false, false))[:2] // four cells each
	var out bytes.Buffer
	p := newProgress(&out, all, 3)
	if p.all != 2*3*2*4 {
		t.Errorf("%d jobs in all, want 48", p.all)
	}
	p.begin(all[0])
	if got, want := out.String(), "1/2 broadcast 8 B to broadcast 1 MiB, p = 2\n"; got != want {
		t.Errorf("said %q, want %q", got, want)
	}
	p.launched()
	p.clear()
	out.Reset()
	p.terminal = true
	p.draw(p.began.Add(10 * time.Second)) // for 4 of 48 jobs
	if got, want := out.String(), "\r\x1b[K1/2 broadcast 8 B to broadcast 1 MiB, p = 2, left: 1m50s"; got != want {
		t.Errorf("said %q, want %q", got, want)
	}
}

func TestHogsAreBusyUntilStopped(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program, which takes seconds; runs without -short")
	}
	ps := &programs{hog: goBuild(t.Context(), "", t.TempDir(), "bench/hog")}
	for lasts := 100 * time.Millisecond; ; lasts *= 4 { // longer on a busy machine
		stop, err := ps.startHogs(2)
		if err != nil {
			t.Fatal(err)
		}
		before, errBefore := readUsage()
		time.Sleep(lasts)
		stop()
		after, errAfter := readUsage()
		if errors.Join(errBefore, errAfter) != nil {
			t.Skip("the system does not tell who used the processors, which needs /proc/stat: runs on Linux")
		}
		own := after.own - before.own
		if own >= 50*time.Millisecond {
			break
		}
		if lasts > 5*time.Second {
			t.Fatalf("two hogs used %v of %v", own, lasts)
		}
	}
	// A hog does not outlive the process that started it.
	orphan := exec.Command(ps.hog.path)
	if err := orphan.Run(); err != nil { // its standard input is empty
		t.Error(err)
	}
}
