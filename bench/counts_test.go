package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-go/coppice/bench/loop"
)

// A count of twice as much as when the limits were written is above them, for each quantity alone; the
// same count is not.
func TestADoubledCountIsAboveItsLimit(t *testing.T) {
	usual := cost{Allocations: 60, Switches: 30, Calls: 90, Sends: 28, Bytes: 2870}
	r := result{line: counted(coppiceReplay, "", countedSizes)[0], rounds: []round{{Ours: figure{Cost: usual}}}}
	var text bytes.Buffer
	if err := writeLimits(&text, []result{r}); err != nil {
		t.Fatal(err)
	}
	limits, err := parseLimits(text.String())
	if err != nil {
		t.Fatal(err)
	}
	limit := limits[r.key()]
	if which := above(usual, limit); len(which) > 0 {
		t.Errorf("as usual, and above: %q", which)
	}
	for _, q := range quantities {
		doubled := usual
		*q.of(&doubled) *= 2
		if which := above(doubled, limit); len(which) != 1 || !strings.HasPrefix(which[0], q.name+" ") {
			t.Errorf("%s twice as often: above are %q", q.name, which)
		}
	}
}

// No committed limit leaves room for twice the count.
func TestEveryCountedLineHasLimits(t *testing.T) {
	limits, err := parseLimits(limitsText)
	if err != nil {
		t.Fatal(err)
	}
	all := options{counts: true}.lines()
	if len(limits) != len(all) {
		t.Errorf("%d limits of %d lines", len(limits), len(all))
	}
	for _, l := range all {
		limit, ok := limits[l.key()]
		if !ok {
			t.Errorf("%s has no limit", l)
		}
		for _, q := range quantities {
			most := *q.of(&limit)
			if !q.limits(l.ours) {
				continue
			}
			if usual := (most - q.slack) / q.factor; usual < 0 || usual > 4*q.slack && 2*usual < most {
				t.Errorf("%s: limit of %s is %v", l, q.name, most)
			}
		}
	}
}

func TestLimitsThatCannotBeReadAreAnError(t *testing.T) {
	for _, text := range []string{"allreduce 8 4 unix 1 2 3 4\n", "allreduce 8 4 unix 1 2 3 4 many\n"} {
		if limits, err := parseLimits(text); err == nil {
			t.Errorf("%q: %v", text, limits)
		}
	}
}

// Load only adds: over several rounds, the least of every count belongs to the operation.
func TestCostIsTheLeastOfTheRounds(t *testing.T) {
	r := result{rounds: []round{
		{Ours: figure{Cost: cost{Switches: 9, Sends: 2}}},
		{}, // failed
		{Ours: figure{Cost: cost{Switches: 5, Sends: 3}}},
	}}
	if got, want := r.cost(oursIn), (cost{Switches: 5, Sends: 2}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := r.cost(theirsIn); got != (cost{}) {
		t.Errorf("%+v of a side that did not run", got)
	}
}

func TestAllOnOneNumberOfProcessesAreOneLaunch(t *testing.T) {
	all := bySize(options{counts: true}.lines())
	if len(all) != 2*len(countedSizes) {
		t.Fatalf("%d batches", len(all))
	}
	for i, b := range all {
		for _, l := range b {
			job := l.countedJob()
			job.Out = "x"
			if _, err := loop.Parse(job.Args()); err != nil || l.p != countedSizes[i%len(countedSizes)] || l.ours != b[0].ours {
				t.Errorf("%s: %v", l, err)
			}
		}
	}
}

// repository makes a git repository with a single commit of the given files.
func repository(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, words := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "-m", "t"}} {
		cmd := exec.Command("git", words...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v: %s", words, err, out)
		}
	}
	return dir
}

// Another commit is measured by today's loop and, where it can build them, by today's operations.
func TestAnotherCommitIsMeasuredAsTodayIs(t *testing.T) {
	dir, here := t.TempDir(), t.TempDir()
	there := repository(t, map[string]string{"bench/loop/old.go": "package loop", "bench/ops/old.go": "package ops", "go.mod": "module x"})
	if err := os.MkdirAll(filepath.Join(here, "bench/loop"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(here, "bench/loop/new.go"), []byte("package loop"), 0o600); err != nil {
		t.Fatal(err)
	}
	archive, err := output(t.Context(), there, "git", "archive", "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	source := filepath.Join(dir, "source")
	if err := unpack(archive, source); err != nil {
		t.Fatal(err)
	}
	if err := overlay(here, source, []string{"bench/loop"}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"bench/loop/new.go": true, "bench/loop/old.go": false, "bench/ops/old.go": true, "go.mod": true} {
		if _, err := os.Stat(filepath.Join(source, name)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAnUnknownCommitIsNamed(t *testing.T) {
	if _, err := buildOther(t.Context(), t.TempDir(), "no-such-commit", false); err == nil || !strings.Contains(err.Error(), "no-such-commit") {
		t.Error(err)
	}
}

func TestTwoCommitsStandSideBySide(t *testing.T) {
	r := result{line: line{what: "barrier", p: 4}, rounds: []round{
		{Ours: figure{Median: 20, Cost: cost{CPU: 30, Switches: 4}}, Theirs: figure{Median: 10, Cost: cost{CPU: 10, Switches: 2}}},
		{Ours: figure{Median: 30, Cost: cost{CPU: 20, Switches: 5}}, Theirs: figure{Median: 10, Cost: cost{CPU: 20, Switches: 1}}},
	}}
	row := strings.Join(againstRows([]result{r})[0], " | ")
	want := "barrier | 4 | 25.0 | 10.0 | 2.50 | 2.00–3.00 | 2.00 | 1.00–3.00 | 20.0 / 10.0 | 4.0 / 1.0 |"
	if !strings.HasPrefix(row, want) || len(againstRows([]result{r})[0]) != len(againstColumns) {
		t.Errorf("%q, want %q", row, want)
	}
}

// Costs are counted in real processes: it is known what a broadcast sends between two.
func TestCostsOfRealProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("builds programs, which takes seconds; runs without -short")
	}
	dir := t.TempDir()
	ps, err := build(t.Context(), dir, options{counts: true})
	if err != nil {
		t.Fatal(err)
	}
	l := line{what: "broadcast", op: loop.Broadcast, p: 2, bytes: 8, ours: coppiceReplay}
	rs := ps.count(t.Context(), batch{l}, options{counts: true, rounds: 1}, nil, dir)
	if c := rs[0].cost(oursIn); rs[0].failed != nil || c.Sends < 3 || c.Sends > 4 || c.Bytes < 24 || c.Calls < 2*c.Sends || c.CPU <= 0 {
		t.Errorf("%+v, %v", c, rs[0].failed)
	}
}
