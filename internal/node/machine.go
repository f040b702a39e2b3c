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
	value bool  // the operation's value goes with it
	step  int32 // of a schedule; stays here
}

// An action is a machine's answer to next.
type action struct {
	kind protocol.Kind
	at   protocol.Time
	to   protocol.Rank
	word word
}

// machine is a task's machine in one operation, whatever its types.
type machine interface {
	receive(now protocol.Time, from protocol.Rank, w word)
	notify(now protocol.Time, n protocol.Notice)
	next(now protocol.Time) action
	reset(self protocol.Rank)
	awaits() []protocol.Rank // whose messages it waits for; nil: unknown
}

// driven is a machine with its types.
type driven[S, M any] struct {
	protocol protocol.Protocol[S, M]
	pack     func(M) word
	unpack   func(word) M
	awaited  func(*S) []protocol.Rank // nil: unknown
	state    S
}

// drivenBy returns the factory of a protocol's machines.
func drivenBy[S, M any](p protocol.Protocol[S, M], pack func(M) word, unpack func(word) M, awaited func(*S) []protocol.Rank) factory {
	return func(self protocol.Rank) machine {
		d := &driven[S, M]{protocol: p, pack: pack, unpack: unpack, awaited: awaited}
		d.reset(self)
		return d
	}
}

// reset makes it a new machine. The seed is always the same.
func (d *driven[S, M]) reset(self protocol.Rank) { d.protocol.Init(&d.state, self, 0) }

func (d *driven[S, M]) receive(now protocol.Time, from protocol.Rank, w word) {
	d.protocol.Receive(&d.state, now, from, d.unpack(w))
}

func (d *driven[S, M]) notify(now protocol.Time, n protocol.Notice) {
	d.protocol.Notify(&d.state, now, n)
}

func (d *driven[S, M]) next(now protocol.Time) action {
	a := d.protocol.Next(&d.state, now)
	out := action{kind: a.Kind, at: a.At, to: a.To}
	if a.Kind.Sends() {
		out.word = d.pack(a.Msg)
	}
	return out
}

// awaits lists the processes whose messages the machine waits for.
func (d *driven[S, M]) awaits() []protocol.Rank {
	if d.awaited == nil {
		return nil
	}
	return d.awaited(&d.state)
}

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
	out := action{kind: a.Kind, at: a.At, to: a.To}
	if a.Kind.Sends() {
		out.word = word{extra: a.Msg.Extra, round: a.Msg.Round, kind: uint8(a.Msg.Kind), value: a.Msg.Kind.Payload()}
	}
	return out
}

func (casts) awaits() []protocol.Rank { return nil }

func packBarrier(m collective.BarrierMessage) word { return word{kind: uint8(m)} }

func unpackBarrier(w word) collective.BarrierMessage { return collective.BarrierMessage(w.kind) }
