package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/coppice-go/coppice/internal/detect"
	"github.com/coppice-go/coppice/internal/wire"
)

// A coordinator that is part of a process of the job dies with it, or with its host. Another process then takes
// its place. The coordinator stays on its host as long as the latest view has a member there, because there the kernel reports
// exits. When the view has none, the coordinator moves to the host of the view's lowest member. A majority has decided that view, so
// processes that are cut off with the old coordinator have no quorum, and end. On its host the process of
// the lowest rank becomes the coordinator, or the next one if that process does not serve in time. The kernel releases the lock on the directory with the
// process that held it, so a host never has two coordinators.
//
// The new coordinator knows what its own process knows. Every other process reports again, as on any
// later connection, where it listens, which view it has opened last and how far its tasks are. A process that
// died in the meantime has left its record, which is no longer locked.

// Mesh is what a client needs of its process to follow the coordinator. One goroutine calls its functions.
type Mesh struct {
	// Sight returns the latest view that the process has opened.
	Sight func() *View
	// Coordinator is called with the rank of the process that has the coordinator.
	Coordinator func(rank int)
}

// Follow makes the client use the mesh of its process from now on.
func (c *Client) Follow(m *Mesh) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mesh = m
	c.tellHolder()
}

// tellHolder tells the process which process has the coordinator. c.mu is held.
func (c *Client) tellHolder() {
	if c.mesh != nil && c.holder != (Identity{}) {
		c.mesh.Coordinator(c.holder.Rank())
	}
}

// heir is what a process knows that may take the place of a coordinator.
type heir struct {
	gone     Identity // the coordinator that it replaces
	instance uint64   // the number of that one
	how      string   // how that one ended; "": unknown
	self     Identity
	own      string  // the host of self; "": it has not announced itself
	local    bool    // the previous coordinator was on this host
	peers    []Peer  // by rank, incarnation 0: unknown
	deaths   []Death // by rank, incarnation 0: alive, as far as is known
	view     *View   // the latest that the process has opened; nil: none
}

// heir returns what this process knows of the job.
func (c *Client) heir() *heir {
	h := &heir{gone: c.coordinator, instance: c.id.Link, self: c.self(), local: c.local, peers: c.heard.peers, deaths: c.heard.deaths}
	if m := c.meshed(); m != nil {
		h.view = m.Sight()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	h.own = c.hostID
	return h
}

// meshed returns the mesh of the process; nil: there is none yet.
func (c *Client) meshed() *Mesh {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mesh
}

// host returns the host of a process. This process knows its own host, and which processes were on it, before the address book does.
func (h *heir) host(i Identity) string {
	if i == h.self || i == h.gone && h.local {
		return h.own
	}
	if int(i[0]) < len(h.peers) && h.peers[i[0]].Incarnation == i[1] {
		return h.peers[i[0]].Host
	}
	return ""
}

// here reports whether the previous coordinator was on this host.
func (h *heir) here() bool { return h.local || h.host(h.gone) == h.own }

// live yields the known processes that are in the view and not known to be dead.
func (h *heir) live(yield func(Identity) bool) {
	for r, p := range h.peers {
		i := Identity{uint64(r), p.Incarnation}
		if i[0] == h.self[0] {
			i = h.self
		}
		if i[1] > 0 && h.deaths[r].Incarnation < i[1] && (h.view == nil || h.view.Has(r, i[1])) && !yield(i) {
			return
		}
	}
}

// seat returns the host where the coordinator belongs; "": unknown.
func (h *heir) seat() (host string) {
	for i := range h.live {
		switch {
		case h.host(i) == h.host(h.gone):
			return h.host(i)
		case host == "":
			host = h.host(i)
		}
	}
	return host
}

// turn counts the processes of this host that become the coordinator before this one.
func (h *heir) turn() (n int) {
	for i := range h.live {
		if i[0] < h.self[0] && i != h.gone && h.host(i) == h.own {
			n++
		}
	}
	return n
}

// out reports whether a view has removed the process that had the coordinator.
func (h *heir) out() bool {
	return h.view != nil && h.view.Number > 1 && !h.view.Has(h.gone.Rank(), h.gone.Incarnation())
}

// inside reports whether the coordinator is part of another process of the job.
func (c *Client) inside() bool { return c.coordinator != Identity{} && c.coordinator != c.self() }

// leaveRemoved makes the client look for another coordinator when a view has removed the coordinator's process. That process may be
// stopped, and then its connection does not break.
func (c *Client) leaveRemoved() {
	for range every(c.ctx, max(c.silence/4, time.Millisecond)) {
		c.mu.Lock()
		mesh, holder := c.mesh, c.holder
		c.mu.Unlock()
		if mesh == nil || holder == (Identity{}) || holder == c.self() {
			continue
		}
		if v := mesh.Sight(); v != nil && v.Number > 1 && !v.Has(holder.Rank(), holder.Incarnation()) {
			c.mu.Lock()
			c.conn.Close()
			c.mu.Unlock()
		}
	}
}

// followMin is the least time for which a process looks for the next coordinator. The process ends earlier if no quorum is left.
const followMin = time.Minute

// follow connects to the coordinator again, or to its successor, which may be in this process.
func (c *Client) follow() (*link, error) {
	patience := max(5*c.silence, lostMin)
	if c.meshed() != nil {
		patience = max(20*c.silence, followMin)
	}
	var seat string
	var since time.Time // when the seat became what it is
	began := time.Now()
	c.log.Info("control: connection with the coordinator broken", "rank", c.coordinator.Rank())
	for wait := time.Millisecond; ; wait = min(wait*3/2, 20*time.Millisecond) {
		h := c.heir()
		if s := h.seat(); s != seat || since.IsZero() {
			seat, since = s, time.Now()
		}
		if h.out() && c.host != nil && !c.host.exited() && (time.Since(began) > departMax || detect.Inspect(c.host.pid).Stopped) {
			_ = c.host.kill() // a majority continues without it, and it holds the lock
		}
		l, err := c.find(h)
		switch {
		case err == nil && h.out() && c.coordinator == h.gone: // it still runs
			l.conn.Close()
		case err == nil:
			return l, c.resume(l)
		case errors.Is(err, wire.Excluded) || errors.Is(err, wire.ErrVersion) || c.replaced() || c.ctx.Err() != nil || time.Since(since) > patience:
			return nil, fmt.Errorf("coordinator in place of rank %d: %w", h.gone.Rank(), err)
		case seat == h.own && c.server.Load() == nil && time.Since(since) >= time.Duration(h.turn())*c.silence/4:
			c.serve(h)
		}
		pause(c.ctx, wait)
	}
}

// departMax is how long a process that is in no view any more may take to end by itself.
const departMax = 2 * time.Second

// find tries once to connect to the coordinator, wherever it may be: on this host, at the seat, and, since
// others may know better, through another process of the job.
func (c *Client) find(h *heir) (*link, error) {
	v, ok := c.handler.(Visitor)
	if !ok || c.meshed() == nil {
		ctx, cancel := context.WithTimeout(c.ctx, handshakeMax)
		defer cancel()
		l, _, err := c.connect(ctx, seedTry)
		return l, err
	}
	l, err := c.findHere()
	if err == nil || errors.Is(err, wire.Excluded) {
		return l, err
	}
	var there, others []Peer
	seat := h.seat()
	for i := range h.live {
		switch p := h.peers[i[0]]; p.Host {
		case h.own, "":
		case seat:
			there = append(there, p)
		default:
			others = append(others, p)
		}
	}
	if len(others) > 0 {
		c.looks++
		there = append(there, others[c.looks%len(others)])
	}
	for _, p := range there {
		ctx, cancel := context.WithTimeout(c.ctx, max(c.silence/8, 100*time.Millisecond))
		l, _, e := c.visit(ctx, v, c.place, p)
		cancel()
		if e == nil || errors.Is(e, wire.Excluded) {
			return l, e
		}
		err = fmt.Errorf("rank %d: %w", p.Rank, e)
	}
	return nil, err
}

// findHere tries to connect to the coordinator on this host.
func (c *Client) findHere() (*link, error) {
	ctx, cancel := context.WithTimeout(c.ctx, handshakeMax)
	defer cancel()
	l, _, err := c.connectTo(ctx, controlPath(c.place.Dir), c.place.Key, limits{})
	return l, err
}

// visit connects to the coordinator if it is in the process p of another host.
func (c *Client) visit(ctx context.Context, v Visitor, self Place, p Peer) (*link, Welcome, error) {
	conn, peer, err := v.Visit(ctx, self, p, wire.Identity{Link: c.id.Link, Life: c.id.Life})
	if err != nil {
		return nil, Welcome{}, err
	}
	l := newLink(conn, false)
	w, err := c.began(ctx, l, nil, peer.Job, peer.Link, self.Key)
	return l, w, err
}

// Visit answers a process of another host that looks for the coordinator in this process.
func (c *Client) Visit(peer wire.Identity) (me wire.Identity, verdict wire.Refusal) {
	s := c.server.Load()
	if s == nil {
		return me, wire.NotMe
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return wire.Identity{Link: s.instance}, s.verdict(peer, nil)
}

// Visited serves a process that Visit has admitted.
func (c *Client) Visited(conn net.Conn, peer wire.Identity) { c.server.Load().visited(conn, peer) }

func (s *Server) visited(conn net.Conn, peer wire.Identity) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		conn.Close()
		return
	}
	s.wg.Go(func() {
		defer conn.Close()
		if session := s.enroll(peer, nil, conn, conn); session != nil {
			s.serve(session)
		}
	})
}

// Serves sets the coordinator that is part of this process.
func (c *Client) Serves(s *Server) { c.server.Store(s) }

// serve starts a coordinator in this process, unless another process is faster.
func (c *Client) serve(h *heir) {
	w, tcp := c.welcome, ""
	if c.host != nil {
		h.how = c.host.waitFor(wordsMax)
	}
	if c.place.Coordinator != controlPath(c.place.Dir) && !c.place.seeded() && h.here() {
		tcp = c.place.Coordinator
	}
	err := c.coordinate(ServerConfig{
		Size: w.Size, Grow: w.Grow, LocalSize: w.LocalSize, Silence: w.Silence, Settings: w.Settings,
		TCP: tcp, heir: h, spread: c.place.Coordinator != controlPath(c.place.Dir),
	})
	if err != nil {
		c.log.Info("control: another one is coordinator, or will be", "error", err)
	}
}

// self returns the identity of this process.
func (c *Client) self() Identity { return Identity{uint64(c.place.Rank), c.place.Incarnation} }

// succeed begins with what the heir knows. s.mu is held.
func (s *Server) succeed(h *heir) {
	s.begun = true
	for rank, m := range s.members[:min(len(s.members), len(h.peers))] {
		p, d := h.peers[rank], h.deaths[rank]
		if d.Incarnation > 0 {
			m.incarnation, m.death, m.obituary, m.diedAt = d.Incarnation, &d, d.message().line(), time.Now()
			s.ending.Died(m.identity().member())
		}
		if p.Incarnation > d.Incarnation {
			m = s.renew(rank, p.Incarnation)
			m.peer, m.local = &p, p.Host == h.own
			s.ending.Joined(m.identity().member()) // it may have been admitted since
			s.book.add(p)
		}
	}
	if h.view != nil {
		s.install(h.view)
		s.ending.Viewed(h.view.decided())
		for _, i := range h.view.Gone { // also lives that no view has had that this coordinator knows of
			if life := s.life(i); life != nil && !life.removed {
				life.removed, life.removedAt = true, time.Now()
			}
			s.noteBegun(i.Rank())
		}
	}
	for _, i := range cmp.Or(s.view, s.firstView(0)).Members { // of the death of its own earlier life, or of one whose next life it knows, a process need not have heard
		if i[0] < uint64(len(s.members)) && i[1] < s.members[i[0]].incarnation {
			s.ending.Died(i.member())
		}
	}
	if m := s.life(h.gone); m != nil && m.death == nil && h.here() { // this process holds its lock
		m.incarnation, m.joined, m.local = h.gone.Incarnation(), true, true
		s.die(m, Death{Certain: true, How: cmp.Or(h.how, exited)})
	}
	s.bury()
}

// bury reports the processes of this host that have died since the previous coordinator was lost.
func (s *Server) bury() {
	if s.cfg.heir == nil {
		return
	}
	for _, m := range s.members {
		if m.local && !m.joined && m.death == nil && Ended(s.cfg.Dir, m.rank, m.incarnation) {
			s.die(m, Death{Certain: true, How: exited})
		}
	}
}
