package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/coppice-go/coppice/bench/loop"
)

// The table of all collectives.
var (
	tableOps   = []string{loop.Broadcast, loop.Reduce, loop.AllReduce, loop.Scatter, loop.Gather, loop.AllToAll, loop.Barrier}
	tableBytes = []int{8, 1 << 10, 64 << 10, 1 << 20}
	tableSizes = []int{2, 4, 8, 16, 32} // processes
)

// cellMax is what no cell of the table may exceed.
const cellMax = 1.5

// meanTarget returns the bound of the geometric mean of the cells of p processes.
func meanTarget(p int) target {
	if p <= 4 {
		return target{ratio: 1.2}
	}
	return target{ratio: 0.9}
}

// collectives returns the comparison of every collective: the cells of the table and the lines beside
// it. Against shared memory there are only cells, and they have no target.
func collectives(tcp, shared bool) (all []line) {
	for _, p := range tableSizes {
		for _, op := range tableOps {
			for _, bytes := range tableBytes {
				l := line{
					what: op + " " + sized(bytes), op: op, p: p, bytes: bytes,
					ours: coppiceUnix, theirs: openMPITCP, target: target{ratio: cellMax}, cell: true,
				}
				if shared {
					l.ours, l.theirs, l.target = coppiceShared, openMPIShared, target{}
				}
				if tcp {
					l.beside = coppiceTCP
				}
				if !loop.Sized(op) {
					l.what, l.bytes = op, 1
				}
				all = append(all, l)
				if !loop.Sized(op) {
					break
				}
			}
		}
	}
	if shared {
		return all
	}
	return append(all, besideTheTable()...)
}

// besideTheTable returns the other lines about collectives.
func besideTheTable() (all []line) {
	for _, p := range []int{8, 16, 32} {
		for _, bytes := range []int{8, 1 << 10, 64 << 10} {
			all = append(all, line{
				what: "corrected broadcast " + sized(bytes), op: loop.Broadcast, p: p, bytes: bytes,
				ours: coppiceCorrected, theirs: coppiceCopied, target: target{ratio: 1.3},
			})
		}
	}
	all = append(all, line{
		what: "barrier beside two hogs", op: loop.Barrier, p: 8, bytes: 1,
		ours: coppiceUnix, theirs: openMPITCP, target: target{ratio: 0.1}, hogs: 2,
	})
	for _, p := range []int{8, 16, 32} {
		all = append(all, line{
			what: "allreduce 8 B in memory", op: loop.AllReduce, p: p, bytes: 8,
			ours: coppiceLocal, theirs: openMPIShared, target: target{ratio: 1, below: true},
		})
	}
	return all
}

// sized formats a number of bytes.
func sized(bytes int) string {
	switch {
	case bytes >= 1<<20 && bytes%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", bytes>>20)
	case bytes >= 1<<10 && bytes%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", bytes>>10)
	default:
		return fmt.Sprintf("%d B", bytes)
	}
}

// mean is the geometric mean of the ratios of the cells of p processes.
type mean struct {
	P       int     `json:"p"`
	Ratio   float64 `json:"ratio,omitempty"`
	Beside  float64 `json:"beside_ratio,omitempty"`
	Cells   int     `json:"cells"`    // whose ratio is in it
	Of      int     `json:"of_cells"` // that were asked for
	Above   int     `json:"above"`    // that exceed cellMax
	Target  string  `json:"target"`
	Verdict string  `json:"verdict,omitempty"`
}

// geometric returns the means of the cells among results, for each number of
// processes.
func geometric(results []result) (means []mean) {
	for _, p := range tableSizes {
		m := mean{P: p}
		var goal target
		var ratios, beside []float64
		for _, r := range results {
			if !r.cell || r.p != p {
				continue
			}
			m.Of++
			if r.target.ratio > 0 {
				goal = meanTarget(p)
			}
			if ratio := r.ratio(oursIn); ratio > 0 {
				ratios = append(ratios, ratio)
				if r.target.verdict(ratio) == "short" {
					m.Above++
				}
			}
			if ratio := r.ratio(besideIn); ratio > 0 {
				beside = append(beside, ratio)
			}
		}
		if m.Of == 0 {
			continue
		}
		m.Target = goal.String()
		m.Cells, m.Ratio, m.Beside = len(ratios), geometricMean(ratios), geometricMean(beside)
		if m.Cells == m.Of {
			m.Verdict = goal.verdict(m.Ratio)
		}
		means = append(means, m)
	}
	return means
}

// geometricMean returns 0 for no values.
func geometricMean(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sum := 0.0
	for _, v := range values {
		sum += math.Log(v)
	}
	return math.Exp(sum / float64(len(values)))
}

// String returns the line above a table.
func (m mean) String() string {
	text := fmt.Sprintf("p = %d: geometric mean %s", m.P, decimal(m.Ratio))
	if m.Target != "" {
		text += ", target " + m.Target
	}
	switch {
	case m.Verdict != "":
		text += ": " + m.Verdict
	case m.Cells < m.Of:
		text += fmt.Sprintf(": undecided, only %d of %d cells have a ratio", m.Cells, m.Of)
	}
	if m.Above > 0 {
		text += fmt.Sprintf("; above %.1f: %d of %d cells", cellMax, m.Above, m.Of)
	}
	if m.Beside > 0 {
		text += fmt.Sprintf("; over TCP: %s", decimal(m.Beside))
	}
	return text
}

func decimal(ratio float64) string {
	if ratio == 0 {
		return dash
	}
	return fmt.Sprintf("%.2f", ratio)
}

// worstMax is how many of the worst cells the report shows.
const worstMax = 10

// writeCollectives writes a table of ratios for each number of processes, then the
// worst cells and the lines beside the table in full.
func writeCollectives(w io.Writer, write func(io.Writer, []column, [][]string) error, means []mean, results []result) error {
	columns := []column{"ratio"}
	for _, bytes := range tableBytes {
		columns = append(columns, column(">"+sized(bytes)))
	}
	for _, m := range means {
		if _, err := fmt.Fprintf(w, "%s\n\n", m); err != nil {
			return err
		}
		if err := write(w, columns, cellRows(results, m.P)); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
	}
	if full := slices.Concat(worst(results), only(results, false)); len(full) > 0 {
		if _, err := fmt.Fprint(w, "The worst cells, and the lines beside the table:\n\n"); err != nil {
			return err
		}
		return write(w, lineColumns, rows(full))
	}
	return nil
}

// cellRows returns the table of p processes: a row for each operation, and one for the side beside it
// if there is one. A barrier, which has no size, is in the first column.
func cellRows(results []result, p int) (rows [][]string) {
	for _, op := range tableOps {
		ours, beside := []string{op}, []string{op + " over TCP"}
		if !loop.Sized(op) {
			ours[0], beside[0] = op+", no data", op+" over TCP, no data"
		}
		measured, isBeside := false, false
		for _, bytes := range tableBytes {
			at := slices.IndexFunc(results, func(r result) bool {
				return r.cell && r.op == op && r.p == p && (r.bytes == bytes || !loop.Sized(op) && bytes == tableBytes[0])
			})
			if at < 0 {
				ours, beside = append(ours, ""), append(beside, "")
				continue
			}
			r := results[at]
			ours, beside = append(ours, r.cellText()), append(beside, decimal(r.ratio(besideIn)))
			measured, isBeside = true, isBeside || r.beside != ""
		}
		if measured {
			rows = append(rows, ours)
		}
		if isBeside {
			rows = append(rows, beside)
		}
	}
	return rows
}

// cellText returns the ratio, with a mark if it exceeds cellMax.
func (r result) cellText() string {
	switch ratio := r.ratio(oursIn); {
	case r.failed != nil:
		return "failed"
	case r.target.verdict(ratio) == "short":
		return "! " + decimal(ratio)
	default:
		return decimal(ratio)
	}
}

// worst returns the cells with the greatest ratios, and before them those that failed.
func worst(results []result) []result {
	rank := func(r result) float64 {
		if r.failed != nil {
			return math.Inf(1)
		}
		return r.ratio(oursIn)
	}
	cells := only(results, true)
	slices.SortStableFunc(cells, func(a, b result) int { return cmp.Compare(rank(b), rank(a)) })
	return cells[:min(worstMax, len(cells))]
}

// only returns the cells of the table, or all other lines.
func only(results []result, cells bool) []result {
	return slices.DeleteFunc(slices.Clone(results), func(r result) bool { return r.cell != cells })
}
