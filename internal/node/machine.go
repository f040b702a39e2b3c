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

// reset makes it a new machine. The seed is always the same: so are partners in
// gossip, in every broadcast.
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

// pack and unpack translate a broadcast's messages; extra does so for what its
// correction adds, if that is anything.
func pack[E any](extra func(E) uint64) func(broadcast.Message[E]) word {
	return func(m broadcast.Message[E]) word {
		w := word{kind: uint8(m.Kind), round: m.Round, value: m.Kind.Payload()}
		if extra != nil {
			w.extra = extra(m.Extra)
		}
		return w
	}
}

func unpack[E any](extra func(uint64) E) func(word) broadcast.Message[E] {
	return func(w word) broadcast.Message[E] {
		m := broadcast.Message[E]{Kind: broadcast.MessageKind(w.kind), Round: w.round}
		if extra != nil {
			m.Extra = extra(w.extra)
		}
		return m
	}
}

func packBarrier(m collective.BarrierMessage) word { return word{kind: uint8(m)} }

func unpackBarrier(w word) collective.BarrierMessage { return collective.BarrierMessage(w.kind) }
