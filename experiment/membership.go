package experiment

import (
	"fmt"
	"math"
	"strings"

	"github.com/coppice-go/coppice/experiment/chart"
	"github.com/coppice-go/coppice/logp"
	"github.com/coppice-go/coppice/model"
	"github.com/coppice-go/coppice/protocol"
)

// Membership (Varma, NCSU 2006), section 6.1: the time in which a group is stable again after one failure,
// T_s, on four networks of three machines. The thesis measured it; its curves are not in the text. Here our
// protocol is simulated on networks with the thesis's constants, beside its models, and compared with what
// the text says of the curves. docs/membership-models.md describes each network.

var membershipExperiments = []Experiment{
	membershipWork.figure("6.1", "§6.1.1", "Stabilization on a torus, two children",
		"T_s after one failure on Blue Gene/L's torus, simulated, and by the base and the distance model; by the number of nodes that are left.", membershipFig61),
	membershipWork.figure("6.2", "§6.1.1", "Stabilization on a torus, four children",
		"The same with four children a node.", membershipFig62),
	membershipWork.figure("6.3", "§6.1.2", "Stabilization over TCP and Fast Ethernet, two children",
		"T_s after one failure on the OS cluster, simulated, and by the base and the contention models; by the number of nodes that are left.", smallCluster(ethernet, 2)),
	membershipWork.figure("6.4", "§6.1.2", "Stabilization over TCP and Fast Ethernet, four children",
		"The same with four children a node.", smallCluster(ethernet, 4)),
	membershipWork.figure("6.5", "§6.1.2", "Latency under contention, TCP and Fast Ethernet",
		"Half a round trip between a parent and its children while all nodes of the OS cluster do the same, simulated (marks) and by the model (lines).", membershipFig65),
	membershipWork.figure("6.6", "§6.1.2", "Stabilization over Myrinet, two children",
		"T_s after one failure on the OS cluster over Myrinet, simulated, and by the base and the contention models; by the number of nodes that are left.", smallCluster(myrinet, 2)),
	membershipWork.figure("6.7", "§6.1.2", "Stabilization over Myrinet, four children",
		"The same with four children a node.", smallCluster(myrinet, 4)),
	membershipWork.figure("6.8", "§6.1.2", "Latency under contention, Myrinet",
		"Half a round trip between a parent and its children while all nodes of the OS cluster do the same, simulated (marks) and by the model (lines).", membershipFig68),
	membershipWork.figure("6.9", "§6.1.3", "Stabilization over TCP and Gigabit Ethernet, two children",
		"T_s after one failure on XTORC, simulated, and by the base and the contention models; by the number of nodes that are left.", membershipFig69),
	membershipWork.figure("6.10", "§6.1.3", "Latency under contention, TCP and Gigabit Ethernet",
		"Half a round trip between the two of a pair, or a parent and its children, while all nodes of XTORC do the same, simulated (marks) and by the model (lines).", membershipFig610),
	membershipWork.figure("6.11", "§6.1.3", "Stabilization over TCP and Gigabit Ethernet, four children",
		"The same as Figure 6.9 with four children a node.", membershipFig611),
	{
		Name: "membership-scaling", Title: "Stabilization up to 65,536 processes", Source: "Membership, chapter 4, §3.1.3 to §3.1.6 and §6.1", run: membershipScaling,
		About: "T_s on a LogP network, L = 2, o = 1, for two, four and eight children, simulated (marks) and by the model (lines); several failures, failures of roots, and joins.",
	},
	{
		Name: "membership-measured", Title: "Stabilization on real processes", Source: "Membership, §6.1", run: membershipMeasured,
		About: "Median time from the proposer's knowledge of a failure until the view without the dead is open at all, on processes of this machine, with two, four and eight children a node.",
	},
}

// The simulated clock of the thesis's machines: hundredths of a µs. The thesis gives no overhead o; its L
// includes both. The smallest o that the simulator takes stands for it, so that messages wait only for what a
// figure is about.
const (
	ticks                   = 100 // a µs
	leastO    protocol.Time = 1
	bothLeast               = 2 * leastO
)

func inTicks(us float64) protocol.Time { return protocol.Time(math.Round(us * ticks)) }

func inUS(t protocol.Time) float64 { return float64(t) / ticks }

// curve is T_s by the number of remaining nodes: as simulated, and of models.
type curve struct {
	names  []string // of the models
	points []curvePoint
}

type curvePoint struct {
	n      int
	run    stabilized
	ours   float64   // T_s as simulated, in µs
	models []float64 // T_s by each model
}

// stabilize simulates one failure for each number of remaining nodes and adds the models.
func (f *attempt) stabilize(sizes []int, fanout int, ocp float64, net func(n int) logp.Network, c *curve, models func(n int) ([]float64, error)) {
	defer f.timed()()
	for _, n := range sizes {
		r, err := change{n: n, fanout: fanout, net: net(n), ocp: inTicks(ocp)}.run(f.ctx)
		f.fail(err)
		by, err := models(n)
		f.fail(err)
		c.points = append(c.points, curvePoint{n, r, inUS(r.accepted), by})
	}
}

// show adds the table and the chart of a curve.
func (f *Finding) show(c *curve, fanout int, log float64) {
	t := f.table("", "nodes", "levels", "simulated_us", "simulated_last_us", "messages")
	f.Chart = &chart.Chart{Title: f.Title, X: chart.Axis{Label: "nodes that are left", Log: log}, Y: chart.Axis{Label: "T_s (µs)"}}
	f.Chart.Add("simulated protocol", chart.Marks)
	for _, name := range c.names {
		t.Columns = append(t.Columns, strings.ReplaceAll(name, " ", "_")+"_us")
		f.Chart.Add(name, chart.Line)
	}
	for _, p := range c.points {
		row := []any{p.n, model.Levels(fanout, p.n), p.ours, inUS(p.run.stable), p.run.messages}
		f.Chart.Series[0].Add(float64(p.n), p.ours)
		for i, y := range p.models {
			row = append(row, y)
			f.Chart.Series[i+1].Add(float64(p.n), y)
		}
		t.Add(row...)
	}
	f.note("T_s is from the proposer's knowledge of the failure until it has all acceptances; «last» until the last process knows that the view is stable, one more sweep down, which the thesis does not have.")
}

// last returns the point with the most nodes.
func (c *curve) last() curvePoint { return c.points[len(c.points)-1] }

// off returns the largest relative distance between the simulation and a model, over the sizes for which
// counts reports true.
func (c *curve) off(m int, counts func(n int) bool) (most float64) {
	for _, p := range c.points {
		if counts(p.n) {
			most = max(most, math.Abs(p.ours/p.models[m]-1))
		}
	}
	return most
}

func everywhere(int) bool { return true }

// full reports whether the radix tree of n nodes has no room left in its levels.
func full(fanout int) func(n int) bool {
	return func(n int) bool { return n > 1 && model.Levels(fanout, n+1) > model.Levels(fanout, n) }
}

// grows claims that T_s grows with the logarithm of the number of nodes: a line over
// log N explains it well, and better than one over N does.
func (f *Finding) grows(what string, points []model.Point, unit, why string) {
	over := each(points, func(p model.Point) model.Point { return model.Point{X: math.Log2(p.X), Y: p.Y} })
	line, linear := model.FitLine(over), model.FitLine(points)
	f.shape(what, "scales logarithmically", fmt.Sprintf("%s %s more for each doubling; r² = %.3f over log N, %.3f over N", text(round(line.Slope)), unit, line.R2, linear.R2),
		line.Slope > 0 && line.R2 >= 0.9 && line.R2 > linear.R2, why)
}

// results returns T_s as simulated, over the number of nodes.
func (c *curve) results() []model.Point { return each(c.points, curvePoint.result) }

func (p curvePoint) result() model.Point { return model.Point{X: float64(p.n), Y: p.ours} }

// within claims that a time lies in a range.
func (f *Finding) within(what, paper string, us, low, high float64) {
	f.shape(what, paper, text(round(us))+" µs", us >= low && us < high, "")
}

func percent(share float64) string { return text(math.Round(1000*share)/10) + "%" }
