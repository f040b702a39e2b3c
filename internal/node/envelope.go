package node

import (
	"encoding/binary"
	"fmt"

	"github.com/coppice-go/coppice/protocol/collective"
)

// What a message is for.
const (
	opSend    = iota + 1 // point to point
	opBarrier            // collective operations: messages of their machines
	opBroadcast
	opScatter
	opGather
	opAllGather
	opAllToAll
	opReduce
	opAllReduce
	opScan
	opExScan
	opReduceScatter
	opSplit
	opSave     // has no messages: the sweep tells when it is over
	opCredit   // the receiver of a stream or group has come so far
	opGrant    // the rest of a large message may come
	opProbe    // a task waits in an operation: compare, and say if you have returned
	opGone     // the answer: the task has returned
	opAsk      // a corrected broadcast's orphan asks for the value
	opHaveNot  // the answer: not here
	opMismatch // tasks called different operations; the value says which
	opBeat     // nothing but a sign of life
	opView     // a letter of the membership protocol
	opLost     // a task cannot be run again; the value says why
	opReturned // a task that was run again has returned; the value says with what failure
	opLoad     // a process can own so many tasks
	opAbort    // an agreed operation is aborted
	opAborts   // the sender has told all of those that it knew as of a view
	opRevoke   // a group is revoked
	opAgree    // a letter of an agreement
	opSweep    // which epoch is saved, and which committed
	opCopy     // a copy of what a task saves
	opCopied   // the answer: it is here
	opDrawn    // what follows may follow from a value of Once
	opAgain    // a task is run again where it was: send it again what it was sent
	opSpare    // the sender's tasks need nothing of those who leave, as of a view
	opChase    // follows what tasks wait for
)

// ops says what operations are: their names, and which schedules carry them out.
var ops = [...]struct {
	name     string
	schedule collective.Op
	unasked  bool // begins with its root; who has not come to it passes it on
	combines bool // values, of which not all can be cut
}{
	opSend:          {name: "send"},
	opBarrier:       {name: "barrier"},
	opBroadcast:     {name: "broadcast", schedule: collective.Broadcast, unasked: true},
	opScatter:       {name: "scatter", schedule: collective.Scatter, unasked: true},
	opGather:        {name: "gather", schedule: collective.Gather},
	opAllGather:     {name: "allgather", schedule: collective.AllGather},
	opAllToAll:      {name: "alltoall", schedule: collective.AllToAll},
	opReduce:        {name: "reduce", schedule: collective.Reduce, combines: true},
	opAllReduce:     {name: "allreduce", schedule: collective.AllReduce, combines: true},
	opScan:          {name: "scan", schedule: collective.Scan, combines: true},
	opExScan:        {name: "exscan", schedule: collective.ExScan, combines: true},
	opReduceScatter: {name: "reducescatter", schedule: collective.ReduceScatter},
	opSplit:         {name: "split", schedule: collective.AllGather},
	opSave:          {name: saveName},
}

func opName(op uint8) string {
	if int(op) < len(ops) {
		return ops[op].name
	}
	return ""
}

// scope names a group, and with it the epoch in which its operations are.
type scope struct {
	group uint64 // which group, and which fork of it
	epoch uint32
}

// sizeMax is the size of the largest value.
const sizeMax = 1<<40 - 1

// envelopeLen is the length of an envelope in bytes.
const envelopeLen = 64

// envelope says what a message is. On the wire, integers are little-endian:
//
//	0  group  uint64
//	8  seq    uint64
//	16 size   uint40, then the low 24 bits of the epoch
//	24 sign   uint64
//	32 extra  uint64
//	40 from   uint32
//	44 to     uint32
//	48 plan   12 bytes
//	60 kind   uint8, then the epoch's high 8 bits
//	62 round  uint16
type envelope struct {
	scope
	seq   uint64 // number of the operation in its group, or of the message in its stream, from 1
	size  uint64 // of the value
	sign  uint64 // signature of the value's type
	extra uint64 // of a machine's message; the tag of a stream
	from  uint32 // task
	to    uint32 // task
	plan  Plan
	kind  uint8 // of a machine's message
	round uint16
}

func (e *envelope) put(b []byte) {
	_ = b[envelopeLen-1]
	le := binary.LittleEndian
	le.PutUint64(b, e.group)
	le.PutUint64(b[8:], e.seq)
	le.PutUint64(b[16:], e.size&sizeMax|uint64(e.epoch)<<40)
	le.PutUint64(b[24:], e.sign)
	le.PutUint64(b[32:], e.extra)
	le.PutUint32(b[40:], e.from)
	le.PutUint32(b[44:], e.to)
	e.plan.put(b[48:])
	le.PutUint32(b[60:], uint32(e.kind)|e.epoch>>24<<8|uint32(e.round)<<16)
}

func parseEnvelope(b []byte) (e envelope) {
	_ = b[envelopeLen-1]
	le := binary.LittleEndian
	e.group, e.seq = le.Uint64(b), le.Uint64(b[8:])
	size := le.Uint64(b[16:])
	e.sign, e.extra = le.Uint64(b[24:]), le.Uint64(b[32:])
	e.from, e.to = le.Uint32(b[40:]), le.Uint32(b[44:])
	e.plan = parsePlan(b[48:])
	last := le.Uint32(b[60:])
	e.kind, e.round = uint8(last), uint16(last>>16)
	e.size, e.epoch = size&sizeMax, uint32(size>>40)|last>>8<<24
	return e
}

// Plan says which operation a message belongs to and how it is carried out: with
// it a process takes part in an operation that its own task has not come to.
// Tasks that pass different plans call different operations.
type Plan struct {
	op         uint8
	tree       uint8 // index of treeNames; by schedule: the algorithm
	correction uint8 // index of correctionNames
	flags      planFlags
	root       uint32
	treeArg    uint16 // tree's number; by schedule: in how many pieces
	fixArg     uint16 // correction's number; by schedule: Choice.Lengths
}

type planFlags uint8

const (
	inOrder   planFlags = 1 << iota // the tree's numbering
	scheduled                       // by a schedule of package collective
	auto                            // the root decides how
	decided                         // it has
	anyOrder                        // values may be combined in any order
	unlogged                        // nothing of it is kept for who runs a task again
)

func (p Plan) is(f planFlags) bool { return p.flags&f != 0 }

// open tells whether the root has still to decide how the operation goes.
func (p Plan) open() bool { return p.is(auto) && !p.is(decided) }

// unasked tells whether the operation begins with its root.
func (p Plan) unasked() bool { return int(p.op) < len(ops) && ops[p.op].unasked }

// same tells whether two plans are of the same call.
func (p Plan) same(q Plan) bool {
	if p.is(auto) && q.is(auto) {
		return p.op == q.op && p.root == q.root && p.is(unlogged) == q.is(unlogged)
	}
	return p == q
}

func (p Plan) put(b []byte) {
	_ = b[11]
	b[0], b[1], b[2], b[3] = p.op, p.tree, p.correction, uint8(p.flags)
	binary.LittleEndian.PutUint32(b[4:], p.root)
	binary.LittleEndian.PutUint16(b[8:], p.treeArg)
	binary.LittleEndian.PutUint16(b[10:], p.fixArg)
}

func parsePlan(b []byte) Plan {
	_ = b[11]
	return Plan{
		op: b[0], tree: b[1], correction: b[2], flags: planFlags(b[3]),
		root:    binary.LittleEndian.Uint32(b[4:]),
		treeArg: binary.LittleEndian.Uint16(b[8:]), fixArg: binary.LittleEndian.Uint16(b[10:]),
	}
}

// brief is what a program asks for: the operation, and its root.
func (p Plan) brief() string {
	switch p.op {
	case opBroadcast, opScatter:
		return fmt.Sprintf("%s from %d", opName(p.op), p.root)
	case opGather, opReduce:
		return fmt.Sprintf("%s to %d", opName(p.op), p.root)
	}
	return opName(p.op)
}

func (p Plan) String() string {
	s := p.brief()
	switch {
	case p.is(auto):
	case p.is(scheduled):
		s += fmt.Sprintf(" by %v", collective.Algorithm(p.tree))
		if p.treeArg > 1 {
			s += fmt.Sprintf(" in %d pieces", p.treeArg)
		}
		if p.is(anyOrder) {
			s += " in any order"
		}
		if p.corrected() {
			s += fmt.Sprintf(" against %d deaths", p.fixArg)
		}
	case p.op == opBroadcast:
		s += " along " + p.treeName()
		if p.correction != 0 {
			s += " with correction " + p.correctionName()
		}
	}
	return s
}
