package collective

import (
	"fmt"
	"slices"
	"strings"
)

// Algorithm is a way to carry out an operation.
type Algorithm uint8

// The algorithms; tree.go, exchange.go, hosts.go and corrected.go say what they do and cost. Those from Corrected on survive
// crashes: a caller has to ask for them, and Algorithms does not list them.
const (
	Binomial Algorithm = iota
	Flat
	Hub
	Doubling
	Rabenseifner
	Ring
	Bruck
	Direct
	ScatterAllGather
	Corrected
	CorrectedFlat
	TwoLevel
	algorithms
)

var algorithmNames = [algorithms]string{"binomial", "flat", "hub", "doubling", "rabenseifner", "ring", "bruck", "direct", "scatter-all-gather", "corrected", "corrected-flat", "two-level"}

func (a Algorithm) String() string {
	if a < algorithms {
		return algorithmNames[a]
	}
	return fmt.Sprintf("Algorithm(%d)", uint8(a))
}

// ParseAlgorithm reads the name of an algorithm.
func ParseAlgorithm(name string) (Algorithm, error) {
	i := slices.Index(algorithmNames[:], name)
	if i < 0 {
		return 0, fmt.Errorf("algorithm %q; allowed: %s", name, strings.Join(algorithmNames[:], ", "))
	}
	return Algorithm(i), nil
}

// maker makes the program of a task.
type maker func(p int, self, root Rank, spans int) Program

// way is an algorithm for an operation.
type way struct {
	algorithm Algorithm
	make      maker
	spans     bool // values may go in several pieces
	powers    bool // for powers of two
	anyOrder  bool // combines in any order
	cuts      bool // always cuts values

	twoLevel func(hosts []Rank) maker // in place of make, for tasks on several hosts
}

// ways lists them by operation, those that are always possible first.
var ways = [...][]way{
	Broadcast: {
		{algorithm: Binomial, make: broadcastTree(binomial), spans: true},
		{algorithm: Flat, make: broadcastTree(star), spans: true},
		{algorithm: ScatterAllGather, make: scatterAllGather, cuts: true},
		{algorithm: TwoLevel, twoLevel: func(h []Rank) maker { return broadcastTree(hostTree(h, star, binomial)) }, spans: true},
	},
	Scatter: {
		{algorithm: Binomial, make: scatterTree(binomial)},
		{algorithm: Flat, make: scatterTree(star)},
		{algorithm: TwoLevel, twoLevel: func(h []Rank) maker { return scatterTree(hostTree(h, star, star)) }},
	},
	Gather: {
		{algorithm: Binomial, make: gatherTree(binomial)},
		{algorithm: Flat, make: gatherTree(star)},
		{algorithm: TwoLevel, twoLevel: func(h []Rank) maker { return gatherTree(hostTree(h, star, star)) }},
	},
	AllGather: {
		{algorithm: Ring, make: ringAllGather},
		{algorithm: Hub, make: hubAllGather},
		{algorithm: Doubling, make: doublingAllGather},
		{algorithm: Bruck, make: bruckAllGather},
		{algorithm: Direct, make: direct(true)},
		{algorithm: TwoLevel, twoLevel: twoLevelAllGather},
	},
	AllToAll: {
		{algorithm: Direct, make: direct(false)},
		{algorithm: Hub, make: hubAllToAll},
		{algorithm: Bruck, make: bruckAllToAll},
		{algorithm: TwoLevel, twoLevel: twoLevelAllToAll},
	},
	Reduce: {
		{algorithm: Binomial, make: reduceTree(binomial, false), spans: true},
		{algorithm: Flat, make: reduceTree(star, false), spans: true},
		{algorithm: Rabenseifner, make: rabenseifner(false), powers: true, cuts: true},
		{algorithm: TwoLevel, twoLevel: func(h []Rank) maker { return sumTree(hostTree(h, binomial, binomial), false) }, spans: true, anyOrder: true},
	},
	AllReduce: {
		{algorithm: Binomial, make: reduceTree(binomial, true), spans: true},
		{algorithm: Hub, make: reduceTree(star, true), spans: true},
		{algorithm: Doubling, make: doubling(AllReduce)},
		{algorithm: Rabenseifner, make: rabenseifner(true), powers: true, cuts: true},
		{algorithm: Ring, make: ringAllReduce, anyOrder: true, cuts: true},
		{algorithm: TwoLevel, twoLevel: func(h []Rank) maker { return sumTree(hostTree(h, binomial, binomial), true) }, spans: true, anyOrder: true},
	},
	Scan: {
		{algorithm: Doubling, make: doubling(Scan)},
	},
	ExScan: {
		{algorithm: Doubling, make: doubling(ExScan)},
	},
	ReduceScatter: {
		{algorithm: Direct, make: reduceScatter(direct(false))},
		{algorithm: Hub, make: reduceScatter(hubAllToAll)},
		{algorithm: Bruck, make: reduceScatter(bruckAllToAll)},
		{algorithm: TwoLevel, twoLevel: func(h []Rank) maker { return reduceScatter(twoLevelAllToAll(h)) }},
	},
}

// Spec says which schedule is wanted.
type Spec struct {
	Op        Op
	Algorithm Algorithm
	P         int
	Root      Rank // of operations that have one
	Spans     int  // pieces in which a vector goes; 0: one
	AnyOrder  bool // values may be combined in any order
	Failures  int  // that Corrected and CorrectedFlat survive
	// Hosts has the first task of each host, in order: those up to the next one share its memory. Empty: where tasks are is not known.
	Hosts []Rank
}

// SpansMax bounds the pieces of a vector: two lanes each.
const SpansMax = 1 << 14

// PMax bounds the tasks of a schedule: every message between two tasks has a lane.
const PMax = 1 << 15

// Algorithms lists what there is for an operation, whose algorithm spec leaves open.
func Algorithms(spec Spec) (all []Algorithm) {
	if int(spec.Op) >= len(ways) {
		return nil
	}
	for _, w := range ways[spec.Op] {
		if w.fits(spec) {
			all = append(all, w.algorithm)
		}
	}
	return all
}

// find is the way of an algorithm to carry out an operation; false: there is none.
func find(op Op, a Algorithm) (w way, ok bool) {
	if int(op) < len(ways) {
		if i := slices.IndexFunc(ways[op], func(w way) bool { return w.algorithm == a }); i >= 0 {
			return ways[op][i], true
		}
	}
	return way{}, false
}

// Spans reports whether an algorithm can send a vector in several pieces.
func Spans(op Op, a Algorithm) bool {
	w, _ := find(op, a)
	return w.spans
}

func (w *way) fits(spec Spec) bool {
	several := len(spec.Hosts) > 1 && len(spec.Hosts) < spec.P
	return (!w.powers || spec.P&(spec.P-1) == 0) && (!w.anyOrder || spec.AnyOrder) && (w.twoLevel == nil || several)
}

// New returns the schedule of a spec.
func New(spec Spec) (*Schedule, error) {
	if spec.P < 1 || spec.P > PMax {
		return nil, fmt.Errorf("%v among %d tasks; allowed: 1 to %d", spec.Op, spec.P, PMax)
	}
	if int(spec.Op) >= len(ways) || len(ways[spec.Op]) == 0 {
		return nil, fmt.Errorf("operation %d; allowed: %d to %d", uint8(spec.Op), Broadcast, ReduceScatter)
	}
	if corrects(spec.Algorithm) {
		return newCorrected(spec)
	}
	w, ok := find(spec.Op, spec.Algorithm)
	if !ok || !w.fits(spec) {
		return nil, fmt.Errorf("%v by %v among %d tasks; allowed: %v", spec.Op, spec.Algorithm, spec.P, Algorithms(spec))
	}
	if err := checkHosts(spec); err != nil {
		return nil, err
	}
	spans := max(spec.Spans, 1)
	if spans > SpansMax || spans > 1 && !w.spans {
		return nil, fmt.Errorf("%v by %v in %d pieces; allowed: up to %d where pieces are possible", spec.Op, spec.Algorithm, spans, SpansMax)
	}
	if spec.Root < 0 || int(spec.Root) >= spec.P {
		return nil, fmt.Errorf("root %d; allowed: 0 to %d", spec.Root, spec.P-1)
	}
	if w.twoLevel != nil {
		w.make = w.twoLevel(spec.Hosts)
	}
	return &Schedule{
		P:       spec.P,
		Unasked: spec.Op == Broadcast || spec.Op == Scatter,
		Program: func(self Rank) Program { return w.make(spec.P, self, spec.Root, spans) },
	}, nil
}
