package node

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/recovery"
)

// Replay is right if programs do on every attempt what they did before. This is how
// it comes to light that one does not:
//
//   - What a task calls is remembered by the others, 8 bytes an operation. A task that
//     was run again and calls something else has diverged.
//   - With Config.Check a process keeps a digest of each message that its tasks took,
//     16 bytes, and compares what a task that is run again sends once more.
//   - With Config.Check the log keeps a digest of the values it has by reference. What
//     has changed since is not sent again: the memory was lent, and the program has
//     used it for something else.
//
// Whoever sees it tells all tasks of the group, as with misuse: never a wrong answer
// that could be noticed, and never a hang.

// seed is that of all digests: none leaves the process.
var seed = maphash.MakeSeed()

// checks tells whether messages are compared.
func (p *Process) checks() bool { return p.cfg.Check && p.logs() }

// reran tells whether a task was run before, in another process.
func (p *Process) reran(task int) bool { return p.roster.Again(task) }

// digest is that of a message.
type digest struct{ name, sum uint64 }

// digests are those of the messages that a task took in a group. They are written one
// after the other; only who looks for one, after a death, has them in order.
type digests struct {
	pages [][]digest
	byAll map[uint64]uint64 // the sums by name, of those that are in no page any more
}

// Sizes of pages, in digests.
const (
	digestsMin  = 8
	digestsMax  = 4 << 10
	digestBytes = 16
)

// add adds a digest, and returns how much memory that takes more than before.
func (d *digests) add(name, sum uint64) (grown int) {
	last := len(d.pages) - 1
	if last < 0 || len(d.pages[last]) == cap(d.pages[last]) {
		size := digestsMin
		if last >= 0 {
			size = min(2*cap(d.pages[last]), digestsMax)
		}
		d.pages = append(d.pages, make([]digest, 0, size))
		last++
		grown = size * digestBytes
	}
	d.pages[last] = append(d.pages[last], digest{name, sum})
	return grown
}

// find returns the sum of the first message of a name.
func (d *digests) find(name uint64) (sum uint64, ok bool) {
	if len(d.pages) > 0 && d.byAll == nil {
		d.byAll = map[uint64]uint64{}
	}
	for _, page := range d.pages {
		for _, g := range page {
			if _, twice := d.byAll[g.name]; !twice {
				d.byAll[g.name] = g.sum
			}
		}
	}
	d.pages = nil
	sum, ok = d.byAll[name]
	return sum, ok
}

// checked tells whether messages of a plan are a function of their names. Those of
// barriers carry nothing, and what is said in agreements depends on who died.
func (p Plan) checked() bool { return p.op == opSend || p.op == opBroadcast || p.is(scheduled) }

// nameOf is the name of a message from a rank, within the group. The value of a
// broadcast without a schedule is the same in all its messages.
func nameOf(from int, e *envelope) uint64 {
	switch {
	case e.plan.op == opSend:
		return protocol.Mix(protocol.Mix(e.seq, uint64(from)), e.extra<<1|1)
	case e.plan.is(scheduled):
		return protocol.Mix(protocol.Mix(e.seq, uint64(from)), uint64(e.round)<<1)
	}
	return protocol.Mix(e.seq, 0)
}

// sumOf is the digest of what a message says.
func sumOf(e *envelope, value []byte) uint64 {
	sum := protocol.Mix(maphash.Bytes(seed, value), e.sign)
	if e.plan.is(scheduled) {
		sum = protocol.Mix(sum, e.extra)
	}
	return sum
}

// took keeps the digest of a message that the task takes. What tasks of one process
// send each other never comes again: they die together.
func (m *Member) took(from int, in *incoming) {
	p := m.p
	if !p.checks() || !in.plan.checked() || in.source.rank == p.cfg.Rank {
		return
	}
	if grown := m.digests.add(nameOf(from, &in.envelope), sumOf(&in.envelope, in.value)); grown > 0 {
		m.count(grown)
		p.bound()
	}
}

// repeated takes a message that is not needed, most likely since an earlier attempt has
// sent it: it is compared with what that sent, if there is a digest of it.
func (m *Member) repeated(from int, in *incoming) {
	var sum uint64
	known := false
	if m.p.checks() && in.plan.checked() && in.kind&withheld == 0 {
		sum, known = m.digests.find(nameOf(from, &in.envelope))
	}
	switch {
	case !known:
		in.drop()
	case in.Complete():
		m.compare(from, in, sum)
	case !in.Answered():
		in.arrived = func() {
			m.compare(from, in, sum)
			in.discard()
		}
		in.want()
	}
}

// compare compares a message with what is known of its first coming.
func (m *Member) compare(from int, in *incoming, sum uint64) {
	if uint64(len(in.value)) == in.size && sumOf(&in.envelope, in.value) != sum {
		m.diverged(from, in)
	}
}

// diverged tells the group that a task that was run again sends something else than
// before.
func (m *Member) diverged(from int, in *incoming) {
	if m.broken != nil {
		return
	}
	task := m.taskOf(from)
	if root := m.taskOf(m.caller(from, in.plan)); m.p.reran(root) { // others pass on what it sends
		task = root
	}
	where := fmt.Sprintf("in operation %d of its group, %s,", in.seq, opName(in.plan.op))
	if in.plan.op == opSend {
		where = fmt.Sprintf("as message %d with tag %d", in.seq, in.extra)
	}
	f := &Failure{
		Op: opName(in.plan.op), Tasks: []int{task}, Err: ErrDiverged,
		Text: fmt.Sprintf("task %d was run again, and sends task %d %s other data than before", task, m.task, where),
	}
	m.late = f
	m.announce(f)
}

// blame makes of misuse that a task has diverged, if one that was run again is part of
// it: it does not call what it called before. in is what another task said; nil: nothing.
func (m *Member) blame(f *Failure, in *incoming) *Failure {
	p := m.p
	again := func(t int) bool {
		return p.reran(t) || in != nil && int(in.from) == t && in.source.rank != p.roster.Owner(t) // its view is to come
	}
	if t, ok := diverged(f, again); ok && p.replays() {
		f.Err = ErrDiverged
		f.Text += fmt.Sprintf("; task %d was run again", t)
	}
	return f
}

// diverged is the task that has diverged, if a failure means that one has.
func diverged(f *Failure, again func(task int) bool) (task int, ok bool) {
	i := slices.IndexFunc(f.Tasks, again)
	if f.Err != ErrMismatch || i < 0 {
		return 0, false
	}
	return f.Tasks[i], true
}

// callWord stands for what a task calls: two that are the same have the same. The
// lowest byte is the operation.
func callWord(p Plan, sign uint64) uint64 {
	if p.is(auto) {
		p = Plan{op: p.op, root: p.root, flags: p.flags & (unlogged | auto)}
	}
	var b [12]byte
	p.put(b[:])
	word := protocol.Mix(binary.LittleEndian.Uint64(b[:]), uint64(binary.LittleEndian.Uint32(b[8:])))
	return protocol.Mix(word, sign)&^0xff | uint64(p.op)
}

// call is what stands for a call: programs mostly make the same one again.
type call struct {
	plan Plan
	sign uint64
	word uint64 // never 0: no operation is
}

// calls remembers what the task calls as its next operation.
func (m *Member) calls(c *Call) {
	if !m.p.logs() {
		return
	}
	for uint64(len(m.called)) < m.seq {
		m.called = append(m.called, 0)
	}
	if last := &m.lastCall; last.word == 0 || last.plan != c.Plan || last.sign != c.Sign {
		*last = call{c.Plan, c.Sign, callWord(c.Plan, c.Sign)}
	}
	m.called[m.seq-1] = m.lastCall.word
	m.count(8)
}

// compareCall looks whether what another task calls is what this one called as the
// operation of that number, however long ago.
func (m *Member) compareCall(from int, in *incoming, plan Plan) {
	if in.seq == 0 || in.seq > uint64(len(m.called)) || m.broken != nil {
		return
	}
	mine := m.called[in.seq-1]
	if mine == 0 || mine == callWord(plan, in.sign) {
		return
	}
	theirs := described(plan, "")
	if plan.op == uint8(mine) {
		theirs += " in another way"
	}
	task := m.taskOf(from)
	m.late = m.misuse(in, opName(plan.op), []int{m.task, task},
		"task %d has called %s as operation %d of its group, task %d calls %s", m.task, opName(uint8(mine)), in.seq, task, theirs)
}

// headLen is the length of what the log has of a message besides its value: with Check
// a digest of that, if it is kept by reference.
func (p *Process) headLen() int {
	if p.cfg.Check {
		return envelopeLen + 8
	}
	return envelopeLen
}

// lentSum is the digest of the value that was logged last, which may go to several.
type lentSum struct {
	scope
	seq  uint64
	from uint32
	at   *byte
	size int
	sum  uint64
}

// sign puts the digest of a value into its head, if the log will have it by reference.
// Messages from task to task are copies that nobody else has.
func (h *history) sign(e *envelope, value []byte) {
	var sum uint64
	if len(value) > recovery.Inline && e.plan.op != opSend {
		l := &h.lent
		if now := (lentSum{e.scope, e.seq, e.from, &value[0], len(value), l.sum}); *l != now {
			now.sum = maphash.Bytes(seed, value)
			*l = now
		}
		sum = l.sum
	}
	binary.LittleEndian.PutUint64(h.head[envelopeLen:], sum)
}

// unchanged tells whether a value of the log is as it was.
func (h *heldMessage) unchanged() bool {
	return h.sum == 0 || maphash.Bytes(seed, h.value) == h.sum
}

// tellChanged tells the group that what a task sent is no longer there.
func (m *Member) tellChanged(e *envelope) {
	m.announce(&Failure{
		Op: opName(e.plan.op), Tasks: []int{m.task}, Err: ErrDiverged,
		Text: fmt.Sprintf("task %d has changed memory that it lent with Shared in operation %d of its group, %s; task %d was run again and needs it", m.task, e.seq, opName(e.plan.op), e.to),
	})
}

// surplus takes a message of a broadcast whose value is here already, and returns what
// of it the machine is to know.
func (m *Member) surplus(from int, in *incoming) *incoming {
	if in.Complete() || !m.p.checks() {
		if in.Complete() && valueKind(in.plan, in.kind) {
			m.repeated(from, in)
		}
		in.drop()
		return in
	}
	rest := in.stay()
	in = &incoming{envelope: rest.envelope, source: rest.source, id: rest.id}
	in.Came()
	m.repeated(from, rest)
	return in
}

// repeated takes a message that has come before. While the task has not taken that, it
// is compared with it, and only with Check to the last bit.
func (s *inStream) repeated(in *incoming) {
	m := s.m
	if !s.flow.Waits(in.seq) {
		m.repeated(s.from, in)
		return
	}
	first := *s.place(in.seq)
	other := first.size != in.size || first.sign != in.sign
	if m.p.checks() && first.Complete() && in.Complete() {
		other = other || !bytes.Equal(first.value, in.value)
	}
	in.drop()
	if other && m.p.replays() {
		m.diverged(s.from, in)
	}
}
