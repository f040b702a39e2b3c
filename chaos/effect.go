package chaos

import (
	"slices"

	"github.com/coppice-go/coppice/protocol"
)

// Messages by their effect, for protocols with Config.Cumulative.
//
// Claim: a message in a channel may be replaced by any other that, received after those before it, leads the
// process to the same state; and it may be dropped if that is the state without it.
// Proof: let s be the process's state and u·a, u·b the beginnings of two contents of the channel that lead s
// to the same state, where u is known to be interchangeable. When a is received, the process is in a state t
// that comes after s and has received u; since u·a and u·b lead s to the same state, they lead t to the same
// state. Receiving u again changes nothing: it changed nothing right after u, and what changes nothing then
// changes nothing later. So a and b lead t to the same state. Dropping a message is the case of an empty b:
// receiving it first would have allowed those behind it to be received just as early.
//
// With Reorder a message may be received without those before it, so each is judged alone.

// sift drops the messages of a channel that change nothing, and identifies the others by their effect.
func (x *explorer[S, M]) sift(p *private[S, M], inbox []queue[M], now protocol.Time) []queue[M] {
	if !x.cfg.Cumulative || p.rest == Done || !p.reached {
		return inbox // receiving the first message is something in itself
	}
	sifted := slices.Clone(inbox)
	for from := range inbox {
		if len(inbox[from].items) > 0 {
			sifted[from] = x.effects(p, inbox[from], protocol.Rank(from), now)
		}
	}
	return sifted
}

func (x *explorer[S, M]) effects(p *private[S, M], q queue[M], from protocol.Rank, now protocol.Time) queue[M] {
	state := clone(&p.state)
	before := printOf(&state)
	kept := make([]item[M], 0, len(q.items))
	for _, m := range q.items {
		if x.cfg.Reorder {
			state = clone(&p.state)
		}
		x.w.setup.Protocol.Receive(&state, now, from, m.msg)
		if after := printOf(&state); after != before {
			kept = append(kept, item[M]{m.msg, after})
			if !x.cfg.Reorder {
				before = after
			}
		}
	}
	return queueOf(kept)
}
