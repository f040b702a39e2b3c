package experiment

import (
	"fmt"

	"github.com/coppice-go/coppice/experiment/chart"
	"github.com/coppice-go/coppice/model"
)

// scaling measures the three corrected gossips over group sizes.
func (f *attempt) scaling(share int) (curve map[string]map[int]float64, unreached float64) {
	t := f.table("", "algorithm", "processes", "failed", "T", "latency_median", "latency_mean", "messages_per_process", "unreached_percent", "runs")
	f.Chart = &chart.Chart{Title: f.Title + ", L = 2, O = 1", X: chart.Axis{Label: "processes", Log: 2}, Y: chart.Axis{Label: "median latency (steps)"}}
	curve = map[string]map[int]float64{}
	all := sizes(1 << 20)
	put := func(s *chart.Series, p int, v float64) {
		if curve[s.Name] == nil {
			curve[s.Name] = map[int]float64{}
		}
		curve[s.Name][p] = v
		s.Add(float64(p), v)
	}
	for _, a := range []model.Algorithm{model.OCG, model.CCG, model.FCG} {
		series := f.Chart.Add(string(a), chart.Line|chart.Marks)
		for _, p := range all {
			dead := 0
			if share > 0 {
				dead = p / share
			}
			tuned := f.bestOf(a, p, 2, 1, dead)
			c := gossipCell(a, openNet(p, 2, 1), tuned.T, tuned.K, 1, dead)
			c.Runs = f.lab.scaled(p)
			f.plan(c, func(s *Sample) {
				took := latency(a, s)
				median := float64(took.Quantile(0.5))
				t.Add(a, p, dead, tuned.T, median, took.Mean(), s.perRun(s.Disseminations+s.Corrections)/float64(p), 100*s.Uncolored.Mean()/float64(p), s.Runs)
				put(series, p, median)
				unreached = max(unreached, s.Uncolored.Mean()/float64(p))
			})
		}
	}
	f.simulatePlanned()
	big, bfb := f.Chart.Add("BIG", chart.Dashed), f.Chart.Add("BFB", chart.Dashed)
	for _, p := range all {
		put(big, p, float64(model.BIGLatency(p, 2, 1)))
		put(bfb, p, float64(model.BFBLatency(p, 2, 1, 0)))
	}
	if share == 0 {
		optimal := f.Chart.Add("optimal tree", chart.Dashed)
		for _, p := range all {
			put(optimal, p, float64(model.OptimalLatency(p, 2, 1)))
		}
	}
	return curve, unreached
}

// beats returns the smallest size from which on a is faster than b, or 0.
func beats(curve map[string]map[int]float64, a, b string) int {
	from := 0
	for _, p := range sizes(1 << 20) {
		switch {
		case curve[a][p] >= curve[b][p]:
			from = 0
		case from == 0:
			from = p
		}
	}
	return from
}

func gossipFig7a(f *attempt) {
	curve, _ := f.scaling(0)
	from := beats(curve, "fcg", "BIG")
	f.shape("FCG is faster than BIG", "from 512 processes on", fmt.Sprintf("from %d on", from), from > 0 && from <= 1024, "")
	ocg, ccg := beats(curve, "ocg", "BIG"), beats(curve, "ocg", "BFB")
	f.shape("OCG is faster than BIG and BFB", "at any size", fmt.Sprintf("from %d and %d on", ocg, ccg), ocg == 64 && ccg == 64, "")
	grows := curve["optimal tree"][1<<20] < curve["ocg"][1<<20]
	f.shape("the optimal tree is a lower bound", "lowest", fmt.Sprint(grows), grows, "")
}

func gossipFig7b(f *attempt) {
	curve, unreached := f.scaling(64)
	from := beats(curve, "fcg", "BIG")
	f.shape("FCG is faster than BIG", "above 256 processes", fmt.Sprintf("from %d on", from), from > 0 && from <= 1024, "")
	f.shape("processes OCG reaches", "at least 99.999%", fmt.Sprintf("%.6f%%", 100*(1-unreached)), unreached <= 1e-5, "")
}
