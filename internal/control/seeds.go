package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/coppice-go/coppice/internal/wire"
)

// Seeds. A job that was started by hand on several hosts has several addresses at which its processes look for
// each other. Each is that of a host, where one process listens, the door, for as long as the job runs. Whoever comes there meets
// the coordinator, if it is in that process, or is told where it is.
//
// At the beginning there is none. A process of a seed's host begins to gather the others if it finds nobody who does,
// at the first seed at once, at the next ones after seedWait each. Who gathers welcomes nobody before all have come, or a
// majority within JoinTimeout: until then nothing has happened, and it gives way to another one that gathers at a seed before its own,
// or whose job has begun (yields).

// seedWait is how long a process waits for each seed before its own.
const seedWait = time.Second

// gatherEvery is how often who gathers looks after the other seeds, and tells those who wait that it is there.
const gatherEvery = 250 * time.Millisecond

// seedTry bounds a connection with a seed, but for the welcome.
const seedTry = time.Second

// Visitor is a Handler that can connect with the coordinator in a process of another host, as a part of a job. me
// says Link.
type Visitor interface {
	Visit(ctx context.Context, self Place, p Peer, me wire.Identity) (conn net.Conn, peer wire.Identity, err error)
}

// elsewhere is that the coordinator is in another process.
type elsewhere struct {
	job         [16]byte
	coordinator Identity
	peers       []Peer
}

func (e *elsewhere) Error() string {
	return fmt.Sprintf("the coordinator is in the process of rank %v", e.coordinator)
}

// ownSeed is the number of the seed that is on this host, by its name where the scheduler says that, otherwise by
// its address; −1: none is.
func ownSeed(ctx context.Context, seeds []string, node string) int {
	if node != "" {
		return slices.IndexFunc(seeds, func(seed string) bool {
			host, _, _ := net.SplitHostPort(seed)
			return host == node
		})
	}
	ctx, cancel := context.WithTimeout(ctx, 2*seedTry)
	defer cancel()
	var here []string
	addresses, _ := net.InterfaceAddrs()
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok {
			here = append(here, n.IP.String())
		}
	}
	name, _ := os.Hostname()
	return slices.IndexFunc(seeds, func(seed string) bool {
		host, _, _ := net.SplitHostPort(seed)
		if host == name {
			return true
		}
		found, _ := net.DefaultResolver.LookupHost(ctx, host) // it may come to have a name later
		return slices.ContainsFunc(found, func(a string) bool { return slices.Contains(here, a) })
	})
}

// connectSeeds tries the seeds in their order.
func (c *Client) connectSeeds(ctx context.Context, key []byte) (l *link, w Welcome, err error) {
	failed := &seedsError{place: c.place}
	for i, seed := range c.place.Seeds {
		if i == c.ownSeed {
			continue // who is there is found in the directory
		}
		var e error
		if l, w, e = c.connectTo(ctx, seed, key, seedTry); e == nil {
			return l, w, nil
		}
		var other *elsewhere
		if errors.As(e, &other) {
			if l, w, e = c.redirected(ctx, other, key); e == nil {
				return l, w, nil
			}
		}
		if final(e) {
			return nil, w, fmt.Errorf("seed %s: %w", seed, e)
		}
		failed.add(seed, e)
	}
	failed.hopeless = c.judge.hopeless(failed)
	if c.shut != nil {
		failed.add(c.place.Seeds[c.ownSeed], c.shut)
	}
	return nil, w, failed
}

// redirected connects with a coordinator of which a door has told.
func (c *Client) redirected(ctx context.Context, to *elsewhere, key []byte) (*link, Welcome, error) {
	v, ok := c.handler.(Visitor)
	if !ok {
		return nil, Welcome{}, to
	}
	i := slices.IndexFunc(to.peers, func(p Peer) bool { return p.Rank == to.coordinator.Rank() })
	if i < 0 {
		return nil, Welcome{}, to
	}
	self := c.place
	self.Job, self.Key = to.job, key
	return c.visit(ctx, v, self, to.peers[i])
}

// gather makes this process the one that the others meet at, if it is its turn and nobody else of this host is faster.
func (c *Client) gather(began time.Time) {
	if s := c.server.Load(); s != nil && s.yielded() {
		s.Close()
		c.server.Store(nil)
	}
	if c.ownSeed < 0 || c.server.Load() != nil || time.Since(began) < time.Duration(c.ownSeed)*seedWait {
		return
	}
	c.doorway.Lock()
	defer c.doorway.Unlock()
	if c.shut = c.openDoor(); c.shut != nil { // another one of this host has it, or none of the job does: then others gather
		c.log.Debug("control: the seed of this host is taken", "error", c.shut)
		return
	}
	s, err := Serve(ServerConfig{
		Dir: c.place.Dir, Job: c.place.Job, Key: c.place.Key, Size: c.place.Size, LocalSize: c.place.LocalSize, Silence: c.place.Silence,
		Settings: c.place.Settings, JoinTimeout: c.place.JoinTimeout,
		Command: strings.Join(os.Args, " "), Logger: c.log,
		shared: true, self: c.self(), seeds: c.place.Seeds, seed: c.ownSeed, gatherer: c.place,
	})
	if err != nil {
		c.log.Debug("control: another one of this host gathers", "error", err)
		return
	}
	c.server.Store(s)
	c.became = true
}

// openDoor listens at the seed of this host, if this process does not yet. c.doorway is held.
func (c *Client) openDoor() (err error) {
	if c.door == nil {
		c.door, err = listenTCP(c.place.Seeds[c.ownSeed])
	}
	return err
}

// takeDoor is where this process listens for others; nil: it does not.
func (c *Client) takeDoor() net.Listener {
	c.doorway.Lock()
	defer c.doorway.Unlock()
	if c.guides() {
		_ = c.openDoor()
	}
	return c.door
}

// closeDoor ends what takeDoor has begun.
func (c *Client) closeDoor() {
	c.doorway.Lock()
	defer c.doorway.Unlock()
	if c.door != nil {
		c.door.Close()
		c.door = nil
	}
}

// keepDoor listens at the seed of this host, as soon as nobody else does, until the client is closed: who has
// the coordinator, or knows where it is.
func (c *Client) keepDoor() {
	defer c.closeDoor()
	for {
		wait := gatherEvery / 10
		if l := c.takeDoor(); l != nil {
			stop := context.AfterFunc(c.ctx, func() { l.Close() })
			c.admitAt(l)
			stop()
			c.closeDoor()
		}
		if c.guides() {
			wait = 4 * gatherEvery
		}
		select {
		case <-c.ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// guides reports whether this process has the coordinator or knows where it is.
func (c *Client) guides() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.server.Load() != nil || len(c.known) > 0
}

// admitAt takes connections at the door until the listener is closed, or there is nothing to tell.
func (c *Client) admitAt(l net.Listener) {
	for c.guides() {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of descriptors, or the peer has gone
			time.Sleep(5 * time.Millisecond)
			continue
		}
		if s := c.server.Load(); s != nil && s.admits(conn) {
			continue
		}
		go c.direct(conn)
	}
}

// admits serves who has come to the door, unless the coordinator is closing.
func (s *Server) admits(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closing {
		s.wg.Go(func() { s.receive(conn) })
	}
	return !s.closing
}

// direct tells who has come to the door where the coordinator is.
func (c *Client) direct(conn net.Conn) {
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(handshakeMax))
	c.mu.Lock()
	holder, known, job := c.holder, c.known, c.place.Job
	c.mu.Unlock()
	if len(known) == 0 {
		return // we are looking for it ourselves
	}
	talk, binding, err := secureAccepted(conn)
	if err != nil {
		return
	}
	id, err := wire.Accept(talk, c.place.Key, binding, func(id wire.Identity) (wire.Identity, wire.Refusal) {
		return wire.Identity{Job: job, From: coordinatorID, To: id.From}, wire.Accepted
	})
	if err != nil {
		return
	}
	answer := message{Type: tellElsewhere, Peers: known, Coordinator: holder}
	if id.From == observerID {
		answer = message{Type: tellBegun}
	}
	if _, err := talk.Write(answer.line()); err == nil {
		closeWrite(talk)
	}
}

// lookAround looks after the other seeds while this coordinator gathers, and gives way if it must.
func (s *Server) lookAround() {
	ticker := time.NewTicker(gatherEvery)
	defer ticker.Stop()
	hoped := time.Now() // that others may come
	var judge seedJudge
	for {
		select {
		case <-s.quit:
			return
		case <-ticker.C:
		}
		s.mu.Lock()
		gathering := s.gathering
		if gathering {
			s.tellAll(message{Type: tellBeat})
		}
		s.mu.Unlock()
		if !gathering {
			return
		}
		failed := &seedsError{place: s.cfg.gatherer}
		for i, seed := range s.cfg.seeds {
			if i == s.cfg.seed {
				continue
			}
			begun, err := s.probe(seed)
			if err == nil && (begun || i < s.cfg.seed) && s.yield(seed) {
				return
			}
			failed.add(seed, err)
		}
		if !judge.hopeless(failed) {
			hoped = time.Now()
		}
		if time.Since(hoped) > seedPatience && s.despair(failed) {
			return
		}
	}
}

// despair ends the gathering since no other seed is of use, unless the job has begun.
func (s *Server) despair(why error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.sessions {
		if !c.member.local { // others may follow
			return false
		}
	}
	if s.gathering {
		s.disband(fmt.Sprintf("nobody of another seed has come within %v: %v", seedPatience, why))
	}
	return s.gathering
}

// disband tells those who have come that the job does not begin. s.mu is held.
func (s *Server) disband(why string) {
	s.tellAll(message{Type: tellClosing, Why: why})
	s.closing = true // until its own client has heard it, too
}

// probe asks at another seed whether a job has begun there, or somebody gathers.
func (s *Server) probe(seed string) (begun bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), seedTry)
	defer cancel()
	conn, _, err := shake(ctx, seed, s.cfg.Key, wire.Identity{From: observerID, To: coordinatorID})
	if err != nil {
		return false, err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(seedTry))
	if _, err := conn.Write(message{Type: sayProbe}.line()); err != nil {
		return false, err
	}
	m, err := readMessage(newLines(conn, sayMax))
	return m.Type == tellBegun, err
}

// yield gives way to who is at another seed, unless the job has begun here.
func (s *Server) yield(to string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.gathering {
		return false
	}
	s.log.Info("control: gives way", "to", to)
	s.closing = true
	for session := range s.sessions {
		session.raw.Close()
	}
	return true
}

// yielded reports whether the coordinator has given way.
func (s *Server) yielded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gathering && s.closing
}

// probed answers who asks whether the job has begun.
func (s *Server) probed(conn net.Conn) {
	s.mu.Lock()
	answer := message{Type: tellGathers}
	if !s.gathering {
		answer.Type = tellBegun
	}
	s.mu.Unlock()
	_, _ = conn.Write(answer.line())
}

// gathered welcomes all that have come if they are all there, or a majority and it is late. s.mu is held.
func (s *Server) gathered(late bool) {
	if !s.gathering || s.closing {
		return
	}
	came := 0
	for _, m := range s.members[:s.cfg.Size] {
		if m.joined {
			came++
		}
	}
	if came < s.cfg.Size && !late {
		return
	}
	if 2*came <= s.cfg.Size {
		s.disband(fmt.Sprintf("%d of %d have come within %v; a majority is needed", came, s.cfg.Size, s.cfg.JoinTimeout))
		return
	}
	s.gathering = false
	s.log.Info("control: gathered", "processes", came)
	for session := range s.sessions {
		s.welcome(session)
	}
}

// errTooFew is that too few processes have come.
var errTooFew = errors.New("too few processes")

// note keeps what the door tells.
func (c *Client) note() {
	if c.ownSeed < 0 {
		return
	}
	var known []Peer
	for i := range c.heir().live {
		if p := c.heard.peers[i[0]]; p.Incarnation > 0 {
			known = append(known, p)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known = known
}
