package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-go/coppice/experiment"
)

func TestLaunchesAreWordsOfBench(t *testing.T) {
	for _, c := range []struct {
		launch experiment.Launch
		want   string
	}{
		{
			experiment.Launch{Tree: "binomial", Processes: 4, Bytes: []int{8}, Warmup: 10, Iterations: 100},
			"bench --op broadcast --size 8 -n 4 --transport unix --tree binomial --iterations 100 --warmup 10 --json",
		},
		{
			experiment.Launch{Tree: "lame:2", Correction: "optimized:1", Processes: 8, Failed: []int{3, 5}, Bytes: []int{8, 1024}, Iterations: 1},
			"bench --op broadcast --size 8,1024 -n 8 --transport unix --mode corrected --tree lame:2 --correction optimized:1 --failed 3,5 --iterations 1 --warmup 0 --json",
		},
		{
			experiment.Launch{Ops: []string{"reduce", "alltoall"}, Mode: "agreed-twice", Processes: 4, Bytes: []int{8}, Warmup: 1, Iterations: 2},
			"bench --op reduce,alltoall --size 8 -n 4 --transport unix --mode agreed-twice --iterations 2 --warmup 1 --json",
		},
	} {
		if got := strings.Join(benchWords(c.launch), " "); got != c.want {
			t.Errorf("%+v:\n got %s\nwant %s", c.launch, got, c.want)
		}
	}
}

func TestMediansAreReadOfOneCellAndOfSeveral(t *testing.T) {
	for _, cells := range [][]benchCell{{{benchFigures: benchFigures{Median: 3}}}, {{benchFigures: benchFigures{Median: 3}}, {benchFigures: benchFigures{Median: 4}}}} {
		text, err := json.Marshal(benchReport{Cells: cells})
		if err != nil {
			t.Fatal(err)
		}
		got, err := benchMedians(text)
		if want := []float64{3, 4}[:len(cells)]; err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v; want %v", text, got, err, want)
		}
	}
	if got, err := benchMedians([]byte("no document")); err == nil {
		t.Errorf("%v of no document", got)
	}
}

func TestMedianTimeOccurred(t *testing.T) {
	for _, c := range []struct {
		us   []float64
		want float64
	}{{[]float64{3}, 3}, {[]float64{4, 2}, 2}, {[]float64{9, 1, 5}, 5}} {
		if got := percentile(slices.Sorted(slices.Values(c.us)), 50); got != c.want {
			t.Errorf("%v: %g, want %g", c.us, got, c.want)
		}
	}
}

// TestWithoutOpenMPIItsFigureIsSkipped runs where no program can be found.
func TestWithoutOpenMPIItsFigureIsSkipped(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	dir := t.TempDir()
	out, err := os.Create(filepath.Join(dir, "stdout"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	exit := run([]string{"reproduce", "trees-fig11", "-n", "4", "--runs", "1", "--out", filepath.Join(dir, "out")}, out, os.Stderr)
	text, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	const want = "\n  skipped  no Open MPI here; to install it on Debian: bash .ci/install-openmpi\n"
	if exit != 0 || !strings.Contains(string(text), want) {
		t.Errorf("exit %d, said:\n%s", exit, text)
	}
}
