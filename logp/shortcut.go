package logp

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
	"github.com/coppice-go/coppice/topology"
)

// The shortcut computes runs of one kind of broadcast, a tree with synchronized
// checked correction and deaths before the run only, without an event per
// message. Its results are those of Engine; tests compare them.
//
// Dissemination needs no simulation: who is not below a dead process is
// colored, at a time that the tree fixes.
//
// In correction time passes in slots of o, and a message sent in slot k is
// known to its receiver in slot k+m, m = 2+⌈L/o⌉. So in the slots 0 … m−1
// nobody has heard anything and all correctors send alike: what arrives is a
// shifted bitmap, and no two messages arrive together. In slot m everybody
// sends once more. Who is an inner process, with colored neighbours on both
// sides, has heard from both before slot m+1 and is done; what arrives at it
// later matters only for when its receive ends. That leaves the correctors
// beside a gap: they run the protocol's own code, slot by slot.

// plan is what all shortcut runs of one broadcast share.
type plan struct {
	checked *broadcast.Checked
	net     Network
	start   protocol.Time

	// The tree, in ranks of the group.
	parent   []int32
	preorder []int32         // ranks, each followed by those below it
	place    []int32         // of each rank in preorder
	below    []int32         // size of each rank's subtree
	at       []protocol.Time // when dissemination reaches each rank
	latest   []int32         // ranks, those reached last first

	m       int            // slots from a send to the decision that knows of it
	uniform []hop          // what everybody sends in the slots 0 … m−1
	walk    broadcast.Walk // of everybody after them
	inner   hop            // what an inner process sends in slot m
}

// slotsMax bounds m, so that a hop of the uniform slots stays within a word.
const slotsMax = 60

// newPlan returns the shortcut for a protocol, or nil if there is none.
func newPlan(p any, net Network, faults Sampling) *plan {
	b, ok := p.(*broadcast.Plain)
	if !ok || !b.Synchronized || net.G > net.O || net.Until > 0 || net.Detect > 0 || len(faults.Fixed.Deaths) > 0 || faults.Spare != b.Root {
		return nil
	}
	checked, ok := b.Correction().(*broadcast.Checked)
	if !ok || checked.Open {
		return nil
	}
	spread, ok := b.Spread.(*broadcast.Tree)
	if !ok {
		return nil
	}
	m := 2 + int((net.L+net.O-1)/net.O)
	if m > slotsMax || net.P < max(128, 4*(m+2)) {
		return nil
	}
	q := &plan{checked: checked, net: net, start: b.Start, m: m}
	if q.layOut(spread.Tree, b.ToGroup) > b.Start {
		return nil
	}
	q.rehearse()
	return q
}

// layOut notes the tree and returns when it has reached everybody.
func (q *plan) layOut(tree topology.Tree, toGroup func(protocol.Rank) protocol.Rank) protocol.Time {
	p := q.net.P
	q.parent, q.place, q.below, q.latest = make([]int32, p), make([]int32, p), make([]int32, p), make([]int32, p)
	q.preorder, q.at = make([]int32, 0, p), make([]protocol.Time, p)
	type visit struct{ rank, next int } // next is the child to go to
	var path []visit
	enter := func(r int, parent int32, at protocol.Time) {
		g := toGroup(protocol.Rank(r))
		q.parent[g], q.place[g], q.at[g] = parent, int32(len(q.preorder)), at
		q.preorder = append(q.preorder, int32(g))
		path = append(path, visit{rank: r})
	}
	for enter(0, -1, 0); len(path) > 0; {
		v := &path[len(path)-1]
		g := toGroup(protocol.Rank(v.rank))
		child := tree.Child(v.rank, v.next)
		if child < 0 {
			q.below[g] = int32(len(q.preorder)) - q.place[g]
			path = path[:len(path)-1]
			continue
		}
		v.next++
		enter(child, int32(g), q.at[g]+protocol.Time(v.next-1)*q.net.O+2*q.net.O+q.net.L)
	}
	copy(q.latest, q.preorder)
	slices.SortFunc(q.latest, func(a, b int32) int { return cmp.Compare(q.at[b], q.at[a]) })
	return q.at[q.latest[0]]
}

// rehearse lets one corrector play the slots in which all are alike, and slot m
// of an inner process, which has heard the first message of its neighbour.
func (q *plan) rehearse() {
	self := protocol.Rank(q.net.P / 2)
	next := func(w *broadcast.Walk) hop {
		a := q.checked.Next(w, self, 0, false)
		return hop{offset: int(a.To - self), msg: a.Msg}
	}
	q.checked.Init(&q.walk, self)
	for range q.m {
		q.uniform = append(q.uniform, next(&q.walk))
	}
	inner := q.walk
	q.checked.Receive(&inner, self, 0, self-protocol.Rank(q.uniform[0].offset), q.uniform[0].msg)
	q.inner = next(&inner)
}

// hop is a correction message of a slot in which many send alike.
type hop struct {
	offset int // from sender to receiver
	msg    plainMessage
}

type plainMessage = broadcast.Message[broadcast.None]

// shortcut makes runs of a plan, one after the other. It keeps its memory.
type shortcut struct {
	*plan
	dead    set
	colored ringSet // by dissemination
	missing set     // live and not reached yet
	absent  int     // how many

	correctors []corrector // those beside a gap, in the order of their ranks
	beside     set         // their ranks
	seat       []int32     // of such a rank among the correctors
	busy       []int32     // seats of those that are not done
	mail       [4 * slotsMax][]letter
	ports      []int32 // first slot whose messages find a rank's receive port free, plus epoch
	epoch      int32   // grows from run to run, so that ports need no clearing

	sent    int64 // corrections
	end     int   // last slot whose messages end with a receive, put off by how long they queued
	endDead int   // last slot with a message to the dead
	exit    int   // slot in which the last corrector is done
	last    int   // slot, put off likewise, of the message that reached the last of missing; −1: none
}

// corrector is a process beside a gap.
type corrector struct {
	walk broadcast.Walk
	rank protocol.Rank
	late bool // the message of an inner process queues for one slot
}

// letter is a message on its way to a corrector.
type letter struct {
	slot, seat int32 // when it is known, and to whom
	from       protocol.Rank
	msg        plainMessage
}

func (q *plan) newShortcut() *shortcut {
	p := q.net.P
	return &shortcut{
		plan: q, dead: newSet(p), colored: newRingSet(p), missing: newSet(p), beside: newSet(p),
		seat: make([]int32, p), ports: make([]int32, p),
	}
}

// run simulates one run.
func (s *shortcut) run(failed []protocol.Rank) Result {
	s.sent, s.end, s.endDead, s.last, s.absent = 0, -1, -1, -1, 0
	result := Result{Disseminations: s.disseminate(failed)}
	s.startTogether()
	result.GapMax = s.longestGap()
	s.finishApart()

	result.Corrections = s.sent
	result.Coloring = s.received(s.last)
	if s.last < 0 {
		for i := range s.latest {
			if r := s.latest[i]; s.colored.has(int(r)) {
				result.Coloring = s.at[r]
				break
			}
		}
	}
	result.Delivery = result.Coloring
	result.Completion = max(s.start+protocol.Time(s.exit)*s.net.O, result.Coloring)
	result.Quiescence = max(s.received(s.end), s.received(s.endDead)-s.net.O)
	result.Correction = result.Quiescence - s.start
	result.Uncolored, result.Undelivered = s.absent, s.absent
	return result
}

// received is when the receive of a message sent in the given slot ends.
func (s *shortcut) received(slot int) protocol.Time {
	return s.start + protocol.Time(slot)*s.net.O + 2*s.net.O + s.net.L
}

// disseminate colors everybody who is not below one of the failed, and returns
// the number of messages: all the colored but the root got one, and so did the
// dead below them.
func (s *shortcut) disseminate(failed []protocol.Rank) int64 {
	clear(s.dead)
	for _, r := range failed {
		s.dead.set(int(r))
	}
	s.colored.fill()
	for _, r := range failed {
		if !s.colored.has(int(r)) {
			continue // below another one
		}
		from := s.place[r]
		for _, b := range s.preorder[from : from+s.below[r]] {
			s.colored.remove(int(b))
		}
	}
	s.colored.close()
	messages := int64(-1)
	for w := range s.dead {
		messages += int64(bits.OnesCount64(s.colored.word(w, 0)))
		for word := s.dead[w]; word != 0; word &= word - 1 {
			if s.colored.has(int(s.parent[w<<6+bits.TrailingZeros64(word)])) {
				messages++
			}
		}
	}
	return messages
}

// startTogether plays the slots 0 … m, up to what correctors beside a gap do in
// slot m, and seats those.
func (s *shortcut) startTogether() {
	s.correctors, s.busy = s.correctors[:0], s.busy[:0]
	anybody := false // of the inner processes has sent to a live one
	for w := range s.dead {
		colored := s.colored.word(w, 0)
		inner := colored & s.colored.word(w, -1) & s.colored.word(w, 1)
		s.sent += int64(s.m*bits.OnesCount64(colored) + bits.OnesCount64(inner))
		s.beside[w] = colored &^ inner
		for word := s.beside[w]; word != 0; word &= word - 1 {
			r := w<<6 + bits.TrailingZeros64(word)
			s.seat[r] = int32(len(s.correctors))
			s.busy = append(s.busy, s.seat[r])
			s.correctors = append(s.correctors, corrector{rank: protocol.Rank(r), walk: s.walk})
		}
		if inner != 0 {
			s.endDead = s.m
		}
		for ; inner != 0 && !anybody; inner &= inner - 1 {
			to := s.wrap(w<<6 + bits.TrailingZeros64(inner) + s.inner.offset)
			anybody = !s.dead.has(to)
		}
		s.missing[w] = s.dead.others(w, s.net.P) &^ colored
		if s.missing[w] != 0 {
			s.reach(w)
		}
	}
	if anybody {
		s.end = s.m
	}
}

// reach notes which of the missing of one word the uniform slots reach.
func (s *shortcut) reach(w int) {
	for slot, h := range s.uniform {
		if found := s.missing[w] & s.colored.word(w, -h.offset); found != 0 {
			s.missing[w] &^= found
			s.last = max(s.last, slot)
		}
	}
	s.absent += bits.OnesCount64(s.missing[w])
}

// longestGap is the longest run of ranks that dissemination did not reach. Each
// has correctors at its ends.
func (s *shortcut) longestGap() int {
	longest := 0
	for i := range s.correctors {
		r := int(s.correctors[i].rank)
		if s.colored.has(s.wrap(r + 1)) {
			continue
		}
		next := int(s.correctors[0].rank) + s.net.P
		if i+1 < len(s.correctors) {
			next = int(s.correctors[i+1].rank)
		}
		longest = max(longest, next-r-1)
	}
	return longest
}

// finishApart plays the slots from m on, for the correctors beside a gap.
func (s *shortcut) finishApart() {
	if s.epoch > 1<<30 {
		clear(s.ports)
		s.epoch = 0
	}
	slot := s.m
	for ; len(s.busy) > 0; slot++ {
		s.open(slot)
		busy := s.busy[:0]
		for _, seat := range s.busy {
			c := &s.correctors[seat]
			s.hear(c, slot)
			a := s.checked.Next(&c.walk, c.rank, 0, false)
			if a.Kind == protocol.Done {
				continue
			}
			busy = append(busy, seat)
			s.sent++
			s.send(slot, c.rank, a.To, a.Msg)
		}
		s.busy = busy
	}
	for i := range s.mail {
		s.mail[i] = s.mail[i][:0]
	}
	s.exit = max(slot-1, s.m+1) // an inner process leaves in slot m+1
	s.epoch += int32(max(slot, s.end) + 2)
}

// open hands over the letters that are known from this slot on.
func (s *shortcut) open(slot int) {
	box := &s.mail[slot%len(s.mail)]
	later := (*box)[:0]
	for _, l := range *box {
		if int(l.slot) != slot {
			later = append(later, l)
			continue
		}
		c := &s.correctors[l.seat]
		s.checked.Receive(&c.walk, c.rank, 0, l.from, l.msg)
	}
	*box = later
}

// hear hands over what those who send alike have sent m slots ago.
func (s *shortcut) hear(c *corrector, slot int) {
	switch {
	case slot < 2*s.m:
		h := &s.uniform[slot-s.m]
		if s.colored.has(int(c.rank) - h.offset) {
			s.checked.Receive(&c.walk, c.rank, 0, s.sender(h, c.rank), h.msg)
		}
	case slot == 2*s.m && !c.late || slot == 2*s.m+1 && c.late:
		if s.isInner(int(c.rank) - s.inner.offset) {
			s.checked.Receive(&c.walk, c.rank, 0, s.sender(&s.inner, c.rank), s.inner.msg)
		}
	}
}

// send lets a corrector send in a slot.
func (s *shortcut) send(slot int, from, to protocol.Rank, m plainMessage) {
	if s.dead.has(int(to)) {
		s.endDead = max(s.endDead, slot)
		return
	}
	at := slot
	if !s.net.NoQueue {
		at = s.queue(slot, from, to)
	}
	s.end = max(s.end, at)
	if s.missing.has(int(to)) {
		s.missing[to>>6] &^= 1 << (to & 63)
		s.absent--
		s.last = max(s.last, at)
	}
	if s.beside.has(int(to)) {
		known := at + s.m
		box := &s.mail[known%len(s.mail)]
		*box = append(*box, letter{slot: int32(known), seat: s.seat[to], from: from, msg: m})
	}
}

// queue returns the slot by which a message counts after it has queued. In slot
// m an inner process may send to the same process; the lower rank is served
// first.
func (s *shortcut) queue(slot int, from, to protocol.Rank) int {
	at := max(slot, int(s.ports[to]-s.epoch))
	busyUntil := at + 1
	if slot == s.m && s.isInner(int(to)-s.inner.offset) {
		busyUntil++
		s.end = max(s.end, slot+1)
		switch {
		case s.sender(&s.inner, to) < from:
			at++
		case s.beside.has(int(to)):
			s.correctors[s.seat[to]].late = true
		}
	}
	s.ports[to] = int32(busyUntil) + s.epoch
	return at
}

// isInner tells whether r, up to a word outside the ring, is an inner process.
func (s *shortcut) isInner(r int) bool {
	return s.colored.has(r) && s.colored.has(r-1) && s.colored.has(r+1)
}

// sender is who sent what arrives at a rank.
func (s *shortcut) sender(h *hop, to protocol.Rank) protocol.Rank {
	return protocol.Rank(s.wrap(int(to) - h.offset))
}

func (s *shortcut) wrap(r int) int {
	switch {
	case r < 0:
		return r + s.net.P
	case r >= s.net.P:
		return r - s.net.P
	}
	return r
}

// ringSet is a set of ranks on a ring. A word of it is continued by the ranks
// from the other end on both sides, so that shifts need not wrap.
type ringSet struct {
	set // bit r+64 is rank r
	p   int
}

func newRingSet(p int) ringSet { return ringSet{make(set, (p+63)/64+3), p} }

// fill puts all ranks in.
func (s ringSet) fill() {
	for i := range s.set {
		s.set[i] = ^uint64(0)
	}
}

func (s ringSet) has(r int) bool { return s.set.has(r + 64) }

func (s ringSet) remove(r int) { s.set[(r+64)>>6] &^= 1 << (r & 63) }

// close continues the ends, after the last change.
func (s ringSet) close() {
	at, shift := s.p>>6+1, s.p&63
	s.set[at] &= 1<<shift - 1
	s.set[at] |= s.set[1] << shift
	s.set[at+1] = s.set[1]>>(64-shift) | s.set[2]<<shift
	s.set[0] = s.window(s.p - 64)
}

// window is the 64 ranks from r on.
func (s ringSet) window(r int) uint64 {
	r += 64
	return s.set[r>>6]>>(r&63) | s.set[r>>6+1]<<(64-r&63)
}

// word tells which ranks r of the word with index w have r+offset in the set.
func (s ringSet) word(w, offset int) uint64 { return s.window(w<<6+offset) & valid(w, s.p) }
