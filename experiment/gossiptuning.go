package experiment

import (
	"fmt"

	"github.com/coppice-go/coppice/model"
)

func gossipTuning(f *attempt) {
	t := f.table("", "algorithm", "L", "O", "processes", "T_model", "T_best", "longest_at_model", "longest_at_best", "model", "runs")
	for _, a := range []model.Algorithm{model.OCG, model.CCG} {
		within, cases, most := 0, 0, 0.0
		for _, lo := range [][2]int{{1, 1}, {2, 1}, {4, 1}, {4, 2}} {
			for p := 1 << 6; p <= 1<<16; p *= 4 {
				row := f.tuned(a, p, lo[0], lo[1])
				t.Add(a, lo[0], lo[1], p, row.model.T, row.bestT, row.atModel, row.atBest, row.model.Latency, row.runs)
				steps := float64(row.atModel-row.atBest) / float64(lo[1])
				cases++
				if steps <= 1 {
					within++
				}
				most = max(most, steps)
			}
		}
		f.shape(string(a)+": latency at the model's T over the best found", "within one step",
			fmt.Sprintf("within one step in %d of %d cases, at most %s steps", within, cases, text(most)), within == cases,
			"equation 4 charges two steps for each process of a gap where fewer are taken, so T comes out late; and the longest of few runs varies by itself")
	}
}

type tunedRow struct {
	model           model.Tuning
	bestT, runs     int
	atModel, atBest int64
}

// tuned compares the model's gossip time with its neighbours in simulation.
func (f *attempt) tuned(a model.Algorithm, p, l, o int) (row tunedRow) {
	row.runs = f.lab.scaled(p)
	u := f.tuner(model.Gossip{N: p, L: l, O: o, Delta: model.DeltaFor(0.5, float64(row.runs))})
	best, err := u.Tune(a)
	f.fail(err)
	row.model = best
	for d := -4; d <= 4; d++ {
		t := row.model.T + d*o
		if t < 1 {
			continue
		}
		c := gossipCell(a, openNet(p, l, o), t, f.at(u, a, t).K+4, 1, 0)
		c.Runs = row.runs
		f.plan(c, func(s *Sample) {
			longest := reached(a, s).Max()
			if d == 0 {
				row.atModel = longest
			}
			if row.bestT == 0 || longest < row.atBest {
				row.bestT, row.atBest = t, longest
			}
		})
	}
	f.simulatePlanned()
	return row
}
