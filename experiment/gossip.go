package experiment

import (
	"context"
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
	{
		Name: "gossip-fig1", Title: "How gossip spreads", Source: "Corrected Gossip, Figure 1 and Lemma 1", run: gossipFig1,
		About: "Processes colored by gossip that ends, and the longest chain of uncolored ones that 99% of the runs do not exceed; N = 1,024, L = O = 1; simulated and by equations 1 and 2.",
	},
	{
		Name: "gossip-fig3", Title: "Opportunistic corrected gossip and its model", Source: "Corrected Gossip, Figure 3", run: gossipFig3,
		About: "Time until everybody is reached, the longest of all runs, by gossip time T; N = 1,024, L = O = 1; the line is equation 3.",
	},
	{
		Name: "gossip-fig5", Title: "Checked corrected gossip and its model", Source: "Corrected Gossip, Figure 5", run: gossipFig5,
		About: "Time until everybody has finished, the longest of all runs, by gossip time T; N = 1,024, L = O = 1; the line is equation 4.",
	},
	{
		Name: "gossip-fig9", Title: "Failure-proof corrected gossip and its bound", Source: "Corrected Gossip, Figure 9", run: gossipFig9,
		About: "Time until everybody has finished, the longest of all runs, by gossip time T; N = 1,024, L = O = 1, f = 1; the line is equation 5.",
	},
	{
		Name: "gossip-table", Title: "Six broadcasts among 4,096 processes", Source: "Corrected Gossip, Figure 7 (table)", run: gossipTable,
		About: "Latency and messages with no and with three failed processes; L = 2, O = 1, at the paper's gossip times.",
	},
	{
		Name: "gossip-fig7a", Title: "Scaling without failures", Source: "Corrected Gossip, Figure 7a", run: gossipFig7a,
		About: "Median latency at the gossip time that the model chooses; L = 2, O = 1; BIG, BFB and the optimal tree by closed form.",
	},
	{
		Name: "gossip-fig7b", Title: "Scaling with N/64 failed processes", Source: "Corrected Gossip, Figure 7b", run: gossipFig7b,
		About: "The same with 1.5625% of the processes dead from the start.",
	},
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

// gossipCell is one of the paper's broadcasts; sends is OCG's.
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

// latency is what the paper measures: until the last process has the message
// and has completed the algorithm. GOS and OCG complete when their time is
// over, which is when what was sent last is received.
func latency(a model.Algorithm, s *Sample) Histogram {
	if a == model.CCG || a == model.FCG {
		return s.Completion
	}
	return s.Quiescence
}

func gossipFig1(ctx context.Context, lab *Lab, f *Finding) error {
	const n = 1024
	net := openNet(n, 1, 1)
	tuner, err := model.NewTuner(model.Gossip{N: n, L: 1, O: 1, Delta: 0.01})
	if err != nil {
		return err
	}
	f.Chart = &chart.Chart{
		Title: "Gossip among 1,024 processes, L = O = 1", X: chart.Axis{Label: "time"}, Y: chart.Axis{Label: "processes", Min: 0, Max: n * 1.05},
		Series: []chart.Series{
			{Name: "colored, simulated", Style: chart.Marks},
			{Name: "colored, equation 1", Style: chart.Line, Like: 1},
			{Name: "longest chain, simulated", Style: chart.Marks},
			{Name: "longest chain, equation 2", Style: chart.Line, Like: 3},
		},
	}
	t := Table{Columns: []string{"time", "T", "colored", "colored_model", "chain_p99", "chain_p99_model", "runs"}}
	var cells []Cell
	for until := 1; until <= 32; until++ {
		cells = append(cells, gossipCell(model.GOS, net, until, 0, 0, 0))
	}
	samples, err := lab.Measure(ctx, cells...)
	if err != nil {
		return err
	}
	off, half := 0.0, 0
	for i, s := range samples {
		until := i + 1
		at := until + 2 // T−1 + 2O + L
		colored := n - s.Uncolored.Mean()
		expected, err := tuner.Colored(at)
		if err != nil {
			return err
		}
		tuned, err := tuner.At(model.CCG, until)
		if err != nil {
			return err
		}
		chain := float64(s.GapMax.Quantile(0.99))
		t.Add(at, until, colored, expected, chain, tuned.K, s.Runs)
		for i, y := range []float64{colored, expected, chain, float64(tuned.K)} {
			f.Chart.Series[i].Points = append(f.Chart.Series[i].Points, chart.Point{X: float64(at), Y: y})
		}
		off = max(off, math.Abs(colored-expected)/n)
		if half == 0 && colored >= n/2 {
			half = at
		}
	}
	f.Tables = append(f.Tables, t)
	f.claim("half of the processes are colored at", 18, float64(half), 1, "")
	f.claim("the optimal tree takes", 20, float64(model.OptimalLatency(n, 1, 1)), 0, "")
	f.shape("equation 1 against simulation, largest difference", "a rough approximation", text(round(100*off))+"% of N", off < 0.05, "")
	return nil
}

// byGossipTime draws, for each gossip time, the longest run and the model. It
// returns by how much the former is longer.
func byGossipTime(ctx context.Context, lab *Lab, f *Finding, a model.Algorithm, from, to int) (off []int, err error) {
	const n = 1024
	net := openNet(n, 1, 1)
	runs := 10 * lab.Runs
	predict := func(delta float64) (*model.Tuner, error) {
		return model.NewTuner(model.Gossip{N: n, L: 1, O: 1, Delta: delta, F: 1})
	}
	forRuns, err := predict(model.DeltaFor(0.5, float64(runs)))
	if err != nil {
		return nil, err
	}
	forPaper, err := predict(paperDelta)
	if err != nil {
		return nil, err
	}
	f.Chart = &chart.Chart{
		Title: f.Title, X: chart.Axis{Label: "gossip time T"}, Y: chart.Axis{Label: "longest run (steps)"},
		Series: []chart.Series{
			{Name: fmt.Sprintf("longest of %d runs", runs), Style: chart.Marks},
			{Name: fmt.Sprintf("model, %d runs", runs), Style: chart.Line, Like: 1},
			{Name: "model, 1,000,000 runs", Style: chart.Dashed},
		},
	}
	var here, there []model.Tuning
	var cells []Cell
	for until := from; until <= to; until++ {
		h, err := forRuns.At(a, until)
		if err != nil {
			return nil, err
		}
		t, err := forPaper.At(a, until)
		if err != nil {
			return nil, err
		}
		c := gossipCell(a, net, until, t.K+6, 1, 0)
		c.Runs = runs
		here, there, cells = append(here, h), append(there, t), append(cells, c)
	}
	samples, err := lab.Measure(ctx, cells...)
	if err != nil {
		return nil, err
	}
	t := Table{Columns: []string{"T", "longest", "mean", "model", "model_million_runs", "unreached_runs", "runs"}}
	for i, s := range samples {
		times := latency(a, s)
		if a == model.OCG {
			times = s.Coloring // it was given more time than it needs
		}
		longest := times.Max()
		off = append(off, int(longest)-here[i].Latency)
		t.Add(from+i, longest, times.Mean(), here[i].Latency, there[i].Latency, s.Uncolored.Above(0), s.Runs)
		for k, y := range []float64{float64(longest), float64(here[i].Latency), float64(there[i].Latency)} {
			f.Chart.Series[k].Points = append(f.Chart.Series[k].Points, chart.Point{X: float64(from + i), Y: y})
		}
	}
	f.Tables = append(f.Tables, t)
	return off, nil
}

// bestOf is the model's choice at the paper's δ, with the margin of one O that
// the paper takes in its experiments.
func bestOf(a model.Algorithm, n, l, o, failed int) (model.Tuning, error) {
	u, err := model.NewTuner(model.Gossip{N: n, L: l, O: o, Delta: paperDelta, F: 1, Failed: failed, Margin: true})
	if err != nil {
		return model.Tuning{}, err
	}
	return u.Tune(a)
}

// spread is the largest distance from 0 of values around the best gossip time.
func spread(values []int, from, best, around int) int {
	most := 0
	for i, v := range values {
		if t := from + i; t >= best-around && t <= best+around {
			most = max(most, v, -v)
		}
	}
	return most
}

func gossipFig3(ctx context.Context, lab *Lab, f *Finding) error {
	const from, to = 18, 34
	off, err := byGossipTime(ctx, lab, f, model.OCG, from, to)
	if err != nil {
		return err
	}
	best, err := bestOf(model.OCG, 1024, 1, 1, 0)
	if err != nil {
		return err
	}
	f.claim("best gossip time by the model", 24, float64(best.T), 0, "")
	f.claim("its total", 31, float64(best.Latency), 0, "")
	worst := spread(off, from, best.T, 4)
	f.shape("simulation against the model near the best T", "at most one step apart", fmt.Sprintf("at most %d for T from %d to %d", worst, best.T-4, best.T+4), worst <= 1, "the extreme of that many runs varies by itself")
	return nil
}

func gossipFig5(ctx context.Context, lab *Lab, f *Finding) error {
	const from, to = 18, 34
	off, err := byGossipTime(ctx, lab, f, model.CCG, from, to)
	if err != nil {
		return err
	}
	best, err := bestOf(model.CCG, 1024, 1, 1, 0)
	if err != nil {
		return err
	}
	f.claim("best gossip time by the model", 25, float64(best.T), 1, "")
	worst := spread(off, from, best.T, 2)
	f.shape("simulation against the model near the best T", "at most two steps apart", fmt.Sprintf("at most %d for T from %d to %d", worst, best.T-2, best.T+2), worst <= 2, "the extreme of that many runs varies by itself")
	f.note("For smaller T the equation is too careful: it charges two steps for each process of a gap, as if both sides were sent to in turn, but who has heard from one side sends to the other in every step.")
	return nil
}

func gossipFig9(ctx context.Context, lab *Lab, f *Finding) error {
	const from, to = 20, 36
	off, err := byGossipTime(ctx, lab, f, model.FCG, from, to)
	if err != nil {
		return err
	}
	above := 0
	for _, v := range off {
		above = max(above, v)
	}
	f.shape("equation 5 bounds what is seen", "an upper bound, rarely met", fmt.Sprintf("at most %d steps above it", above), above <= 0, "")
	return nil
}

// tableRow is a row of the paper's table.
type tableRow struct {
	algorithm     model.Algorithm
	failed, t     int
	latency, work float64
}

var gossipRows = []tableRow{
	{model.GOS, 0, 50, 53, 95_418},
	{model.GOS, 3, 50, 53, 95_331},
	{model.OCG, 0, 32, 42, 38_400},
	{model.OCG, 3, 32, 42, 38_355},
	{model.CCG, 0, 36, 44, 19_057},
	{model.CCG, 3, 34, 46, 16_952},
	{model.FCG, 0, 37, 48, 23_153},
	{model.FCG, 3, 37, 51, 23_101},
}

// variant is a way to simulate a row: the paper's, and others for comparison.
type variant struct {
	row   tableRow
	n     int
	queue bool
}

// variants lists them. The rows of CCG and FCG are those of 1,024 processes,
// whatever the table's heading says.
func (r tableRow) variants() []variant {
	if r.algorithm == model.CCG || r.algorithm == model.FCG {
		return []variant{{r, 1024, false}, {r, 4096, false}, {r, 4096, true}}
	}
	return []variant{{r, 4096, false}, {r, 4096, true}}
}

func gossipTable(ctx context.Context, lab *Lab, f *Finding) error {
	const n = 4096
	t := Table{Columns: []string{
		"algorithm", "failed", "T", "processes", "queue", "latency", "quiescence", "messages", "gossip_mean", "correction_mean",
		"unreached_percent", "paper_latency", "paper_messages", "runs",
	}}
	var cells []Cell
	var all []variant
	for _, row := range gossipRows {
		for _, v := range row.variants() {
			c := gossipCell(row.algorithm, openNet(v.n, 2, 1), row.t, 4, 1, row.failed)
			c.Net.NoQueue = !v.queue
			if v != row.variants()[0] { // for comparison only
				c.Runs = max(lab.Runs/20, 1)
			}
			cells, all = append(cells, c), append(all, v)
		}
	}
	samples, err := lab.Measure(ctx, cells...)
	if err != nil {
		return err
	}
	for i, s := range samples {
		v := all[i]
		took, work := float64(latency(v.row.algorithm, s).Quantile(0.5)), s.work(v.n)
		t.Add(v.row.algorithm, v.row.failed, v.row.t, v.n, v.queue, took, s.Quiescence.Quantile(0.5), work,
			round(s.perRun(s.Disseminations)), round(s.perRun(s.Corrections)), 100*s.Uncolored.Mean()/float64(v.n), v.row.latency, v.row.work, s.Runs)
		if v == v.row.variants()[0] {
			name := fmt.Sprintf("%s, %d failed, T = %d, N = %d: ", v.row.algorithm, v.row.failed, v.row.t, v.n)
			f.claim(name+"latency", v.row.latency, took, 1, "see gossip-table.md")
			f.claim(name+"messages", v.row.work, work, v.row.work/1000, "")
		}
	}
	f.claim("BIG, closed form: latency", 60, float64(model.BIGLatency(n, 2, 1)), 0, "")
	f.claim("BIG, closed form: messages", 49_152, float64(model.BIGWork(n)), 0, "")
	for i, failed := range []int{0, 3} {
		restarts := model.BFBRestarts(failed)
		f.claim(fmt.Sprintf("BFB, closed form, %d failed: latency", failed), []float64{96, 144}[i], float64(model.BFBLatency(n, 2, 1, restarts)), 0, "")
		f.claim(fmt.Sprintf("BFB, closed form, %d failed: messages", failed), []float64{4096, 8192}[i], float64(model.BFBWork(n, restarts)), 0, "")
	}
	for _, tree := range []string{"big", "bfb"} {
		for _, failed := range []int{0, 3} {
			c := Cell{Spec: broadcast.Spec{Tree: tree, Correction: "none"}, Net: logP(n), Dead: failed, Runs: min(lab.Runs, 1000)}
			if tree == "bfb" {
				c.Net.Detect = 1
			}
			samples, err := lab.Measure(ctx, c)
			if err != nil {
				return err
			}
			s := samples[0]
			t.Add(tree+", simulated", failed, "", n, true, s.Completion.Quantile(0.5), s.Quiescence.Quantile(0.5), s.work(n),
				round(s.perRun(s.Disseminations)), 0, 100*s.Uncolored.Mean()/n, "", "", s.Runs)
		}
	}
	f.Tables = append(f.Tables, t)
	f.note("The paper's table is headed N = 4,096. Its rows for CCG and FCG are those of 1,024 processes at gossip times chosen for 4,096: gossip-table.md has the evidence. Latency is when the last process leaves the algorithm; latency and messages are medians, gossip and correction together; means by phase stand beside them.")
	f.note("BFB simulated counts acknowledgements, the closed form does not.")
	return nil
}

// scaling measures the three corrected gossips over group sizes.
func scaling(ctx context.Context, lab *Lab, f *Finding, share int) (map[string]map[int]float64, float64, error) {
	t := Table{Columns: []string{"algorithm", "processes", "failed", "T", "latency_median", "latency_mean", "messages_per_process", "unreached_percent", "runs"}}
	f.Chart = &chart.Chart{Title: f.Title + ", L = 2, O = 1", X: chart.Axis{Label: "processes", Log: 2}, Y: chart.Axis{Label: "median latency (steps)"}}
	curve := map[string]map[int]float64{}
	unreached := 0.0
	put := func(s *chart.Series, p int, v float64) {
		if curve[s.Name] == nil {
			curve[s.Name] = map[int]float64{}
		}
		curve[s.Name][p] = v
		s.Points = append(s.Points, chart.Point{X: float64(p), Y: v})
	}
	all := sizes(1<<6, 1<<20)
	algorithms := []model.Algorithm{model.OCG, model.CCG, model.FCG}
	var cells []Cell
	var times []int
	for _, a := range algorithms {
		for _, p := range all {
			dead := 0
			if share > 0 {
				dead = p / share
			}
			tuned, err := bestOf(a, p, 2, 1, dead)
			if err != nil {
				return nil, 0, err
			}
			c := gossipCell(a, openNet(p, 2, 1), tuned.T, tuned.K, 1, dead)
			c.Runs = lab.scaled(p)
			cells, times = append(cells, c), append(times, tuned.T)
		}
	}
	samples, err := lab.Measure(ctx, cells...)
	if err != nil {
		return nil, 0, err
	}
	for i, a := range algorithms {
		series := chart.Series{Name: string(a), Style: chart.Line | chart.Marks}
		for k, p := range all {
			n := i*len(all) + k
			s, took := samples[n], latency(a, samples[n])
			median := float64(took.Quantile(0.5))
			t.Add(a, p, cells[n].Dead, times[n], median, took.Mean(), s.perRun(s.Disseminations+s.Corrections)/float64(p), 100*s.Uncolored.Mean()/float64(p), s.Runs)
			put(&series, p, median)
			unreached = max(unreached, s.Uncolored.Mean()/float64(p))
		}
		f.Chart.Series = append(f.Chart.Series, series)
	}
	big, bfb := chart.Series{Name: "BIG", Style: chart.Dashed}, chart.Series{Name: "BFB", Style: chart.Dashed}
	opt := chart.Series{Name: "optimal tree", Style: chart.Dashed}
	for _, p := range all {
		put(&big, p, float64(model.BIGLatency(p, 2, 1)))
		put(&bfb, p, float64(model.BFBLatency(p, 2, 1, 0)))
		put(&opt, p, float64(model.OptimalLatency(p, 2, 1)))
	}
	f.Chart.Series = append(f.Chart.Series, big, bfb)
	if share == 0 {
		f.Chart.Series = append(f.Chart.Series, opt)
	}
	f.Tables = append(f.Tables, t)
	return curve, unreached, nil
}

// beats is the smallest size from which on a is faster than b; 0: none.
func beats(curve map[string]map[int]float64, a, b string) int {
	from := 0
	for _, p := range sizes(1<<6, 1<<20) {
		switch {
		case curve[a][p] >= curve[b][p]:
			from = 0
		case from == 0:
			from = p
		}
	}
	return from
}

func gossipFig7a(ctx context.Context, lab *Lab, f *Finding) error {
	curve, _, err := scaling(ctx, lab, f, 0)
	if err != nil {
		return err
	}
	from := beats(curve, "fcg", "BIG")
	f.shape("FCG is faster than BIG", "from 512 processes on", fmt.Sprintf("from %d on", from), from > 0 && from <= 1024, "")
	ocg, ccg := beats(curve, "ocg", "BIG"), beats(curve, "ocg", "BFB")
	f.shape("OCG is faster than BIG and BFB", "at any size", fmt.Sprintf("from %d and %d on", ocg, ccg), ocg == 64 && ccg == 64, "")
	grows := curve["optimal tree"][1<<20] < curve["ocg"][1<<20]
	f.shape("the optimal tree is a lower bound", "lowest", fmt.Sprint(grows), grows, "")
	return nil
}

func gossipFig7b(ctx context.Context, lab *Lab, f *Finding) error {
	curve, unreached, err := scaling(ctx, lab, f, 64)
	if err != nil {
		return err
	}
	from := beats(curve, "fcg", "BIG")
	f.shape("FCG is faster than BIG", "above 256 processes", fmt.Sprintf("from %d on", from), from > 0 && from <= 1024, "")
	f.shape("processes OCG reaches", "at least 99.999%", fmt.Sprintf("%.6f%%", 100*(1-unreached)), unreached <= 1e-5, "")
	return nil
}

func gossipTuning(ctx context.Context, lab *Lab, f *Finding) error {
	t := Table{Columns: []string{"algorithm", "L", "O", "processes", "T_model", "T_best", "longest_at_model", "longest_at_best", "model", "runs"}}
	for _, a := range []model.Algorithm{model.OCG, model.CCG} {
		within, cases, most := 0, 0, 0.0
		for _, lo := range [][2]int{{1, 1}, {2, 1}, {4, 1}, {4, 2}} {
			for p := 1 << 6; p <= 1<<16; p *= 4 {
				row, err := tuned(ctx, lab, a, p, lo[0], lo[1])
				if err != nil {
					return err
				}
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
	f.Tables = append(f.Tables, t)
	return nil
}

type tunedRow struct {
	model           model.Tuning
	bestT, runs     int
	atModel, atBest int64
}

// tuned compares the model's gossip time with its neighbours in simulation.
func tuned(ctx context.Context, lab *Lab, a model.Algorithm, p, l, o int) (row tunedRow, err error) {
	row.runs = lab.scaled(p)
	u, err := model.NewTuner(model.Gossip{N: p, L: l, O: o, Delta: model.DeltaFor(0.5, float64(row.runs))})
	if err != nil {
		return row, err
	}
	if row.model, err = u.Tune(a); err != nil {
		return row, err
	}
	var cells []Cell
	var times []int
	for d := -4; d <= 4; d++ {
		t := row.model.T + d*o
		if t < 1 {
			continue
		}
		at, err := u.At(a, t)
		if err != nil {
			return row, err
		}
		c := gossipCell(a, openNet(p, l, o), t, at.K+4, 1, 0)
		c.Runs = row.runs
		cells, times = append(cells, c), append(times, t)
	}
	samples, err := lab.Measure(ctx, cells...)
	if err != nil {
		return row, err
	}
	for i, s := range samples {
		longest := latency(a, s).Max()
		if a == model.OCG {
			longest = s.Coloring.Max()
		}
		if times[i] == row.model.T {
			row.atModel = longest
		}
		if row.bestT == 0 || longest < row.atBest {
			row.bestT, row.atBest = times[i], longest
		}
	}
	return row, nil
}
