package experiment

import (
	"fmt"
	"math/bits"
	"strings"

	"github.com/coppice-go/coppice/experiment/chart"
	"github.com/coppice-go/coppice/logp"
	"github.com/coppice-go/coppice/protocol/broadcast"
	"github.com/coppice-go/coppice/topology"
)

// Corrected Trees (Küttler et al., PPoPP 2019): L = 2, o = 1, Lamé trees of
// order 2, up to four correction messages on each side, 65,536 processes unless
// a figure says otherwise (§4).

var treesExperiments = []Experiment{
	treesWork.figure("1b", "", "In-order against interleaved numbering",
		"Length of synchronized checked correction on a binomial tree with 1, 2 and 5 failed processes; mean, and 10% and 90% quantiles.", treesFig1b),
	treesWork.figure("6", "", "Messages per process without faults",
		"Synchronized checked and overlapped optimized correction on every tree, acknowledged trees, and Corrected Gossip.", treesFig6),
	treesWork.figure("7", "", "Quiescence latency without faults",
		"Trees with acknowledgements (solid) and with synchronized checked correction (dashed), and checked Corrected Gossip at the gossip time with the lowest mean latency, 5% to 95% quantiles as a band.", treesFig7),
	treesWork.figure("8", "§4.3", "Quiescence latency under faults",
		"Synchronized checked correction on 65,536 processes; mean, 5% and 95% quantiles.", treesFig8),
	treesWork.figure("9", "", "Messages per process under faults",
		"The broadcasts of Figure 8; mean, 5% and 95% quantiles.", treesFig9),
	treesWork.figure("10", "", "Correction time follows the largest gap",
		"All pairs of largest gap and correction time seen in the runs of Figure 8, and the bounds of Lemma 3.", treesFig10),
	{
		Name: "trees-table1", Title: "Cost of correction under faults", Source: "Corrected Trees, Table 1", run: treesTable1,
		About: "Largest gap and length of synchronized checked correction, percentiles over all four trees together.",
	},
	{
		Name: "trees-uncolored", Title: "What opportunistic correction leaves uncolored", Source: "Corrected Trees, §4.3, Opportunistic Correction", run: treesUncolored,
		About: "Overlapped optimized correction, four messages a side, by the paper's rule and by ours.",
	},
}

const treesP = 1 << 16

var trees = []struct{ spec, name string }{
	{"binomial", "binomial"}, {"kary:4", "4-ary"}, {"lame:2", "Lamé"}, {"optimal", "optimal"},
}

// rates are the fault rates of §4.3, in hundredths of a per cent.
var rates = []int{1, 10, 100, 200, 400}

func rateName(rate int) string { return text(float64(rate)/100) + "%" }

func logP(p int) logp.Network { return logp.Network{P: p, L: 2, O: 1} }

// checkedTree returns the cell of synchronized checked correction on a tree.
func checkedTree(tree string, p, dead int) Cell {
	return Cell{
		Spec: broadcast.Spec{Tree: tree, Correction: "checked", Synchronized: true},
		Net:  logP(p), Dead: dead,
	}
}

// checkedGossip returns the cell of synchronized checked correction after gossip for the time t.
func checkedGossip(t, p, dead int) Cell {
	return checkedTree(fmt.Sprintf("gossip:%d", t), p, dead)
}

// deadAt returns how many of treesP processes are dead at a rate.
func deadAt(rate int) int { return (treesP*rate + 5000) / 10_000 }

func treesFig1b(f *attempt) {
	dead := []int{1, 2, 5}
	sizes := []int{1 << 10, 1 << 12, 1 << 14, treesP}
	t := f.table("", "processes", "numbering", "failed", "mean", "q10", "q90", "max", "runs")
	f.Chart = &chart.Chart{
		Title: "Correction time, binomial tree, 65,536 processes",
		X:     chart.Axis{Label: "failed processes", Names: []string{"1", "2", "5"}},
		Y:     chart.Axis{Label: "correction time (steps)", Log: 10},
	}
	means := map[string]float64{}
	extreme := 0.0
	for _, order := range []topology.Order{topology.InOrder, topology.Interleaved} {
		series := f.Chart.Add(order.String(), chart.Marks|chart.Line)
		for _, p := range sizes {
			for i, n := range dead {
				c := checkedTree("binomial", p, n)
				c.Spec.Order, c.Runs = order, 20*f.lab.Runs // few runs have a large gap, and they make the mean
				f.plan(c, func(s *Sample) {
					h := s.Correction
					t.Add(p, order, n, h.Mean(), h.Quantile(0.1), h.Quantile(0.9), h.Max(), s.Runs)
					means[fmt.Sprint(order, p, n)] = h.Mean()
					if p == treesP {
						series.Points = append(series.Points, h.point(float64(i), 0.1))
					}
					if p == treesP && order == topology.InOrder {
						extreme = max(extreme, float64(h.Max())/h.Mean())
					}
				})
			}
		}
	}
	f.simulatePlanned()

	mean := func(o topology.Order, p, n int) float64 { return means[fmt.Sprint(o, p, n)] }
	worst := max(mean(topology.Interleaved, treesP, 1), mean(topology.Interleaved, treesP, 2), mean(topology.Interleaved, treesP, 5))
	f.shape("interleaved, mean at 64K", "at most 10.5", text(round(worst)), worst <= 10.5, "")
	in := func(n int) float64 { return mean(topology.InOrder, treesP, n) }
	f.shape("in-order, mean grows with the number of failures", "grows",
		fmt.Sprintf("%s, %s, %s for 1, 2, 5", text(round(in(1))), text(round(in(2))), text(round(in(5)))), in(1) < in(2) && in(2) < in(5), "")
	f.shape("in-order, longer on larger trees", "longer",
		fmt.Sprintf("5 failed: %s at 1K, %s at 64K", text(round(mean(topology.InOrder, 1<<10, 5))), text(round(in(5)))), mean(topology.InOrder, 1<<10, 5) < in(5), "")
	f.shape("in-order, one failure near the root", "orders of magnitude longer than the average", fmt.Sprintf("up to %.0f times the mean", extreme), extreme >= 10, "depends on how many runs there are: a child of the root fails in few of them")
}

// sizes are the group sizes of the figures without faults.
func sizes(most int) (list []int) {
	for p := 1 << 6; p <= most; p *= 2 {
		list = append(list, p)
	}
	return list
}

// bestGossip finds the gossip time with the lowest mean quiescence latency of
// checked correction, and its sample.
func (f *attempt) bestGossip(p, runs int) (t int, s *Sample) {
	look := func(t int) *Sample {
		c := checkedGossip(t, p, 0)
		c.Runs = runs
		return f.simulate(c)[0]
	}
	t = 2 * bits.Len(uint(p)) // not far from it
	s = look(t)
	for _, step := range []int{4, -4, 1, -1} {
		for t+step > 0 {
			next := look(t + step)
			if next.Quiescence.Mean() >= s.Quiescence.Mean() {
				break
			}
			t, s = t+step, next
		}
	}
	return t, s
}

// scaled is how many runs a cell of p processes gets if one of 4,096 gets as
// many as the Lab says: as much work, and never fewer than 20.
func (l *Lab) scaled(p int) int { return max(min(l.Runs, l.Runs*4096/p), min(l.Runs, 20)) }

func once(c Cell) Cell {
	c.Runs = 1 // nothing is random
	return c
}

func treesFig6(f *attempt) {
	t := f.table("", "broadcast", "processes", "messages_per_process", "of_them_corrections", "runs")
	var names []string // each after the letter of its bar
	f.Chart = &chart.Chart{Title: "Messages per process, 65,536 processes, no faults", Y: chart.Axis{Label: "messages per process"}}
	bars := f.Chart.Add(f.Chart.Y.Label, chart.Bars)
	add := func(name string, s *Sample, p int) float64 {
		all := s.perRun(s.Disseminations+s.Corrections) / float64(p)
		t.Add(name, p, all, s.perRun(s.Corrections)/float64(p), s.Runs)
		if p == treesP {
			bars.Add(float64(len(names)), all)
			names = append(names, fmt.Sprintf("%c %s", 'a'+len(names), name))
		}
		return all
	}
	fewer, highest, safe := true, 0.0, 0.0
	for _, tree := range trees {
		for _, p := range []int{1 << 10, treesP} {
			paper := Cell{Spec: broadcast.Spec{Tree: tree.spec, Correction: "optimized-paper:4"}, Net: logP(p)}
			ours := Cell{Spec: broadcast.Spec{Tree: tree.spec, Correction: "optimized:4"}, Net: logP(p)}
			s := f.simulate(once(checkedTree(tree.spec, p, 0)), once(paper), once(ours))
			checked := add(tree.name+", checked", s[0], p)
			fewer = add(tree.name+", optimized by the paper's rule", s[1], p) <= checked+1e-9 && fewer
			safe = max(safe, add(tree.name+", optimized by ours", s[2], p)/checked)
			highest = max(highest, checked)
			if p == treesP {
				f.claim(tree.name+": correction messages a process, checked (Corollary 1)", 5, s[0].perRun(s[0].Corrections)/float64(p), 0, "")
			}
		}
	}
	ack := f.simulate(once(Cell{Spec: broadcast.Spec{Tree: "binomial", Correction: "ack"}, Net: logP(treesP)}))
	f.claim("acknowledged tree: messages a process", 2, add("acknowledged tree", ack[0], treesP), 0.001, "")
	f.shape("optimized opportunistic sends at most as much as checked, paper's rule", "at most", fmt.Sprint(fewer), fewer, "")
	f.note("Our rule for optimized correction, which keeps the guarantee that the paper's loses (docs/papers.md), sends at most %s times as much as checked correction.", text(round(safe)))

	gossip, s := f.bestGossip(treesP, f.lab.scaled(treesP))
	ccg := add(fmt.Sprintf("gossip %d, checked", gossip), s, treesP)
	until, s := f.sureGossip()
	ocg := add(fmt.Sprintf("gossip %d, opportunistic", until), s, treesP)
	f.shape("Corrected Gossip sends more than Corrected Trees", "significantly more",
		fmt.Sprintf("checked %s, opportunistic %s, trees at most %s", text(round(ccg)), text(round(ocg)), text(round(highest))), min(ccg, ocg) > 1.2*highest, "")
	f.Chart.X.Names = each(names, func(name string) string { return name[:1] })
	f.note("Bars from left to right: %s. The gossip times were found by simulation: the lowest mean latency for checked correction, and the smallest time without an uncolored process in %d runs for opportunistic correction with four messages a side.", strings.Join(names, "; "), s.Runs)
}

// sureGossip finds the smallest gossip time after which opportunistic correction
// leaves nobody uncolored in any run.
func (f *attempt) sureGossip() (t int, s *Sample) {
	for t = 2 * bits.Len(uint(treesP)); ; t++ {
		c := Cell{
			Spec: broadcast.Spec{Tree: fmt.Sprintf("gossip:%d", t), Correction: "opportunistic:4", Synchronized: true},
			Net:  logP(treesP), Runs: min(f.lab.scaled(treesP), 4),
		}
		for _, runs := range []int{c.Runs, f.lab.scaled(treesP)} { // few runs rule most times out
			c.Runs = runs
			samples := f.simulate(c)
			if s = samples[0]; s.Uncolored.Max() > 0 {
				break
			}
		}
		if s.Uncolored.Max() == 0 {
			return t, s
		}
	}
}

func treesFig7(f *attempt) {
	f.Chart = &chart.Chart{
		Title: "Quiescence latency without faults",
		X:     chart.Axis{Label: "processes", Log: 2}, Y: chart.Axis{Label: "steps"},
	}
	t := f.table("", "broadcast", "processes", "gossip_time", "mean", "q05", "q95", "runs")
	all8, between := true, true
	latency := map[string]float64{}
	for i, tree := range trees {
		ack, corrected := f.Chart.Add(tree.name+", acknowledged", chart.Line), f.Chart.Add(tree.name+", corrected", chart.Dashed)
		corrected.Like = 2*i + 1
		for _, p := range sizes(treesP) {
			s := f.simulate(once(Cell{Spec: broadcast.Spec{Tree: tree.spec, Correction: "ack"}, Net: logP(p)}), once(checkedTree(tree.spec, p, 0)))
			a, c := s[0].Quiescence.Mean(), s[1].Quiescence.Mean()
			ack.Add(float64(p), a)
			corrected.Add(float64(p), c)
			t.Add(tree.name+", acknowledged", p, "", a, "", "", 1)
			t.Add(tree.name+", corrected", p, "", c, "", "", 1)
			all8 = all8 && s[1].Correction.Max() == 8
			latency[fmt.Sprint(tree.name, p)] = c
		}
	}
	for _, p := range sizes(treesP) {
		at := func(name string) float64 { return latency[fmt.Sprint(name, p)] }
		between = between && at("Lamé") <= at("4-ary") && at("4-ary") <= at("binomial")
	}
	gossip := f.Chart.Add("gossip, checked", chart.Line|chart.Band)
	faster := 0.0
	for _, p := range sizes(treesP) {
		best, s := f.bestGossip(p, f.lab.scaled(p))
		q := s.Quiescence
		gossip.Points = append(gossip.Points, q.point(float64(p), 0.05))
		t.Add("gossip, checked", p, best, q.Mean(), q.Quantile(0.05), q.Quantile(0.95), s.Runs)
		faster = q.Mean()
	}
	f.shape("checked correction without faults, any tree and size (Lemma 2)", "8 steps", fmt.Sprintf("8 everywhere: %t", all8), all8, "")
	f.shape("4-ary lies between binomial and Lamé", "between", fmt.Sprintf("at every size: %t", between), between, "where 4^k processes fill its levels the 4-ary tree may be as good as a neighbour")
	f.shape("gossip against binomial at 64K", "lower latency", fmt.Sprintf("%s against %s", text(round(faster)), text(latency[fmt.Sprint("binomial", treesP)])), faster < latency[fmt.Sprint("binomial", treesP)], "")
}
