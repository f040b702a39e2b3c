package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-go/coppice/bench/loop"
	"github.com/coppice-go/coppice/bench/openmpi"
)

func TestVerdictHoldsTheRatioAgainstTheTarget(t *testing.T) {
	for _, c := range []struct {
		target target
		ratio  float64
		text   string
		want   string
	}{
		{target{}, 7, "", ""},
		{target{ratio: 1.2}, 1.19, "≤ 1.2", "ok"},
		{target{ratio: 1.2}, 1.2, "≤ 1.2", "ok"},
		{target{ratio: 1.2}, 1.21, "≤ 1.2", "short"},
		{target{ratio: 1, below: true}, 0.99, "< 1.0", "ok"},
		{target{ratio: 1, below: true}, 1, "< 1.0", "short"},
	} {
		if got := c.target.verdict(c.ratio); got != c.want {
			t.Errorf("%v at %v: %q, want %q", c.target, c.ratio, got, c.want)
		}
		if got := c.target.String(); got != c.text {
			t.Errorf("target reads %q, want %q", got, c.text)
		}
	}
}

func TestLinesCarryTheAgreedTargets(t *testing.T) {
	want := map[string]string{
		"ping-pong 8 B, p = 2":      "≤ 1.2",
		"broadcast 8 B, p = 2":      "≤ 1.3",
		"broadcast 8 B, p = 4":      "≤ 1.3",
		"broadcast 8 B, p = 8":      "≤ 1.0",
		"broadcast 8 B, p = 16":     "≤ 1.0",
		"broadcast 8 B, p = 32":     "≤ 1.0",
		"start-up, p = 32":          "≤ 0.5",
		"barrier in memory, p = 8":  "< 1.0",
		"barrier in memory, p = 16": "< 1.0",
		"barrier in memory, p = 32": "< 1.0",
	}
	quick, err := choose(lines(), options{quick: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(quick) != len(want) {
		t.Errorf("%d lines have a target, want %d", len(quick), len(want))
	}
	for _, l := range quick {
		if got := l.target.String(); got != want[l.String()] {
			t.Errorf("%s: target %q, want %q", l, got, want[l.String()])
		}
	}
}

func TestEveryJobIsOneThatLoopsAccept(t *testing.T) {
	for _, l := range append(lines(), collectives(false, false)...) {
		for _, quick := range []bool{false, true} {
			job := l.job(quick)
			job.Out = "x"
			if got, err := loop.Parse(job.Args()); err != nil || got[0] != job {
				t.Errorf("%s, quick %t: %+v, %v", l, quick, got, err)
			}
		}
	}
}

func TestIterationsAreTheGroupsTime(t *testing.T) {
	ranks := [][]loop.Span{
		{{Begin: 1000, End: 4000}},
		{{Begin: 500, End: 9000}}, // waits for the root, and is the last to end
		{{Begin: 3000, End: 3500}},
	}
	for _, c := range []struct {
		op   string
		want float64
	}{
		{loop.PingPong, 3},
		{loop.Broadcast, 8},
		{loop.Scatter, 8},
		{loop.Barrier, 6},
		{loop.Reduce, 8.5},
		{loop.AllReduce, 8.5},
		{loop.Gather, 8.5},
		{loop.AllToAll, 8.5},
	} {
		if got := loop.Times(c.op, ranks); !slices.Equal(got, []float64{c.want}) {
			t.Errorf("%s: %v µs, want %v", c.op, got, c.want)
		}
	}
}

func TestMedianAndMean(t *testing.T) {
	for _, c := range []struct {
		values       []float64
		median, mean float64
	}{
		{nil, 0, 0},
		{[]float64{3}, 3, 3},
		{[]float64{9, 1, 2}, 2, 4},
		{[]float64{4, 1, 2, 9}, 3, 4},
	} {
		if got := median(c.values); got != c.median {
			t.Errorf("median of %v: %v, want %v", c.values, got, c.median)
		}
		if got := average(c.values); got != c.mean {
			t.Errorf("mean of %v: %v, want %v", c.values, got, c.mean)
		}
	}
}

// The ratio is that of neighbors in time: a machine that slowed down tenfold between
// two rounds changes the times, not the ratio.
func TestRatioIsTakenWithinRounds(t *testing.T) {
	r := result{line: line{what: "x", p: 2, target: target{ratio: 1.3}}, rounds: []round{
		{Ours: figure{Median: 12, Mean: 30}, Theirs: figure{Median: 10, Mean: 10}},
		{Ours: figure{Median: 110, Mean: 300}, Theirs: figure{Median: 100, Mean: 100}},
		{Ours: figure{Median: 1400, Mean: 3000}, Theirs: figure{Median: 1000, Mean: 1000}},
	}}
	middle, least, greatest := r.ratios(oursIn, medianOf)
	if middle != 1.2 || least != 1.1 || greatest != 1.4 {
		t.Errorf("ratio %v (%v to %v); want 1.2 (1.1 to 1.4)", middle, least, greatest)
	}
	want := []string{"x", "2", "110", "100", "1.20", "1.10–1.40", "3.00", "≤ 1.3", "ok", "", ""}
	if got := r.row(); !slices.Equal(got, want) {
		t.Errorf("row %q, want %q", got, want)
	}
}

func TestRowsWithoutARatioGiveNoVerdict(t *testing.T) {
	oneSide := []round{{Theirs: figure{Median: 10, Mean: 10}}}
	both := []round{{Ours: figure{Median: 10, Mean: 10}, Theirs: figure{Median: 20, Mean: 20}}}
	wanted := line{target: target{ratio: 1}}
	for _, c := range []struct {
		name           string
		result         result
		ratio, verdict string
	}{
		{"one side", result{line: wanted, rounds: oneSide}, dash, dash},
		{"no round", result{line: wanted}, dash, dash},
		{"failed after a round", result{line: wanted, rounds: both, failed: errors.New("x")}, "0.50", "failed"},
		{"nothing asked", result{rounds: both}, "0.50", ""},
		{"nothing asked, failed", result{failed: errors.New("x")}, dash, "failed"},
	} {
		row := c.result.row()
		if row[4] != c.ratio || row[8] != c.verdict {
			t.Errorf("%s: ratio %q, verdict %q; want %q, %q", c.name, row[4], row[8], c.ratio, c.verdict)
		}
		if v := c.result.record().Verdict; v == "ok" != (c.verdict == "ok") {
			t.Errorf("%s: verdict %q in JSON", c.name, v)
		}
	}
}

func TestTablesLineUp(t *testing.T) {
	rows := [][]string{
		{"a", "2", "1.00", "2.00", "0.50", "0.40–0.60", "0.50", "≤ 1.0", "ok", "us", "them"},
		{"longer", "32", "100", dash, dash, dash, dash, "", "", "us", "them"},
	}
	var plain, page bytes.Buffer
	if err := errors.Join(table(&plain, lineColumns, rows), markdown(&page, lineColumns, rows)); err != nil {
		t.Fatal(err)
	}
	want := "" +
		"what     p  ours µs  theirs µs  ratio  spread     of means  target  verdict  ours  theirs\n" +
		"a        2     1.00       2.00   0.50  0.40–0.60      0.50  ≤ 1.0   ok       us    them\n" +
		"longer  32      100          –      –  –                 –                   us    them\n"
	if plain.String() != want {
		t.Errorf("got\n%swant\n%s", plain.String(), want)
	}
	for text := range strings.Lines(page.String()) {
		if n := strings.Count(text, "|"); n != len(lineColumns)+1 {
			t.Errorf("%d bars, want %d: %s", n, len(lineColumns)+1, text)
		}
	}
}

func TestJSONHoldsEveryRound(t *testing.T) {
	rounds := []round{{Ours: figure{Median: 1, Mean: 2}, Theirs: figure{Median: 4, Mean: 4}}, {Ours: figure{Median: 2, Mean: 3}, Theirs: figure{Median: 4, Mean: 4}}}
	var out bytes.Buffer
	if err := writeJSON(&out, machine{Cores: 2}, nil, []result{{line: lines()[0], rounds: rounds}}); err != nil {
		t.Fatal(err)
	}
	var got struct{ Lines []record }
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	l := got.Lines[0]
	if !slices.Equal(l.Rounds, rounds) || l.Ratio != 0.375 || l.OfMeans != 0.625 || l.Verdict != "ok" {
		t.Errorf("got %+v", l)
	}
}

func TestWithoutOpenMPITheOtherLinesStay(t *testing.T) {
	ps := &programs{mpiErr: openmpi.ErrMissing}
	var said bytes.Buffer
	able, whole := ps.able(lines(), &said)
	if len(able) != 1 || able[0].theirs != rawUnix || !whole {
		t.Errorf("%v, whole %t; want the raw loop's line, true", able, whole)
	}
	if n := strings.Count(said.String(), "\n"); n != 1 {
		t.Errorf("said %d lines, want 1: %s", n, said.String())
	}
}

func TestWithoutCoppiceThePeersAreMeasured(t *testing.T) {
	ps := &programs{coppiceLoop: program{err: errors.New("does not build")}}
	var said bytes.Buffer
	able, whole := ps.able(lines(), &said)
	if len(able) != len(lines()) || whole || strings.Count(said.String(), "\n") != 1 {
		t.Errorf("%d lines, whole %t, said %q", len(able), whole, said.String())
	}
}

func TestBadOptionsAreOneLineAndExit2(t *testing.T) {
	for _, args := range [][]string{
		{"--fast"},
		{"stray"},
		{"--rounds", "-1"},
		{"--rounds", "many"},
		{"--only", "no such line"},
		{"--quick", "--only", "1 MiB"},
		{"--tcp"},
		{"--collectives", "--only", "ping-pong"},
		{"--json", filepath.Join(t.TempDir(), "absent", "x.json")},
	} {
		var out, diag bytes.Buffer
		if exit := run(t.Context(), args, &out, &diag); exit != 2 || strings.Count(diag.String(), "\n") != 1 || out.Len() > 0 {
			t.Errorf("%q: exit %d, said %q", args, exit, diag.String())
		}
	}
}

func TestGistSkipsRulesAndBlanks(t *testing.T) {
	failed := errors.New("exit status 1")
	for out, want := range map[string]string{
		"":                             "exit status 1",
		"\n-----\n  no slots \nmore\n": "no slots",
	} {
		if got := loop.Gist([]byte(out), failed); got != want {
			t.Errorf("gist of %q: %q, want %q", out, got, want)
		}
	}
}

// The raw loop stands for all sides: what it writes is what the harness reads.
func TestRawLoopIsMeasured(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program, which takes seconds; runs without -short")
	}
	dir := t.TempDir()
	ps := &programs{
		rawLoop: goBuild(t.Context(), "", dir, "bench/rawloop"), hog: goBuild(t.Context(), "", dir, "bench/hog"),
		coppiceLoop: program{err: errors.New("not asked")},
	}
	if err := errors.Join(ps.rawLoop.err, ps.hog.err); err != nil {
		t.Fatal(err)
	}
	l := line{op: loop.PingPong, p: 2, bytes: 8, ours: coppiceUnix, theirs: rawUnix, hogs: 1}
	launches := 0
	rs := ps.measure(t.Context(), batch{l}, options{rounds: 2, quick: true}, dir, func() { launches++ })
	if r := rs[0]; r.failed != nil || len(r.rounds) != 2 || r.theirs() <= 0 || r.ours() != 0 || launches != 4 {
		t.Errorf("%+v after %d launches", r, launches)
	}
	l.p = 3 // there is no rank 2
	if rs := ps.measure(t.Context(), batch{l}, options{rounds: 1, quick: true}, dir, func() {}); rs[0].failed == nil {
		t.Error("a rank that wrote nothing went unnoticed")
	}
	left, _ := filepath.Glob(filepath.Join(dir, "spans*"))
	if len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestRanksMustHaveWrittenAllIterations(t *testing.T) {
	job := loop.Job{Iterations: 2, Out: filepath.Join(t.TempDir(), "spans")}
	for _, c := range []struct {
		text string
		ok   bool
	}{{"1 2\n3 4\n", true}, {"1 2\n", false}, {"1 2\n3 4\n5 6\n", false}, {"1 2\n3 \n", false}} {
		if err := os.WriteFile(loop.File(job.Out, 0), []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if ranks, err := job.ReadRanks(1); (err == nil) != c.ok {
			t.Errorf("%q: %v, %v", c.text, ranks, err)
		}
	}
}

func TestInterruptedIsNotMissing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, diag bytes.Buffer
	if exit := run(ctx, nil, &out, &diag); exit != 1 || diag.String() != "bench: interrupted\n" {
		t.Errorf("exit %d, said %q", exit, diag.String())
	}
}

func TestSidesTakeTurnsAtGoingFirst(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	script := func(name string) program {
		path := filepath.Join(dir, name)
		text := "#!/bin/sh\necho " + name + " >>'" + log + "'\n"
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
		return program{path: path}
	}
	ps := &programs{launcher: script("ours"), mpi: openmpi.MPI{Mpirun: script("theirs").path}}
	l := line{op: loop.Start, p: 2, bytes: 1, ours: coppiceUnix, theirs: openMPIShared}
	if rs := ps.measure(t.Context(), batch{l}, options{rounds: 4, quick: true}, dir, func() {}); rs[0].failed != nil {
		t.Fatal(rs[0].failed)
	}
	got, err := os.ReadFile(log)
	want := "ours theirs theirs ours ours theirs theirs ours"
	if err != nil || strings.Join(strings.Fields(string(got)), " ") != want {
		t.Errorf("order %q, %v; want %q", got, err, want)
	}
}

func TestOpenMPILoopKnowsTheOperations(t *testing.T) {
	source, err := os.ReadFile("openmpi/loop.c")
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range loop.Ops {
		known := `{"` + op + `", ` + op + `,` // in its table
		if op == loop.Start {
			known = `strcmp(words[0], "` + op + `")`
		}
		if !bytes.Contains(source, []byte(known)) {
			t.Errorf("openmpi/loop.c does not know %q", op)
		}
	}
}
