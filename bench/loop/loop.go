// Package loop is the shape that every measured loop in Go has, and the form in
// which loops hand over what they saw; bench/README.md says why it is this one.
// openmpi/loop.c is the same in C: who changes one changes the other.
package loop

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The operations that a loop may repeat.
const (
	PingPong  = "pingpong"  // 2 processes: there and back
	Broadcast = "broadcast" // from rank 0; a barrier, not timed, after each
	Barrier   = "barrier"   // one after the other
	Start     = "start"     // one barrier, nothing recorded: the caller times the process
)

// Job is one call of a loop program: what it repeats, and where the spans go.
type Job struct {
	Op         string
	Bytes      int // carried by one operation
	Warmup     int // iterations before the first recorded one
	Iterations int
	Out        string // rank r writes Out.r
}

// Args returns the arguments that Parse understands.
func (j Job) Args() []string {
	return []string{j.Op, strconv.Itoa(j.Bytes), strconv.Itoa(j.Warmup), strconv.Itoa(j.Iterations), j.Out}
}

// Parse reads OP BYTES WARMUP ITERATIONS OUT.
func Parse(args []string) (Job, error) {
	if len(args) != 5 {
		return Job{}, errors.New("want OP BYTES WARMUP ITERATIONS OUT")
	}
	j := Job{Op: args[0], Out: args[4]}
	if ops := []string{PingPong, Broadcast, Barrier, Start}; !slices.Contains(ops, j.Op) {
		return Job{}, fmt.Errorf("unknown OP %q, allowed: %s", j.Op, strings.Join(ops, ", "))
	}
	for _, number := range []struct {
		name  string
		value *int
		text  string
		least int
	}{
		{"BYTES", &j.Bytes, args[1], 1},
		{"WARMUP", &j.Warmup, args[2], 0},
		{"ITERATIONS", &j.Iterations, args[3], 1},
	} {
		n, err := strconv.Atoi(number.text)
		if err != nil || n < number.least {
			return Job{}, fmt.Errorf("%s is %q, allowed: %d or more", number.name, number.text, number.least)
		}
		*number.value = n
	}
	return j, nil
}

// Steps are the two halves of an iteration at one rank.
type Steps struct {
	Timed   func(data []byte) (got []byte, err error) // got is nil where nothing arrives
	Untimed func() error                              // may be nil
}

// Run repeats the steps and writes the spans of rank.
func (j Job) Run(rank int, s Steps) error {
	spans := make([]Span, 0, j.Iterations)
	data := make([]byte, j.Bytes)
	for i := -j.Warmup; i < j.Iterations; i++ {
		mark := byte(i)
		if rank == 0 { // the others must get it from there
			data[0], data[j.Bytes-1] = mark, mark
		}
		begin := now()
		got, err := s.Timed(data)
		end := now()
		if err != nil {
			return err
		}
		if got != nil && !intact(got, j.Bytes, mark) {
			return fmt.Errorf("rank %d: wrong data in iteration %d", rank, i)
		}
		if i >= 0 {
			spans = append(spans, Span{begin, end})
		}
		if s.Untimed == nil {
			continue
		}
		if err := s.Untimed(); err != nil {
			return err
		}
	}
	return write(File(j.Out, rank), spans)
}

// intact tells whether the mark arrived at both ends: data that never came must not
// pass for fast.
func intact(got []byte, bytes int, mark byte) bool {
	return len(got) == bytes && got[0] == mark && got[bytes-1] == mark
}

// Span is when an operation began and ended at one rank, in nanoseconds of the wall
// clock: unlike Go's monotonic one, it reads the same in all processes of a host.
type Span struct{ Begin, End int64 }

func now() int64 { return time.Now().UnixNano() }

// File names the file of one rank's spans.
func File(out string, rank int) string { return out + "." + strconv.Itoa(rank) }

func write(name string, spans []Span) error {
	var text strings.Builder
	for _, s := range spans {
		fmt.Fprintf(&text, "%d %d\n", s.Begin, s.End)
	}
	return os.WriteFile(name, []byte(text.String()), 0o600)
}

// Read reads what one rank wrote.
func Read(r io.Reader) ([]Span, error) {
	var spans []Span
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		begin, end, _ := strings.Cut(lines.Text(), " ")
		b, errB := strconv.ParseInt(begin, 10, 64)
		e, errE := strconv.ParseInt(end, 10, 64)
		if errB != nil || errE != nil {
			return nil, fmt.Errorf("line %d is %q, want BEGIN END in nanoseconds", len(spans)+1, lines.Text())
		}
		if e < b {
			return nil, fmt.Errorf("line %d is %q: it ends before it begins", len(spans)+1, lines.Text())
		}
		spans = append(spans, Span{b, e})
	}
	return spans, lines.Err()
}
