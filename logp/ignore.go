package logp

import (
	"math"

	"github.com/coppice-go/coppice/protocol"
)

// OnlyColors is implemented by protocols in which some messages only color: they change nothing at a process
// that has got a message before, or had it from the start. It reports whether messages by Send, and those by
// Correct, are such. Most messages of gossip are, and come too late: the engine counts them without handing
// them over.
type OnlyColors interface{ OnlyColors() (sends, corrects bool) }

// ignore decides which messages need not be handed over to a process that is reached. An observer sees them
// all. Where they occupy no port either, they need not even be sent.
func (e *Engine[S, M]) ignore() {
	e.ignored, e.skip, e.skipped = math.MaxInt32, protocol.Idle, [2]int64{} // no rank is that large
	p, ok := e.protocol.(OnlyColors)
	if !ok || e.observer.Sent != nil || e.observer.Received != nil {
		return
	}
	sends, corrects := p.OnlyColors()
	if !sends {
		return
	}
	e.ignored, e.skip = 0, protocol.Send
	if corrects {
		e.ignored, e.skip = math.MinInt32, protocol.Correct
	}
	if !e.net.NoQueue || e.slow || e.sends != nil || e.deaths.bySends != nil {
		e.skip = protocol.Idle
	}
}

// skips counts a send of a kind that may be skipped, if its receiver ignores it.
func (e *Engine[S, M]) skips(kind protocol.Kind, to protocol.Rank) bool {
	w := uint(to) >> 6
	if w >= uint(len(e.reached)) || (e.reached[w]&^e.deaf[w])>>(uint(to)&63)&1 == 0 {
		return false
	}
	e.skipped[kind-protocol.Send]++
	return true
}

// countSkipped does for skipped messages what flush does for all others.
func (e *Engine[S, M]) countSkipped(now protocol.Time) {
	if e.skipped == [2]int64{} {
		return
	}
	e.result.Quiescence = max(e.result.Quiescence, now+e.net.L+2*e.net.O)
	e.add(now, e.skipped[0], e.skipped[1])
	e.skipped = [2]int64{}
}
