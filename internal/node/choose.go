package node

import (
	"math"
	"slices"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/collective"
)

// Choice is what the choice of an algorithm depends on.
type Choice struct {
	Root     int
	Bytes    int64  // of a task's value, or block; Unknown where tasks may differ
	Pieces   bool   // the value may be cut into pieces
	AnyOrder bool   // values may be combined in any order
	Decides  bool   // this task, the root, decides for all
	Lengths  uint16 // stands for the lengths of parts, where they are the same at all tasks
	Dear     bool   // to combine two values takes long: tasks share that, as they do with large ones

	Corrected bool // a reduction outlives deaths,
	Failures  int  // so many
}

// Unknown stands for a size that tasks do not know of each other.
const Unknown = -1

// Choose is the plan for an operation by schedule.
func (m *Member) Choose(op collective.Op, c Choice) Plan {
	p := Plan{op: opOf(op), root: uint32(c.Root)}
	if p.unasked() {
		p.flags |= auto
		if !c.Decides {
			return p
		}
		p.flags |= decided
	}
	if c.Corrected {
		return p.correctedPlan(m.Size(), c)
	}
	rules := m.p.cfg.Rules
	if !c.Pieces && ops[p.op].combines {
		rules = m.p.groups.whole
	}
	if c.Dear {
		c.Bytes = math.MaxInt64
	}
	r := rules.Choose(collective.Spec{Op: op, P: m.Size(), AnyOrder: c.AnyOrder, Hosts: m.hosts}, c.Bytes)
	if op == collective.Broadcast && r.Algorithm == collective.Binomial && (r.Span == 0 || !c.Pieces) && m.p.cfg.Network != collective.AcrossHosts {
		return p // along a tree of package broadcast, in which a parent and its children may be on different hosts
	}
	p.flags |= scheduled
	p.tree, p.fixArg = uint8(r.Algorithm), c.Lengths
	if c.AnyOrder {
		p.flags |= anyOrder
	}
	if r.Span > 0 && c.Pieces {
		p.treeArg = uint16(min((c.Bytes+r.Span-1)/r.Span, collective.SpansMax))
	}
	return p
}

// Small is collective.Table.Small for this group.
func (m *Member) Small(op collective.Op) (differ bool, limit int64) {
	return m.p.cfg.Rules.Small(collective.Spec{Op: op, P: m.Size(), Hosts: m.hosts})
}

// opOf is the operation that a schedule is for.
func opOf(op collective.Op) uint8 {
	for i := range ops {
		if ops[i].schedule == op {
			return uint8(i)
		}
	}
	return 0
}

// findHosts finds the first rank of each of the hosts on which the group's tasks began; those of one host follow each other. It is the same
// at all tasks, whatever has become of processes since.
func (m *Member) findHosts() (first []protocol.Rank) {
	if len(m.p.cfg.Hosts) < 2 {
		return nil
	}
	cfg := &m.p.cfg
	ends := make([]int, len(cfg.Hosts)) // how many processes there are up to each host
	size := 0
	for i, n := range cfg.Hosts {
		size += n
		ends[i] = size
	}
	last := -1
	for r := range m.Size() {
		process := m.taskOf(r) * size / cfg.Tasks
		if h, _ := slices.BinarySearch(ends, process+1); h != last {
			last = h
			first = append(first, protocol.Rank(r))
		}
	}
	return first
}
