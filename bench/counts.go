package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/coppice-go/coppice/bench/loop"
)

// The operations whose costs have limits, and on how many processes.
var (
	countedOps   = []string{loop.Broadcast, loop.Reduce, loop.AllReduce, loop.AllToAll, loop.Barrier, loop.PingPong, loop.Sends}
	countedBytes = []int{8, 64 << 10}
	countedSizes = []int{2, 4, 8}
)

// counted returns a line for each operation whose cost is counted, on each number of processes. On two,
// messages go there and back; on more, every task sends to the two after it.
func counted(ours, theirs side, sizes []int) (all []line) {
	for _, p := range sizes {
		for _, op := range countedOps {
			if op == loop.PingPong && p != 2 || op == loop.Sends && p == 2 {
				continue
			}
			for _, bytes := range countedBytes {
				l := line{what: op + " " + sized(bytes), op: op, p: p, bytes: bytes, ours: ours, theirs: theirs}
				if !loop.Sized(op) {
					l.what, l.bytes = op, 1
				}
				if ours == coppiceShared {
					l.what += ", shared memory"
				}
				all = append(all, l)
				if !loop.Sized(op) {
					break
				}
			}
		}
	}
	return all
}

// countedJob returns the loop of a line whose cost is counted. It is short: counts are the same from
// iteration to iteration.
func (l line) countedJob() loop.Job {
	n := 400
	if l.bytes > 1<<10 {
		n = 200
	}
	return loop.Job{Op: l.op, Bytes: l.bytes, Warmup: n / 4, Iterations: n}
}

// limitsText holds the limits: a line for each operation, under the names of the columns.
//
//go:embed limits.txt
var limitsText string

const limitsHead = "# What an operation, with the barrier after it, may cost all processes together. To write it anew: go run ./bench --counts --write\n"

// lineKey identifies a line in limits.txt: an operation, bytes, processes, and how they are connected.
type lineKey [4]string

func (l line) key() lineKey {
	over := "unix"
	if l.ours == coppiceShared {
		over = "shared"
	}
	return lineKey{l.op, strconv.Itoa(l.bytes), strconv.Itoa(l.p), over}
}

// unlimited stands in limits.txt for the limit of what has none.
const unlimited = "-"

// parseLimits reads limits.txt.
func parseLimits(text string) (limits map[lineKey]cost, err error) {
	limits = map[lineKey]cost{}
	for row := range strings.Lines(text) {
		words := strings.Fields(row)
		if len(words) == 0 || words[0] == "#" || words[0] == "op" {
			continue
		}
		n := len(lineKey{})
		if len(words) != n+len(quantities) {
			return nil, fmt.Errorf("limits.txt: %d words in %q, want %d", len(words), row, n+len(quantities))
		}
		var c cost
		for i, q := range quantities {
			limit := q.of(&c)
			if *limit = math.Inf(1); words[n+i] == unlimited {
				continue
			}
			if *limit, err = strconv.ParseFloat(words[n+i], 64); err != nil {
				return nil, fmt.Errorf("limits.txt: %w", err)
			}
		}
		limits[lineKey(words)] = c
	}
	return limits, nil
}

// writeLimits writes limits above what was counted, in the format that parseLimits reads.
func writeLimits(w io.Writer, results []result) error {
	columns := []column{"op", ">bytes", ">p", "over"}
	for _, q := range quantities {
		columns = append(columns, column(">"+q.name))
	}
	var rows [][]string
	for _, r := range results {
		key := r.key()
		row := key[:]
		c := r.cost(oursIn)
		for _, q := range quantities {
			limit := unlimited
			if q.limits(r.line.ours) {
				limit = fmt.Sprintf("%.1f", q.factor**q.of(&c)+q.slack)
			}
			row = append(row, limit)
		}
		rows = append(rows, row)
	}
	if _, err := io.WriteString(w, limitsHead); err != nil {
		return err
	}
	return table(w, columns, rows)
}

// above returns which counts exceed their limits.
func above(c, limit cost) (which []string) {
	for _, q := range quantities {
		if got, most := *q.of(&c), *q.of(&limit); got > most {
			which = append(which, fmt.Sprintf("%s %.1f, limit %.1f", q.name, got, most))
		}
	}
	return which
}

// countRounds is how often a batch is measured, at most.
const countRounds = 5

// count counts what the lines cost and compares it with the limits, or writes new limits. It measures a
// batch again while a count is above its limit: load can only increase counts.
func count(ctx context.Context, o options, chosen []line, stdout, stderr io.Writer) (ok bool, err error) {
	limits, err := parseLimits(limitsText)
	if err != nil {
		return false, err
	}
	if err := onTwoProcessors(); err != nil {
		return false, fmt.Errorf("two processors for all: %w", err)
	}
	dir, err := os.MkdirTemp("", "coppice-bench-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	ps, err := build(ctx, dir, o)
	if ctx.Err() != nil {
		return false, errInterrupted
	}
	if err != nil {
		return false, err
	}
	if o.of != "" {
		fmt.Fprintf(stderr, "of %s\n", ps.other)
	}
	var results []result
	for _, b := range bySize(chosen) {
		fmt.Fprintf(stderr, "%s\n", b)
		measured := ps.count(ctx, b, o, limits, dir)
		if o.write && ctx.Err() == nil { // with other work beside them, too
			for i := range b {
				b[i].hogs = 2
			}
			for i, r := range ps.count(ctx, b, o, limits, dir) {
				measured[i] = measured[i].worse(r)
			}
		}
		if ctx.Err() != nil {
			return false, errInterrupted
		}
		results = append(results, measured...)
	}
	if err := writeCosts(stdout, results); err != nil {
		return false, err
	}
	ok = true
	for _, r := range results {
		which := above(r.cost(oursIn), limits[r.key()])
		if r.failed != nil {
			which = []string{r.failed.Error()}
		}
		if len(which) > 0 && (!o.write || r.failed != nil) {
			ok = false
			fmt.Fprintf(stderr, "bench: %s: %s\n", r.line, strings.Join(which, "; "))
		}
	}
	if !ok || !o.write {
		return ok, nil
	}
	root, err := moduleDir(ctx)
	if err != nil {
		return false, err
	}
	var text bytes.Buffer
	if err := writeLimits(&text, results); err != nil {
		return false, err
	}
	return true, os.WriteFile(filepath.Join(root, "bench", "limits.txt"), text.Bytes(), 0o644)
}

// bySize groups all lines of a side on the same number of processes.
func bySize(lines []line) (all []batch) {
	for _, l := range lines {
		if last := len(all) - 1; last >= 0 && all[last][0].p == l.p && all[last][0].ours == l.ours {
			all[last] = append(all[last], l)
		} else {
			all = append(all, batch{l})
		}
	}
	return all
}

// count measures a batch until no count is above its limit, or in all rounds.
func (ps *programs) count(ctx context.Context, b batch, o options, limits map[lineKey]cost, dir string) []result {
	results, stop := ps.begin(b)
	if stop == nil {
		return results
	}
	defer stop()
	for range o.rounds {
		well := true
		for i, f := range ps.once(ctx, b[0].ours, results, o, dir) {
			r := &results[i]
			r.rounds = append(r.rounds, round{Ours: f})
			well = well && r.failed == nil && len(above(r.cost(oursIn), limits[r.key()])) == 0
		}
		if well && !o.write || ctx.Err() != nil {
			break
		}
	}
	return results
}

// worse returns the greater of every limited count of two results.
func (r result) worse(s result) result {
	c, d := r.cost(oursIn), s.cost(oursIn)
	for _, q := range quantities {
		*q.of(&c) = max(*q.of(&c), *q.of(&d))
	}
	return result{line: r.line, rounds: []round{{Ours: figure{Cost: c}}}, failed: errors.Join(r.failed, s.failed)}
}

// writeCosts writes what was counted.
func writeCosts(w io.Writer, results []result) error {
	columns := []column{"what", ">p"}
	for _, q := range quantities {
		columns = append(columns, column(">"+q.name))
	}
	columns = append(columns, ">all calls", ">CPU µs", ">involuntary")
	var rows [][]string
	for _, r := range results {
		c := r.cost(oursIn)
		row := []string{r.what, strconv.Itoa(r.p)}
		for _, q := range quantities {
			row = append(row, fmt.Sprintf("%.1f", *q.of(&c)))
		}
		for _, v := range []float64{c.AllCalls, c.CPU, c.Involuntary} {
			row = append(row, fmt.Sprintf("%.1f", v))
		}
		if r.line.ours == coppiceShared { // is not traced
			for i := range columns {
				if slices.Contains([]column{">calls", ">sends", ">bytes", ">all calls"}, columns[i]) {
					row[i] = unlimited
				}
			}
		}
		rows = append(rows, row)
	}
	return table(w, columns, rows)
}
