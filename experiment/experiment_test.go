package experiment_test

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/coppice-go/coppice/experiment"
	"github.com/coppice-go/coppice/logp"
	"github.com/coppice-go/coppice/protocol/broadcast"
)

// quick lists the experiments whose cells are small enough for a test with a few runs.
var quick = []string{
	"trees-fig1b", "trees-fig8", "trees-fig9", "trees-fig10", "trees-table1", "gossip-fig1", "gossip-fig5", "gossip-table",
}

// TestExperimentsLeaveWholeReports runs experiments with few runs: their figures may say anything, but the
// files must be whole.
func TestExperimentsLeaveWholeReports(t *testing.T) {
	dir := t.TempDir()
	lab := &experiment.Lab{Runs: 2, Seed: 1, Dir: filepath.Join(dir, "cells")}
	for _, name := range quick {
		found, err := experiment.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		f, err := found[0].Run(t.Context(), lab)
		if err != nil {
			t.Fatal(err)
		}
		if len(f.Claims) == 0 || len(f.Tables) == 0 {
			t.Errorf("%s: %d claims, %d tables", name, len(f.Claims), len(f.Tables))
		}
		for _, c := range f.Claims {
			if c.What == "" || c.Paper == "" || c.Ours == "" {
				t.Errorf("%s: a claim says nothing: %+v", name, c)
			}
		}
		if err := f.Keep(dir); err != nil {
			t.Fatal(err)
		}
		if err := experiment.Report(dir); err != nil {
			t.Fatal(err)
		}
		checkTables(t, dir, f)
		if f.Chart != nil {
			wellFormed(t, filepath.Join(dir, name+".svg"))
		}
	}
	for _, file := range []string{"report.md", "report.html"} {
		text := read(t, filepath.Join(dir, file))
		for _, name := range quick {
			if !strings.Contains(text, "coppice reproduce "+name) {
				t.Errorf("%s does not tell of %s", file, name)
			}
		}
	}
}

func checkTables(t *testing.T, dir string, f *experiment.Finding) {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(read(t, filepath.Join(dir, f.Name+".csv")))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if want := append([][]string{f.Tables[0].Columns}, f.Tables[0].Rows...); !reflect.DeepEqual(rows, want) {
		t.Errorf("%s.csv: %v, want %v", f.Name, rows, want)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// wellFormed checks that a picture is XML without NaN or infinite numbers.
func wellFormed(t *testing.T, path string) {
	t.Helper()
	text := read(t, path)
	if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
		t.Errorf("%s has points without a place", path)
	}
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		_, err := d.Token()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
}

func TestNamesAreUniqueAndUnknownOnesRefused(t *testing.T) {
	var names []string
	for _, e := range experiment.All() {
		names = append(names, e.Name)
		if e.Title == "" || e.Source == "" || e.About == "" {
			t.Errorf("%s does not say what it is", e.Name)
		}
	}
	slices.Sort(names)
	if len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Errorf("a name twice: %v", names)
	}
	if all, err := experiment.Find("all"); err != nil || len(all) != len(names) {
		t.Errorf("all: %d, %v", len(all), err)
	}
	if _, err := experiment.Find("all", "nope"); err == nil {
		t.Error("an unknown name beside all is accepted")
	}
	if twice, err := experiment.Find("trees-fig6", "trees-fig6"); err != nil || len(twice) != 1 {
		t.Errorf("the same name twice: %d, %v", len(twice), err)
	}
	if _, err := experiment.Find("trees-fig1"); err == nil || !strings.Contains(err.Error(), "allowed: all, trees-fig1b") {
		t.Errorf("unknown name: %v", err)
	}
}

func cell(runs int) experiment.Cell {
	return experiment.Cell{
		Spec: broadcast.Spec{Tree: "lame:2", Correction: "checked", Synchronized: true},
		Net:  logp.Network{P: 500, L: 2, O: 1}, Dead: 20, Runs: runs,
	}
}

// same compares samples, ignoring how long they took.
func same(a, b *experiment.Sample) bool {
	x, y := *a, *b
	x.Seconds, y.Seconds = 0, 0
	return reflect.DeepEqual(x, y)
}

// TestInterruptedWorkGoesOn interrupts a cell again and again.
func TestInterruptedWorkGoesOn(t *testing.T) {
	want, err := (&experiment.Lab{Seed: 3}).Measure(t.Context(), cell(5000))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	interruptions := 0
	for {
		ctx, stop := context.WithCancel(t.Context())
		lab := &experiment.Lab{Seed: 3, Dir: dir, Progress: func(experiment.Progress) { stop() }}
		got, err := lab.Measure(ctx, cell(5000))
		stop()
		if errors.Is(err, context.Canceled) {
			interruptions++
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if !same(got[0], want[0]) {
			t.Errorf("after %d interruptions: %+v, want %+v", interruptions, got[0], want[0])
		}
		break
	}
	if interruptions < 5 {
		t.Errorf("only %d interruptions", interruptions)
	}
}

func TestCellsAreKept(t *testing.T) {
	dir := t.TempDir()
	measure := func(runs int) (*experiment.Sample, bool) {
		var worked atomic.Bool
		lab := &experiment.Lab{Seed: 3, Dir: dir, Progress: func(experiment.Progress) { worked.Store(true) }}
		s, err := lab.Measure(t.Context(), cell(runs))
		if err != nil {
			t.Fatal(err)
		}
		return s[0], worked.Load()
	}
	first, _ := measure(100)
	again, worked := measure(100)
	if worked || !same(first, again) {
		t.Errorf("the second time: worked %t, %+v, want %+v", worked, again, first)
	}
	more, worked := measure(150)
	if !worked || more.Runs != 150 {
		t.Errorf("more runs: worked %t, %d runs", worked, more.Runs)
	}
	if fewer, worked := measure(10); worked || fewer.Runs != 150 {
		t.Errorf("fewer runs: worked %t, %d runs", worked, fewer.Runs)
	}
}

// TestDamagedCellsAreRefused: a cell's file either gives what was written to it, or an error that names it;
// and the file stays as it is.
func TestDamagedCellsAreRefused(t *testing.T) {
	dir := t.TempDir()
	other := cell(5)
	other.Dead = 21
	if _, err := (&experiment.Lab{Dir: dir}).Measure(t.Context(), cell(5)); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	path, whole := files[0], read(t, files[0])
	elsewhere := t.TempDir()
	if _, err := (&experiment.Lab{Dir: elsewhere}).Measure(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	foreign, err := filepath.Glob(filepath.Join(elsewhere, "*.json"))
	if err != nil || len(foreign) != 1 {
		t.Fatal(foreign, err)
	}
	for name, damaged := range map[string]string{
		"half":             whole[:len(whole)/2],
		"nothing":          "",
		"null":             "null",
		"another cell":     read(t, foreign[0]),
		"more runs":        strings.Replace(whole, `"runs":5`, `"runs":5000`, 1),
		"fewer than none":  strings.Replace(whole, `"runs":5`, `"runs":-5`, 1),
		"no histogram":     strings.Replace(whole, `"gap_max":{`, `"gap_maximum":{`, 1),
		"endless":          strings.Replace(whole, `"seconds":`, `"seconds":1e308,"was":`, 1),
		"null for a table": strings.Replace(whole, `"pairs":{`, `"pairs":null,"were":{`, 1),
	} {
		if damaged == whole {
			t.Fatalf("%s: not damaged", name)
		}
		if err := os.WriteFile(path, []byte(damaged), 0o666); err != nil {
			t.Fatal(err)
		}
		_, err := (&experiment.Lab{Dir: dir}).Measure(t.Context(), cell(10))
		if err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
		if read(t, path) != damaged {
			t.Errorf("%s: overwritten", name)
		}
	}
}

func TestHistogram(t *testing.T) {
	h := experiment.Histogram{}
	for _, v := range []int64{5, 1, 3, 3, 8} {
		h.Add(v)
	}
	if h.N() != 5 || h.Mean() != 4 || h.Max() != 8 || h.Above(3) != 2 {
		t.Errorf("n %d, mean %g, max %d, above 3: %d", h.N(), h.Mean(), h.Max(), h.Above(3))
	}
	for q, want := range map[float64]int64{0: 1, 0.2: 1, 0.21: 3, 0.5: 3, 0.6: 3, 0.8: 5, 0.81: 8, 1: 8} {
		if got := h.Quantile(q); got != want {
			t.Errorf("quantile %g is %d, want %d", q, got, want)
		}
	}
	if d := h.Deviation(); d < 2.36 || d > 2.37 {
		t.Errorf("deviation %g", d)
	}
	text, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	var back experiment.Histogram
	if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(back, h) {
		t.Errorf("%s comes back as %v, %v", text, back, err)
	}
}
