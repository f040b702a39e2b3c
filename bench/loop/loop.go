// Package loop is the shape that every measured loop in Go has, and the form in which loops deliver
// what they saw; bench/README.md says why it is this one. openmpi/loop.c is the same in C: change both
// together. Its API may change.
package loop

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Job is one loop: what it repeats, and where the spans go.
type Job struct {
	Op         string
	Bytes      int // as the OSU benchmarks count: of a task's block, for alltoall and reducescatter of a pair's
	Warmup     int // iterations before the first recorded one
	Iterations int
	Out        string // rank r writes Out.r, and its usage to Out.r.usage
	Copies     int    // of Save and Sends; not among the arguments
	Twice      bool   // all agree before the operation, too; not among the arguments
}

// Nowhere is the Out of a job that writes no files.
const Nowhere = "none"

// words is the number of arguments of a job.
const words = 5

// Args returns the arguments that Parse understands.
func (j Job) Args() []string {
	return []string{j.Op, strconv.Itoa(j.Bytes), strconv.Itoa(j.Warmup), strconv.Itoa(j.Iterations), j.Out}
}

// Args returns the arguments of several jobs.
func Args(jobs []Job) (args []string) {
	for _, j := range jobs {
		args = append(args, j.Args()...)
	}
	return args
}

// Parse reads OP BYTES WARMUP ITERATIONS OUT, once or several times.
func Parse(args []string) (jobs []Job, err error) {
	if len(args) == 0 || len(args)%words != 0 {
		return nil, errors.New("want OP BYTES WARMUP ITERATIONS OUT, once or several times")
	}
	for five := range slices.Chunk(args, words) {
		j, err := parse(five)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, j)
	}
	return jobs, nil
}

func parse(args []string) (Job, error) {
	j := Job{Op: args[0], Out: args[4]}
	if j.Op == Save || j.Op == Sends {
		j.Copies = CopiesDefault
	}
	if !slices.Contains(Known, j.Op) {
		return Job{}, fmt.Errorf("unknown OP %q, allowed: %s", j.Op, strings.Join(Known, ", "))
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
	if Sums(j.Op) && j.Bytes%numberBytes != 0 {
		return Job{}, fmt.Errorf("BYTES is %d for %s, allowed: multiples of %d", j.Bytes, j.Op, numberBytes)
	}
	return j, nil
}

// Steps are the parts of an iteration i at one rank. All but Timed may be nil.
type Steps struct {
	Mark    func(i int) // makes what is sent this iteration's
	Timed   func() error
	Intact  func(i int) bool // reports whether this iteration's data arrived
	Untimed func() error
}

// Run repeats the steps and writes the spans of rank.
func (j Job) Run(rank int, s Steps) error {
	spans, err := j.Measure(rank, s)
	if err != nil {
		return err
	}
	return j.Write(rank, spans)
}

// Measure repeats the steps and returns the spans of rank.
func (j Job) Measure(rank int, s Steps) ([]Span, error) {
	spans := make([]Span, 0, j.Iterations)
	var before Usage
	for i := -j.Warmup; i < j.Iterations; i++ {
		if i == 0 {
			before = usageBefore()
		}
		if s.Mark != nil {
			s.Mark(i)
		}
		begin := now()
		err := s.Timed()
		end := now()
		if err != nil {
			return nil, err
		}
		if s.Intact != nil && !s.Intact(i) {
			return nil, fmt.Errorf("rank %d: wrong data in iteration %d of %s", rank, i, j.Op)
		}
		if i >= 0 {
			spans = append(spans, Span{begin, end})
		}
		if s.Untimed == nil {
			continue
		}
		if err := s.Untimed(); err != nil {
			return nil, err
		}
	}
	used := usageAfter().Sub(before)
	if j.Out == "" || j.Out == Nowhere {
		return spans, nil
	}
	return spans, used.write(j.Out, rank)
}

// Block returns memory of length bytes that is backed by pages: memory that was never written may be
// all one page of zeros, which is cheap to send.
func Block(length int) []byte { return bytes.Repeat([]byte{1}, length) }

// Mark marks both ends of a block with the iteration, the sender and the receiver; the receiver is 0 if
// all get the same block.
func Mark(block []byte, i, from, to int) {
	block[0] = mark(i, from, to)
	block[len(block)-1] = block[0]
}

// Marked reports whether a block has its size and marks: data that never arrived must not pass for
// fast.
func Marked(block []byte, bytes, i, from, to int) bool {
	m := mark(i, from, to)
	return len(block) == bytes && block[0] == m && block[bytes-1] == m
}

func mark(i, from, to int) byte { return byte(i + 31*from + 7*to) }

// Span is when an operation began and ended at one rank, in nanoseconds of the wall
// clock: unlike Go's monotonic one, it reads the same in all processes of a host.
type Span struct{ Begin, End int64 }

func now() int64 { return time.Now().UnixNano() }

// File names the file of one rank's spans.
func File(out string, rank int) string { return out + "." + strconv.Itoa(rank) }

// Write writes the spans of a rank to its file, in the format that Read reads.
func (j Job) Write(rank int, spans []Span) error {
	var text strings.Builder
	for _, s := range spans {
		fmt.Fprintf(&text, "%d %d\n", s.Begin, s.End)
	}
	return os.WriteFile(File(j.Out, rank), []byte(text.String()), 0o600)
}

// Read reads the spans that one rank wrote.
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
