package logp

import "github.com/coppice-go/coppice/protocol"

// Observer has functions that the engine calls, in the order of time, with what happens in a run, for a trace
// or a picture. The engine skips functions that are nil. A run that is observed is slower.
type Observer[M any] struct {
	// Sent is called when a send starts. kind is protocol.Send or protocol.Correct.
	Sent func(at protocol.Time, from, to protocol.Rank, kind protocol.Kind, m M)
	// Received is called when a receive ends, at a process that is alive and not Done.
	Received func(at protocol.Time, to, from protocol.Rank, kind protocol.Kind, m M)
	// Delivered is called when a process hands a result to its user.
	Delivered func(at protocol.Time, r protocol.Rank, m M)
	// Died is called when a process dies; at 0 also for processes dead from the start.
	Died func(at protocol.Time, r protocol.Rank)
}

// Observe makes o see the runs to come; the zero Observer ends it.
func (e *Engine[S, M]) Observe(o Observer[M]) { e.observer = o }

func (e *Engine[S, M]) observeSends(now protocol.Time, out []event[M]) {
	for i := range out {
		from, kind := out[i].origin()
		e.observer.Sent(now, from, out[i].to, kind, out[i].msg)
	}
}

func (e *Engine[S, M]) observeReceives(now protocol.Time, heard []event[M]) {
	for i := range heard {
		from, kind := heard[i].origin()
		e.observer.Received(now, heard[i].to, from, kind, heard[i].msg)
	}
}

// origin returns which process sent the message, and how.
func (e *event[M]) origin() (protocol.Rank, protocol.Kind) {
	from, correction := e.sender()
	if correction {
		return from, protocol.Correct
	}
	return from, protocol.Send
}
