package experiment

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/coppice-go/coppice/experiment/chart"
	"github.com/coppice-go/coppice/model"
	"github.com/coppice-go/coppice/protocol"
)

// scalingSizes are numbers of processes, one of which has failed.
var scalingSizes = []int{4, 16, 64, 256, 1024, 4096, 16384, 65536}

// scalingNet is the network of the other works' figures.
var scalingNet = model.LogGP{L: 2, O: 1}

func membershipScaling(f *attempt) {
	defer f.timed()()
	t := f.table("", "processes", "children", "levels", "simulated", "model", "model_filled", "simulated_last", "messages")
	f.Chart = &chart.Chart{Title: "Stabilization after one failure, L = 2, o = 1", X: chart.Axis{Label: "processes", Log: 2}, Y: chart.Axis{Label: "T_s (steps)"}}
	for _, fanout := range []int{2, 4, 8} {
		seen, by := f.beside(fmt.Sprintf("%d children, simulated", fanout), fmt.Sprintf("%d children, model", fanout))
		var points []model.Point
		equal, off := true, 0.0
		for _, p := range scalingSizes {
			r, err := change{n: p - 1, fanout: fanout, net: logP(0)}.run(f.ctx)
			f.fail(err)
			ours := float64(r.accepted)
			predicted, filled := model.Stabilization(fanout, p-1, scalingNet, 0), model.StabilizationFilled(fanout, p-1, scalingNet, 0)
			t.Add(p, fanout, model.Levels(fanout, p-1), ours, predicted, filled, int64(r.stable), r.messages)
			seen.Add(float64(p), ours)
			by.Add(float64(p), predicted)
			points = append(points, model.Point{X: float64(p), Y: ours})
			equal = equal && math.Abs(ours-filled) < 1e-6
			off = ours/predicted - 1
		}
		f.grows(fmt.Sprintf("%d children: T_s over log N (§6.1)", fanout), points, "steps", "")
		f.shape(fmt.Sprintf("%d children, 65,536 processes: simulation against the model (eq. 4.2 under LogP)", fanout), "within 10%", percent(off), math.Abs(off) <= 0.1, "")
		f.shape(fmt.Sprintf("%d children: simulation against the model of trees that are not full", fanout), "ours: equal", fmt.Sprintf("equal at every size: %t", equal), equal, "")
	}
	f.scenarios()
	f.downTheTree()
}

// ranksFrom returns n consecutive ranks.
func ranksFrom(from, n int) (list []protocol.Rank) {
	for i := range n {
		list = append(list, protocol.Rank(from+i))
	}
	return list
}

// scenarios simulates other changes than one failure of a leaf, with equally many remaining processes.
func (f *attempt) scenarios() {
	const n, fanout = 1023, 2
	t := f.table("changes", "change", "simulated", "simulated_last", "messages", "views")
	times := map[string]stabilized{}
	for _, s := range []struct {
		name string
		change
	}{
		{"one leaf fails", change{}},
		{"one inner node fails", change{dead: ranksFrom(1, 1)}},
		{"ten fail at once", change{dead: ranksFrom(100, 10)}},
		{"half of them fail at once", change{dead: ranksFrom(2, n)}},
		{"the root fails", change{dead: ranksFrom(0, 1)}},
		{"a chain of ten roots fails", change{dead: ranksFrom(0, 10)}},
		{"the root and ten others fail", change{dead: append(ranksFrom(0, 1), ranksFrom(500, 10)...)}},
		{"one joins", change{joins: 1}},
	} {
		s.n, s.fanout, s.net = n, fanout, logP(0)
		r, err := s.run(f.ctx)
		f.fail(err)
		times[s.name] = r
		t.Add(s.name, int64(r.accepted), int64(r.stable), r.messages, r.views)
	}
	f.changes(times)
	f.note("These changes are of a group of which 1,023 processes are left, or in, with two children a node; only the proposer knows of the failures, at the start.")
}

func (f *Finding) changes(times map[string]stabilized) {
	one := times["one leaf fails"].accepted
	same := func(what, paper string, names ...string) {
		ours := each(names, func(name string) string { return fmt.Sprintf("%s: %d", name, times[name].accepted) })
		holds := !slices.ContainsFunc(names, func(name string) bool { return times[name].accepted != one })
		f.shape(what, paper, fmt.Sprintf("%s; one leaf: %d", strings.Join(ours, ", "), one), holds, "")
	}
	same("several failures at once (§3.1.4)", "handled as one, the list of the dead with it", "one inner node fails", "ten fail at once", "half of them fail at once")
	same("failures of the root, and of those after it (§3.1.5)", "as one failure, from the next root on", "the root fails", "a chain of ten roots fails", "the root and ten others fail")
	same("a join (§3.1.6)", "as a failure", "one joins")
}

// detection is how long after a death the detector reports it to all processes, in steps.
const detection protocol.Time = 10

// downTheTree makes a node at each level, each a child of the one before, fail after the sweep has begun and
// before it reaches them.
func (f *attempt) downTheTree() {
	const n = 1<<16 - 1
	t := f.table("during", "children", "failed_during_the_sweep", "simulated", "simulated_last", "undisturbed", "messages", "views")
	for _, fanout := range []int{2, 4, 8} {
		var path []protocol.Rank
		for at, width := 1, fanout; at < n; at, width = at+width, width*fanout {
			path = append(path, protocol.Rank(at))
		}
		net := logP(0)
		one, err := change{n: n, fanout: fanout, net: net}.run(f.ctx)
		f.fail(err)
		net.Detect = detection
		r, err := change{n: n, fanout: fanout, net: net, dead: ranksFrom(n+len(path), 1), dying: path, dyingAt: 1}.run(f.ctx)
		f.fail(err)
		t.Add(fanout, len(path), int64(r.accepted), int64(r.stable), int64(one.accepted), r.messages, r.views)
		most := model.Levels(fanout, n) - 1
		times := float64(r.accepted) / float64(one.accepted)
		f.shape(fmt.Sprintf("%d children, a failure at each level during the sweep, 65,535 left (§3.1.4)", fanout), fmt.Sprintf("H−1 = %d stabilizations", most),
			fmt.Sprintf("%.1f, in %d steps", times, r.accepted), times <= float64(most),
			"what hangs below the dead is asked again one by one; with two children that is half of the group, and there is no majority without it")
	}
	f.note("Failures during a sweep: down the tree, the first child of each; detectors tell everybody %d steps later.", detection)
}
