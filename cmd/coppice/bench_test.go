package main

import (
	"slices"
	"strings"
	"testing"

	benchloop "github.com/coppice-go/coppice/bench/loop"
)

func TestSizesAreReadAsTheyAreWritten(t *testing.T) {
	for text, want := range map[string]int{
		"1B": 1, "8B": 8, "1000B": 1000, "1KiB": 1 << 10, "64KiB": 64 << 10, "1MiB": 1 << 20, "1GiB": 1 << 30,
	} {
		got, err := parseSize(text)
		if err != nil || got != want || sizeText(got) != text {
			t.Errorf("%s: %d, %v, written %s; want %d", text, got, err, sizeText(got), want)
		}
	}
	if got, err := parseSize("4096"); err != nil || got != 4096 {
		t.Errorf("4096: %d, %v", got, err)
	}
	for _, text := range []string{"", "B", "0", "0B", "-8B", "8KB", "8 B", "8Bi", "x", "2GiB", "99999999999999999999"} {
		if got, err := parseSize(text); err == nil {
			t.Errorf("%q: %d, want an error", text, got)
		}
	}
}

func TestCellsAreAllCombinations(t *testing.T) {
	iterations, warmup := 50, 0
	b := &benchCmd{
		Op: []string{"barrier", "alltoall"}, Size: []string{"8B", "1KiB"}, N: []int{2, 3},
		Transport: "unix", Mode: "plain", Iterations: &iterations, Warmup: &warmup,
	}
	cells, err := b.cells()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range cells {
		got = append(got, strings.Join(c.job().Args(), " "))
	}
	each := []string{"barrier 1 0 50 none", "alltoall 8 0 50 none", "alltoall 1024 0 50 none"}
	if want := append(each, each...); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if cells[2].Processes != 2 || cells[3].Processes != 3 {
		t.Errorf("processes %d, then %d; want 2, then 3", cells[2].Processes, cells[3].Processes)
	}
	b = &benchCmd{Op: []string{"all"}, Size: []string{"8B"}, Transport: "unix", Mode: "plain"}
	if cells, err = b.cells(); err != nil || len(cells) != len(benchloop.Collectives) {
		t.Errorf("%d cells of all, %v; want %d", len(cells), err, len(benchloop.Collectives))
	}
	for _, c := range cells {
		if jobs, err := benchloop.Parse(c.job().Args()); err != nil || c.Iterations < benchIterationsMin || c.Warmup < 1 {
			t.Errorf("%+v: %v, %v", c, jobs, err)
		}
	}
}

func TestFiguresSumUpIterations(t *testing.T) {
	var times []int64
	for i := int64(200); i > 0; i-- {
		times = append(times, i*1000)
	}
	for _, c := range []struct {
		op    string
		times []int64
		want  benchFigures
	}{
		{"broadcast", times, benchFigures{Median: 100, P99: 198, BytesPerSecond: 80e3}},
		{"gather", times, benchFigures{Median: 100, P99: 198, BytesPerSecond: 240e3}},
		{"barrier", times, benchFigures{Median: 100, P99: 198}},
		{"broadcast", []int64{4000, 2000}, benchFigures{Median: 2, P99: 4, BytesPerSecond: 4e6}},
		{"broadcast", []int64{3000}, benchFigures{Median: 3, P99: 3, BytesPerSecond: 2666667}},
		{"broadcast", nil, benchFigures{}},
	} {
		job := benchloop.Job{Op: c.op, Bytes: 8}
		if got := benchFiguresOf(job, 4, slices.Clone(c.times)); got != c.want {
			t.Errorf("%s, %d times: %+v, want %+v", c.op, len(c.times), got, c.want)
		}
	}
}

func TestSinkFillsCellsInTheirOrder(t *testing.T) {
	var told []int
	sink := newBenchSink(make([]benchCell, 2), func(n int) { told = append(told, n) })
	for _, piece := range []string{`{"median_us":1`, "}\n" + `{"median_us":2}`, "\n"} {
		if n, err := sink.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Fatal(n, err)
		}
	}
	if sink.cells[0].Median != 1 || sink.cells[1].Median != 2 || !slices.Equal(told, []int{1, 2}) {
		t.Errorf("cells %+v, told %v", sink.cells, told)
	}
	if _, err := sink.Write([]byte("{}\n")); err == nil {
		t.Error("figures of a third cell: no error")
	}
	sink.filled = 0
	if _, err := sink.Write([]byte("no figures\n")); err == nil {
		t.Error("no figures: no error")
	}
}
