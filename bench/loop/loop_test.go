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
		{"barrier 1 0 1", "want OP BYTES"},
		{"gather 1 0 1 out", "allowed: pingpong"},
		{"barrier 0 0 1 out", "BYTES"},
		{"barrier 1 -1 1 out", "WARMUP"},
		{"barrier 1 0 0 out", "ITERATIONS"},
		{"barrier 1 0 ten out", "ITERATIONS"},
	} {
		job, err := Parse(strings.Fields(c.args))
		switch {
		case c.want == "" && (err != nil || strings.Join(job.Args(), " ") != c.args):
			t.Errorf("%q: %v, %v", c.args, job.Args(), err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%q: error %v, want one with %q", c.args, err, c.want)
		}
	}
}

func TestRunWritesWhatReadReads(t *testing.T) {
	job := Job{Op: Broadcast, Bytes: 4, Warmup: 3, Iterations: 5, Out: filepath.Join(t.TempDir(), "spans")}
	timed, untimed := 0, 0
	err := job.Run(0, Steps{
		Timed:   func(data []byte) ([]byte, error) { timed++; return data, nil },
		Untimed: func() error { untimed++; return nil },
	})
	if err != nil || timed != 8 || untimed != 8 {
		t.Fatalf("%d timed, %d untimed, %v; want 8, 8", timed, untimed, err)
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

func TestRunNoticesDataThatDidNotArrive(t *testing.T) {
	job := Job{Op: Broadcast, Bytes: 4, Warmup: 1, Iterations: 2, Out: filepath.Join(t.TempDir(), "spans")}
	for name, step := range map[string]func([]byte) ([]byte, error){
		"own data":  func(data []byte) ([]byte, error) { return data, nil },
		"too short": func([]byte) ([]byte, error) { return []byte{255}, nil },
		"half":      func([]byte) ([]byte, error) { return []byte{255, 0, 0, 0}, nil },
	} {
		if err := job.Run(1, Steps{Timed: step}); err == nil {
			t.Errorf("%s: no error", name)
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
