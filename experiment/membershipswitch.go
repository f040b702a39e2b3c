package experiment

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/coppice-go/coppice/experiment/chart"
	"github.com/coppice-go/coppice/logp"
	"github.com/coppice-go/coppice/model"
)

// Figures 6.3 to 6.11: clusters on a switch. The thesis explains them by messages that wait for each other,
// and gives the latencies under contention only as figures. How long links and switches are busy is chosen
// here so that the text's statements about these figures come out; nothing else is fitted.

// cluster is a machine on a switch.
type cluster struct {
	model.Machine
	model.Switched
	nodes int
}

// linkShare is how long a link is busy with a message, as a share of L; the thesis gives no value to derive
// it from.
const linkShare = 0.25

// pairsKnee is the number of nodes up to which a switch "handles pairs well" (6.1.3): XTORC's can pass just
// the messages of six pairs in L.
const pairsKnee = 12

var (
	// The latency rises a little with the number of nodes (6.1.2): 16 nodes keep the switch just busy.
	ethernet = newCluster(model.OSClusterTCP, 1.0/8, 16)
	// The latency "remains a constant" (6.1.2): there is no such switch.
	myrinet = newCluster(model.OSClusterMyrinet, 0, 16)
	gigabit = newCluster(model.XTORC, 2.0/pairsKnee, 47)
)

func newCluster(m model.Machine, share float64, nodes int) cluster {
	return cluster{m, model.Switched{Port: linkShare * m.L, Packet: share * m.L}, nodes}
}

func (c cluster) net() logp.Network {
	return logp.Network{
		L: inTicks(c.L) - bothLeast, O: leastO, G: inTicks(c.Port),
		Switch: logp.Switch{Packet: inTicks(c.Packet)},
	}
}

// Models of the switch figures, by their place; the first is baseModel.
const (
	contentionModel = iota + 1
	switchModel
)

// onSwitch simulates one failure for all sizes. The largest is the whole cluster without the failed node.
func (f *attempt) onSwitch(cl cluster, fanout int) *curve {
	c := &curve{names: []string{"base model", "contention model", "model of the switch"}}
	var sizes []int
	for n := 2; n < cl.nodes; n++ {
		sizes = append(sizes, n)
	}
	f.stabilize(sizes, fanout, cl.Ocp, func(int) logp.Network { return cl.net() }, c, func(n int) ([]float64, error) {
		level, err := cl.StabilizationSwitched(fanout, n, cl.Machine)
		return []float64{cl.Base(fanout, n), cl.StabilizationContention(fanout, n, cl.Machine), level}, err
	})
	f.show(c, fanout, 0)
	f.note("«Contention model» is the thesis's: the latency under contention of that many nodes in the place of L at all levels; it is at most %s from the simulation. «Model of the switch» is ours: each level is charged for its own messages, or the switch for all; at most %s. Links are busy for %s µs with a message, the switch for %s µs: chosen to show what §6.1 says of the latencies, see docs/membership-models.md.",
		percent(c.off(contentionModel, everywhere)), percent(c.off(switchModel, everywhere)), text(round(cl.Port)), text(round(cl.Packet)))
	return c
}

// levels returns the points of each level of the tree; the last level lacks those of a higher tree.
func (c *curve) levels(fanout int) (levels [][]curvePoint) {
	height := 0
	for _, p := range c.points {
		if h := model.Levels(fanout, p.n); h > height {
			levels, height = append(levels, nil), h
		}
		levels[len(levels)-1] = append(levels[len(levels)-1], p)
	}
	return levels
}

// switchClaims adds the claims that all figures of T_s on a switch share.
func (f *Finding) switchClaims(c *curve, fanout int, section string) {
	steps, rises, flat := true, true, true
	fits, before := 1.0, 0.0
	levels := c.levels(fanout)
	for _, level := range levels {
		first, last := level[0], level[len(level)-1]
		steps = steps && first.ours > before
		before = last.ours
		flat = flat && first.models[baseModel] == last.models[baseModel]
		if len(level) < 3 {
			continue
		}
		line := model.FitLine(each(level, curvePoint.result))
		rises = rises && line.Slope > 0 && slices.IsSortedFunc(level, func(a, b curvePoint) int { return cmp.Compare(a.ours, b.ours) })
		fits = min(fits, line.R2)
	}
	f.shape("T_s where the tree grows a level ("+section+")", "a step", fmt.Sprintf("a step up at each of %d heights: %t", len(levels)-1, steps), steps, "")
	f.shape("T_s while a level of the tree fills ("+section+")", "tends to increase linearly", fmt.Sprintf("never falls: %t; a line explains at least %s of the variation in a level", rises, percent(fits)), rises && fits >= 0.6,
		"where links alone are busy it rises in small steps: one for each further child on the way to a leaf")
	short := c.last().ours / c.last().models[baseModel]
	f.shape("the base model ("+section+")", "steps and flat lines; does not reflect the results", fmt.Sprintf("flat within a level: %t; at the end T_s is %.2f times as long", flat, short), flat && short > 1.1, "")
}

// resembles claims that a model is near the simulation, at the sizes that count.
func (f *Finding) resembles(c *curve, m int, what, paper string, counts func(n int) bool, tolerance float64, why string) {
	off := c.off(m, counts)
	f.shape(what, paper, fmt.Sprintf("at most %s apart", percent(off)), off <= tolerance, fmt.Sprintf("read as within %s; %s", percent(tolerance), why))
}

// smallCluster returns a figure of the OS cluster.
func smallCluster(cl cluster, fanout int) func(*attempt) {
	return func(f *attempt) {
		c := f.onSwitch(cl, fanout)
		f.switchClaims(c, fanout, "§6.1.2")
		f.resembles(c, contentionModel, "the contention model, full trees (§6.1.2)", "resembles the results", full(fanout), 0.25, crowded)
		apart, filled := c.off(contentionModel, everywhere), c.off(contentionModel, full(fanout))
		f.shape("the contention model, while a level fills (§6.1.2)", "does not reflect them", fmt.Sprintf("up to %s apart, full trees up to %s", percent(apart), percent(filled)), apart > filled, "")
	}
}

// crowded says why the contention model is off where a switch is busy all the time.
const crowded = "it charges every level the latency of a switch that all nodes keep busy; a sweep keeps it busy at the last levels only"

func membershipFig69(f *attempt) {
	c := f.bigCluster(2)
	f.resembles(c, contentionModel, "the contention model (§6.1.3)", "resembles the results very closely", everywhere, 0.25, crowded)
}

func membershipFig611(f *attempt) {
	c := f.bigCluster(4)
	f.resembles(c, contentionModel, "the contention model, full trees (§6.1.3)", "resembles the results just before the height increases", full(4), 0.25, crowded)
	over := 0
	for _, p := range c.points {
		if p.models[contentionModel] >= p.ours {
			over++
		}
	}
	f.shape("the contention model against the results (§6.1.3)", "tends to overestimate", fmt.Sprintf("at %d of %d sizes", over, len(c.points)), 2*over > len(c.points), "")
}

// bigCluster draws a figure of XTORC.
func (f *attempt) bigCluster(fanout int) *curve {
	c := f.onSwitch(gigabit, fanout)
	f.switchClaims(c, fanout, "§6.1.3")
	f.grows("T_s over log N (§6.1.3)", c.results(), "µs",
		"a switch that is busy from twelve nodes on passes 2(N−1) messages one after the other: T_s grows with N, as soon as that takes longer than the levels do")
	f.within("T_s at 47 nodes (abstract)", "single-digit ms", c.last().ours, 1000, 10_000)
	return c
}

// contention draws latencies under contention, one line for each number of children.
func (f *attempt) contention(cl cluster, children ...int) map[int][]model.Point {
	defer f.timed()()
	t := f.table("", "nodes", "children", "simulated_us", "model_us")
	f.Chart = &chart.Chart{Title: f.Title, X: chart.Axis{Label: "nodes"}, Y: chart.Axis{Label: "latency (µs)", Min: 0}}
	all := map[int][]model.Point{}
	for _, k := range children {
		name := fmt.Sprintf("%d children", k)
		if k == 1 {
			name = "pairs"
		}
		seen, by := f.beside(name, name+", model")
		for n := 2; n <= cl.nodes; n++ {
			ours, err := chatLatency(f.ctx, n, k, cl.net())
			f.fail(err)
			predicted := cl.ContentionLatency(k, n, cl.L)
			t.Add(n, k, ours, predicted)
			seen.Add(float64(n), ours)
			by.Add(float64(n), predicted)
			all[k] = append(all[k], model.Point{X: float64(n), Y: ours})
		}
	}
	f.note("Groups of consecutive ranks; those that do not fill one make a smaller one. The mean of all groups over %d rounds after %d that do not count.", chatRounds-chatWarmup, chatWarmup)
	f.note("The network was chosen to behave as the text says of this figure (docs/membership-models.md), so agreement here shows that the simulated switch does what was asked of it. The figures of T_s are what comes of it.")
	return all
}

// latencyAt returns the latency among n nodes.
func latencyAt(points []model.Point, n int) float64 {
	for _, p := range points {
		if int(p.X) == n {
			return p.Y
		}
	}
	return math.NaN()
}

// climbs claims that the latency of parents and k children rises until one group is whole, and little after
// that.
func (f *Finding) climbs(points []model.Point, k int) {
	whole, end := latencyAt(points, k+1), 0.0
	for _, p := range points {
		if int(p.X)%(k+1) == 0 {
			end = p.Y
		}
	}
	first, later := whole/latencyAt(points, 2)-1, end/whole-1
	f.shape(fmt.Sprintf("%d children: latency up to %d nodes (§6.1.2)", k, k+1), "a steep climb", "+"+percent(first), first > 0.1, "")
	f.shape(fmt.Sprintf("%d children: latency of whole groups from %d nodes on (§6.1.2)", k, k+1), "a small increase", "+"+percent(later), later > 0.01 && later < 0.25, "small is read as between 1% and 25%")
}

func membershipFig65(f *attempt) {
	all := f.contention(ethernet, 2, 4)
	f.climbs(all[2], 2)
	f.climbs(all[4], 4)
}

func membershipFig68(f *attempt) {
	all := f.contention(myrinet, 2, 4)
	two, four := latencyAt(all[2], 15), latencyAt(all[4], 15)
	even := true
	for k, points := range all {
		for _, p := range points {
			even = even && (int(p.X)%(k+1) != 0 || math.Abs(p.Y-latencyAt(points, k+1)) < 0.01)
		}
	}
	f.shape("latency of whole groups as nodes are added (§6.1.2)", "remains a constant", fmt.Sprintf("constant: %t", even), even, "")
	f.shape("latency with four children over that with two, 15 nodes (§6.1.2)", "increases significantly", text(round(four/two)), four > 1.1*two, "")
}

func membershipFig610(f *attempt) {
	all := f.contention(gigabit, 1, 2, 4)
	pairs := all[1]
	flat := 0
	for _, p := range pairs {
		if math.Abs(p.Y/pairs[0].Y-1) < 0.01 {
			flat = int(p.X)
		}
	}
	f.claim("pairs: nodes up to which the latency is that of two (§6.1.3)", pairsKnee, float64(flat), 1, "")
	r2 := model.FitLine(pairs[2*pairsKnee-2:]).R2
	f.shape("pairs: latency from then on (§6.1.3)", "rises linearly with the nodes added", fmt.Sprintf("r² = %.3f from %d nodes on", r2, 2*pairsKnee), r2 > 0.95, "")
	ordered := true
	for i := range pairs {
		if n := int(pairs[i].X); n >= 5 {
			ordered = ordered && latencyAt(all[1], n) < latencyAt(all[2], n) && latencyAt(all[2], n) < latencyAt(all[4], n)
		}
	}
	f.shape("pairs, two children, four children, from five nodes on (§6.1.3)", "in the order of increasing latency", fmt.Sprintf("at every number: %t", ordered), ordered, "")
}
