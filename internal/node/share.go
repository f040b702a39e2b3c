package node

import "github.com/coppice-go/coppice/internal/segment"

// ringsMax is how much memory the rings between the processes of a host take at most, if each uses one with every other.
const ringsMax = 256 << 20

// ringFor returns the size of a ring where so many processes share memory.
func ringFor(processes int) int {
	size := segment.RingMax
	for size > segment.RingMin && size*processes*(processes-1) > ringsMax {
		size /= 2
	}
	return size
}

// share has the processes of this host exchange bytes in memory, if it can be had.
func (p *Process) share(processes int) {
	if processes < 1 {
		return
	}
	inbox, err := segment.NewInbox(p.cfg.Size + p.cfg.Grow)
	if err != nil {
		p.cfg.Logger.Debug("no shared memory", "error", err)
		return
	}
	p.mesh.shares = inbox
	p.engine.Share(inbox)
}

// unshare gives the memory back. The engine has stopped.
func (p *Process) unshare() {
	if p.mesh.shares != nil {
		_ = p.mesh.shares.Close()
	}
}

// lookAgain has the process look at a peer whose memory may have something that the peer does not mark again.
func (p *Process) lookAgain(q *peer) {
	p.mesh.shares.Mark(q.rank)
	p.engine.Again()
}

// Unshared reports whether there are connections to peers that share no memory with this process.
func (h handler) Unshared() bool { return h.mesh.unshared > 0 }

// Look reads from the peers that have marked something, and writes to those that have room again.
func (h handler) Look() {
	h.mesh.shares.Take(func(rank int) {
		if rank >= len(h.mesh.peers) {
			return
		}
		q := h.mesh.peers[rank]
		if q.armed && q.conn != nil {
			q.flush()
		}
		if q.conn != nil {
			q.read()
		}
	})
}
