// Source: Alexandrov, Ionescu, Schauser, Scheiman, LogGP (SPAA 1995), for G, the time of each byte of a
// message beyond the first.
//
// A message of k bytes occupies the sender's port for (k−1)·G longer than a short one, and so the receiver's,
// from the arrival of its first byte on: it takes effect at its start + 2·O + L + (k−1)·G if the receiver's
// port is free. First bytes occupy the ports, and all of them travel for O + L; so receives are still served
// in the order of their sends, and the end of each is known when it is sent.

package logp

import (
	"math"

	"github.com/coppice-go/coppice/protocol"
)

// Sized is implemented by protocols that know how long their messages are. It
// matters on networks with a time PerByte; other messages count as one byte.
type Sized[M any] interface {
	// Bytes returns the length of a message that a process sends.
	Bytes(from protocol.Rank, m M) int64
}

// measure finds out whether messages differ: in size, in what receivers compute for them, in how far they go.
func (e *Engine[S, M]) measure() {
	if sized, ok := any(e.protocol).(Sized[M]); ok && (e.net.PerByte > 0 || e.net.Hosts != nil) {
		e.sized = sized
		e.sends = make([]protocol.Time, e.net.P)
	}
	e.computing, _ = any(e.protocol).(Computing[M])
	if e.net.routed() {
		e.router = &router[M]{net: e.net}
	}
	e.slow = e.sized != nil || e.computing != nil || e.router != nil
}

// Extra returns the time that a message of the given number of bytes takes beyond that of one byte: (k−1)·G,
// rounded.
func (n Network) Extra(bytes int64) protocol.Time {
	return protocol.Time(min(math.Round(n.PerByte*float64(max(bytes, 1)-1)), float64(timeMax)))
}

func (e *Engine[S, M]) extra(ev *event[M]) protocol.Time {
	from, _ := ev.sender()
	net := e.net
	if net.near(from, ev.to) {
		net.PerByte = net.Hosts.PerByte
	}
	return net.Extra(e.sized.Bytes(from, ev.msg))
}

// occupy keeps the ports of the senders occupied. The end of a short message wakes them as well, and finds
// the port occupied.
func (e *Engine[S, M]) occupy(now protocol.Time) {
	for i := range e.put {
		if extra := e.extra(&e.outbox[i]); extra > 0 {
			from, _ := e.outbox[i].sender()
			e.sends[from] = now + e.gap + extra
			e.calendar.wake(e.sends[from], from)
		}
	}
}
