// Source: Varma's thesis, chapter 4, for O_cp: what a process computes for a message
// before it passes it on.

package logp

import "github.com/coppice-go/coppice/protocol"

// Computing is implemented by protocols in which work on a message takes time. The
// receiver's port is busy meanwhile, and only then does the message take effect.
type Computing[M any] interface {
	// Computing returns how long a process works on a message; 0 or more.
	Computing(to protocol.Rank, m M) protocol.Time
}

// flushSlowly is flush for messages that differ: in how far they go, in how long they are, or in what their
// receiver computes for them.
func (e *Engine[S, M]) flushSlowly(now protocol.Time) {
	for i := range e.put {
		one := e.outbox[i : i+1]
		switch {
		case e.router == nil:
			e.land(now+e.net.O+e.net.L, one)
		case uint(one[0].to) < uint(len(e.receives)):
			extra := protocol.Time(0)
			if e.sized != nil {
				extra = e.extra(&one[0])
			}
			e.router.send(now, one[0], extra)
		default:
			e.late(now, &one[0]) // records the error
		}
	}
	if e.err != nil {
		return
	}
	if e.observer.Sent != nil {
		e.observeSends(now, e.outbox[:e.put])
	}
	e.count(now)
	if e.sized != nil {
		e.occupy(now)
	}
	e.put = 0
}

// land hands one message to the receiver's port, at its arrival there.
func (e *Engine[S, M]) land(arrival protocol.Time, one []event[M]) {
	at := arrival
	if e.prompt(arrival, one) == 0 {
		at = e.late(arrival, &one[0])
	}
	if at == dropped {
		return
	}
	extra := protocol.Time(0)
	if e.sized != nil {
		extra = e.extra(&one[0])
	}
	if e.computing != nil {
		extra += max(0, e.computing.Computing(one[0].to, one[0].msg))
	}
	e.receives[one[0].to] += extra
	e.transmit(at+extra, one)
}
