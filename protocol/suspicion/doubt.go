package suspicion

import (
	"fmt"
	"slices"

	"github.com/coppice-go/coppice/protocol"
)

// A doubt is the time in which an observer finds out what the silence of a process means. Every beat it pings the process
// and asks helpers, some of them on other hosts than the two, one on the host of the silent process, and the coordinator.
// A helper that is asked pings the process in its turn, and says whether it has heard it.
//
//	no helper hears it, several have tried  it is suspected
//	a helper on its own host hears it       it is slow: wait
//	another helper hears it                 the link is bad: one of the two hosts has to go
//	most helpers do not answer              this process is cut off: wait twice as long
//
// A process of the same host needs no helpers: there is no network in between.
type doubt struct {
	began   protocol.Time
	helpers []helper
	rumorAt protocol.Time // when to notify all processes; 0: there is nothing to report
}

// helper is a process that was asked.
type helper struct {
	rank     protocol.Rank
	host     int
	answered protocol.Time // last; 0: never
	heard    protocol.Time // the last answer that it hears the process; 0: none
	tried    protocol.Time // how long it has tried without success
}

// helpersMax is how many third parties are asked.
const helpersMax = 3

// Doubt says that a process cannot be reached, by other means than these messages, since a moment.
func (o *Observer) Doubt(rank protocol.Rank, since, now protocol.Time) {
	if rank == o.self || int(rank) >= len(o.others) || o.others[rank].gone || o.others[rank].host == 0 || o.others[rank].doubt != nil {
		return
	}
	if x := &o.others[rank]; !x.observed { // what was heard before says nothing: it may have had nothing to say
		x.observed, x.heard = true, max(x.heard, since)
	}
	o.begin(rank, now)
}

// begin begins to doubt a process.
func (o *Observer) begin(rank protocol.Rank, now protocol.Time) {
	x := &o.others[rank]
	d := &doubt{began: now}
	x.doubt = d
	here, mine := x.host, o.others[o.self].host
	if here == mine {
		return
	}
	o.turn++
	n := len(o.others)
	first := int((uint64(o.self)*7 + uint64(rank)*3 + o.turn) % uint64(n))
	local, third, own := 0, 0, 0
	hosts := map[int]bool{}
	for pass := range 2 { // helpers on hosts of their own first
		for i := range n {
			r := (first + i) % n
			h := &o.others[r]
			if r == int(o.self) || r == int(rank) || h.host == 0 || h.gone || d.asks(protocol.Rank(r)) {
				continue
			}
			switch {
			case h.host == here && here != mine:
				if local++; local > 1 {
					continue
				}
			case h.host == mine:
				if own++; own > 1 {
					continue
				}
			case third == helpersMax || pass == 0 && hosts[h.host]:
				continue
			default:
				third++
				hosts[h.host] = true
			}
			d.helpers = append(d.helpers, helper{rank: protocol.Rank(r), host: h.host})
		}
	}
	switch {
	case o.server == Coordinator:
		d.helpers = append(d.helpers, helper{rank: Coordinator})
	case o.server >= 0 && o.server != o.self && o.server != rank:
		d.helpers = append(d.helpers, helper{rank: Coordinator, host: o.others[o.server].host})
	}
}

func (d *doubt) asks(rank protocol.Rank) bool {
	return slices.ContainsFunc(d.helpers, func(h helper) bool { return h.rank == rank })
}

// answered handles an answer.
func (o *Observer) answered(from protocol.Rank, m Message, now protocol.Time) {
	if int(m.Of) >= len(o.others) || m.Of < 0 || o.others[m.Of].doubt == nil {
		return
	}
	d := o.others[m.Of].doubt
	for i := range d.helpers {
		h := &d.helpers[i]
		if h.rank != from {
			continue
		}
		h.answered, h.tried = now, m.Tried
		if m.Hears {
			h.heard = now
		}
	}
}

// judge asks again and, when the time has come, says what the silence means.
func (o *Observer) judge(rank protocol.Rank, now protocol.Time, effects []Effect) []Effect {
	x := &o.others[rank]
	d := x.doubt
	silent := now - x.heard
	effects = append(effects, Effect{Act: Send, Rank: rank, Msg: Message{Kind: Ping, Tried: silent}})
	for i := range d.helpers {
		effects = append(effects, Effect{Act: Send, Rank: d.helpers[i].rank, Msg: Message{Kind: Ask, Of: rank}})
	}
	if d.rumorAt != 0 && now >= d.rumorAt {
		d.rumorAt = now + 4*o.beat
		for r := range o.others {
			if y := &o.others[r]; r != int(o.self) && r != int(rank) && y.host != 0 && !y.gone {
				effects = append(effects, Effect{Act: Send, Rank: protocol.Rank(r), Msg: Message{Kind: Rumor, Of: rank}})
			}
		}
	}
	if x.told || silent < o.allowed(x)+2*o.beat || now-d.began < o.silence/4 {
		return effects
	}
	suspect := func(what string) {
		x.told = true
		effects = append(effects, Effect{Act: Suspected, Rank: rank, Why: fmt.Sprintf("process %d has not been heard for %.2f s, %s", rank, float64(silent)/1e9, what)})
	}
	t := o.tally(x, now)
	switch {
	case t.slow:
	case t.cutOff():
		if silent >= 2*o.allowed(x) { // it lasts: the view will tell on which side the majority is
			suspect("nor are most others")
		}
	case t.hear > 0:
		if silent >= o.allowed(x)+o.linkTime() && o.stays(x) || silent >= 3*o.allowed(x) {
			suspect("though others hear it: the link to it is bad")
		}
	case t.agree >= t.needed():
		suspect(fmt.Sprintf("nor do %d others hear it", t.agree))
		d.rumorAt = now
		return o.judge(rank, now, effects)
	}
	return effects
}

// rumored handles the rumor that several processes have found another one silent.
func (o *Observer) rumored(from, of protocol.Rank, now protocol.Time, effects []Effect) []Effect {
	if of < 0 || int(of) >= len(o.others) || of == o.self {
		return effects
	}
	x := &o.others[of]
	if x.told || x.gone || x.host == 0 || x.known && now-x.heard < o.silence/2 {
		return effects
	}
	x.told = true
	return append(effects, Effect{Act: Suspected, Rank: of, Why: fmt.Sprintf("process %d has not been heard by process %d and others", of, from)})
}

// Link is a process to which no connection can be made, since a moment.
type Link struct {
	Rank  protocol.Rank
	Since protocol.Time
}

// Unlinked says to which processes no connection can be made, and how many others have one. Those without are doubted
// soon; one that lives, and cannot be reached for long, is suspected all the same: without it the job would stand still.
// A process that has lost most of its connections looks for the fault at itself first.
func (o *Observer) Unlinked(down []Link, up int, now protocol.Time) (effects []Effect) {
	long := 4 * o.silence
	if len(down) > 1 && len(down) > up {
		long *= 3
	}
	for _, l := range down {
		switch last := now - l.Since; {
		case last > long:
			effects = append(effects, Effect{Act: Suspected, Rank: l.Rank, Why: fmt.Sprintf("process %d lives, but there was no connection to it for %.2f s", l.Rank, float64(last)/1e9)})
		case last > o.silence/8:
			o.Doubt(l.Rank, l.Since, now)
		}
	}
	return effects
}

// linkTime is how much longer than a silence a bad link has to last.
func (o *Observer) linkTime() protocol.Time { return o.silence / 4 }

// stays reports whether this process's host stays if its link to that of another is
// bad: the one with the lowest rank does.
func (o *Observer) stays(x *observed) bool {
	mine := o.others[o.self].host
	for r := range o.others {
		if y := &o.others[r]; !y.gone && (y.host == mine || y.host == x.host) {
			return y.host == mine
		}
	}
	return true
}

// complained notes that another process, which this one hears, has not heard this one for long.
func (o *Observer) complained(from protocol.Rank, tried, now protocol.Time) {
	if from < 0 || int(from) >= len(o.others) || tried < o.silence || o.others[from].host == o.others[o.self].host {
		return
	}
	c := &o.others[from].misses
	if c.last == 0 {
		c.first = now
	}
	c.last, c.tried = now, tried
}

// missed finds out what the complaints of a process mean. Where they last, and are those
// of one host only, the link to it is bad one way.
func (o *Observer) missed(rank protocol.Rank, now protocol.Time, effects []Effect) []Effect {
	x := &o.others[rank]
	if now-x.misses.last > 4*o.beat {
		x.misses = complaint{}
		if x.accused {
			x.accused = false
			effects = append(effects, Effect{Act: Cleared, Rank: rank, Why: fmt.Sprintf("process %d hears this one again", rank)})
		}
		return effects
	}
	if x.gone || x.accused || o.deaf || x.misses.tried < o.silence+o.linkTime() || x.misses.last-x.misses.first < 4*o.beat || !o.stays(x) {
		return effects
	}
	for r := range o.others {
		if y := &o.others[r]; y.misses.last != 0 && y.host != x.host {
			return effects
		}
	}
	x.accused = true
	return append(effects, Effect{Act: Suspected, Rank: rank, Why: fmt.Sprintf("process %d has not heard this one for %.2f s: the link to it is bad one way", rank, float64(x.misses.tried)/1e9)})
}

// tally is what helpers say of a process.
type tally struct {
	slow     bool // its own host says that it is at work
	hear     int
	agree    int // that it is silent
	third    int // that were asked, on other hosts than the two, or the coordinator
	answered int // of them
}

// cutOff reports whether this process has lost most of the others.
func (t tally) cutOff() bool { return 2*t.answered < t.third }

// needed is how many have to agree: none, if all that could be asked are on one of the two hosts, and share its fate.
func (t tally) needed() int { return min(2, t.third) }

// tally counts the answers that are fresh.
func (o *Observer) tally(x *observed, now protocol.Time) (t tally) {
	fresh := func(at protocol.Time) bool { return at != 0 && now-at <= 4*o.beat }
	mine := o.others[o.self].host
	for i := range x.doubt.helpers {
		h := &x.doubt.helpers[i]
		third := h.host != x.host && h.host != mine
		if third {
			t.third++
		}
		if !fresh(h.answered) {
			continue
		}
		if third {
			t.answered++
		}
		switch {
		case fresh(h.heard) && (h.host == x.host || h.rank == Coordinator && h.tried > o.silence/4):
			t.slow = true // it is not heard, but the kernel says that it works
		case fresh(h.heard):
			t.hear++
		case h.tried >= o.silence/4 && (third || h.host == x.host):
			t.agree++
		}
	}
	return t
}

// favour is the request of another process to try to hear one.
type favour struct {
	to, of protocol.Rank
	began  protocol.Time
	asked  protocol.Time // last
	done   bool
}

func (f *favour) answer(hears bool, now protocol.Time) Effect {
	return Effect{Act: Send, Rank: f.to, Msg: Message{Kind: Answer, Of: f.of, Hears: hears, Tried: now - f.began}}
}

// asked tries to hear a process for another, and reports how that went so far.
func (o *Observer) asked(from, of protocol.Rank, now protocol.Time, effects []Effect) []Effect {
	if int(of) >= len(o.others) || of < 0 || o.others[of].gone {
		return effects
	}
	hears := of == o.self || o.others[of].observed && now-o.others[of].heard <= 2*o.beat
	f := favour{to: from, of: of, began: now, asked: now}
	for i := range o.favours {
		if g := &o.favours[i]; g.to == from && g.of == of {
			g.asked = now
			return append(effects, g.answer(hears, now), Effect{Act: Send, Rank: of, Msg: Message{Kind: Ping}})
		}
	}
	effects = append(effects, f.answer(hears, now))
	if !hears {
		o.favours = append(o.favours, f)
		effects = append(effects, Effect{Act: Send, Rank: of, Msg: Message{Kind: Ping}})
	}
	return effects
}
