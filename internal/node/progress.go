package node

import (
	"github.com/coppice-go/coppice/internal/node/engine"
)

// errOver: the process is closed.
var errOver = engine.ErrStopped

// handler does what the engine finds to be done.
type handler struct{ *Process }

// Visited takes what other processes of this program sent.
func (h handler) Visited() { h.takeMail() }

// Ready handles a connection that has input, or room for output, or the end of a process.
func (h handler) Ready(ev engine.Ready) {
	rank, pid := int(ev.Data>>1), ev.Data&1 == 1
	q := h.mesh.peers[rank]
	switch {
	case pid && q.pidfd == ev.Fd:
		q.exited()
	case q.conn == nil || q.conn.Fd() != ev.Fd: // of an earlier connection
	default:
		if ev.Output {
			q.flush()
		}
		if q.conn != nil && ev.Input {
			q.conn.Rung()
			q.read()
		}
	}
}

// Spins reports whether there are only a few connections.
func (h handler) Spins() bool { return len(h.mesh.up) > 0 && len(h.mesh.up) <= 4 }

// Read reads from all of them.
func (h handler) Read() int {
	before := h.mesh.moved
	for _, q := range h.mesh.up {
		if q.armed {
			q.flush()
		}
		q.read()
	}
	return int(h.mesh.moved - before)
}

// Sleeps has somebody look after a wait that takes long.
func (h handler) Sleeps() { h.patrolSoon() }

// Undriven has the background drive at once if a view is on its way.
func (h handler) Undriven() { h.hurryViews() }
