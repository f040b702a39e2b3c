package experiment

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/coppice-go/coppice/experiment/chart"
	"github.com/coppice-go/coppice/logp"
	"github.com/coppice-go/coppice/model"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
)

// Localized views (Varma, NCSU 2006, end of chapter 5): the future work of the
// thesis, up to a million processes, L = 2, o = 1.

var localExperiments = []Experiment{
	{
		Name: "membership-localized", Title: "Localized views up to a million processes", Source: "Membership, end of chapter 5, future work", run: membershipLocalized,
		About: "T_s on a LogP network, L = 2, o = 1, of processes that keep no list of members, for two and four children, simulated (marks) and by the model (lines); what a process keeps; many failures, failures of roots, and joins.",
	},
}

// localScene is a change of the membership of localized views.
type localScene struct {
	name   string
	n      int // processes, the dead ones included
	fanout int
	dead   []protocol.Rank
	joins  int // how many more processes join
}

// run simulates the scene. The detector reports the dead processes at time 1.
func (c localScene) run(ctx context.Context) (stabilized, error) {
	machine, err := membership.NewLocalized(membership.LocalConfig{Members: c.n, Capacity: c.n + c.joins, Fanout: c.fanout})
	if err != nil {
		return stabilized{}, err
	}
	watched, err := machine.Watched(c.dead...)
	if err != nil {
		return stabilized{}, err
	}
	net := logP(c.n + c.joins)
	net.Detect = learned
	var inputs []logp.Input
	for i := range c.joins {
		inputs = append(inputs, logp.Input{At: learned, Rank: protocol.Rank(c.n + i), Notice: protocol.Notice{Kind: protocol.Begin}})
	}
	watch := &localWatch{opened: make(map[uint32]int)}
	o := logp.Observer[membership.LocalMessage]{Sent: watch.sent, Received: watch.received, Delivered: watch.delivered}
	result, err := observed(ctx, watched, net, o, logp.Faults{Failed: c.dead}, inputs...)
	if err != nil {
		return stabilized{}, err
	}
	if live := c.n + c.joins - len(c.dead); watch.opened[watch.number] != live || watch.size != live {
		return stabilized{}, fmt.Errorf("%s: a view of %d opened at %d of %d processes", c.name, watch.size, watch.opened[watch.number], live)
	}
	watch.learned = cmp.Or(watch.learned, learned) // possibly no process is left to propose to
	return stabilized{watch.first - watch.learned, watch.last - watch.learned, result.Sent(), len(watch.opened)}, nil
}

// localWatch records when the proposer learned of the change, and when views opened.
type localWatch struct {
	learned, first, last protocol.Time
	number               uint32
	size                 int
	opened               map[uint32]int // how many processes opened each view
}

// sent records when a proposer that got no report found out by itself.
func (w *localWatch) sent(at protocol.Time, _, _ protocol.Rank, _ protocol.Kind, m membership.LocalMessage) {
	if w.learned == 0 && m.Kind == membership.LocalPropose {
		w.learned = at
	}
}

func (w *localWatch) received(at protocol.Time, _, _ protocol.Rank, _ protocol.Kind, m membership.LocalMessage) {
	if w.learned == 0 && (m.Kind == membership.LocalReport || m.Kind == membership.LocalJoin) {
		w.learned = at
	}
}

func (w *localWatch) delivered(at protocol.Time, _ protocol.Rank, m membership.LocalMessage) {
	if m.Kind != membership.LocalOpened {
		return
	}
	if len(w.opened) == 0 {
		w.first = at
	}
	w.opened[m.Number]++
	w.number, w.size, w.last = max(w.number, m.Number), int(m.Size), at
}

// localSizes returns the sizes of full trees up to most.
func localSizes(fanout, most int) (sizes []int) {
	for n := 1 + fanout; n <= most; n = n*fanout + 1 {
		sizes = append(sizes, n)
	}
	return sizes
}

// localScenes returns the changes to simulate among n processes.
func localScenes(n, fanout int) []localScene {
	hundred := map[protocol.Rank]bool{}
	for i := uint64(0); len(hundred) < min(100, n/4); i++ {
		hundred[protocol.Rank(1+protocol.Below(protocol.Mix(1, i), uint64(n-1)))] = true
	}
	many := slices.Sorted(maps.Keys(hundred))
	return []localScene{
		{name: "one failure, a leaf", n: n, fanout: fanout, dead: []protocol.Rank{protocol.Rank(n - 1)}},
		{name: "one failure, below the root", n: n, fanout: fanout, dead: []protocol.Rank{1}},
		{name: "the root", n: n, fanout: fanout, dead: []protocol.Rank{0}},
		{name: "a chain of 5 roots", n: n, fanout: fanout, dead: []protocol.Rank{0, 1, 2, 3, 4}},
		{name: fmt.Sprintf("%d failures at once", len(many)), n: n, fanout: fanout, dead: many},
		{name: "one joins", n: n, fanout: fanout, joins: 1},
		{name: "100 join at once", n: n, fanout: fanout, joins: 100},
	}
}

// localSizeMax is the largest group that is simulated.
var localSizeMax = 1_400_000

func membershipLocalized(f *attempt) {
	defer f.timed()()
	f.localScaling()
	f.localCases()
	f.localMemory()
	f.note("T_s is from the proposer's knowledge of the change until it has all acceptances for the first view; «last» until the last process knows that the last view is open.")
	f.note("The detector tells those who watch the dead at once; a simulated process and its detector take %d bytes, a message %d.", reflect.TypeFor[membership.LocalWatchedState]().Size(), reflect.TypeFor[membership.LocalMessage]().Size())
}

// localScaling simulates one failure in full trees: without its last leaf, the tree is as deep as before.
func (f *attempt) localScaling() {
	t := f.table("", "children", "processes", "levels", "T_s", "T_s_model", "last", "last_model", "messages_per_process")
	f.Chart = &chart.Chart{Title: f.Title + ", L = 2, o = 1", X: chart.Axis{Label: "processes", Log: 2}, Y: chart.Axis{Label: "T_s (steps)"}}
	worst, largest := 0.0, 0
	for _, a := range []int{2, 4} {
		ours := f.Chart.Add(fmt.Sprintf("%d children", a), chart.Marks)
		byModel := f.Chart.Add(fmt.Sprintf("model, %d children", a), chart.Line)
		for _, n := range localSizes(a, localSizeMax) {
			r, err := localScenes(n, a)[0].run(f.ctx)
			f.fail(err)
			// One more sweep down, to the last process that learns of the view.
			want := model.StabilizationFilled(a, n-1, model.LogGP{L: 2, O: 1}, 0)
			stable := want + float64(model.Levels(a, n-1)-1)*float64(4+a-1)
			t.Add(a, n, model.Levels(a, n), int(r.accepted), want, int(r.stable), stable, float64(r.messages)/float64(n))
			ours.Add(float64(n), float64(r.accepted))
			byModel.Add(float64(n), want)
			worst, largest = max(worst, float64(r.accepted)/want-1, 1-float64(r.accepted)/want), max(largest, n)
		}
	}
	f.claim("T_s of one failure, largest distance from the model in per cent", 0, 100*worst, 0, "the model of trees that are not full, under LogP")
	f.shape("processes for which localized views are enough", "tens of thousands of nodes and beyond", fmt.Sprint(largest), largest >= 20_000, "the sizes were limited")
}

// localCases simulates the other changes, among about a million processes.
func (f *attempt) localCases() {
	t := f.table("cases", "case", "children", "processes", "views", "T_s_first", "last", "messages_per_process")
	for _, a := range []int{2, 4} {
		sizes := localSizes(a, localSizeMax)
		for _, c := range localScenes(sizes[len(sizes)-1], a) {
			r, err := c.run(f.ctx)
			f.fail(err)
			t.Add(c.name, a, c.n, r.views, int(r.accepted), int(r.stable), float64(r.messages)/float64(c.n))
		}
	}
}

// localMemory tabulates what a process keeps, beside a list of the members.
func (f *Finding) localMemory() {
	t := f.table("memory", "processes", "entries_2", "bytes_2", "entries_4", "bytes_4", "list_bytes")
	state := int(reflect.TypeFor[membership.LocalState]().Size())
	most := 0
	for n := 10; n <= 1_000_000; n *= 10 {
		row := []any{n}
		for _, a := range []int{2, 4} {
			l, err := membership.NewLocalized(membership.LocalConfig{Members: n, Fanout: a})
			if err != nil {
				panic(err) // both are allowed for all of these
			}
			used := state - (membership.LocalEntries-l.DegreeMax(n))*8
			most = max(most, used)
			row = append(row, l.DegreeMax(n), used)
		}
		t.Add(append(row, 4*n)...)
	}
	f.shape("memory of a process", "a constant size", fmt.Sprintf("at most %d bytes of %d up to a million processes", most, state), most <= state && state <= 512, "")
}
