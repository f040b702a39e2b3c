package loop

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		args string
		want string // part of the error, or "" for none
	}{
		{"barrier 1 0 1 out", ""},
		{"pingpong 8 10 100 out", ""},
		{"reduce 16 0 1 out alltoall 1 1 1 other", ""},
		{"agree 8 0 1 out", ""},
		{"agree 4 0 1 out", "multiples of 8"},
		{"", "want OP BYTES"},
		{"barrier 1 0 1", "want OP BYTES"},
		{"barrier 1 0 1 out barrier", "want OP BYTES"},
		{"collect 1 0 1 out", "allowed: pingpong"},
		{"barrier 1 0 1 out collect 1 0 1 out", "allowed: pingpong"},
		{"reduce 12 0 1 out", "multiples of 8"},
		{"scan 1 0 1 out", "multiples of 8"},
		{"barrier 0 0 1 out", "BYTES"},
		{"barrier 1 -1 1 out", "WARMUP"},
		{"barrier 1 0 0 out", "ITERATIONS"},
		{"barrier 1 0 ten out", "ITERATIONS"},
	} {
		jobs, err := Parse(strings.Fields(c.args))
		switch {
		case c.want == "" && (err != nil || strings.Join(Args(jobs), " ") != c.args):
			t.Errorf("%q: %v, %v", c.args, jobs, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%q: error %v, want one with %q", c.args, err, c.want)
		}
	}
}

func TestRunWritesWhatReadReads(t *testing.T) {
	job := Job{Op: Broadcast, Bytes: 4, Warmup: 3, Iterations: 5, Out: filepath.Join(t.TempDir(), "spans")}
	var calls strings.Builder
	err := job.Run(0, Steps{
		Mark:    func(int) { calls.WriteByte('m') },
		Timed:   func() error { calls.WriteByte('t'); return nil },
		Intact:  func(int) bool { calls.WriteByte('i'); return true },
		Untimed: func() error { calls.WriteByte('u'); return nil },
	})
	if want := strings.Repeat("mtiu", 8); err != nil || calls.String() != want {
		t.Fatalf("calls %s, %v; want %s", calls.String(), err, want)
	}
	file, err := os.Open(File(job.Out, 0))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	spans, err := Read(file)
	if err != nil || len(spans) != 5 {
		t.Errorf("%d spans, %v; want 5", len(spans), err)
	}
}

func TestMeasureNoticesDataThatDidNotArrive(t *testing.T) {
	job := Job{Op: Broadcast, Bytes: 4, Warmup: 1, Iterations: 2}
	_, err := job.Measure(1, Steps{
		Timed:  func() error { return nil },
		Intact: func(i int) bool { return i < 1 },
	})
	if err == nil || !strings.Contains(err.Error(), "rank 1: wrong data in iteration 1 of broadcast") {
		t.Errorf("error %v", err)
	}
}

func TestOnlyItsOwnMarksMakeABlockWhole(t *testing.T) {
	const bytes = 4
	sent := Block(bytes)
	Mark(sent, 5, 2, 3)
	half := append(sent[:3:3], 0)
	for _, c := range []struct {
		name        string
		block       []byte
		i, from, to int
		want        bool
	}{
		{"itself", sent, 5, 2, 3, true},
		{"of the iteration before", sent, 6, 2, 3, false},
		{"of another sender", sent, 5, 1, 3, false},
		{"for another", sent, 5, 2, 2, false},
		{"for the sender", sent, 5, 3, 2, false},
		{"half", half, 5, 2, 3, false},
		{"too short", sent[:1], 5, 2, 3, false},
		{"nothing", nil, 5, 2, 3, false},
		{"never written", Block(bytes), 5, 2, 3, false},
	} {
		if got := Marked(c.block, bytes, c.i, c.from, c.to); got != c.want {
			t.Errorf("%s: %t, want %t", c.name, got, c.want)
		}
	}
}

func TestIterationsFallWithTheWork(t *testing.T) {
	for _, c := range []struct {
		op       string
		bytes, p int
		seconds  float64
		want     int
	}{
		{Broadcast, 8, 2, 1, 4999},
		{Barrier, 1, 32, 1, 312},
		{Barrier, 1, 32, 0.25, 78},
		{Broadcast, 1 << 20, 32, 1, 51},
		{AllToAll, 1 << 20, 32, 1, 3}, // a GiB each
		{Start, 1, 32, 1, 1},
	} {
		if got := Iterations(c.op, c.bytes, c.p, c.seconds); got != c.want {
			t.Errorf("%s of %d bytes, p = %d, %v s: %d iterations, want %d", c.op, c.bytes, c.p, c.seconds, got, c.want)
		}
	}
}

func TestReadRefusesNonsense(t *testing.T) {
	for _, text := range []string{"1\n", "1 x\n", "1 2 3\n", "2 1\n", "1 2\n\n"} {
		if spans, err := Read(strings.NewReader(text)); err == nil {
			t.Errorf("%q: %v", text, spans)
		}
	}
}

// Resources used before and after the recorded iterations are not in the usage.
func TestUsageIsOfTheRecordedIterations(t *testing.T) {
	job := Job{Op: Broadcast, Bytes: 4, Warmup: 500, Iterations: 100, Out: filepath.Join(t.TempDir(), "spans")}
	var kept [][]byte
	for rank := range 2 {
		if _, err := job.Measure(rank, Steps{Timed: func() error { kept = append(kept, make([]byte, 64)); return nil }}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := job.ReadUsage(2)
	if err != nil || got.Allocations < 200 || got.Allocations > 300 {
		t.Errorf("%+v, %v; want 200 allocations", got, err)
	}
	if _, err := job.ReadUsage(3); err == nil {
		t.Error("a rank that wrote nothing went unnoticed")
	}
	none := Job{Op: Broadcast, Bytes: 4, Iterations: 1, Out: Nowhere}
	if _, err := none.Measure(0, Steps{Timed: func() error { return nil }}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(usageFile(Nowhere, 0)); err == nil {
		t.Error("written although nothing is to be")
	}
}
