package experiment

import (
	"fmt"
	"math"

	"github.com/coppice-go/coppice/experiment/chart"
	"github.com/coppice-go/coppice/logp"
	"github.com/coppice-go/coppice/model"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
)

// Corrected Gossip (Hoefler et al., IPDPS 2017). Receives overlap freely, as in
// that work, unless an experiment says otherwise.

var gossipExperiments = []Experiment{
	gossipWork.figure("1", "Lemma 1", "How gossip spreads",
		"Processes colored by gossip that ends, and the longest chain of uncolored ones that 99% of the runs do not exceed; N = 1,024, L = O = 1; simulated and by equations 1 and 2.", gossipFig1),
	gossipWork.figure("3", "", "Opportunistic corrected gossip and its model",
		"Time until everybody is reached, the longest of all runs, by gossip time T; N = 1,024, L = O = 1; the line is equation 3.", gossipFig3),
	gossipWork.figure("5", "", "Checked corrected gossip and its model",
		"Time until everybody has finished, the longest of all runs, by gossip time T; N = 1,024, L = O = 1; the line is equation 4.", gossipFig5),
	gossipWork.figure("9", "", "Failure-proof corrected gossip and its bound",
		"Time until everybody has finished, the longest of all runs, by gossip time T; N = 1,024, L = O = 1, f = 1; the line is equation 5.", gossipFig9),
	{
		Name: "gossip-table", Title: "Six broadcasts among 4,096 processes", Source: "Corrected Gossip, Figure 7 (table)", run: gossipTable,
		About: "Latency and messages with no and with three failed processes; L = 2, O = 1, at the paper's gossip times.",
	},
	gossipWork.figure("7a", "", "Scaling without failures",
		"Median latency at the gossip time that the model chooses; L = 2, O = 1; BIG, BFB and the optimal tree by closed form.", gossipFig7a),
	gossipWork.figure("7b", "", "Scaling with N/64 failed processes",
		"The same with 1.5625% of the processes dead from the start.", gossipFig7b),
	{
		Name: "gossip-tuning", Title: "The model's gossip time and the best one", Source: "Corrected Gossip, equations 3 and 4", run: gossipTuning,
		About: "Longest latency of all runs at the gossip time the model chooses for that many runs, and at the best of its neighbours.",
	},
}

// paperDelta is the paper's δ: an even chance that a million runs all succeed.
var paperDelta = model.DeltaFor(0.5, 1e6)

func openNet(p, l, o int) logp.Network {
	return logp.Network{P: p, L: protocol.Time(l), O: protocol.Time(o), NoQueue: true}
}

// gossipCell returns the cell of one of the paper's broadcasts; sends is OCG's.
func gossipCell(a model.Algorithm, net logp.Network, t, sends, f, dead int) Cell {
	var spec broadcast.Spec
	until := protocol.Time(t)
	switch a {
	case model.GOS:
		spec = broadcast.Spec{Tree: fmt.Sprintf("gossip:%d", t), Correction: "none"}
	case model.OCG:
		spec = broadcast.OCG(net.P, until, protocol.Time(sends+1)*net.O+net.L, net.L, net.O)
	case model.CCG:
		spec = broadcast.CCG(net.P, until, net.L, net.O)
	case model.FCG:
		spec = broadcast.FCG(net.P, until, f, net.L, net.O)
	}
	return Cell{Spec: spec, Net: net, Dead: dead}
}

// latency is what the paper measures: the time until the last process has the message and has completed the
// algorithm. GOS and OCG complete when their time is over, which is when the last message is received.
func latency(a model.Algorithm, s *Sample) Histogram {
	if a == model.CCG || a == model.FCG {
		return s.Completion
	}
	return s.Quiescence
}

// reached is the latency without the time that OCG has and does not need.
func reached(a model.Algorithm, s *Sample) Histogram {
	if a == model.OCG {
		return s.Coloring
	}
	return latency(a, s)
}

func gossipFig1(f *attempt) {
	const n = 1024
	net := openNet(n, 1, 1)
	tuner := f.tuner(model.Gossip{N: n, L: 1, O: 1, Delta: 0.01})
	f.Chart = &chart.Chart{
		Title: "Gossip among 1,024 processes, L = O = 1", X: chart.Axis{Label: "time"}, Y: chart.Axis{Label: "processes", Min: 0, Max: n * 1.05},
	}
	f.beside("colored, simulated", "colored, equation 1")
	f.beside("longest chain, simulated", "longest chain, equation 2")
	t := f.table("", "time", "T", "colored", "colored_model", "chain_p99", "chain_p99_model", "runs")
	off, half := 0.0, 0
	for until := 1; until <= 32; until++ {
		f.plan(gossipCell(model.GOS, net, until, 0, 0, 0), func(s *Sample) {
			at := until + 2 // T−1 + 2O + L
			colored := n - s.Uncolored.Mean()
			expected, err := tuner.Colored(at)
			f.fail(err)
			tuned := f.at(tuner, model.CCG, until)
			chain := float64(s.GapMax.Quantile(0.99))
			t.Add(at, until, colored, expected, chain, tuned.K, s.Runs)
			for i, y := range []float64{colored, expected, chain, float64(tuned.K)} {
				f.Chart.Series[i].Add(float64(at), y)
			}
			off = max(off, math.Abs(colored-expected)/n)
			if half == 0 && colored >= n/2 {
				half = at
			}
		})
	}
	f.simulatePlanned()
	f.claim("half of the processes are colored at", 18, float64(half), 1, "")
	f.claim("the optimal tree takes", 20, float64(model.OptimalLatency(n, 1, 1)), 0, "")
	f.shape("equation 1 against simulation, largest difference", "a rough approximation", text(round(100*off))+"% of N", off < 0.05, "")
}

// byGossipTime draws, for each gossip time, the longest run and the model. It returns by how much the run is
// longer than the model.
func (f *attempt) byGossipTime(a model.Algorithm, from, to int) (off []int) {
	const n = 1024
	net := openNet(n, 1, 1)
	runs := 10 * f.lab.Runs
	forRuns := f.tuner(model.Gossip{N: n, L: 1, O: 1, Delta: model.DeltaFor(0.5, float64(runs)), F: 1})
	forPaper := f.tuner(model.Gossip{N: n, L: 1, O: 1, Delta: paperDelta, F: 1})
	f.Chart = &chart.Chart{Title: f.Title, X: chart.Axis{Label: "gossip time T"}, Y: chart.Axis{Label: "longest run (steps)"}}
	f.beside(fmt.Sprintf("longest of %d runs", runs), fmt.Sprintf("model, %d runs", runs))
	f.Chart.Add("model, 1,000,000 runs", chart.Dashed)
	t := f.table("", "T", "longest", "mean", "model", "model_million_runs", "unreached_runs", "runs")
	for until := from; until <= to; until++ {
		here, there := f.at(forRuns, a, until), f.at(forPaper, a, until)
		c := gossipCell(a, net, until, there.K+6, 1, 0)
		c.Runs = runs
		f.plan(c, func(s *Sample) {
			times := reached(a, s)
			longest := times.Max()
			off = append(off, int(longest)-here.Latency)
			t.Add(until, longest, times.Mean(), here.Latency, there.Latency, s.Uncolored.Above(0), s.Runs)
			for k, y := range []int{int(longest), here.Latency, there.Latency} {
				f.Chart.Series[k].Add(float64(until), float64(y))
			}
		})
	}
	f.simulatePlanned()
	return off
}

// bestOf returns the model's choice at the paper's δ, with the margin of one O that the paper takes in its
// experiments.
func (f *attempt) bestOf(a model.Algorithm, n, l, o, failed int) model.Tuning {
	best, err := f.tuner(model.Gossip{N: n, L: l, O: o, Delta: paperDelta, F: 1, Failed: failed, Margin: true}).Tune(a)
	f.fail(err)
	return best
}

// tuner returns the tuner of a gossip, or of another gossip after an error.
func (f *attempt) tuner(g model.Gossip) *model.Tuner {
	u, err := model.NewTuner(g)
	if err != nil {
		f.fail(err)
		u, _ = model.NewTuner(model.Gossip{N: 2, O: 1, Delta: 0.5})
	}
	return u
}

// at returns the model's tuning of gossip until t.
func (f *attempt) at(u *model.Tuner, a model.Algorithm, t int) model.Tuning {
	tuned, err := u.At(a, t)
	f.fail(err)
	return tuned
}

// spread returns the largest distance from 0 of values around the best gossip time.
func spread(values []int, from, best, around int) int {
	most := 0
	for i, v := range values {
		if t := from + i; t >= best-around && t <= best+around {
			most = max(most, v, -v)
		}
	}
	return most
}

func gossipFig3(f *attempt) {
	const from, to = 18, 34
	off := f.byGossipTime(model.OCG, from, to)
	best := f.bestOf(model.OCG, 1024, 1, 1, 0)
	f.claim("best gossip time by the model", 24, float64(best.T), 0, "")
	f.claim("its total", 31, float64(best.Latency), 0, "")
	worst := spread(off, from, best.T, 4)
	f.shape("simulation against the model near the best T", "at most one step apart", fmt.Sprintf("at most %d for T from %d to %d", worst, best.T-4, best.T+4), worst <= 1, "the extreme of that many runs varies by itself")
}

func gossipFig5(f *attempt) {
	const from, to = 18, 34
	off := f.byGossipTime(model.CCG, from, to)
	best := f.bestOf(model.CCG, 1024, 1, 1, 0)
	f.claim("best gossip time by the model", 25, float64(best.T), 1, "")
	worst := spread(off, from, best.T, 2)
	f.shape("simulation against the model near the best T", "at most two steps apart", fmt.Sprintf("at most %d for T from %d to %d", worst, best.T-2, best.T+2), worst <= 2, "the extreme of that many runs varies by itself")
	f.note("For smaller T the equation is too careful: it charges two steps for each process of a gap, as if both sides were sent to in turn, but who has heard from one side sends to the other in every step.")
}

func gossipFig9(f *attempt) {
	const from, to = 20, 36
	off := f.byGossipTime(model.FCG, from, to)
	above := 0
	for _, v := range off {
		above = max(above, v)
	}
	f.shape("equation 5 bounds what is seen", "an upper bound, rarely met", fmt.Sprintf("at most %d steps above it", above), above <= 0, "")
}
