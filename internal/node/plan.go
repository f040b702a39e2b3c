package node

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
	"github.com/coppice-go/coppice/protocol/collective"
	"github.com/coppice-go/coppice/topology"
)

// Names of trees and corrections; a Plan holds their index.
var (
	treeNames       = []string{"binomial", "kary", "lame", "optimal", "gossip", "big"}
	correctionNames = []string{"none", "ack", "opportunistic", "opportunistic-sends", "optimized", "optimized-paper", "checked", "failure-proof", "delayed"}
)

const (
	correctionAck   = 1 // index of the last name that is no correction
	correctionProof = 7 // of failure-proof correction
)

// repairs tells whether correction does nothing but repair: nobody who has the value
// waits for it.
func (p Plan) repairs() bool { return p.correction != correctionProof }

func (p Plan) treeName() string { return named(treeNames, p.tree, p.treeArg) }

func (p Plan) correctionName() string { return named(correctionNames, p.correction, p.fixArg) }

func named(names []string, i uint8, number uint16) string {
	if int(i) >= len(names) {
		return fmt.Sprintf("number %d", i)
	}
	if number == 0 {
		return names[i]
	}
	return names[i] + ":" + strconv.Itoa(int(number))
}

// A Part of a broadcast is its tree or its correction: a name of broadcast.Spec and its number, 0 if it has none.
// The number of gossip is that of rounds, each partner drawn anew per round but the same in every broadcast; that of
// delayed is in microseconds.
type Part struct {
	Name   string
	Number int
}

// NumberMax is the largest number of a Part.
const NumberMax = 1<<15 - 1

// BroadcastPlan returns the plan of a broadcast. Its numbers are checked: they are from 0 to NumberMax.
func BroadcastPlan(tree, correction Part, order topology.Order) (Plan, error) {
	t, c := slices.Index(treeNames, tree.Name), slices.Index(correctionNames, correction.Name)
	if t < 0 || c < 0 {
		return Plan{}, fmt.Errorf("tree %q with correction %q; allowed: %v with %v", tree.Name, correction.Name, treeNames, correctionNames)
	}
	p := Plan{op: opBroadcast, tree: uint8(t), treeArg: uint16(tree.Number), correction: uint8(c), fixArg: uint16(correction.Number)}
	if order == topology.InOrder {
		p.flags = inOrder
	}
	return p, nil
}

// Unlogged is the same plan for an operation that is not kept for replay.
func (p Plan) Unlogged() Plan {
	p.flags |= unlogged
	return p
}

// WithRoot is the same plan from another root.
func (p Plan) WithRoot(root int) Plan {
	p.root = uint32(root)
	return p
}

// Latency and overhead of a message in nanoseconds, for trees and time-outs that
// depend on them: sockets of one host on the machines at hand.
const latency, overhead = 20_000, 10_000

// A factory makes the machines of one plan in one group.
type factory func(self protocol.Rank) machine

// machines returns the factory of a plan among p tasks, on hosts that begin with some of them, or says why there is
// none. In memory a message costs less than to go along a tree.
func machines(plan Plan, p int, hosts []protocol.Rank, memory bool) (factory, error) {
	if plan.is(scheduled) {
		return schedules(plan, p, hosts)
	}
	switch plan.op {
	case opBarrier:
		// Few processors serve many processes more often than not: total work
		// counts more than the number of steps.
		shape := collective.UpDown
		if memory && p <= collective.StarMax {
			shape = collective.Star
		}
		b, err := collective.NewBarrier(p, shape)
		if err != nil {
			return nil, err
		}
		return func(self protocol.Rank) machine {
			m := &barriers{Barrier: b}
			m.reset(self)
			return m
		}, nil
	case opSave: // has none
		return nil, nil
	case opBroadcast:
		return broadcasts(plan, p)
	case opScatter:
		if !plan.open() {
			return nil, errors.New("a scatter of which it is not said how")
		}
		return nil, checkRoot(plan, p)
	default:
		return nil, errNoSuch(plan.op)
	}
}

func errNoSuch(op uint8) error { return fmt.Errorf("no such operation: %d", op) }

func checkRoot(plan Plan, p int) error {
	if int64(plan.root) >= int64(p) {
		return fmt.Errorf("root %d; allowed: 0 to %d", plan.root, p-1)
	}
	return nil
}

func broadcasts(plan Plan, p int) (factory, error) {
	if err := checkRoot(plan, p); err != nil {
		return nil, err
	}
	if p == 1 { // nobody to send to, and distances are at most 0
		plan.tree, plan.treeArg, plan.correction, plan.fixArg = 0, 0, 0, 0
	}
	spec := broadcast.Spec{
		P: p, Root: protocol.Rank(plan.root), Tree: plan.treeName(), Correction: plan.correctionName(),
		L: latency, O: overhead, Counted: true,
	}
	if plan.is(inOrder) {
		spec.Order = topology.InOrder
	}
	switch treeNames[min(int(plan.tree), len(treeNames)-1)] {
	case "gossip": // a round is one send, whatever the network's o
		spec.L, spec.O = 1, 1
	case "optimal": // in units, so that the tree is found fast
		spec.L, spec.O = latency/overhead, 1
	}
	if correctionNames[min(int(plan.correction), len(correctionNames)-1)] == "delayed" {
		spec.Correction = fmt.Sprintf("delayed:%d", int(plan.fixArg)*1000)
	}
	make, err := spec.Runners()
	if err != nil {
		return nil, err
	}
	return func(self protocol.Rank) machine {
		c := casts{make()}
		c.reset(self)
		return c
	}, nil
}

// ancestors returns whom this task waits for in a broadcast without correction: who sends it the value, who sends it to that one, and
// so on. If the root has not said yet how the broadcast goes, and that depends on the size, it may be anybody. There are none for gossip.
func (m *Member) ancestors(plan Plan) (path []protocol.Rank) {
	root, p := int(plan.root), m.Size()
	if plan.open() {
		differ, _ := m.Small(collective.Broadcast)
		if differ || m.p.cfg.Rules.Choose(collective.Spec{Op: collective.Broadcast, P: p, Hosts: m.hosts}, 0).Span > 0 {
			return everybody(p)
		}
		plan = m.Choose(collective.Broadcast, Choice{Root: root, Bytes: Unknown, Decides: true})
	}
	var parent func(task int) int
	if plan.is(scheduled) {
		parent = m.senders(plan)
	} else {
		parent = plan.parents(p)
	}
	for at := m.rank; parent != nil && at != root && len(path) < p; {
		if at = parent(at); at < 0 {
			return everybody(p)
		}
		path = append(path, protocol.Rank(at))
	}
	return path
}

// senders returns who sends a task the value in a broadcast by schedule; -1: several do.
func (m *Member) senders(plan Plan) func(task int) int {
	s, err := plan.schedule(m.Size(), m.hosts)
	if err != nil {
		return nil
	}
	return func(task int) int {
		from := -1
		for _, step := range s.Program(protocol.Rank(task)).Steps {
			if step.Kind != collective.RecvStep {
				continue
			}
			if from >= 0 && from != int(step.Peer) {
				return -1
			}
			from = int(step.Peer)
		}
		return from
	}
}

// parents returns who sends a task the value in a broadcast along a tree of package broadcast; nil: it has none.
func (p Plan) parents(tasks int) func(task int) int {
	shape, err := topology.ParseShape(p.treeName())
	if err != nil {
		return nil
	}
	order := topology.Interleaved
	if p.is(inOrder) {
		order = topology.InOrder
	}
	tree, err := shape.Tree(tasks, order, latency/overhead, 1)
	if err != nil {
		return nil
	}
	root := int(p.root)
	return func(task int) int {
		return (int(tree.Parent((task-root+tasks)%tasks)) + root) % tasks
	}
}

// everybody lists all ranks of a group.
func everybody(p int) (all []protocol.Rank) {
	for r := range p {
		all = append(all, protocol.Rank(r))
	}
	return all
}
