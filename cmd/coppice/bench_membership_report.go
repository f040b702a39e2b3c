package main

import (
	"bufio"
	"fmt"
	"math"
	"runtime"

	"github.com/coppice-go/coppice/model"
)

// deathFigures sum up the deaths of one kind: µs, medians over the rounds unless
// said otherwise.
type deathFigures struct {
	Median        float64 `json:"median_us"` // SIGKILL → all survivors have the view
	P99           float64 `json:"p99_us"`
	Detection     float64 `json:"detection_us"` // SIGKILL → the first survivor knows
	Proposer      float64 `json:"proposer_us"`  // SIGKILL → the proposer knows
	Stabilization float64 `json:"stabilization_us"`
}

// membershipRatios are medians of the rounds' own ratios, whose two sides are
// neighbours in time; memberlist's is one of medians, as it has fewer rounds.
type membershipRatios struct {
	StabilizationToBarrier float64  `json:"stabilization_to_barrier"`
	TotalToFloor           float64  `json:"total_to_floor"`
	MemberlistToTotal      *float64 `json:"memberlist_to_total,omitempty"`
}

// What the ratios should be.
const (
	stabilizationToBarrierMax = 3
	totalToFloorMax           = 2
	memberlistToTotalMin      = 200
)

// membershipSize is what came of one number of processes.
type membershipSize struct {
	Processes int `json:"processes"`
	deathFigures
	Root       deathFigures     `json:"root"`  // the same when rank 0 is killed, the proposer
	First      deathFigures     `json:"first"` // the first death of a job, in which everything is new
	Barrier    float64          `json:"barrier_us"`
	Floor      float64          `json:"floor_us"`
	Memberlist *float64         `json:"memberlist_us,omitempty"`
	Ratios     membershipRatios `json:"ratios"`
}

// membershipReport is the whole.
type membershipReport struct {
	Sizes      []membershipSize `json:"sizes"`
	Fit        *logFit          `json:"fit,omitempty"`
	Rounds     int              `json:"rounds"`
	Fanout     int              `json:"fanout,omitempty"`
	Processors int              `json:"processors"`
	Seconds    float64          `json:"seconds"`
}

func newMembershipReport(p membershipPlan, sides []membershipSides) *membershipReport {
	r := &membershipReport{Sizes: each(sides, membershipSides.sumUp), Rounds: p.rounds, Fanout: p.fanout, Processors: runtime.NumCPU()}
	if len(r.Sizes) > 1 {
		r.Fit = new(logFit(model.FitLine(each(r.Sizes, func(s membershipSize) model.Point {
			return model.Point{X: math.Log2(float64(s.Processes)), Y: s.Stabilization}
		}))))
	}
	return r
}

func (s membershipSides) sumUp() membershipSize {
	m := membershipSize{
		Processes: s.n, deathFigures: deathFiguresOf(s.any), Root: deathFiguresOf(s.root), First: deathFiguresOf(s.first),
		Barrier: model.Median(s.barrier), Floor: model.Median(s.floor),
	}
	var toBarrier, toFloor []float64
	for i, v := range s.any {
		toBarrier = append(toBarrier, v.stabilization()/s.barrier[i])
		toFloor = append(toFloor, v.total/s.floor[i])
	}
	m.Ratios.StabilizationToBarrier, m.Ratios.TotalToFloor = model.Median(toBarrier), model.Median(toFloor)
	if len(s.memberlist) > 0 {
		us := model.Median(s.memberlist)
		m.Memberlist, m.Ratios.MemberlistToTotal = &us, new(us/m.Median)
	}
	return m
}

func deathFiguresOf(changes []viewChange) deathFigures {
	total := func(v viewChange) float64 { return v.total }
	return deathFigures{
		Median:        medianOf(changes, total),
		P99:           p99Of(changes, total),
		Detection:     medianOf(changes, func(v viewChange) float64 { return v.detection }),
		Proposer:      medianOf(changes, func(v viewChange) float64 { return v.proposer }),
		Stabilization: medianOf(changes, viewChange.stabilization),
	}
}

// logFit is the straight line that fits stabilization over log2 N best, by least
// squares: intercept + slope·log2 N.
type logFit struct {
	Slope     float64 `json:"slope_us"` // for each doubling of N
	Intercept float64 `json:"intercept_us"`
	R2        float64 `json:"r2"` // the part of the variance that it explains
}

// write prints the report for people.
func (r *membershipReport) write(w *bufio.Writer) {
	fmt.Fprintf(w, "a process is killed; %s, medians in µs, %.0f s\n\n", count(r.Rounds, "round"), r.Seconds)
	table := newTable(w)
	fmt.Fprintln(table, "n\tkilled\tfirst knows\tproposer knows\tstabilization\tall have the view\tp99\t")
	for _, s := range r.Sizes {
		for _, row := range []struct {
			killed string
			deathFigures
		}{{"another", s.deathFigures}, {"rank 0", s.Root}, {"the first", s.First}} {
			fmt.Fprintf(table, "%d\t%s\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t\n",
				s.Processes, row.killed, row.Detection, row.Proposer, row.Stabilization, row.Median, row.P99)
		}
	}
	table.Flush()
	fmt.Fprintln(w)
	fmt.Fprintln(table, "n\tbarrier\tfloor\tmemberlist\tstabilization/barrier\ttotal/floor\tmemberlist/total\t")
	for _, s := range r.Sizes {
		theirs, ratio := "", ""
		if s.Memberlist != nil {
			theirs = fmt.Sprintf("%.0f", *s.Memberlist)
			ratio = verdict(*s.Ratios.MemberlistToTotal, *s.Ratios.MemberlistToTotal >= memberlistToTotalMin)
		}
		b, f := s.Ratios.StabilizationToBarrier, s.Ratios.TotalToFloor
		fmt.Fprintf(table, "%d\t%.0f\t%.0f\t%s\t%s\t%s\t%s\t\n", s.Processes, s.Barrier, s.Floor, theirs,
			verdict(b, b <= stabilizationToBarrierMax), verdict(f, f <= totalToFloorMax), ratio)
	}
	table.Flush()
	fmt.Fprintf(w, "\ntargets: stabilization/barrier ≤ %d, total/floor ≤ %d, memberlist/total ≥ %d; ! misses\n",
		stabilizationToBarrierMax, totalToFloorMax, memberlistToTotalMin)
	if f := r.Fit; f != nil {
		fmt.Fprintf(w, "stabilization ≈ %.0f µs + %.0f µs · log2 n, r² = %.2f\n", f.Intercept, f.Slope, f.R2)
	}
}

// verdict marks a ratio that misses its target.
func verdict(ratio float64, ok bool) string {
	text := fmt.Sprintf("%.2f", ratio)
	if !ok {
		text += " !"
	}
	return text
}
