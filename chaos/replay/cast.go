package replay

import (
	"fmt"
	"slices"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
	"github.com/coppice-go/coppice/protocol/inquiry"
)

// Broadcasts by package broadcast. A task's part begins with the first message, so that others need not wait
// until the task has come to the operation, and may end long after the task has its result: correction goes
// on, and others may ask for the value. A correction carries no large value: a task without the value asks
// for it.

// asked takes the place of the operation in the Name of such a question. Its lane is the operation.
const asked = -4

// withheldMin is the size from which corrections carry no value.
const withheldMin = 3 * 8

// cast is a task's part in a broadcast.
type cast struct {
	at       int // the call
	run      broadcast.Runner
	name     Name // of its messages: the operation and its epoch
	value    []byte
	past     uint64 // as the sender of the value knew it
	has      bool   // the value
	over     bool   // the task has its result
	done     bool
	promises inquiry.Promises[*Frame]
	asks     protocol.Time // when to ask the tasks that have promised the value
	fixes    int           // corrections that it has sent
	pause    protocol.Time // before it sends another
}

// casts returns the broadcasts by package broadcast, for any root, with one of several trees and corrections.
func casts(tasks int) (all []*Plan, err error) {
	ways := [][2]string{{"binomial", "none"}}
	if tasks > 1 {
		ways = [][2]string{
			{"binomial", "none"},
			{"binomial", "checked"},
			{"kary:1", "opportunistic:1"},
			{"kary:2", "optimized:1"},
			{"binomial", "delayed:9"},
			{"binomial", "failure-proof:1"},
			{"gossip:2", "checked"},
		}
	}
	for _, w := range ways {
		for root := range protocol.Rank(tasks) {
			spec := broadcast.Spec{P: tasks, Root: root, Tree: w[0], Correction: w[1], L: 1, O: 1, Counted: true}
			make, err := spec.Runners()
			if err != nil {
				return nil, err
			}
			all = append(all, &Plan{
				Op: Broadcast, Algorithm: w[0] + " and " + w[1], Root: root, Spans: 1, runners: make,
				// Each task sends: one message, or two rounds of gossip; to every other from
				// both sides, if it finds no task that has the value; a question and its
				// answer.
				messages: tasks * (2 + 2*(tasks-1) + 2),
			})
		}
	}
	return all, nil
}

// Lanes of messages of casts: three bits are the kind, or say that the value is withheld; the rest is the
// round, or what failure-proof correction adds, two names of 32 bits, of which few are used.
const (
	kindShift = 13
	roundMax  = 1<<kindShift - 1
	nameBits  = 6
	nameMax   = 1<<nameBits - 1
	bare      = 3 // added to the kind of a correction without its value
)

func laneOf(w broadcast.Word) uint16 {
	rest := min(w.Round, roundMax)
	if w.Kind > broadcast.Ack {
		if w.Extra&^(nameMax<<32|nameMax) != 0 {
			panic(fmt.Sprintf("correction adds %x; allowed: two names of %d bits", w.Extra, nameBits))
		}
		rest = uint16(w.Extra>>32<<nameBits | w.Extra&nameMax)
	}
	return uint16(w.Kind)<<kindShift | rest
}

// wordOf is the inverse of laneOf. withheld: the message comes without its value.
func wordOf(lane uint16) (w broadcast.Word, withheld bool) {
	rest := lane & roundMax
	w = broadcast.Word{Kind: broadcast.MessageKind(lane >> kindShift), Round: rest}
	if rest == roundMax {
		w.Round = broadcast.OverRound
	}
	if withheld = w.Kind > broadcast.SOS; withheld {
		w.Kind -= bare
	}
	if w.Kind > broadcast.Ack {
		w.Round, w.Extra = 0, uint64(rest>>nameBits)<<32|uint64(rest&nameMax)
	}
	return w, withheld
}

// withheld returns a message as it goes to another process: a correction without its value if that is large.
func (t *task) withheld(f *Frame) *Frame {
	if f.Op < 0 || f.Lane>>kindShift <= uint16(broadcast.Ack) || len(f.Value) < withheldMin {
		return f
	}
	b := t.memory.frames.one()
	*b = *f
	b.Value = nil
	b.Lane += bare << kindShift
	return b
}

func (t *task) cast(at int) *cast {
	for _, c := range t.casts {
		if c.at == at {
			return c
		}
	}
	return nil
}

// newCast begins the task's part in a broadcast.
func (t *task) newCast(g *Program, at int) *cast {
	c := t.memory.casts.one()
	c.promises.Came()
	*c = cast{
		at: at, run: t.memory.runner(g.Calls[at].Plan), promises: c.promises,
		name: Name{Op: t.count + int32(at-t.op), From: t.number, Epoch: uint16(t.epoch)},
	}
	c.run.Init(t.number, 0)
	t.casts = append(t.casts, c)
	return c
}

// hear takes a message of a broadcast. A message for a broadcast that is over is useless.
func (t *task) hear(g *Program, at int, f *Frame) {
	c := t.cast(at)
	switch {
	case c != nil:
	case at < t.op || t.returned:
		return
	case uint64(f.Epoch) != t.epoch || g.Calls[at].Root == t.number:
		t.early[at] = append(t.early[at], f)
		return
	default:
		c = t.newCast(g, at)
	}
	w, withheld := wordOf(f.Lane)
	switch {
	case c.done:
		return
	case withheld && !c.has:
		c.promises.All = append(c.promises.All, inquiry.Promise[*Frame]{From: int(f.From), Message: f})
		if t.hurries(c) {
			t.askAll(c)
		}
		return
	case !c.has:
		c.value, c.past, c.has = f.Value, f.Past, true
	case f.Past != c.past && t.err == nil:
		t.err = fmt.Errorf("%w: %v", errPast, f.Name)
	}
	c.run.Receive(0, f.From, w)
	for _, p := range c.promises.Came() {
		w, _ := wordOf(p.Message.Lane)
		c.run.Receive(0, p.Message.From, w)
	}
	t.lookPending(g)
}

// hurries reports whether the task asks for a value at once, and sends corrections one after the other.
// Otherwise it asks, or sends the others, when a view opens or nothing else happens anymore.
func (t *task) hurries(c *cast) bool { return (c.at+int(t.number))%2 == 0 }

// ask asks a task for the value of a broadcast.
func (t *task) ask(c *cast, to int) {
	for _, a := range t.accounts {
		if a.epoch == uint64(c.name.Epoch) {
			a.Owe(to)
			t.tellDue(a)
		}
	}
	f := t.memory.frames.one()
	*f = Frame{Name: Name{asked, t.number, protocol.Rank(to), uint16(c.name.Op), c.name.Epoch}}
	t.out = append(t.out, f)
}

// question answers a task that asks for the value of a broadcast.
func (t *task) question(g *Program, f *Frame) {
	at := g.index(Name{Op: int32(f.Lane), Epoch: f.Epoch})
	c := t.cast(at)
	known := inquiry.Asked{About: inquiry.Nobody, Has: c != nil && c.has, Never: t.returned || at < t.op && c == nil}
	switch known.Reply() {
	case inquiry.Give:
		give := t.memory.frames.one()
		*give = Frame{Name: c.name, Value: c.value, Past: c.past}
		give.To, give.Lane = f.From, laneOf(broadcast.Word{Round: broadcast.OverRound})
		t.out = append(t.out, give)
		if a := t.account(g, uint64(c.name.Epoch)); a != nil { // a task that asks once asks again: do not leave it behind
			a.Send(int(give.To), max(c.name.Sequence(), t.called(a)), 0)
		}
	case inquiry.Hold:
		t.seen |= AskedInVain
		t.pending = append(t.pending, f)
	}
}

// lookPending retries the questions that could not be answered.
func (t *task) lookPending(g *Program) {
	pending := t.pending
	t.pending = nil
	for _, f := range pending {
		t.question(g, f)
	}
}

// enterCast lets the task enter a broadcast.
func (t *task) enterCast(g *Program) {
	c, plan := t.cast(t.op), &g.Calls[t.op]
	if c == nil {
		c = t.newCast(g, t.op)
	}
	if plan.Root == t.number {
		c.value, c.past, c.has = g.vector(t.op, t.number, t.last()), t.past, true
	}
}

// spread takes the next step of a broadcast that is under way. It returns false if none can take one. It sets
// the task's wake to the earliest time that one waits for.
func (t *task) spread(now protocol.Time, send func(f *Frame)) bool {
	for _, c := range t.casts {
		if c.done {
			continue
		}
		if now < c.pause {
			t.wake = min(t.wake, c.pause)
			continue
		}
		a := c.run.Next(now)
		if a.Kind == protocol.Correct {
			if c.fixes++; c.fixes > 1 && !t.hurries(c) {
				c.pause = now + 1
			}
		}
		switch a.Kind {
		case protocol.Send, protocol.Correct:
			f := t.memory.frames.one()
			*f = Frame{Name: c.name, Value: c.value, Past: c.past}
			f.To, f.Lane = a.To, laneOf(a.Msg)
			if send(f); c.at > t.op || c.at == t.op && !t.begun {
				t.seen |= PassedOnEarly
			}
		case protocol.Deliver:
			c.over = true
		case protocol.Done:
			c.done = true
		case protocol.Wait:
			t.wake = min(t.wake, a.At)
			continue
		default:
			if !t.late(c, now) {
				continue
			}
		}
		return true
	}
	return false
}

// late asks for a value that has not come.
func (t *task) late(c *cast, now protocol.Time) bool {
	switch {
	case c.promises.Asked == len(c.promises.All):
		return false
	case c.asks == 0:
		c.asks = now + 1
	case now >= c.asks:
		t.askAll(c)
		return true
	}
	t.wake = min(t.wake, c.asks)
	return false
}

// askAll asks the tasks that have promised a value.
func (t *task) askAll(c *cast) {
	for to := range c.promises.Ask {
		t.ask(c, to)
	}
	c.asks = 0
}

// askInView asks, when a view opens, for values that have not come.
func (t *task) askInView() {
	for _, c := range t.casts {
		t.askAll(c)
	}
}

// askAgain asks a task that is run again for what it has promised.
func (t *task) askAgain(of protocol.Rank) {
	for _, c := range t.casts {
		if c.promises.Restart(int(of)) {
			t.ask(c, int(of))
		}
	}
}

// receives takes the result of the present broadcast, if it has come.
func (t *task) receives(g *Program) bool {
	c := t.cast(t.op)
	if !c.over {
		return false
	}
	if c.past != t.past && t.err == nil {
		t.err = fmt.Errorf("%w: %v", errPast, c.name)
	}
	got := append(t.memory.blocks.list(1)[:0], present(c.value))
	t.over(g, digestOf(t.last(), got))
	return true
}

// clone returns a copy that shares nothing that changes.
func (c *cast) clone() *cast {
	d := *c
	d.run, d.promises.All = c.run.Clone(), slices.Clone(c.promises.All)
	return &d
}

// printed returns a hash of a state without pointers: states are compared by their text.
func printed(state any) (sum uint64) {
	for _, b := range fmt.Append(nil, state) {
		sum = protocol.Mix(sum, uint64(b))
	}
	return sum
}

// sign adds the broadcast to a fingerprint.
func (c *cast) sign(f fingerprint) fingerprint {
	f = f.with(uint64(c.at)<<3 | bit(c.has)<<2 | bit(c.over)<<1 | bit(c.done)).with(printed(c.run.State()))
	for _, p := range c.promises.All {
		f = f.with(p.Message.Key())
	}
	return f.with(uint64(len(c.promises.All))<<32 | uint64(c.promises.Asked)).with(uint64(c.asks)).with(uint64(c.fixes)).with(uint64(c.pause))
}
