package experiment

import (
	"fmt"

	"github.com/coppice-go/coppice/experiment/chart"
	"github.com/coppice-go/coppice/model"
)

// The TU Darmstadt thesis on fault-tolerant collectives, §5.2 and §5.4, measured its operations on up to 128
// processes of a cluster (Tables A.1 to A.5), as averages of 1,000 iterations: MPI's own, a reimplementation
// without fault tolerance, and one with it: an agreement before and one after the operation (§3.1). Its
// optimization omits the first agreement (§5.4). Here all are measured on the processes of one machine beside
// Open MPI, and ratios are compared. The figures' values are not in the text; the averages of their ratios
// are.
// averages of their ratios are.

var thesisExperiments = []Experiment{
	thesisRuntime("5.3", thesisBroadcast), thesisOverhead("5.4", thesisBroadcast),
	thesisWork.figure("5.5", "§5.2.2", "Fault-tolerant broadcast, by size",
		"Median over launches of the median latency of a broadcast on a fixed number of processes of this machine, and quartiles of the launches.", thesisSizes),
	thesisRuntime("5.6", thesisScatter), thesisOverhead("5.7", thesisScatter),
	thesisRuntime("5.8", thesisGather), thesisOverhead("5.9", thesisGather),
	thesisRuntime("5.10", thesisReduce), thesisOverhead("5.11", thesisReduce),
	thesisRuntime("5.12", thesisAllToAll), thesisOverhead("5.13", thesisAllToAll),
	thesisWork.figure("5.14", "§5.2.6", "Fault-tolerant all-to-all of large values",
		"Median over launches of the median latency of an all-to-all in which every process sends 4 MiB in all, and quartiles of the launches; processes of this machine.", thesisLarge),
	thesisWork.figure("5.23", "§5.4", "Reduce with one agreement and with two",
		thesisAbout("reduce"), thesisOptimized),
}

const thesisCells = "thesis" // figures of the same operations share launches: a figure and its ratios are two views of one measurement

// thesisOp is an operation, with the averages that the thesis prints for it.
type thesisOp struct {
	name, title string // as bench names it, and as people do
	section     string
	total       float64 // fault-tolerant, over MPI's; 0: not printed
	alone       float64 // fault-tolerant, over the same without fault tolerance
	slip        bool    // the text calls alone what the reimplementation costs
}

// The averages: §5.2.2 to §5.2.6. The text calls those of scatter and gather the overhead of the
// reimplementation, yet the same paragraphs conclude that fault tolerance causes most of the total. Both hold
// only if they are, like the other two, the cost that fault tolerance adds.
var (
	thesisBroadcast = thesisOp{name: "broadcast", title: "broadcast", section: "§5.2.2", total: 11.69, alone: 4.60}
	thesisScatter   = thesisOp{name: "scatter", title: "scatter", section: "§5.2.3", total: 4.90, alone: 1.31, slip: true}
	thesisGather    = thesisOp{name: "gather", title: "gather", section: "§5.2.4", total: 5.09, alone: 1.29, slip: true}
	thesisReduce    = thesisOp{name: "reduce", title: "reduce", section: "§5.2.5", total: 8.28, alone: 1.34}
	thesisAllToAll  = thesisOp{name: "alltoall", title: "all-to-all", section: "§5.2.6"}
	thesisOps       = []thesisOp{thesisBroadcast, thesisScatter, thesisGather, thesisReduce, thesisAllToAll}
)

// anew returns the average cost of the thesis's reimplementation of an operation.
func (o thesisOp) anew() float64 { return o.total / o.alone }

// The contenders, as the figures name them. Ratios are to the first.
var (
	oursPlain     = contender{name: "plain", side: Coppice, mode: "plain"}
	oursReplay    = contender{name: "replay", side: Coppice, mode: "replay"}
	oursAgreed    = contender{name: "agreed after", side: Coppice, mode: "agreed-report"}
	oursTwice     = contender{name: "agreed before and after", side: Coppice, mode: "agreed-twice"}
	thesisAgainst = []contender{vendorTCP, vendorOwn, oursPlain, oursReplay, oursAgreed, oursTwice}
)

func thesisAbout(op string) string {
	return fmt.Sprintf("Median over launches of the median latency of a %s of %d bytes, and quartiles of the launches; processes of this machine, ours over Unix sockets.", op, smallest)
}

// thesisRuntime returns the figure that shows how long an operation takes.
func thesisRuntime(figure string, o thesisOp) Experiment {
	return thesisWork.figure(figure, o.section, "Fault-tolerant "+o.title, thesisAbout(o.title), func(f *attempt) {
		c := f.thesis(o)
		if c == nil {
			return
		}
		f.plotLatency(*c)
		f.judgeAnew(c, o)
		f.judge(measured{
			what: "agreed before and after, over plain", paper: "slower",
			ratios: c.ratios(oursTwice, oursPlain), mean: true, low: 1,
			reading: "two agreements are not free",
		})
		f.note("An agreement after the operation takes %.2f times as long as the operation itself without fault tolerance (geometric mean); for a broadcast of 4 bytes the thesis has it above 1.", c.mean(oursAgreed, oursPlain)-1)
	})
}

// judgeAnew judges the cost of not being MPI.
func (f *Finding) judgeAnew(c *view, o thesisOp) {
	m := measured{
		what: "ours without fault tolerance, over Open MPI without shared memory", paper: "clearly slower; no figure printed",
		ratios: c.ratios(oursPlain, vendorTCP), mean: true, high: 1.5,
		reading: "half as much again is read as not clearly slower; below 1 ours is faster",
	}
	if o.total > 0 {
		m.paper, m.high = fmt.Sprintf("%.2f, the quotient of its averages %.2f and %.2f", o.anew(), o.total, o.alone), o.anew()
		m.reading = "an operation written anew should not cost more than the thesis's; below 1 ours is faster"
	}
	f.judge(m)
}

// thesisOverhead returns the figure that shows the same as ratios.
func thesisOverhead(figure string, o thesisOp) Experiment {
	about := "Ratios to Open MPI without shared memory. " + thesisAbout(o.title)
	return thesisWork.figure(figure, o.section, "Overhead of fault-tolerant "+o.title, about, func(f *attempt) {
		c := f.thesis(o)
		if c == nil {
			return
		}
		f.plot(c.contest, "times as long as Open MPI over TCP", func(who contender, p int) model.Spread {
			return c.ratio(who, vendorTCP, p).Spread
		})
		if o.total == 0 {
			f.judgeShare(c)
			return
		}
		average := f.Chart.Add("thesis, average", chart.Dashed)
		for _, p := range c.processes {
			average.Points = append(average.Points, chart.Point{X: float64(p), Y: o.total, Low: o.total, High: o.total})
		}
		f.judgeOverhead(c, o)
	})
}

// judgeOverhead judges the cost of fault tolerance: in all, and over the same operation without it.
func (f *Finding) judgeOverhead(c *view, o thesisOp) {
	for _, who := range []contender{oursTwice, oursAgreed, oursReplay} {
		for _, m := range []measured{
			{
				what: who.name + ", over Open MPI without shared memory", ratios: c.ratios(who, vendorTCP),
				high: o.total, reading: "what the thesis has on average is to be beaten",
			},
			{
				what: who.name + ", over plain", ratios: c.ratios(who, oursPlain),
				high: o.alone, reading: "what fault tolerance alone adds is to be below the thesis's; the faster an operation is without it, the more the same agreements are",
			},
		} {
			m.mean, m.paper = true, fmt.Sprintf("%.2f on average", m.high)
			f.judge(m)
		}
	}
	if o.slip {
		f.note("The thesis calls %.2f the overhead of the reimplementation, and says that most of the total is due to that. Both fit only if it is what fault tolerance adds to the reimplementation, as with broadcast and reduce; so it is read here.", o.alone)
	}
}

// judgeShare judges an operation for which the thesis prints no figure, only that fault tolerance costs less
// than the reimplementation.
func (f *Finding) judgeShare(c *view) {
	adds := c.mean(oursTwice, oursPlain)
	anew := c.mean(oursPlain, vendorTCP)
	f.shape("agreed before and after, over plain", "less than what writing it anew costs; no figure printed",
		fmt.Sprintf("%.2f; plain over Open MPI without shared memory %.2f (geometric means)", adds, anew), adds <= anew,
		"agrees if the first is at most the second, which cannot be where ours without fault tolerance is as fast as Open MPI")
	f.judge(measured{
		what: "replay, over plain", paper: "less than what writing it anew costs; no figure printed",
		ratios: c.ratios(oursReplay, oursPlain), mean: true, high: thesisGather.alone,
		reading: "the least that the thesis prints of any operation",
	})
}

// thesis measures all operations of the figures at once, and returns the contest in one of them; nil if
// something is missing.
func (f *attempt) thesis(o thesisOp) *view {
	ops := each(thesisOps, func(o thesisOp) string { return o.name })
	c := &contest{bytes: []int{smallest}, contenders: thesisAgainst, ops: ops}
	if !f.hold(thesisCells, c) {
		return nil
	}
	one := c.of(o.name, smallest)
	f.thesisTable(one)
	f.thesisNotes(c)
	f.note("%d bytes, not 4 as in the thesis: reductions here add numbers of 8. Open MPI with shared memory, over that without: geometric mean %.2f; ours has sockets only.", smallest, one.mean(vendorOwn, vendorTCP))
	return &one
}

// thesisNotes adds notes on how it was measured.
func (f *Finding) thesisNotes(c *contest) {
	f.noteMachine(". Each configuration was launched %s, with %s after a warm-up and a barrier, not timed, between them; contenders take turns, and ratios are medians of the ratios of launches that are neighbours in time. An operation counts until it is over at the last process; the thesis has a barrier in the measured time, and averages.",
		times(c.rounds, "time"), times(c.iterations, "iteration"))
	if c.rounds < launchesMax || c.iterations < 50 && c.most == 0 {
		f.note("So few tell little: --runs 1000 is %d launches of 100.", launchesMax)
	}
	f.note("Open MPI's processes poll, and yield when they have nothing to do; ours sleep. Where many share a core, or the machine has other work, that is probably in our favour: ratios to it at few processes say the most.")
	f.note("«Agreed» is with Recovery Report: the operation and an agreement after it, as in the thesis's optimization; «before and after» is its strategy without that. «Replay» is what Coppice does unless told otherwise: no agreement, but a log.")
}

// thesisTable adds a table of one size.
func (f *Finding) thesisTable(c view) {
	t := f.table("", "implementation", "processes", "median_us", "q25_us", "q75_us", "to_openmpi", "to_plain", "launches", "iterations")
	for _, who := range c.contenders {
		for _, p := range c.processes {
			us := c.spread(who, p)
			t.Add(who.name, p, us.Median, us.Low, us.High,
				c.ratio(who, vendorTCP, p).Median, c.ratio(who, oursPlain, p).Median, c.rounds, c.iterations)
		}
	}
}
