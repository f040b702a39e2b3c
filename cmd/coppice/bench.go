package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/coppice-go/coppice"
	benchloop "github.com/coppice-go/coppice/bench/loop"
	"github.com/coppice-go/coppice/internal/launch"
	"github.com/coppice-go/coppice/internal/transport"
)

type benchCmd struct {
	Op         []string `required:"" placeholder:"OP" help:"broadcast, reduce, allreduce, scan, scatter, gather, allgather, alltoall, barrier, all of these (all), exscan, reducescatter, pingpong, agree, or save."`
	Size       []string `default:"8B" placeholder:"SIZE" help:"Bytes of a task's block, for alltoall and reducescatter of a pair's, such as 8B, 64KiB or 1MiB (default ${default})."`
	N          []int    `bounds:"%d processes; allowed: 1 to 4096" name:"processes" short:"n" placeholder:"N" help:"Number of processes (default: one per CPU, but two at least)."`
	Transport  string   `default:"shared" placeholder:"T" help:"shared (memory), as jobs on Linux by default, unix, tcp, tls, or memory: goroutines of one process (default ${default})."`
	Mode       string   `default:"plain" placeholder:"M" help:"plain, replay, agreed, agreed-report, agreed-twice, for broadcast, reduce and allreduce corrected, for save sends (default ${default})."`
	Tree       string   `placeholder:"T" help:"Tree of broadcasts: binomial, kary:K, lame:K, optimal, gossip:R (default: by size, corrected: binomial)."`
	Correction string   `placeholder:"C" help:"With --mode corrected: checked, opportunistic:D, optimized:D, delayed:US, failure-proof:F (default checked)."`
	Failed     []int    `placeholder:"R" help:"With --mode corrected: ranks whose processes are dead before the first broadcast."`
	Copies     *int     `bounds:"%d copies; allowed: 1 to 4096" placeholder:"K" help:"With --op save: how many other processes get what a task saves (default 2)."`
	Iterations *int     `bounds:"%d iterations; allowed: 1 to 10000000" placeholder:"I" help:"How often an operation is measured (default: for about a second)."`
	Warmup     *int     `bounds:"warm-up of %d iterations; allowed: 0 to 10000000" placeholder:"W" help:"How often it is repeated before that (default: a tenth of the iterations)."`
	Compare    []string `placeholder:"M,M" help:"Instead of --mode: measure with two modes in turn, such as plain,replay, and print how many times as long the second takes."`
	Rounds     *int     `bounds:"%d rounds; allowed: 1 to 1000" placeholder:"R" help:"With --compare: how often the modes take turns (default 5)."`
	CSV        string   `name:"csv" placeholder:"FILE" help:"Write the figures to a file too, as comma-separated values."`
	JSON       bool     `name:"json" help:"Print JSON."`
}

// benchTransports are those to choose from, but for memory.
var benchTransports = []string{transport.Shared, transport.Unix, transport.TCP, transport.TLS}

// benchCollectives are the operations of a whole group.
var benchCollectives = slices.Concat(benchloop.Collectives, benchloop.Further)

// memory is the transport of goroutines in one process.
const memory = "memory"

// Modes of the operations.
const (
	plainMode     = "plain"
	correctedMode = "corrected"
	replayMode    = "replay"
	agreedMode    = "agreed"
	reportMode    = "agreed-report" // with an agreement after the operation
	twiceMode     = "agreed-twice"  // and with one before it
	sendsMode     = "sends"         // of save: what it sends is sent without it
)

// benchModes are those to choose from.
var benchModes = []string{plainMode, correctedMode, replayMode, agreedMode, reportMode, twiceMode, sendsMode}

// agrees tells whether in a mode all complete an operation or none.
func agrees(mode string) bool {
	return mode == agreedMode || mode == reportMode || mode == twiceMode
}

// Bounds of what can be asked for.
const (
	benchBytesMax      = 1 << 30
	benchIterationsMax = 10_000_000
	benchIterationsMin = 20 // of those chosen here
)

// benchCell is one combination of what was asked for, and what came of it.
type benchCell struct {
	Op         string `json:"op"`
	Bytes      int    `json:"bytes"`
	Processes  int    `json:"processes"`
	Transport  string `json:"transport"`
	Mode       string `json:"mode"`
	Tree       string `json:"tree,omitempty"`
	Correction string `json:"correction,omitempty"`
	Failed     []int  `json:"failed,omitempty"`
	Copies     int    `json:"copies,omitempty"` // of what is saved
	Warmup     int    `json:"warmup"`
	Iterations int    `json:"iterations"`
	benchFigures
}

// benchFigures sum up the iterations of a cell.
type benchFigures struct {
	Median         float64 `json:"median_us"`
	P99            float64 `json:"p99_us"`
	BytesPerSecond float64 `json:"bytes_per_second"`
	LogBytes       int64   `json:"log_bytes,omitempty"` // mode replay: that the busiest process logged
}

// job is the loop of a cell.
func (c benchCell) job() benchloop.Job {
	return benchloop.Job{Op: c.Op, Bytes: max(c.Bytes, 1), Warmup: c.Warmup, Iterations: c.Iterations, Out: benchloop.Nowhere}
}

// benchReport is what a benchmark came to.
type benchReport struct {
	Cells   []benchCell `json:"cells"`
	Seconds float64     `json:"seconds"`
}

func (b *benchCmd) Run(c *console) error {
	if b.onlySaves() && b.Mode == plainMode && b.Compare == nil {
		b.Compare = []string{sendsMode, replayMode}
	}
	if b.Compare != nil {
		return b.runCompare(c)
	}
	if b.Rounds != nil {
		return badInput{errors.New("--rounds without --compare; allowed with it")}
	}
	cells, err := b.cells()
	if err == nil {
		err = checkNewFile("--csv", b.CSV)
	}
	if err != nil {
		return badInput{err}
	}
	seconds, err := c.timed(len(cells), func(done func(int)) error { return b.measure(c, cells, done) })
	if err != nil {
		return err
	}
	if b.CSV != "" {
		if err := writeBenchCSV(b.CSV, cells); err != nil {
			return err
		}
	}
	return c.show(b.JSON, benchReport{cells, seconds}, func(w *bufio.Writer) { writeBench(w, cells) })
}

// cells are all combinations of what was asked for: those with the same number
// of processes, which one job measures, follow each other.
func (b *benchCmd) cells() (cells []benchCell, err error) {
	ops, err := b.ops()
	if err != nil {
		return nil, err
	}
	sizes := make([]int, len(b.Size))
	for i, text := range b.Size {
		if sizes[i], err = parseSize(text); err != nil {
			return nil, err
		}
	}
	if err := b.checkHow(ops); err != nil {
		return nil, err
	}
	counts := b.N
	if len(counts) == 0 {
		counts = []int{max(2, runtime.NumCPU())}
	}
	for _, n := range counts {
		for _, op := range ops {
			for _, bytes := range sizes {
				if !benchloop.Sized(op) {
					bytes = 0
				}
				cell, err := b.cell(op, bytes, n)
				if err != nil {
					return nil, err
				}
				cells = append(cells, cell)
				if !benchloop.Sized(op) {
					break
				}
			}
		}
	}
	return cells, nil
}

// ops are the operations that were asked for.
func (b *benchCmd) ops() ([]string, error) {
	if slices.Equal(b.Op, []string{all}) {
		return benchloop.Collectives, nil
	}
	for _, op := range b.Op {
		if op == benchloop.Start || op == benchloop.Sends || !slices.Contains(benchloop.Known, op) {
			known := append(slices.Clone(benchCollectives), benchloop.PingPong, benchloop.Agree, benchloop.Save)
			return nil, fmt.Errorf("operation %q; allowed: %s, or all", op, strings.Join(known, ", "))
		}
	}
	return b.Op, nil
}

// checkHow checks what holds for all cells.
func (b *benchCmd) checkHow(ops []string) error {
	if err := checkMode(b.Mode, ops); err != nil {
		return err
	}
	if b.Transport != memory && !slices.Contains(benchTransports, b.Transport) {
		return fmt.Errorf("transport %q; allowed: %s, memory", b.Transport, strings.Join(benchTransports, ", "))
	}
	if b.Copies != nil && !slices.Contains(ops, benchloop.Save) {
		return errors.New("--copies without operation save; allowed with it")
	}
	return b.checkFlags(ops)
}

// checkMode checks a mode of these operations.
func checkMode(mode string, ops []string) error {
	switch {
	case !slices.Contains(benchModes, mode):
		return fmt.Errorf("mode %q; allowed: %s", mode, strings.Join(benchModes, ", "))
	case mode == correctedMode && outside(corrected, ops) != "":
		return fmt.Errorf("mode corrected with operation %s; allowed with: %s", outside(corrected, ops), strings.Join(corrected, ", "))
	case agrees(mode) && outside(benchCollectives, ops) != "":
		return fmt.Errorf("mode %s with operation %s; allowed with: %s", mode, outside(benchCollectives, ops), strings.Join(benchCollectives, ", "))
	}
	if err := checkSaves(mode, ops); err != nil {
		return err
	}
	if logged(mode) {
		return checkLogged(mode, ops)
	}
	return nil
}

// cell is one combination.
func (b *benchCmd) cell(op string, bytes, n int) (benchCell, error) {
	switch {
	case op == benchloop.PingPong && n != 2:
		return benchCell{}, fmt.Errorf("%s with %d processes; allowed: 2", op, n)
	case benchloop.Sums(op) && bytes%8 != 0:
		return benchCell{}, fmt.Errorf("%d bytes for %s; allowed: multiples of 8", bytes, op)
	}
	if err := b.checkFailed(n); err != nil {
		return benchCell{}, err
	}
	cell := benchCell{
		Op: op, Bytes: bytes, Processes: n, Transport: b.Transport,
		Mode: b.Mode, Tree: b.Tree, Correction: b.Correction, Failed: b.Failed,
	}
	if op == benchloop.Save {
		cell.Copies = b.copies()
		bytes *= cell.Copies
	}
	cell.Iterations = max(benchIterationsMin, benchloop.Iterations(op, bytes, n, 1))
	if b.Compare != nil {
		cell.Iterations = max(compareIterationsMin, benchloop.Iterations(op, bytes, n, compareSeconds))
	}
	cell.Iterations = given(b.Iterations, cell.Iterations)
	cell.Warmup = given(b.Warmup, benchloop.Warmup(cell.Iterations))
	if err := cell.checkMemory(); err != nil || !b.logs() {
		return cell, err
	}
	return cell, cell.fitLog(b.Iterations == nil && b.Warmup == nil)
}

// checkMemory refuses what cannot fit. What is moved is in memory at both ends.
func (c *benchCell) checkMemory() error {
	need := 2*float64(c.moved()) + 2*float64(c.Bytes)*float64(c.Processes)
	return fits(fmt.Sprintf("%s of %d bytes, %d processes", c.Op, c.Bytes, c.Processes), need)
}

// parseSize reads a number of bytes.
func parseSize(text string) (int, error) {
	wrong := fmt.Errorf("size %q; allowed: 1B to 1GiB, such as 8B, 64KiB or 1MiB", text)
	digits := strings.TrimRight(text, "BKMGi")
	unit, ok := map[string]int{"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[text[len(digits):]]
	n, err := strconv.Atoi(digits)
	if !ok || err != nil || n < 1 || n > benchBytesMax/unit {
		return 0, wrong
	}
	return n * unit, nil
}

// measure fills in the figures of the cells: a job for each number of processes, and
// more where what is logged would not fit in one.
// done is told how many cells are finished. The environment, K=V, is for processes
// of their own.
func (b *benchCmd) measure(c *console, cells []benchCell, done func(int), env ...string) error {
	finished := 0
	for len(cells) > 0 {
		end := b.oneJob(cells)
		sink := newBenchSink(cells[:end], func(k int) { done(finished + k) })
		var err error
		if b.Transport == memory {
			err = b.measureHere(sink)
		} else {
			err = b.measureApart(c, sink, env)
		}
		if err == nil && sink.filled < end {
			err = fmt.Errorf("figures of %d cells from rank 0, want %d", sink.filled, end)
		}
		if err != nil {
			return err
		}
		cells, finished = cells[end:], finished+end
	}
	return nil
}

// oneJob is how many of the cells, from the first on, one job measures.
func (b *benchCmd) oneJob(cells []benchCell) (n int) {
	logged := 0.0
	for i := range cells {
		if b.logs() {
			logged += cells[i].logShare() * float64(cells[i].Warmup+cells[i].Iterations)
		}
		if cells[i].Processes != cells[0].Processes || i > 0 && logged > 1 {
			return i
		}
	}
	return len(cells)
}

// measureHere runs the processes of a job as goroutines.
func (b *benchCmd) measureHere(sink *benchSink) error {
	ctx, stop := untilFirstSignal()
	defer stop()
	watch := newLogWatch(slog.NewTextHandler(os.Stderr, logLevel))
	job := b.how().job(watch)
	job.Local = sink.cells[0].Processes
	err := job.Run(ctx, func(ctx context.Context, t *coppice.Task) error {
		return benchTask(ctx, t, sink.jobs(), b.how(), watch, sink)
	})
	return interruptedOr(ctx, err)
}

// measureApart starts the processes of a job, of which rank 0 tells the figures.
func (b *benchCmd) measureApart(c *console, sink *benchSink, env []string) error {
	ctx, stop := untilSignal()
	defer stop()
	plan, err := launch.New(launch.Config{
		N: sink.cells[0].Processes, StdinRank: -1,
		Program: self(), Args: append(b.how().words(), benchloop.Args(sink.jobs())...),
		Env:    append([]string{transport.ChooseVariable + "=" + b.Transport}, env...),
		Output: launch.Output{Stdout: sink, Stderr: c.stderr},
		Notice: c.notice,
	})
	if err != nil {
		return err
	}
	run, err := plan.Run(ctx)
	if err != nil {
		return err
	}
	// A benchmark survives nobody but those it was told of.
	if run.Cause != "" && (run.Exit != 0 || !slices.Equal(run.Killed, slices.Sorted(slices.Values(b.Failed)))) {
		return cmp.Or(run.Err(), errors.New(run.Cause))
	}
	return nil
}

// benchSink takes the figures of cells, in their order: one JSON document a line.
type benchSink struct {
	cells  []benchCell
	done   func(filled int)
	filled int
	lineWriter
}

func newBenchSink(cells []benchCell, done func(filled int)) *benchSink {
	s := &benchSink{cells: cells, done: done}
	s.take = s.fill
	return s
}

func (s *benchSink) jobs() []benchloop.Job { return each(s.cells, benchCell.job) }

// fill reads the figures of the next cell.
func (s *benchSink) fill(line []byte) error {
	if s.filled == len(s.cells) {
		return fmt.Errorf("%q after all figures", line)
	}
	if err := json.Unmarshal(line, &s.cells[s.filled].benchFigures); err != nil {
		return fmt.Errorf("figures %q: %w", line, err)
	}
	s.filled++
	s.done(s.filled)
	return nil
}

// writeBench prints the cells for people.
func writeBench(w *bufio.Writer, cells []benchCell) {
	fmt.Fprintf(w, "%s, %s\n\n", cells[0].Transport, cells[0].how())
	tabulate(newTable(w), "         \tsize\tn\titerations\tmedian µs\tp99 µs\tMB/s\t", cells, func(c benchCell) string {
		size, rate := "", ""
		if c.Bytes > 0 {
			size, rate = sizeText(c.Bytes), fmt.Sprintf("%.2f", c.BytesPerSecond/1e6)
		}
		return fmt.Sprintf("%-9s\t%s\t%d\t%d\t%.1f\t%.1f\t%s\t", c.Op, size, c.Processes, c.Iterations, c.Median, c.P99, rate)
	})
}

// how says in which mode the broadcasts of a cell are, along which tree and without whom.
func (c *benchCell) how() string {
	text := c.Mode
	for _, word := range []string{c.Correction, c.Tree} {
		if word != "" {
			text += ", " + word
		}
	}
	if c.Copies > 0 {
		text += fmt.Sprintf(", copies: %d", c.Copies)
	}
	if len(c.Failed) > 0 {
		text += fmt.Sprintf(", failed: %v", c.Failed)
	}
	return text
}

// sizeText writes a number of bytes as parseSize reads it.
func sizeText(bytes int) string {
	for _, unit := range []struct {
		name  string
		bytes int
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if bytes%unit.bytes == 0 {
			return strconv.Itoa(bytes/unit.bytes) + unit.name
		}
	}
	return strconv.Itoa(bytes) + "B"
}

// writeBenchCSV writes the cells to a file, under the keys that JSON has.
func writeBenchCSV(name string, cells []benchCell) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	float := func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
	rows := [][]string{{
		"op", "bytes", "processes", "transport", "mode", "warmup", "iterations",
		"median_us", "p99_us", "bytes_per_second",
	}}
	for _, c := range cells {
		rows = append(rows, []string{
			c.Op, strconv.Itoa(c.Bytes), strconv.Itoa(c.Processes), c.Transport, c.Mode,
			strconv.Itoa(c.Warmup), strconv.Itoa(c.Iterations), float(c.Median), float(c.P99), float(c.BytesPerSecond),
		})
	}
	return errors.Join(csv.NewWriter(file).WriteAll(rows), file.Close())
}

// What Save costs: beside the time that it takes to send the same bytes as often, and to
// wait for all, which no way to save them can do without.

// onlySaves tells whether Save is all that is measured.
func (b *benchCmd) onlySaves() bool { return slices.Equal(b.Op, []string{benchloop.Save}) }

// copies is how many there are of what is saved.
func (b *benchCmd) copies() int {
	if slices.Contains(b.Op, benchloop.Save) {
		return given(b.Copies, benchloop.CopiesDefault)
	}
	return given(b.Copies, 0)
}

// checkSaves checks a mode with Save, and the mode that is for Save.
func checkSaves(mode string, ops []string) error {
	for _, op := range ops {
		switch {
		case op == benchloop.Save && mode != replayMode && mode != sendsMode:
			return fmt.Errorf("mode %s with operation save; allowed: replay, sends", mode)
		case op != benchloop.Save && mode == sendsMode:
			return fmt.Errorf("mode sends with operation %s; allowed with: save", op)
		}
	}
	return nil
}

// moved is how many bytes an iteration must bring to other processes.
func (c *benchCell) moved() int {
	return benchloop.Moved(c.Op, c.Bytes, c.Processes) * max(c.Copies, 1)
}
