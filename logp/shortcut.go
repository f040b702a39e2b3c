package logp

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
)

// The shortcut computes runs of one kind of broadcast, a tree with synchronized
// checked correction and deaths before the run only, without an event per
// message. Its results are those of Engine; tests compare them.
//
// Dissemination needs no simulation: a process that is not below a dead process is colored, at a time that
// the tree fixes.
//
// In correction time passes in slots of o, and a message sent in slot k is known to its receiver in slot k+m,
// m = 2+⌈L/o⌉. So in the slots 0 … m−1 no corrector has heard anything and all send alike. In the slots m …
// 2m−1 they hear what was sent then: what a corrector does depends only on which of the ranks around it are
// colored. Correctors of the same state form a class, a bitmap; hearing splits it, sending shifts it, and 64
// processes cost as much as one.
//
// By then nearly all correctors are done. The few beside a larger gap run the protocol's own code, slot by
// slot.

// shortcut makes runs of a plan, one after the other. It keeps its memory.
type shortcut struct {
	*plan
	dead    set
	colored ringSet     // by dissemination
	missing set         // live and not reached yet
	absent  int         // number of missing
	sent    [][]ringSet // the senders of a hop in the slots m … 2m−1, by slot and hop

	correctors []corrector // those not done after slot 2m−1, in the order of their ranks
	busy       []int32     // seats of correctors that are not done
	late       set         // ranks of those correctors
	plain      []bool      // words with only colored ranks with colored neighbours
	seat       []int32     // by rank: its index in correctors
	mail       [64][]letter
	letters    []letter // of one slot and corrector
	ports      []int32  // first slot whose messages find a rank's receive port free, plus epoch
	epoch      int32    // grows from run to run, so that ports need no clearing

	corrections int64
	exit        int // slot in which the last corrector is done
	end         int // last slot whose messages end with a receive, later by the time they queued
	endDead     int // last slot with a message to a dead process
	last        int // slot, later likewise, of the message that reached the last of missing; −1: none
}

// corrector is a process beside a gap.
type corrector struct {
	walk broadcast.Walk
	rank protocol.Rank
}

// letter is a message in flight to a corrector.
type letter struct {
	slot, seat int32 // when it is known, and the seat of its receiver
	from       protocol.Rank
	msg        plainMessage
}

func (q *plan) newShortcut() *shortcut {
	p := q.net.P
	s := &shortcut{
		plan: q, dead: newSet(p), colored: newRingSet(p), missing: newSet(p),
		late: newSet(p), plain: make([]bool, len(newSet(p))), seat: make([]int32, p), ports: make([]int32, p),
	}
	for i := range q.slots {
		s.sent = append(s.sent, nil)
		for range q.slots[i].hops {
			s.sent[i] = append(s.sent[i], newRingSet(p))
		}
	}
	return s
}

// run simulates one run.
func (s *shortcut) run(failed []protocol.Rank) Result {
	s.corrections, s.exit, s.end, s.endDead, s.last, s.absent = 0, 0, -1, -1, -1, 0
	s.correctors, s.busy = s.correctors[:0], s.busy[:0]
	if s.epoch > 1<<30 {
		clear(s.ports)
		s.epoch = 0
	}
	result := Result{Disseminations: s.disseminate(failed), GapMax: s.longestGap()}
	s.sendTogether()
	s.receiveTogether()
	s.finishApart()

	result.Corrections = s.corrections
	result.Coloring = s.received(s.last)
	if s.last < 0 {
		result.Coloring = s.servedLast(len(failed))
	}
	result.Delivery = result.Coloring
	result.Completion = max(s.start+protocol.Time(s.exit)*s.net.O, result.Coloring)
	result.Quiescence = max(s.received(s.end), s.received(s.endDead)-s.net.O)
	result.Correction = result.Quiescence - s.start
	result.Uncolored, result.Undelivered = s.absent, s.absent
	return result
}

// servedLast returns when dissemination reaches the last of the colored ranks.
func (s *shortcut) servedLast(failed int) protocol.Time {
	if failed == 0 {
		return s.served
	}
	last := protocol.Time(0)
	for r, at := range s.at {
		if at > last && s.colored.has(r) {
			last = at
		}
	}
	return last
}

// received returns when the receive of a message sent in the given slot ends.
func (s *shortcut) received(slot int) protocol.Time {
	return s.start + protocol.Time(slot)*s.net.O + 2*s.net.O + s.net.L
}

// disseminate colors every process that is not below a failed one, and returns the number of messages: all
// colored processes but the root got one, and so did the dead ones right below them.
func (s *shortcut) disseminate(failed []protocol.Rank) int64 {
	clear(s.dead)
	for _, r := range failed {
		s.dead.set(int(r))
	}
	s.colored.fill()
	for _, r := range failed {
		if !s.colored.has(int(r)) {
			continue // below another dead process
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

// longestGap returns the length of the longest run of ranks that dissemination did not reach.
func (s *shortcut) longestGap() int {
	longest := 0
	for w := range s.dead {
		starts := s.colored.word(w, -1) &^ s.colored.word(w, 0)
		for ; starts != 0; starts &= starts - 1 {
			r := w<<6 + bits.TrailingZeros64(starts)
			if !s.colored.has(s.wrap(r + longest)) { // it may be longer
				longest = max(longest, s.gapFrom(r))
			}
		}
	}
	return longest
}

// gapFrom returns how many ranks from r on are not colored. The root is colored.
func (s *shortcut) gapFrom(r int) int {
	for n := 0; ; n += 64 {
		if window := s.colored.window(s.wrap(r + n)); window != 0 {
			return n + bits.TrailingZeros64(window)
		}
	}
}

// sendTogether plays what correctors send in the first 2m slots, and seats the correctors that are not done
// then.
func (s *shortcut) sendTogether() {
	now, next := new([classesMax]uint64), new([classesMax]uint64)
	for w := range s.dead {
		colored := s.colored.word(w, 0)
		s.corrections += int64(s.m * bits.OnesCount64(colored))
		for i := range s.sent {
			for h := range s.sent[i] {
				s.sent[i][h].set[w+1] = 0
			}
		}
		s.plain[w] = s.colored.word(w, -1)&s.colored.word(w, 1)&colored == ^uint64(0)
		if s.plain[w] { // both neighbours are heard at once
			s.take(w, 0, s.slots[0].routes[0][1], colored, next)
			s.exit = max(s.exit, s.m+1)
			s.late[w] = 0
			continue
		}
		now[0] = colored
		for i := range s.slots {
			heard := s.colored.word(w, -s.uniform[i].offset)
			clear(next[:s.slots[i].after])
			for c, r := range s.slots[i].routes {
				s.take(w, i, r[0], now[c]&^heard, next)
				s.take(w, i, r[1], now[c]&heard, next)
			}
			now, next = next, now
		}
		s.late[w] = 0
		for _, members := range now[:len(s.rest)] {
			s.late[w] |= members
		}
		for word := s.late[w]; word != 0; word &= word - 1 {
			c := slices.IndexFunc(now[:], func(members uint64) bool { return members&word&-word != 0 })
			s.sit(w<<6+bits.TrailingZeros64(word), s.rest[c])
		}
	}
	for i := range s.sent {
		for h := range s.sent[i] {
			s.sent[i][h].close()
		}
	}
}

// take lets the members of a class in the word with index w take a route.
func (s *shortcut) take(w, slot int, r route, members uint64, next *[classesMax]uint64) {
	switch {
	case members == 0:
	case r.hop < 0:
		s.exit = max(s.exit, s.m+slot)
	default:
		s.sent[slot][r.hop].set[w+1] |= members
		next[r.next] |= members
		s.corrections += int64(bits.OnesCount64(members))
	}
}

// sit adds a process to the correctors that go on by themselves.
func (s *shortcut) sit(r int, w broadcast.Walk) {
	s.seat[r] = int32(len(s.correctors))
	s.busy = append(s.busy, s.seat[r])
	s.correctors = append(s.correctors, corrector{rank: protocol.Rank(r), walk: w})
}

// receiveTogether plays what arrives in the first 2m slots. The length of the queue at a receive port is a
// number whose binary digits are bitmaps.
func (s *shortcut) receiveTogether() {
	for w := range s.dead {
		if w > 0 && w+1 < len(s.dead) && s.plain[w-1] && s.plain[w] && s.plain[w+1] {
			s.missing[w] = 0 // and only the sends of inner processes in slot m arrive
			s.end = max(s.end, s.m)
			continue
		}
		s.missing[w] = s.dead.others(w, s.net.P) &^ s.colored.word(w, 0)
		for slot, h := range s.uniform {
			s.reach(w, slot, s.colored.word(w, -h.offset))
		}
		var queue counter
		for i := range s.slots {
			slot := s.m + i
			queue.dec()
			for k := range s.slots[i].hops {
				arriving := s.sent[i][k].word(w, -s.slots[i].hops[k].offset)
				if arriving&s.dead[w] != 0 {
					s.endDead = max(s.endDead, slot)
				}
				if arriving &^= s.dead[w]; arriving == 0 {
					continue
				}
				s.reach(w, slot, arriving)
				queue.add(arriving)
				s.end = max(s.end, slot+queue.most()-1)
			}
		}
		queue.dec()
		for word := queue.any(); word != 0; word &= word - 1 {
			bit := bits.TrailingZeros64(word)
			s.ports[w<<6+bit] = int32(2*s.m+queue.at(bit)) + s.epoch
		}
		s.absent += bits.OnesCount64(s.missing[w])
	}
	for seat := range s.correctors {
		s.collect(int32(seat))
	}
}

// reach records that messages of a slot arrive.
func (s *shortcut) reach(w, slot int, arriving uint64) {
	if found := s.missing[w] & arriving; found != 0 {
		s.missing[w] &^= found
		s.last = max(s.last, slot)
	}
}

// collect lists what a corrector has been sent in the slots m … 2m−1.
func (s *shortcut) collect(seat int32) {
	to := s.correctors[seat].rank
	free := 0 // slot from which its receive port is free
	for i := range s.slots {
		slot := s.m + i
		s.letters = s.letters[:0]
		for k := range s.slots[i].hops {
			h := &s.slots[i].hops[k]
			if from := int(to) - h.offset; s.sent[i][k].has(from) {
				s.letters = append(s.letters, letter{seat: seat, from: protocol.Rank(s.wrap(from)), msg: h.msg})
			}
		}
		if len(s.letters) > 1 {
			slices.SortFunc(s.letters, func(a, b letter) int { return cmp.Compare(a.from, b.from) })
		}
		for _, l := range s.letters {
			at := max(slot, free)
			free = at + 1
			s.post(at, l)
		}
	}
}

// finishApart plays the slots from 2m on, for the correctors that are left.
func (s *shortcut) finishApart() {
	slot := 2 * s.m
	for ; len(s.busy) > 0; slot++ {
		s.open(slot)
		busy := s.busy[:0]
		for _, seat := range s.busy {
			c := &s.correctors[seat]
			a := s.checked.Next(&c.walk, c.rank, 0, false)
			if a.Kind == protocol.Done {
				s.exit = max(s.exit, slot)
				continue
			}
			busy = append(busy, seat)
			s.corrections++
			s.send(slot, c.rank, a.To, a.Msg)
		}
		s.busy = busy
	}
	for i := range s.mail {
		s.mail[i] = s.mail[i][:0]
	}
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

// send lets a corrector send in a slot.
func (s *shortcut) send(slot int, from, to protocol.Rank, m plainMessage) {
	if s.dead.has(int(to)) {
		s.endDead = max(s.endDead, slot)
		return
	}
	at := max(slot, int(s.ports[to]-s.epoch))
	s.ports[to] = int32(at) + 1 + s.epoch
	s.end = max(s.end, at)
	if s.missing.has(int(to)) {
		s.missing[to>>6] &^= 1 << (to & 63)
		s.absent--
		s.last = max(s.last, at)
	}
	if s.late.has(int(to)) {
		s.post(at, letter{seat: s.seat[to], from: from, msg: m})
	}
}

// post sends a letter whose message counts as sent in the given slot.
func (s *shortcut) post(at int, l letter) {
	l.slot = int32(at + s.m)
	box := &s.mail[int(l.slot)%len(s.mail)]
	*box = append(*box, l)
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
