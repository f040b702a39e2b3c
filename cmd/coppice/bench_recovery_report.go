package main

import (
	"bufio"
	"fmt"
	"runtime"

	"github.com/coppice-go/coppice/model"
)

// survival is how one death was got over: µs since SIGKILL.
type survival struct {
	noticed   float64 // the first survivor has seen a connection break
	detection float64 // the first survivor knows that it is a death
	view      float64 // the last survivor has opened the view without the dead
	started   float64 // the program of the dead task has begun again
	resumed   float64 // it has come to the operation that it died in
	total     float64 // the last task is through with that
}

// survival sums up what the tasks saw of a death.
func (s *deathSink) survival(death int, killed int64, victims []int) (r survival, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen, victim := s.seen[death], victims[death]
	if len(seen) != s.n {
		return r, fmt.Errorf("death of rank %d: %d tasks were through with the operation; want %d", victim, len(seen), s.n)
	}
	since := func(at int64) float64 { return float64(at-killed) / 1e3 }
	var noticed, learned int64
	for _, l := range seen {
		learned = earlier(learned, l.Learned)
		if l.Noticed >= killed { // else its connection broke before, for another reason
			noticed = earlier(noticed, l.Noticed)
		}
		r.view, r.total = max(r.view, since(l.Opened)), max(r.total, since(l.Done))
		if (l.Started != 0) != (l.Rank == victim) {
			return r, fmt.Errorf("death of rank %d: task %d was run again: %t", victim, l.Rank, l.Started != 0)
		}
		if l.Opened == 0 {
			return r, fmt.Errorf("death of rank %d: no view without it in the log of task %d's process", victim, l.Rank)
		}
	}
	own := seen[victim]
	r.detection, r.started, r.resumed = since(learned), since(own.Started), since(own.Entered)
	r.noticed = since(earlier(noticed, learned))
	if learned == 0 || r.noticed < 0 || r.view < r.detection || r.started < r.detection || r.resumed < r.started || r.total < r.resumed {
		return r, fmt.Errorf("death of rank %d: times out of order: %+v", victim, r)
	}
	return r, nil
}

// earlier is the earlier of two times; 0 is none.
func earlier(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// recoveryFigures sum up survivals: µs since SIGKILL, medians over the rounds unless
// said otherwise.
type recoveryFigures struct {
	Median    float64 `json:"median_us"` // the operation is complete at all tasks
	P99       float64 `json:"p99_us"`
	Noticed   float64 `json:"noticed_us"`   // the first survivor has seen a connection break
	Detection float64 `json:"detection_us"` // the first survivor knows that it is a death
	View      float64 `json:"view_us"`      // all survivors have the view
	Started   float64 `json:"started_us"`   // the dead task's program has begun again
	Resumed   float64 `json:"resumed_us"`   // it has come to the operation
}

// recoveryRatios are medians of the rounds' own ratios, whose two sides are neighbours
// in time.
type recoveryRatios struct {
	TotalToFloor float64 `json:"total_to_floor"`
	ViewToFloor  float64 `json:"view_to_floor"`
	TotalToView  float64 `json:"total_to_view"`
}

// recoveryCell is what came of one operation.
type recoveryCell struct {
	Op    string `json:"op"`
	Bytes int    `json:"bytes"`
	recoveryFigures
	First  recoveryFigures `json:"first"` // the first death of a job, in which everything is new
	Floor  float64         `json:"floor_us"`
	Seen   float64         `json:"floor_noticed_us"` // the floor's first survivor has seen a connection break
	Ratios recoveryRatios  `json:"ratios"`
}

// recoveryReport is the whole.
type recoveryReport struct {
	Cells      []recoveryCell `json:"cells"`
	Processes  int            `json:"processes"`
	Mode       string         `json:"mode"`
	Work       float64        `json:"work_us,omitempty"` // of the function that combines two values
	Backups    string         `json:"backups,omitempty"` // of what it makes
	Rounds     int            `json:"rounds"`
	Processors int            `json:"processors"`
	Seconds    float64        `json:"seconds"`
}

func newRecoveryReport(p recoveryPlan, sides []recoverySides) *recoveryReport {
	r := &recoveryReport{Processes: p.n, Mode: p.mode, Rounds: p.rounds, Processors: runtime.NumCPU()}
	if p.work > 0 {
		r.Work, r.Backups = microseconds(p.work), p.backups
	}
	r.Cells = each(sides, func(s recoverySides) recoveryCell { return s.sumUp(p.bytes) })
	return r
}

func (s *recoverySides) sumUp(bytes int) recoveryCell {
	c := recoveryCell{Op: s.op, Bytes: bytes, recoveryFigures: recoveryFiguresOf(s.any), First: recoveryFiguresOf(s.first), Floor: model.Median(s.floor), Seen: model.Median(s.noticed)}
	var total, view, beyond []float64
	for i, r := range s.any {
		total, view, beyond = append(total, r.total/s.floor[i]), append(view, r.view/s.floor[i]), append(beyond, r.total/r.view)
	}
	c.Ratios = recoveryRatios{model.Median(total), model.Median(view), model.Median(beyond)}
	return c
}

func recoveryFiguresOf(all []survival) recoveryFigures {
	total := func(r survival) float64 { return r.total }
	return recoveryFigures{
		Median:    medianOf(all, total),
		P99:       p99Of(all, total),
		Noticed:   medianOf(all, func(r survival) float64 { return r.noticed }),
		Detection: medianOf(all, func(r survival) float64 { return r.detection }),
		View:      medianOf(all, func(r survival) float64 { return r.view }),
		Started:   medianOf(all, func(r survival) float64 { return r.started }),
		Resumed:   medianOf(all, func(r survival) float64 { return r.resumed }),
	}
}

// manner is how the operation is carried out.
func (r *recoveryReport) manner() string {
	if r.Work == 0 {
		return r.Mode
	}
	return fmt.Sprintf("%s, %.0f µs to combine two values, backups %s", r.Mode, r.Work, r.Backups)
}

// write prints the report for people.
func (r *recoveryReport) write(w *bufio.Writer) {
	fmt.Fprintf(w, "a process is killed in an operation of %d, %s; %s, medians in µs since then, %.0f s\n\n", r.Processes, r.manner(), count(r.Rounds, "round"), r.Seconds)
	table := newTable(w)
	fmt.Fprintf(table, "%-9s\tsize\tlink breaks\tfirst knows\tall have the view\tit runs again\tis back in it\tall are through\tp99\tfirst death\tfloor: link breaks\tfloor\ttotal/floor\t\n", "")
	for _, c := range r.Cells {
		ratio := c.Ratios.TotalToFloor
		fmt.Fprintf(table, "%-9s\t%s\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%s\t\n", c.Op, sizeText(c.Bytes),
			c.Noticed, c.Detection, c.View, c.Started, c.Resumed, c.Median, c.P99, c.First.Median, c.Seen, c.Floor, verdict(ratio, ratio <= totalToFloorMax))
	}
	table.Flush()
	fmt.Fprintf(w, "\ntarget: total/floor ≤ %d; ! misses\n", totalToFloorMax)
}
