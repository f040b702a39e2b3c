package node

import (
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
	"github.com/coppice-go/coppice/protocol/collective"
)

// A word is a machine's message on the wire.
type word struct {
	extra uint64
	round uint16
	kind  uint8
	value bool // the operation's value goes with it
}

// step is that of a schedule, which a word has in place of extra until it is sent.
func (w word) step() int32 { return int32(w.extra) }

// An action is a machine's answer to next.
type action = protocol.Action[word]

// machine is a task's machine in one operation, whatever its types.
type machine interface {
	receive(now protocol.Time, from protocol.Rank, w word)
	notify(now protocol.Time, n protocol.Notice)
	next(now protocol.Time) action
	reset(self protocol.Rank)
	awaits() []protocol.Rank // whose messages it waits for; nil: unknown
}

// barriers is the machine of a barrier, whose messages are one byte each.
type barriers struct {
	*collective.Barrier
	state collective.BarrierState
}

// reset makes it a new machine. The seed is always the same.
func (b *barriers) reset(self protocol.Rank) { b.Init(&b.state, self, 0) }

func (b *barriers) receive(now protocol.Time, from protocol.Rank, w word) {
	b.Receive(&b.state, now, from, collective.BarrierMessage(w.kind))
}

func (b *barriers) notify(now protocol.Time, n protocol.Notice) { b.Notify(&b.state, now, n) }

func (b *barriers) next(now protocol.Time) action {
	a := b.Next(&b.state, now)
	return action{Kind: a.Kind, At: a.At, To: a.To, Msg: word{kind: uint8(a.Msg)}}
}

func (b *barriers) awaits() []protocol.Rank { return b.Awaits(&b.state) }

// casts is the machine of a broadcast, whose messages are words as they are.
type casts struct{ broadcast.Runner }

// reset makes it a new machine. The seed is always the same: so are partners in
// gossip, in every broadcast.
func (c casts) reset(self protocol.Rank) { c.Init(self, 0) }

func (c casts) receive(now protocol.Time, from protocol.Rank, w word) {
	c.Receive(now, from, broadcast.Word{Extra: w.extra, Round: w.round, Kind: broadcast.MessageKind(w.kind)})
}

func (casts) notify(protocol.Time, protocol.Notice) {} // there is none that matters to a broadcast

func (c casts) next(now protocol.Time) action {
	a := c.Next(now)
	out := action{Kind: a.Kind, At: a.At, To: a.To}
	if a.Kind.Sends() {
		out.Msg = word{extra: a.Msg.Extra, round: a.Msg.Round, kind: uint8(a.Msg.Kind), value: a.Msg.Kind.Payload()}
	}
	return out
}

func (casts) awaits() []protocol.Rank { return nil }
