package node

import (
	"cmp"
	"fmt"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
)

// The lives of processes. A rank may have several, one after the other, told apart by their
// incarnations: what is said of one is not true of the next, and the next may be known before
// the end of the one before.

// Death is the end of a process, as somebody tells of it.
type Death struct {
	Rank        int
	Incarnation uint64 // 0: the one that is known
	Certain     bool   // the kernel says so; otherwise it is a suspicion
	How         string
	Record      []byte // of a certain death: what the process recorded last
}

// peerAt returns the process of a rank, also one that is not known yet.
func (p *Process) peerAt(rank int) *peer {
	for len(p.mesh.peers) <= rank {
		p.mesh.peers = append(p.mesh.peers, newPeer(p, len(p.mesh.peers), 0))
	}
	return p.mesh.peers[rank]
}

// reborn makes room for the next life of a process.
func (p *Process) reborn(rank int, incarnation uint64) *peer {
	q := p.peerAt(rank)
	switch {
	case q.incarnation >= incarnation || rank == p.cfg.Rank:
	case q.incarnation == 0 && !q.dead && !p.outlived(rank, incarnation):
		q.incarnation = incarnation
	default:
		p.died(rank, true, "its place was taken by its next life")
		p.mesh.peers[rank] = newPeer(p, rank, incarnation)
		q = p.mesh.peers[rank]
		q.early = p.outlived(rank, incarnation)
	}
	return q
}

// outlived tells whether an earlier life of a process is in the view that is open.
func (p *Process) outlived(rank int, incarnation uint64) bool {
	m, in := p.view().Find(protocol.Rank(rank))
	return in && uint64(m.Incarnation) < incarnation
}

// otherLife reports whether another life of a process is in the view that is open: an earlier one, or, if
// the message was held, a later one.
func (p *Process) otherLife(q *peer) bool {
	m, in := p.view().Find(protocol.Rank(q.rank))
	return in && q.incarnation != 0 && uint64(m.Incarnation) != q.incarnation
}

// mute reports whether a message of a kind is not for the peer: it is dead, or has ended, or is
// not the life that the message is for.
func (q *peer) mute(op uint8) bool {
	return q.dead || q.left || (q.early || q.gone) && op != opView && op != opBeat
}

// meet takes note of who has come with a view, and who is not in it any more.
func (p *Process) meet(before, v *membership.View) {
	for r, q := range p.mesh.peers {
		m, in := v.Find(protocol.Rank(r))
		switch {
		case r == p.cfg.Rank:
		case in && !before.Has(m):
			p.welcome(r, m)
		case !in && !q.dead && uint64(v.Last(protocol.Rank(r))) >= max(q.incarnation, 1):
			if before.Leaves(protocol.Rank(r)) { // it has to hear of the view
				p.letGo(q)
				break
			}
			if p.replays() {
				p.died(r, true, fmt.Sprintf("view %d goes on without it", v.Number))
				break
			}
			// If it is dead, whoever saw it will say how; if not, it is out all the same.
			if p.cfg.Host != nil && !p.engine.Background() {
				go p.cfg.Host.Ask(r)
			}
			p.engine.At(p.engine.Now()+nameTime, func() {
				if p.mesh.peers[r] == q {
					p.died(r, true, fmt.Sprintf("view %d goes on without it", v.Number))
				}
			})
		}
	}
}

// welcome takes note of a process that has joined.
func (p *Process) welcome(rank int, m membership.Member) {
	q := p.reborn(rank, uint64(m.Incarnation))
	q.early = false
	p.knowPeer(q)
}

// Tell is told of a death.
func (p *Process) Tell(d Death) {
	p.engine.Lock()
	defer p.engine.Unlock()
	earlier := d.Incarnation != 0 && d.Incarnation < p.peerAt(d.Rank).incarnation
	switch {
	case !d.Certain:
		p.viewSuspect(d.Rank, d.Incarnation)
		return
	case earlier: // its next life is here already; the views may not know of its death
		p.viewDeath(d.Rank, d.Incarnation, d.Record, true)
		return
	}
	switch q := p.mesh.peers[d.Rank]; { // what it still said
	case q.local != nil:
		p.takeMail()
	case !q.dead && q.conn != nil:
		for q.read() {
		}
	}
	p.viewDeath(d.Rank, d.Incarnation, d.Record, true)
	p.roster.Named(d.Rank, d.How)
	p.died(d.Rank, true, d.How)
}

// viewDeath tells the machine of a certain death. What the dead recorded is known,
// unless willed is false.
func (p *Process) viewDeath(rank int, incarnation uint64, record []byte, willed bool) {
	v := &p.views
	q := p.peerAt(rank)
	if q.left || p.engine.Stopped() {
		return
	}
	p.cfg.Logger.Info("dead", "peer", rank)
	life := cmp.Or(uint32(incarnation), q.life().Incarnation)
	will, err := membership.Message{Letter: &membership.Letter{}}, error(nil)
	if len(record) > 0 {
		will, err = membership.Decode(record)
	}
	switch {
	case err != nil:
		p.cfg.Logger.Error("bad record", "peer", rank, "error", err)
	case willed:
		l := *will.Letter
		l.Kind = membership.Will
		v.state.Receive(p.viewNow(), protocol.Rank(rank), membership.Message{Letter: &l, From: life})
	}
	p.notifyViews(protocol.Notice{Kind: protocol.Death, Rank: protocol.Rank(rank), Value: uint64(life)})
}

// viewSuspect tells the machine of a suspicion.
func (p *Process) viewSuspect(rank int, incarnation uint64) {
	life := cmp.Or(incarnation, uint64(p.peerAt(rank).life().Incarnation))
	p.notifyViews(protocol.Notice{Kind: protocol.Suspect, Rank: protocol.Rank(rank), Value: life})
}

// viewHeard tells the machine that a suspect is alive.
func (p *Process) viewHeard(q *peer) {
	p.views.state.Heard(p.viewNow(), q.life())
	p.stepViews()
}
