package experiment

import (
	"fmt"

	"github.com/coppice-go/coppice/model"
	"github.com/coppice-go/coppice/protocol/broadcast"
)

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

// variant is a way to simulate a row: the paper's, or another for comparison.
type variant struct {
	n     int
	queue bool
}

// variants returns the ways to simulate the row. The rows of CCG and FCG are those of 1,024 processes,
// whatever the table's heading says.
func (r tableRow) variants() []variant {
	if r.algorithm == model.CCG || r.algorithm == model.FCG {
		return []variant{{1024, false}, {4096, false}, {4096, true}}
	}
	return []variant{{4096, false}, {4096, true}}
}

func gossipTable(f *attempt) {
	const n = 4096
	t := f.table("",
		"algorithm", "failed", "T", "processes", "queue", "latency", "quiescence", "messages", "gossip_mean", "correction_mean",
		"unreached_percent", "paper_latency", "paper_messages", "runs",
	)
	for _, row := range gossipRows {
		for i, v := range row.variants() {
			c := gossipCell(row.algorithm, openNet(v.n, 2, 1), row.t, 4, 1, row.failed)
			c.Net.NoQueue = !v.queue
			if i > 0 { // for comparison only
				c.Runs = max(f.lab.Runs/20, 1)
			}
			f.plan(c, func(s *Sample) {
				took, work := float64(latency(row.algorithm, s).Quantile(0.5)), s.work(v.n)
				t.Add(row.algorithm, row.failed, row.t, v.n, v.queue, took, s.Quiescence.Quantile(0.5), work,
					round(s.perRun(s.Disseminations)), round(s.perRun(s.Corrections)), 100*s.Uncolored.Mean()/float64(v.n), row.latency, row.work, s.Runs)
				if i == 0 {
					name := fmt.Sprintf("%s, %d failed, T = %d, N = %d: ", row.algorithm, row.failed, row.t, v.n)
					f.claim(name+"latency", row.latency, took, 1, "see gossip-table.md")
					f.claim(name+"messages", row.work, work, row.work/1000, "")
				}
			})
		}
	}
	f.simulatePlanned()
	f.claim("BIG, closed form: latency", 60, float64(model.BIGLatency(n, 2, 1)), 0, "")
	f.claim("BIG, closed form: messages", 49_152, float64(model.BIGWork(n)), 0, "")
	for i, failed := range []int{0, 3} {
		restarts := model.BFBRestarts(failed)
		f.claim(fmt.Sprintf("BFB, closed form, %d failed: latency", failed), []float64{96, 144}[i], float64(model.BFBLatency(n, 2, 1, restarts)), 0, "")
		f.claim(fmt.Sprintf("BFB, closed form, %d failed: messages", failed), []float64{4096, 8192}[i], float64(model.BFBWork(n, restarts)), 0, "")
	}
	for _, tree := range []string{"big", "bfb"} {
		for _, failed := range []int{0, 3} {
			c := Cell{Spec: broadcast.Spec{Tree: tree, Correction: "none"}, Net: logP(n), Dead: failed, Runs: min(f.lab.Runs, 1000)}
			if tree == "bfb" {
				c.Net.Detect = 1
			}
			samples := f.simulate(c)
			s := samples[0]
			t.Add(tree+", simulated", failed, "", n, true, s.Completion.Quantile(0.5), s.Quiescence.Quantile(0.5), s.work(n),
				round(s.perRun(s.Disseminations)), 0, 100*s.Uncolored.Mean()/n, "", "", s.Runs)
		}
	}
	f.note("The paper's table is headed N = 4,096. Its rows for CCG and FCG are those of 1,024 processes at gossip times chosen for 4,096: gossip-table.md has the evidence. Latency is when the last process leaves the algorithm; latency and messages are medians, gossip and correction together; means by phase stand beside them.")
	f.note("BFB simulated counts acknowledgements, the closed form does not.")
}
