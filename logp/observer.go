package logp

import "github.com/coppice-go/coppice/protocol"

// Observer is told what happens in a run, in the order of time: what a trace or
// a picture is made of. A run that is observed is slower.
type Observer[M any] interface {
	// Sent: a send starts. kind is protocol.Send or protocol.Correct.
	Sent(at protocol.Time, from, to protocol.Rank, kind protocol.Kind, m M)
	// Received: a receive ends, at a process that lives and is not Done.
	Received(at protocol.Time, to, from protocol.Rank, kind protocol.Kind, m M)
	// Delivered: a process hands a result to its user.
	Delivered(at protocol.Time, r protocol.Rank, m M)
	// Died: a process dies; at 0 also those dead from the start.
	Died(at protocol.Time, r protocol.Rank)
}

// Unobserved is an observer that takes note of nothing, for others to be made of.
type Unobserved[M any] struct{}

// Sent implements Observer.
func (Unobserved[M]) Sent(protocol.Time, protocol.Rank, protocol.Rank, protocol.Kind, M) {}

// Received implements Observer.
func (Unobserved[M]) Received(protocol.Time, protocol.Rank, protocol.Rank, protocol.Kind, M) {}

// Delivered implements Observer.
func (Unobserved[M]) Delivered(protocol.Time, protocol.Rank, M) {}

// Died implements Observer.
func (Unobserved[M]) Died(protocol.Time, protocol.Rank) {}

// Observe makes o see the runs to come; nil ends it.
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

// origin is who sent the message and how.
func (e *event[M]) origin() (protocol.Rank, protocol.Kind) {
	from, correction := e.sender()
	if correction {
		return from, protocol.Correct
	}
	return from, protocol.Send
}
