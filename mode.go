package coppice

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/coppice-go/coppice/internal/node"
	"github.com/coppice-go/coppice/protocol/collective"
	"github.com/coppice-go/coppice/topology"
)

// mode is what an operation promises when processes crash.
type mode uint8

const (
	replayed mode = iota
	plain
	agreed
	corrected
)

// Replayed is the default mode: what is sent is kept, so that a task whose process died
// can be run again and gets what it got before. With Recovery [Report] nothing is kept,
// and it is [Plain]. Small values go along a binomial tree, large ones in pieces.
func Replayed() Option { return Option{kind: modeOption, mode: replayed} }

// Plain is the mode that does nothing against deaths: a task that needs a dead one gets an error
// that names it, and a task that is run again and comes to the operation, too. It is
// what MPI does, without the hang.
func Plain() Option { return Option{kind: modeOption, mode: plain} }

// Agreed is the mode in which all tasks complete the operation or none, and all know which. A task whose
// context has ended when it comes to the operation aborts it, and it is [ErrAborted] for
// all; once it has begun, the end of a context no longer ends it. With Recovery
// [Replay] nothing else keeps it from being completed. With [Report] the tasks that live
// agree afterwards whether all of them have: if not, it is [ErrLost] for all. A task that
// has waited for the others for Job.Silence after the end of its context gives up the
// group: that is [ErrAbandoned], and nobody can use the group any more.
func Agreed() Option { return Option{kind: modeOption, mode: agreed} }

// Corrected is a mode of [Broadcast] and of reductions. A broadcast's value reaches all tasks
// that live, whoever else dies, without a detector. docs/broadcasts.md has the costs and promises of
// each [Correction]. If the root dies before anybody who lives has the value, it is [ErrUnreached].
//
// [Reduce], [AllReduce], [ReduceFunc] and [AllReduceFunc], with Recovery [Report], go on without
// the inputs of the dead: [FailureProof] for up to f deaths, before them or at any
// moment, [Checked] for one. The inputs of all tasks that live are in the result, those of
// the dead may be; at all tasks that get one it is the same. If more have died or the
// root has (AllReduce has one here, too: see [Root]), it may be ErrUnreached. With Recovery
// [Replay] all inputs come, in the end, and a death changes nothing. docs/collectives.md
// has the costs.
func Corrected(c Correction) Option { return Option{kind: modeOption, mode: corrected, correction: c} }

// Along sends a [Broadcast] along a tree, whatever the size of its value.
func Along(tree Tree) Option { return Option{kind: alongOption, tree: tree} }

// Correction says how tasks that a broadcast has not reached get its value, or a reduction goes on without
// the dead: see [Corrected]. A number that cannot be is an error of the operation that gets it.
type Correction struct{ part }

// Checked reaches all live tasks, after any deaths before the broadcast, or of tasks that do not correct.
func Checked() Correction { return Correction{part{kind: checked}} }

// Opportunistic reaches across gaps of up to d dead tasks in a row on each side.
func Opportunistic(d int) Correction { return Correction{part{opportunistic, d}} }

// Optimized is [Opportunistic] with fewer messages.
func Optimized(d int) Correction { return Correction{part{optimized, d}} }

// Delayed is [Checked], with correctors that wait for d first: up to 32 ms, in whole microseconds.
func Delayed(d time.Duration) Correction {
	us := int(d / time.Microsecond)
	if d%time.Microsecond > 0 {
		us++
	}
	return Correction{part{delayed, us}}
}

// FailureProof gives the value to all live tasks or to none, for up to f deaths at any moment.
func FailureProof(f int) Correction { return Correction{part{failureProof, f}} }

// ParseCorrection reads what Correction.String writes.
func ParseCorrection(text string) (Correction, error) {
	p, err := parsePart("correction", text, corrections)
	return Correction{p}, err
}

// String is checked, opportunistic:D, optimized:D, delayed:US with microseconds, or failure-proof:F.
func (c Correction) String() string { return c.text(corrections) }

// Tree is a tree along which a broadcast is sent: see [Along]. The zero Tree is binomial. A number that cannot be
// is an error of the operation that gets it.
type Tree struct {
	part
	order topology.Order
}

// Binomial is the tree of small broadcasts by default.
func Binomial() Tree { return Tree{} }

// KAry is the tree in which a task sends to k others.
func KAry(k int) Tree { return Tree{part: part{kary, k}} }

// Lame is the Lamé tree of order k: a task sends at every step from k steps after its parent has begun to send to it. Of order 1 it is
// the binomial tree.
func Lame(k int) Tree { return Tree{part: part{lame, k}} }

// Optimal is the fastest tree for the latency and the overhead of messages on one host.
func Optimal() Tree { return Tree{part: part{kind: optimal}} }

// Gossip is no tree: tasks that have the value send it to others, for so many rounds. The partners are the same in every
// broadcast. It takes a correction, which reaches the tasks that it misses: see [Corrected].
func Gossip(rounds int) Tree { return Tree{part: part{gossip, rounds}} }

// InOrder is the same tree, numbered depth first. It is what other
// libraries use; a death then leaves larger gaps.
func (t Tree) InOrder() Tree {
	t.order = topology.InOrder
	return t
}

// inOrderText follows the name of a tree that is numbered depth first.
const inOrderText = " in-order"

// ParseTree reads what Tree.String writes.
func ParseTree(text string) (t Tree, err error) {
	text, inOrder := strings.CutSuffix(text, inOrderText)
	t.part, err = parsePart("tree", text, trees)
	if inOrder {
		t = t.InOrder()
	}
	return t, err
}

// String is binomial, kary:K, lame:K, optimal or gossip:R, and in-order behind a space if it is.
func (t Tree) String() string {
	if t.order == topology.InOrder {
		return t.text(trees) + inOrderText
	}
	return t.text(trees)
}

// part is a tree or a correction: its place among those, and its number.
type part struct {
	kind   uint8
	number int
}

// The corrections, and the trees.
const (
	checked = iota + 1
	opportunistic
	optimized
	delayed
	failureProof
)

const (
	binomial = iota
	kary
	lame
	optimal
	gossip
)

// A partName is how text names a part; number is "" for one that has none.
type partName struct{ name, number string }

// none is the name of the zero Correction, which cannot be asked for.
const none = "none"

var (
	corrections = []partName{{none, ""}, {"checked", ""}, {"opportunistic", "D"}, {"optimized", "D"}, {"delayed", "US"}, {"failure-proof", "F"}}
	trees       = []partName{{"binomial", ""}, {"kary", "K"}, {"lame", "K"}, {"optimal", ""}, {"gossip", "R"}}
)

func (n partName) String() string {
	if n.number == "" {
		return n.name
	}
	return n.name + ":" + n.number
}

func (p part) text(names []partName) string {
	n := names[p.kind]
	if n.number != "" {
		n.number = strconv.Itoa(p.number)
	}
	return n.String()
}

// check says what is wrong with the number.
func (p part) check(what string, names []partName) error {
	if n := names[p.kind]; n.number != "" && (p.number < 1 || p.number > node.NumberMax) {
		return fmt.Errorf("%s %q; allowed: %s with %s from 1 to %d", what, p.text(names), n, n.number, node.NumberMax)
	}
	return nil
}

// parsePart reads what text writes.
func parsePart(what, text string, names []partName) (p part, err error) {
	name, digits, found := strings.Cut(text, ":")
	for kind, n := range names {
		if n.name != name || found != (n.number != "") || name == none {
			continue
		}
		p.kind = uint8(kind)
		if found {
			if p.number, err = strconv.Atoi(digits); err != nil {
				break
			}
		}
		return p, p.check(what, names)
	}
	var allowed []string
	for _, n := range names {
		if n.name != none {
			allowed = append(allowed, n.String())
		}
	}
	return part{}, fmt.Errorf("%s %q; allowed: %s", what, text, strings.Join(allowed, ", "))
}

// named is the part as a plan has it.
func (p part) named(names []partName) node.Part {
	return node.Part{Name: names[p.kind].name, Number: p.number}
}

// routed reports whether the options say how a broadcast goes: otherwise that depends on the size of its value.
func (s *settings) routed() bool { return s.mode == corrected || s.given&(1<<alongOption) != 0 }

// route is the plan of a broadcast whose options say how it goes.
func (s *settings) route() (node.Plan, error) {
	if err := s.tree.check("tree", trees); err != nil {
		return node.Plan{}, err
	}
	if s.tree.kind == gossip && s.mode != corrected {
		return node.Plan{}, fmt.Errorf("tree %q, which misses tasks, without a correction; allowed: with Corrected", s.tree.String())
	}
	plan, err := node.BroadcastPlan(s.tree.named(trees), s.correction.named(corrections), s.tree.order)
	return plan.WithRoot(s.root), err
}

// corrects reports whether a reduction is to be corrected.
func (s *settings) corrects(op collective.Op) bool {
	return s.mode == corrected && (op == collective.Reduce || op == collective.AllReduce)
}

// checkMode says what is wrong with the mode of an operation.
func (s *settings) checkMode(op collective.Op) error {
	if s.mode != corrected {
		return nil
	}
	switch c := s.correction; {
	case op != collective.Broadcast && !s.corrects(op):
		return errors.New("mode Corrected; allowed: Replayed, Plain, Agreed")
	case c == Correction{}:
		return errors.New("mode Corrected without a correction; allowed: Checked and others")
	case op != collective.Broadcast && c.kind != checked && (c.kind != failureProof || c.number > collective.FailuresMax):
		return fmt.Errorf("correction %q of a reduction; allowed: checked, failure-proof:F with F up to %d", c.String(), collective.FailuresMax)
	}
	return s.correction.check("correction", corrections)
}

// failures is how many deaths a corrected reduction outlives.
func (c Correction) failures() int {
	if c.kind == checked {
		return 1
	}
	return c.number
}
