package experiment

import (
	"fmt"
	"strings"

	"github.com/coppice-go/coppice/experiment/chart"
	"github.com/coppice-go/coppice/model"
)

// The figures of the thesis about size, and the one about its optimization.

// thesisBytes are the sizes of Figure 5.5; the thesis says only that they vary.
var thesisBytes = []int{smallest, 64, 512, 4 << 10, 32 << 10, 256 << 10}

// Bounds on measurements of large values: a log holds all iterations.
const (
	sizesProcesses    = 8
	sizesProcessesMax = 32
	sizesIterations   = 50
	largeIterations   = 5
	largeBytes        = 4 << 20
)

// sizesOn returns the fixed number of processes of Figure 5.5: the largest requested.
func (l *Lab) sizesOn() int {
	if len(l.Processes) == 0 {
		return sizesProcesses
	}
	all := l.processes()
	return min(sizesProcessesMax, all[len(all)-1])
}

func thesisSizes(f *attempt) {
	p := f.lab.sizesOn()
	c := &contest{processes: []int{p}, bytes: thesisBytes, ops: []string{thesisBroadcast.name}, most: sizesIterations, contenders: thesisAgainst}
	if !f.hold(thesisCells, c) {
		return
	}
	f.Chart = &chart.Chart{Title: fmt.Sprintf("%s, %d processes", f.Title, p), X: chart.Axis{Label: "bytes", Log: 2}, Y: chart.Axis{Label: "median latency (µs)", Log: 10}}
	t := f.table("", "implementation", "bytes", "median_us", "q25_us", "q75_us", "to_openmpi", "to_plain", "launches", "iterations")
	for _, who := range c.contenders {
		f.curve(who.name, c.bytes, func(bytes int) model.Spread {
			v := c.of("", bytes)
			us := v.spread(who, p)
			t.Add(who.name, bytes, us.Median, us.Low, us.High, v.ratio(who, vendorTCP, p).Median, v.ratio(who, oursPlain, p).Median, c.rounds, c.iterations)
			return us
		})
	}
	for _, who := range []contender{oursTwice, oursAgreed, oursReplay} {
		f.judgeGrowth(c, who, p)
	}
	f.thesisNotes(c)
}

// judgeGrowth judges whether the cost of fault tolerance depends on the size. A constant cost weighs less,
// the larger the rest is.
func (f *Finding) judgeGrowth(c *contest, who contender, p int) {
	const noise = 1.2
	ratios := each(c.bytes, func(bytes int) float64 { return c.of("", bytes).ratio(who, oursPlain, p).Median })
	var seen []string
	for i, r := range ratios {
		seen = append(seen, fmt.Sprintf("%.2f at %d bytes", r, c.bytes[i]))
	}
	f.shape(who.name+", over plain, as the size grows", "what it adds is almost constant", "ratio "+strings.Join(seen, ", "),
		ratios[len(ratios)-1] <= noise*ratios[0], "agrees if the ratio at the largest size is at most that at the smallest, and a fifth of noise")
}

func thesisLarge(f *attempt) {
	c := (&contest{bytes: []int{largeBytes}, ops: []string{thesisAllToAll.name}, split: true, most: largeIterations, contenders: thesisAgainst}).of("", largeBytes)
	if !f.hold(thesisCells, c.contest) {
		return
	}
	f.thesisTable(c)
	f.plotLatency(c)
	for _, who := range []contender{oursTwice, oursAgreed, oursReplay} {
		f.judge(measured{
			what: who.name + ", over Open MPI without shared memory", paper: "slightly better than MPI's",
			ratios: c.ratios(who, vendorTCP), mean: true, high: 1,
			reading: "below 1 ours is faster",
		})
	}
	f.thesisNotes(c.contest)
	f.note("The thesis writes «4MB per process» and «per node»; here a process sends 4 MiB in all, to each other a pth of it.")
}

func thesisOptimized(f *attempt) {
	c := f.thesis(thesisReduce)
	if c == nil {
		return
	}
	f.plotLatency(*c)
	f.judge(measured{
		what: "agreed after, over agreed before and after", paper: "better",
		ratios: c.ratios(oursAgreed, oursTwice), mean: true, high: 1,
		reading: "one agreement costs less than two",
	})
	f.judge(measured{
		what: "agreed after, over Open MPI without shared memory", paper: fmt.Sprintf("better than the reimplementation, which takes %.2f times as long (8.28 / 1.34)", thesisReduce.anew()),
		ratios: c.ratios(oursAgreed, vendorTCP), mean: true, high: thesisReduce.anew(),
		reading: "the thesis's optimization calls MPI's own reduce; ours has no other than its own",
	})
	f.judge(measured{
		what: "replay, over agreed after", paper: "one agreement is the least",
		ratios: c.ratios(oursReplay, oursAgreed), mean: true, high: 1,
		reading: "a log needs no agreement",
	})
}
