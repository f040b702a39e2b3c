package control

import (
	"errors"
	"slices"
)

// heard is what the handler has been notified of: the latest for each rank.
type heard struct {
	peers    []Peer     // incarnation 0: none
	deaths   []Death    // incarnation 0: none
	returned []standing // the zero value: it has not
	finished bool
	stopped  bool
}

// standing is how a process has returned.
type standing struct {
	returned bool
	turn     int // how often it had resumed
	failure  string
}

var errClosing = errors.New("the coordinator has ended")

// hear passes on what the coordinator says, once.
func (c *Client) hear(m message) error {
	if c.isClosing() {
		return nil
	}
	h := &c.heard
	if !h.reach(m.Rank) {
		return nil
	}
	switch m.Type {
	case tellPeers:
		peers, ok := ungroup(m.Groups)
		if !ok {
			c.log.Warn("control: bad groups of peers")
			return nil
		}
		if fresh := h.fresh(peers); len(fresh) > 0 {
			c.handler.Peers(fresh)
			c.note()
		}
	case tellDied:
		d := Death{Rank: m.Rank, Incarnation: m.Incarnation, Certain: m.Certain, How: m.Why, Record: m.Record}
		if h.newDeath(d) && (d.Rank != c.place.Rank || d.Incarnation >= c.place.Incarnation) {
			c.handler.Died(d)
			c.note()
		}
	case tellAlive:
		c.handler.Alive(m.Rank)
	case tellSpared:
		c.log.Warn("control: the coordinator refuses to kill a suspect", "rank", m.Rank, "incarnation", m.Incarnation, "why", m.Why)
	case tellHears:
		c.handler.HeardOf(m.Rank, m.Hears, m.Silence)
	case tellReturned:
		var fresh []int
		for _, rank := range m.Ranks {
			now := standing{true, m.Turn, m.Why}
			if h.reach(rank) && rank != c.place.Rank && h.returned[rank] != now {
				h.returned[rank] = now
				fresh = append(fresh, rank)
			}
		}
		if len(fresh) > 0 {
			c.handler.PeersReturned(fresh, m.Incarnation, m.Why)
		}
	case tellOver:
		if m.Known {
			c.noteEnd()
			c.handler.AllKnow()
		}
		c.hearOver(m.View, m.Known)
	case tellFinished:
		if !h.finished {
			h.finished = true
			if m.Why == "" {
				c.noteEnd()
			}
			c.handler.Finished(m.View, m.Why)
		}
	case tellStop:
		if !h.stopped {
			h.stopped = true
			c.handler.Stop(m.Why)
		}
	case tellStates:
		c.state(m.Turn)
	case tellPaged:
		signal(c.paged)
	case tellKeep:
		signal(c.gone)
	case tellClosing:
		return errClosing
	}
	return nil
}

// hearOver records that the job was over in a view, and whether all processes know it, and reports that to this coordinator and to its successors.
func (c *Client) hearOver(view uint64, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end.Hear(view, known)
	c.sayOver()
}

// sayOver reports what this process knows of the job's end. c.mu is held.
func (c *Client) sayOver() {
	c.say(message{Type: sayOver, View: c.end.Over(), Known: c.end.Sure() > 0}.line())
}

// Sure returns the view in which the job was over if this process knows that all processes know it, otherwise 0. If it is not 0, the process
// ends successfully even without a quorum or a coordinator.
func (c *Client) Sure() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.end.Sure()
}

// Over returns the view in which the job was over, as far as this process knows; 0: the job was not over.
func (c *Client) Over() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.end.Over()
}

// reach makes room for a rank, if it is valid: a job may grow.
func (h *heard) reach(rank int) bool {
	if rank < 0 || rank >= SizeMax {
		return false
	}
	if more := rank + 1 - len(h.peers); more > 0 {
		h.peers = append(h.peers, make([]Peer, more)...)
		h.deaths = append(h.deaths, make([]Death, more)...)
		h.returned = append(h.returned, make([]standing, more)...)
	}
	return true
}

// fresh returns the peers that are new.
func (h *heard) fresh(peers []Peer) (fresh []Peer) {
	for _, p := range peers {
		if !h.reach(p.Rank) {
			continue
		}
		d, old := h.deaths[p.Rank], h.peers[p.Rank]
		dead := d.Certain && p.Incarnation <= d.Incarnation
		again := p.Incarnation == old.Incarnation && p.Host == old.Host && slices.Equal(p.Addresses, old.Addresses)
		if dead || again || p.Incarnation < old.Incarnation {
			continue
		}
		h.peers[p.Rank] = p
		fresh = append(fresh, p)
	}
	return fresh
}

// newDeath reports whether a death is new: of a later incarnation, or certain
// where it was not.
func (h *heard) newDeath(d Death) bool {
	old := h.deaths[d.Rank]
	if d.Incarnation < old.Incarnation || d.Incarnation == old.Incarnation && (old.Certain || !d.Certain) {
		return false
	}
	h.deaths[d.Rank] = d
	h.returned[d.Rank] = standing{} // its next incarnation may return too
	return true
}
