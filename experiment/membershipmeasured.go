package experiment

import (
	"context"
	"errors"
	"fmt"

	"github.com/coppice-go/coppice/experiment/chart"
	"github.com/coppice-go/coppice/model"
)

// Stabilizer is a Starter that can also measure membership: it starts processes, kills one of them, not the
// lowest, and returns, one per round, the time in µs from when the proposer knows of the crash until the view
// without the process is open at all survivors.
type Stabilizer interface {
	Stabilize(ctx context.Context, processes, fanout, rounds int) ([]float64, error)
}

// stabilizeRounds bounds how many processes are killed for one figure: each takes a new group.
const stabilizeRounds = 20

func membershipMeasured(f *attempt) {
	f.Measured = true
	starter, ok := f.lab.Starter.(Stabilizer)
	if !ok {
		f.Skipped = "nothing here measures membership; coppice bench membership does"
		return
	}
	f.Processes = f.lab.Processes
	processes := f.lab.processes()
	if processes[0] < 3 {
		f.fail(errors.New("fewer than 3 processes; allowed: 3 or more, as one is killed"))
		return
	}
	rounds := min(stabilizeRounds, max(f.lab.Runs, 1))
	defer f.timed()()
	t := f.table("", "processes", "children", "median_us", "q25_us", "q75_us", "rounds")
	f.Chart = &chart.Chart{Title: f.Title, X: chart.Axis{Label: "processes", Log: 2}, Y: chart.Axis{Label: "T_s (µs)"}}
	for _, fanout := range []int{2, 4, 8} {
		s := f.Chart.Add(fmt.Sprintf("%d children", fanout), chart.Line|chart.Marks)
		for _, p := range processes {
			us, err := starter.Stabilize(f.ctx, p, fanout, rounds)
			if err == nil {
				err = checkTimes(us, rounds)
			}
			if err != nil {
				f.fail(fmt.Errorf("%d processes, %d children: %w", p, fanout, err))
				return
			}
			v := model.SpreadOf(us)
			t.Add(p, fanout, v.Median, v.Low, v.High, rounds)
			s.Points = append(s.Points, chart.Point{X: float64(p), Y: v.Median, Low: v.Low, High: v.High})
		}
		last := s.Points[len(s.Points)-1]
		f.within(fmt.Sprintf("T_s with %d children, %.0f processes (§6.1.3)", fanout, last.X), "single-digit ms at 47 nodes over TCP", last.Y, 0, 10_000)
	}
	f.noteMachine(".")
}
