package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/coppice-go/coppice/internal/wire"
)

// A coordinator that is part of a process of the job dies with it. Another process takes its place: of
// those that live in the latest view the one of the lowest rank, or the next if that one does not in
// time. The kernel ends the lock on the directory with the process that held it, so there is never a second
// one on a host. The new coordinator knows what its own process knows; each of the others says again, as on any
// further connection, where it listens, which view it has opened last and what its tasks have come to. Who
// died meanwhile has left its record, which nobody locks any more.

// heir is what a process knows that takes the place of a coordinator.
type heir struct {
	gone   Identity // whose place it takes
	how    string   // that one ended
	peers  []Peer   // by rank, incarnation 0: unknown
	deaths []Death  // the same
	view   *View    // the latest that the process has opened; nil: none
	host   string   // the process's own
}

// Sight has f called when the client needs to know the latest view that this process has opened.
func (c *Client) Sight(f func() *View) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sight = f
}

// outlives reports whether the job goes on without the coordinator, which was lost with an error: it was
// that of another process, on this host.
func (c *Client) outlives(local bool, err error) bool {
	return c.coordinator != Identity{} && c.coordinator != c.self() && local &&
		!errors.Is(err, wire.Excluded) && !c.replaced() && !c.isClosing()
}

// follow connects with the coordinator that takes the place of the one that is gone, which may
// be this process's own.
func (c *Client) follow() (*link, error) {
	patience := max(5*c.silence, lostMin)
	ctx, cancel := context.WithTimeout(c.ctx, patience)
	defer cancel()
	h := c.heir()
	turn := time.Now().Add(time.Duration(h.before(c.place.Rank)) * c.silence / 4)
	c.log.Info("control: coordinator lost; the next is looked for", "rank", h.gone.Rank())
	for wait := time.Millisecond; ; wait = min(wait*3/2, 20*time.Millisecond) {
		l, _, err := c.connect(ctx, handshakeMax)
		switch {
		case err == nil:
			return l, c.resume(l)
		case final(err) || c.replaced() || ctx.Err() != nil:
			return nil, fmt.Errorf("coordinator in place of rank %d: %w", h.gone.Rank(), err)
		case c.server == nil && !time.Now().Before(turn):
			c.serve(h)
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// heir is what this process knows of the job.
func (c *Client) heir() *heir {
	h := &heir{gone: c.coordinator, peers: c.heard.peers, deaths: c.heard.deaths, host: c.heard.peers[c.place.Rank].Host}
	c.mu.Lock()
	sight := c.sight
	c.mu.Unlock()
	if sight != nil {
		h.view = sight()
	}
	return h
}

// before counts the processes that come before one as coordinators, as far as is known.
func (h *heir) before(rank int) (n int) {
	for r, p := range h.peers[:rank] {
		if i := (Identity{uint64(r), p.Incarnation}); i != h.gone && h.lives(i) {
			n++
		}
	}
	return n
}

// lives reports whether a process is in the view, and not known to be dead.
func (h *heir) lives(i Identity) bool {
	return i[1] > 0 && h.deaths[i[0]].Incarnation < i[1] && (h.view == nil || h.view.Has(i.Rank(), i[1]))
}

// serve makes this process's the coordinator, unless another one is faster.
func (c *Client) serve(h *heir) {
	w, tcp := c.welcome, ""
	if h.how == "" && c.host != nil {
		h.how = c.host.waitFor(wordsMax)
	}
	if c.place.Coordinator != controlPath(c.place.Dir) {
		tcp = c.place.Coordinator
	}
	s, err := Serve(ServerConfig{
		Dir: c.place.Dir, Job: c.place.Job, Key: c.place.Key, Size: w.Size, Grow: w.Grow, LocalSize: w.LocalSize,
		Settings: w.Settings, Silence: w.Silence, JoinTimeout: max(5*w.Silence, lostMin),
		Command: strings.Join(os.Args, " "), Logger: c.log,
		TCP: tcp, shared: true, self: c.self(), heir: h,
	})
	if err != nil {
		c.log.Info("control: another one is coordinator, or will be", "error", err)
		return
	}
	c.server = s
}

// self is this process.
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
			m.peer, m.local = &p, p.Host == h.host
			s.book.add(p)
		}
	}
	if h.view != nil {
		s.install(h.view)
		s.ending.Viewed(h.view.decided())
	}
	if m := s.life(h.gone); m != nil && m.death == nil { // we hold its lock
		m.incarnation, m.joined, m.local = h.gone.Incarnation(), true, true
		s.die(m, Death{Certain: true, How: cmp.Or(h.how, exited)})
	}
	s.bury()
}

// bury finds the processes of this host that have died since the coordinator before was gone.
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
