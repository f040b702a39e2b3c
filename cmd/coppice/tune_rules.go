package main

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/coppice-go/coppice/model"
	"github.com/coppice-go/coppice/protocol/collective"
)

// choice is a way to carry out an operation.
type choice struct {
	Algorithm collective.Algorithm
	Span      int64 // bytes of a piece; 0: in one
}

func choiceOf(r collective.Rule) choice { return choice{r.Algorithm, r.Span} }

func (c choice) String() string {
	if c.Span == 0 {
		return c.Algorithm.String()
	}
	return c.Algorithm.String() + "/" + sizeText(int(c.Span))
}

// general tells whether an algorithm serves any number of processes: 3 is the
// first that is no power of two.
func (c choice) general(op collective.Op) bool {
	return slices.Contains(collective.Algorithms(collective.Spec{Op: op, P: 3}), c.Algorithm)
}

// candidate is a choice and the microseconds it took.
type candidate struct {
	choice
	rounds []float64 // the median of each round
	out    bool      // left out of the rounds that follow
}

// us is the median of the rounds.
func (c *candidate) us() float64 {
	if len(c.rounds) == 0 {
		return math.Inf(1)
	}
	return model.Median(c.rounds)
}

// tuneCell is an operation among so many processes on so many bytes, and what its
// candidates took.
type tuneCell struct {
	table      collective.Table // the default one
	op         collective.Op
	p          int
	bytes      int64
	candidates []candidate
}

// usual is what the default table chooses.
func (c *tuneCell) usual() choice {
	return c.chosen(c.table)
}

// chosen is what jobs choose with a table. The blocks that are measured are slices, whose sizes tasks do not know of each other.
func (c *tuneCell) chosen(t collective.Table) choice {
	bytes := c.bytes
	if c.op == collective.Gather {
		bytes = math.MaxInt64
	}
	return choiceOf(t.Choose(collective.Spec{Op: c.op, P: c.p}, bytes))
}

// find returns a candidate, or nil.
func (c *tuneCell) find(want choice) *candidate {
	if i := slices.IndexFunc(c.candidates, func(c candidate) bool { return c.choice == want }); i >= 0 {
		return &c.candidates[i]
	}
	return nil
}

// best is the fastest of those that fit; nil: of all.
func (c *tuneCell) best(fits func(choice) bool) (best *candidate) {
	for i := range c.candidates {
		one := &c.candidates[i]
		if (fits == nil || fits(one.choice)) && (best == nil || one.us() < best.us()) {
			best = one
		}
	}
	return best
}

// pick is the first of the preferred that the best does not beat, else the best.
func (c *tuneCell) pick(fits func(choice) bool, preferred ...choice) choice {
	best := c.best(fits)
	for _, want := range preferred {
		one := c.find(want)
		if one != nil && (fits == nil || fits(want)) && !beats([]float64{best.us()}, []float64{one.us()}) {
			return want
		}
	}
	return best.choice
}

// noise is the ratio of two times that says nothing.
const noise = 1.1

// beats tells whether times are better than others of the same sizes: more than
// noise, and more so than they are worse elsewhere.
func beats(times, others []float64) bool {
	gain := 0.
	for i := range times {
		if ratio := others[i] / times[i]; ratio > noise || ratio < 1/noise {
			gain += math.Log(ratio)
		}
	}
	return gain > 0
}

// stretch is a range of sizes with one choice: from so many bytes on, to the next.
type stretch struct {
	from int64
	choice
}

// choiceAt is the choice for a size.
func choiceAt(stretches []stretch, bytes int64) (c choice) {
	for _, s := range stretches {
		if bytes >= s.from {
			c = s.choice
		}
	}
	return c
}

// merge joins neighbours of the same choice.
func merge(stretches []stretch) []stretch {
	return slices.CompactFunc(stretches, func(a, b stretch) bool { return a.choice == b.choice })
}

// stretchesOf is what a table says about an operation among p processes.
func stretchesOf(table collective.Table, op collective.Op, p int) (all []stretch) {
	from := []int64{0}
	for _, r := range table {
		if r.Op == op && r.P <= p {
			from = append(from, r.Bytes)
		}
	}
	slices.Sort(from)
	for _, bytes := range slices.Compact(from) {
		all = append(all, stretch{bytes, choiceOf(table.Choose(collective.Spec{Op: op, P: p}, bytes))})
	}
	return merge(all)
}

// deriveRules turns what was measured into few rules that, after the default ones,
// make the table choose well. What was best at a size holds up to the next one
// measured, at the smallest size for all smaller, at the largest for all larger
// ones; and so it is with numbers of processes, but that fewer than the least one
// stay with the default. Where the default is not beaten, it stays.
func deriveRules(cells []tuneCell) collective.Table {
	cells = slices.SortedStableFunc(slices.Values(cells), func(a, b tuneCell) int {
		return cmp.Or(cmp.Compare(a.op, b.op), cmp.Compare(a.p, b.p), cmp.Compare(a.bytes, b.bytes))
	})
	if len(cells) == 0 {
		return nil
	}
	usual := cells[0].table
	table := slices.Clone(usual)
	var last []stretch
	for i := 0; i < len(cells); {
		group := sameGroup(cells[i:])
		op, p := group[0].op, group[0].p
		if i > 0 && cells[i-1].op != op {
			last = nil
		}
		last = decide(group, last)
		if !slices.Equal(stretchesOf(table, op, p), last) {
			table = append(table, rulesFor(group, last)...)
		}
		i += len(group)
	}
	return prune(usual, table[len(usual):])
}

// prune leaves out rules without which the table is the same; the usual ones come before them.
func prune(usual, rules collective.Table) collective.Table {
	whole := slices.Concat(usual, rules)
	for i := 0; i < len(rules); {
		fewer := slices.Delete(slices.Clone(rules), i, i+1)
		if same(whole, slices.Concat(usual, fewer), rules[i].Op) {
			rules = fewer
		} else {
			i++
		}
	}
	return rules
}

// same tells whether two tables, one of them with all rules of the other, choose
// the same for an operation. What they choose changes only at the numbers of
// processes that rules name, and between powers of two and other numbers.
func same(whole, part collective.Table, op collective.Op) bool {
	agree := func(p int) bool { return slices.Equal(stretchesOf(whole, op, p), stretchesOf(part, op, p)) }
	for _, r := range append(slices.Clone(whole), collective.Rule{Op: op, P: 1}) {
		from := max(r.P, 1)
		power := 1 << bits.Len(uint(from-1))
		if r.Op == op && !(agree(from) && agree(from+1) && agree(from+2) && agree(power)) {
			return false
		}
	}
	return true
}

// sameGroup is the cells at the beginning that differ only in size.
func sameGroup(cells []tuneCell) []tuneCell {
	end := slices.IndexFunc(cells, func(c tuneCell) bool { return c.op != cells[0].op || c.p != cells[0].p })
	if end < 0 {
		return cells
	}
	return cells[:end]
}

// decide chooses for an operation among p processes, of which the cells are all
// sizes; last is what was chosen for fewer processes.
func decide(cells []tuneCell, last []stretch) []stretch {
	switch cells[0].op {
	case collective.Gather, collective.AllGather, collective.AllToAll:
		return decidePlan(cells, last)
	}
	return decideEach(cells, last)
}

// decideEach chooses for every size. Of equals it takes the default, then what a
// smaller size has, then what fewer processes have: that makes the fewest rules.
func decideEach(cells []tuneCell, last []stretch) (all []stretch) {
	usual := stretchesOf(cells[0].table, cells[0].op, cells[0].p)
	var before choice
	for i := range cells {
		c := &cells[i]
		preferred := []choice{c.usual()}
		if i > 0 {
			preferred = append(preferred, before)
		}
		if last != nil {
			preferred = append(preferred, choiceAt(last, c.bytes))
		}
		before = c.pick(nil, preferred...)
		from, to := c.bytes, int64(math.MaxInt64)
		if i == 0 {
			from = 0
		}
		if i+1 < len(cells) {
			to = cells[i+1].bytes
		}
		if before != c.usual() {
			all = append(all, stretch{from, before})
			continue
		}
		all = append(all, stretch{from, choiceAt(usual, from)})
		for _, s := range usual { // its own switch points stay
			if s.from > from && s.from < to {
				all = append(all, s)
			}
		}
	}
	return merge(all)
}

// decidePlan chooses for operations whose blocks have sizes that tasks do not
// know of each other. Then a switch costs: all try it as for small blocks first,
// and once more if one was large. So there is one switch at most, and none in
// gather, which takes what is for large ones without trying.
func decidePlan(cells []tuneCell, last []stretch) []stretch {
	op, p := cells[0].op, cells[0].p
	var single, best []stretch
	consider := func(than *[]stretch, plan []stretch) {
		if *than == nil || total(planTimes(cells, plan)) < total(planTimes(cells, *than)) {
			*than = plan
		}
	}
	for _, small := range cells[0].candidates {
		if !small.general(op) {
			continue
		}
		plan := []stretch{{0, small.choice}}
		consider(&single, plan)
		consider(&best, plan)
		if op == collective.Gather {
			continue
		}
		for _, large := range cells[0].candidates {
			if large.choice == small.choice || !large.general(op) {
				continue
			}
			for _, c := range cells[1:] {
				consider(&best, []stretch{{0, small.choice}, {c.bytes, large.choice}})
			}
		}
	}
	for _, plan := range [][]stretch{stretchesOf(cells[0].table, op, p), last, single} {
		if plan != nil && !beats(planTimes(cells, best), planTimes(cells, plan)) {
			return plan
		}
	}
	return best
}

// planTimes is what a plan takes at every size: above a switch also the vain
// attempt, which carries next to nothing, as the smallest size does.
func planTimes(cells []tuneCell, plan []stretch) (times []float64) {
	smallest := &cells[0]
	for i := range cells {
		us := math.Inf(1)
		if c := cells[i].find(choiceAt(plan, cells[i].bytes)); c != nil {
			us = c.us()
		}
		tried := len(plan) > 1 && smallest.op != collective.Gather && cells[i].bytes >= plan[1].from && smallest.bytes < plan[1].from
		if attempt := smallest.find(plan[0].choice); tried && attempt != nil {
			us += attempt.us()
		}
		times = append(times, us)
	}
	return times
}

// total sums up times of different sizes: their ratios count, not their sums.
func total(times []float64) (sum float64) {
	for _, us := range times {
		sum += math.Log(us)
	}
	return sum
}

// rulesFor writes down what was decided. An algorithm for powers of two needs one
// for the numbers of processes between: the best of the others.
func rulesFor(cells []tuneCell, stretches []stretch) (rules []collective.Rule) {
	op, p := cells[0].op, cells[0].p
	var otherwise choice
	for i, s := range stretches {
		add := func(c choice) {
			rules = append(rules, collective.Rule{Op: op, P: p, Bytes: s.from, Algorithm: c.Algorithm, Span: c.Span})
		}
		between := s.choice
		if !s.general(op) {
			c := &cells[max(0, slices.IndexFunc(cells, func(c tuneCell) bool { return c.bytes == s.from }))]
			between = c.pick(func(c choice) bool { return c.general(op) }, c.usual())
			if i == 0 || between != otherwise {
				add(between)
			}
		}
		otherwise = between
		add(s.choice)
	}
	return rules
}
