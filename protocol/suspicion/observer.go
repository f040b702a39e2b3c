package suspicion

import (
	"fmt"
	"slices"

	"github.com/coppice-go/coppice/protocol"
)

// Observer is the part of one process in watching the others. It has no clock, timer or goroutine; the caller has them,
// and calls one method at a time.
//
// The caller's duties:
//
//  1. Call Tick at once, and then at the moment that it names.
//  2. Carry out the Effects that methods return. A Send may be lost, doubled or late.
//  3. Call Receive for every message, and Heard for every other sign of life.
//  4. Call Know for every process that has begun, with its host; Gone for every one that is certainly dead, evicted or
//     has left. No process is watched before it is known.
//  5. Call Doubt if another detector says that a process is silent, and Unlinked, every now and then, while there are
//     processes to which no connection can be made.
//
// What it promises, with a silence of S and a beat of S/16, if the caller is not late by
// more than a beat:
//
//   - Two messages go out every beat while no process is doubted. Where all are on one host, a Guard knows better: then a
//     beat is S/2, and all that follows takes twice as long.
//   - A process is doubted S/2 after its last sign of life, and suspected S and two beats after it, if by then several
//     others do not hear it either. An outage that ends within S has no consequence.
//   - Every process gets a Rumor of a suspicion, and shares it unless it hears the suspect itself: the process that would
//     decide about it may be among the silent ones.
//   - If others hear it, the link is bad, and one of the two hosts has to go: the one without the lowest rank. The other
//     host's processes suspect it after 1.25 S; if they do not, its own suspect them after 3 S.
//   - A process whose own host says that it is at work is only slow: it is not suspected.
//   - A process that gives signs of life, but to which no connection can be made, is suspected after 4 S; by a process
//     that has lost most of its connections, after 12 S: the others, which have lost only that one, suspect it before.
//   - If fewer than half of the third parties that were asked answer, the observer's own network is at fault: it suspects
//     no process before twice S. If it hears no process on another host, it says so in its messages, which are no sign of
//     life then: others may hear it, but cannot reach it.
//   - A pause of this process has no consequence: the time by which Tick is late does not count as the silence of others.
//   - A process that was suspected wrongly has twice the time from then on.
type Observer struct {
	self    protocol.Rank
	silence protocol.Time
	beat    protocol.Time
	server  protocol.Rank // the process that the coordinator is part of; Coordinator: it is on a host of its own; −1: it is not asked
	ring    ring
	stale   bool       // follow and watched are out of date
	others  []observed // by rank
	follow  []int      // the processes that it beats to
	watched []int
	favours []favour
	beatAt  protocol.Time
	due     protocol.Time // when Tick should come
	turn    uint64        // chooses other helpers each time
	deaf    bool          // it hears no process on another host
	alone   bool          // no process is on another host
}

// observed is what an observer knows of another process.
type observed struct {
	host     int // 0: not known yet
	gone     bool
	heard    protocol.Time // last, or since when it is observed
	known    bool          // it has been heard, if only once
	observed bool          // it is watched, or doubted
	doubt    *doubt
	strikes  uint8 // how often it was suspected wrongly
	told     bool  // the caller knows that it is suspected
	misses   complaint
	accused  bool // for that
}

// complaint is what a process says that does not hear this one.
type complaint struct {
	first, last protocol.Time // when it said so; 0: never
	tried       protocol.Time // how long it had not heard this one when it said so last
}

// watchers is how many processes watch each one, and how many each one watches.
// Two: one may fail together with the process it watches.
const watchers = 2

// Coordinator stands for the coordinator of the job where a rank is expected: it may be asked which processes it hears.
const Coordinator protocol.Rank = -2

// Kind is the kind of a Message.
type Kind uint8

// The kinds of messages.
const (
	Beat   Kind = iota // a sign of life
	Ping               // asks for a Pong
	Pong               // answers a Ping
	Ask                // asks whether the receiver hears Of
	Answer             // answers an Ask
	Rumor              // several processes have found Of silent
)

// Message is a message between observers.
type Message struct {
	Kind  Kind
	Of    protocol.Rank
	Deaf  bool          // the sender hears no process on another host
	Hears bool          // Answer: it has heard Of since it was asked, or a moment before
	Tried protocol.Time // how long the sender has tried and failed to hear Of (Answer) or the receiver (Ping)
}

// Act is what an Effect asks for.
type Act uint8

// What an observer wants done.
const (
	Send      Act = iota // send Msg to Rank
	Suspected            // Rank has failed, or has to go, since none, or not all, can reach it
	Cleared              // Rank, which was suspected, was heard again
)

// Effect is something to be done.
type Effect struct {
	Act  Act
	Rank protocol.Rank
	Msg  Message
	Why  string // one line
}

// NewObserver returns the observer of a process, one of n. The coordinator answers an
// Ask, too, unless server is −1: it is part of that process or, if server is
// Coordinator, on a host of its own.
func NewObserver(self protocol.Rank, n int, silence protocol.Time, server protocol.Rank, now protocol.Time) *Observer {
	o := &Observer{self: self, silence: silence, beat: silence / 2, server: server, beatAt: now, due: now, alone: true}
	o.grow(n)
	return o
}

// Serve says which process the coordinator is part of from now on.
func (o *Observer) Serve(server protocol.Rank) {
	o.grow(int(server) + 1)
	o.server = server
}

func (o *Observer) grow(n int) {
	if n <= len(o.others) {
		return
	}
	o.others = append(o.others, make([]observed, n-len(o.others))...)
	o.ring = newRing(n)
	for r := range o.others {
		o.ring.gone[r] = o.others[r].host == 0 || o.others[r].gone
	}
}

// Know says that a process has begun, and on which host; hosts are numbered from 1.
// A process that was gone is there again.
func (o *Observer) Know(rank protocol.Rank, host int, now protocol.Time) {
	o.grow(int(rank) + 1)
	x := &o.others[rank]
	if x.host == host && !x.gone {
		return
	}
	*x = observed{host: host, heard: now}
	if mine := o.others[o.self].host; mine != 0 && host != mine && o.alone {
		o.alone, o.beat = false, o.silence/16
	}
	o.ring.set(int(rank), false)
	o.stale = true
}

// Gone says that a process is dead, was evicted or has left.
func (o *Observer) Gone(rank protocol.Rank, now protocol.Time) {
	if rank == o.self || int(rank) >= len(o.others) {
		return
	}
	o.others[rank] = observed{host: o.others[rank].host, gone: true}
	if o.ring.set(int(rank), true) {
		o.turnRing(now)
	}
}

// turnRing turns to the neighbours on the ring as it is now. A newly watched process has all of its allowance.
func (o *Observer) turnRing(now protocol.Time) {
	before := o.watched
	o.stale = false
	o.follow = o.ring.along(int(o.self), o.ring.stride, watchers)
	o.watched = o.ring.along(int(o.self), -o.ring.stride, watchers)
	for _, r := range before {
		if x := &o.others[r]; x.doubt == nil {
			x.observed = slices.Contains(o.watched, r)
		}
	}
	for _, r := range o.watched {
		if x := &o.others[r]; !x.observed {
			x.observed, x.heard = true, now
		}
	}
}

// Tick does what is due, and says when to call it again.
func (o *Observer) Tick(now protocol.Time) (effects []Effect, next protocol.Time) {
	o.awake(now)
	if o.stale {
		o.turnRing(now)
	}
	if now >= o.beatAt {
		for _, r := range o.follow {
			effects = append(effects, Effect{Act: Send, Rank: protocol.Rank(r), Msg: Message{Kind: Beat}})
		}
		o.beatAt = now + o.beat
	}
	for _, r := range o.watched {
		if x := &o.others[r]; x.doubt == nil && now-x.heard >= o.allowed(x)/2 {
			o.begin(protocol.Rank(r), now)
		}
	}
	for r := range o.others {
		x := &o.others[r]
		if x.doubt != nil {
			effects = o.judge(protocol.Rank(r), now, effects)
		}
		if x.misses.last != 0 {
			effects = o.missed(protocol.Rank(r), now, effects)
		}
	}
	o.favours = slices.DeleteFunc(o.favours, func(f favour) bool { return now-f.asked > 4*o.beat }) // no process asks any more
	o.deaf = o.hearsNobody(now)
	o.due = o.beatAt
	return o.marked(effects), o.due
}

// marked says in all messages whether this process is deaf.
func (o *Observer) marked(effects []Effect) []Effect {
	for i := range effects {
		effects[i].Msg.Deaf = o.deaf
	}
	return effects
}

// hearsNobody reports whether this process has lost all processes on other hosts.
func (o *Observer) hearsNobody(now protocol.Time) bool {
	mine, lost := o.others[o.self].host, false
	for r := range o.others {
		x := &o.others[r]
		if !x.observed || x.gone || x.host == mine {
			continue
		}
		if now-x.heard < o.silence/2 {
			return false
		}
		lost = lost || x.doubt != nil && now-x.doubt.began >= o.silence/4 && o.tally(x, now).cutOff()
	}
	return lost
}

// awake finds out whether this process was paused: then Tick is late. It takes back the silence of the others by as much.
func (o *Observer) awake(now protocol.Time) {
	pause := now - o.due
	if pause <= o.beat {
		return
	}
	o.due = now
	for r := range o.others {
		x := &o.others[r]
		x.heard = min(x.heard+pause, now)
		if d := x.doubt; d != nil {
			d.began = min(d.began+pause, now)
		}
	}
	for i := range o.favours {
		o.favours[i].began = min(o.favours[i].began+pause, now)
	}
}

// allowed is how long a process may be silent.
func (o *Observer) allowed(x *observed) protocol.Time {
	if o.alone {
		return 2 * o.silence << x.strikes
	}
	return o.silence << x.strikes
}

// strikesMax bounds the allowance of a process that was suspected wrongly: to eight silences.
const strikesMax = 3

// Heard notes a sign of life.
func (o *Observer) Heard(rank protocol.Rank, now protocol.Time) (effects []Effect) {
	if int(rank) >= len(o.others) || rank < 0 {
		return nil
	}
	x := &o.others[rank]
	if x.gone {
		return nil
	}
	x.heard, x.known = max(x.heard, now), true
	if x.host != o.others[o.self].host {
		o.deaf = false
	}
	if x.told {
		x.told, x.strikes = false, min(x.strikes+1, strikesMax)
		effects = append(effects, Effect{Act: Cleared, Rank: rank, Why: fmt.Sprintf("process %d was heard again", rank)})
	}
	if x.doubt != nil {
		x.doubt = nil
		x.observed = slices.Contains(o.watched, int(rank))
	}
	for i := range o.favours {
		if f := &o.favours[i]; f.of == rank {
			effects = append(effects, f.answer(true, now))
			f.done = true
		}
	}
	o.favours = slices.DeleteFunc(o.favours, func(f favour) bool { return f.done })
	return effects
}

// Receive takes a message.
func (o *Observer) Receive(from protocol.Rank, m Message, now protocol.Time) (effects []Effect) {
	if from != Coordinator && !m.Deaf {
		effects = o.Heard(from, now)
	}
	switch m.Kind {
	case Ping:
		effects = append(effects, Effect{Act: Send, Rank: from, Msg: Message{Kind: Pong}})
		o.complained(from, m.Tried, now)
	case Ask:
		effects = o.asked(from, m.Of, now, effects)
	case Answer:
		o.answered(from, m, now)
	case Rumor:
		effects = o.rumored(from, m.Of, now, effects)
	}
	return o.marked(effects)
}
