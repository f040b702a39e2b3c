package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
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
//
// While the job runs, those who come again ask at the seeds, too. If nobody is there who knows, since all of a seed's
// processes have died, they gather; so a coordinator whose job lacks processes looks after the seeds, and tells those who
// gather there where the job is (recall).

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

// findDoor finds out which seed is on this host, and has this process listen there. A host may come to have its name a while
// after its processes have begun: with Kubernetes it is so.
func (c *Client) findDoor(ctx context.Context) {
	if c.place.Seeds == nil || c.ownSeed >= 0 || time.Since(c.searched) < gatherEvery {
		return
	}
	if c.ownSeed = ownSeed(ctx, c.place.Seeds, c.place.Node); c.ownSeed >= 0 {
		c.wg.Go(c.keepDoor)
	}
	c.searched = time.Now()
}

// ownSeed is the number of the seed that is this host; −1: none is, as far as is known. Where the scheduler says what it
// calls the host, that is the name to look for. Otherwise it is a seed that has the host's name, or
// begins with it and no other seed does, or an address of the host.
func ownSeed(ctx context.Context, seeds []string, node string) int {
	if node != "" {
		return slices.IndexFunc(seeds, func(seed string) bool {
			host, _, _ := net.SplitHostPort(seed)
			return host == node
		})
	}
	ctx, cancel := context.WithTimeout(ctx, 2*seedTry)
	defer cancel()
	name, _ := os.Hostname()
	var named []int
	for i, seed := range seeds {
		host, _, _ := net.SplitHostPort(seed)
		if host == name {
			return i
		}
		if strings.HasPrefix(host, name+".") && name != "" {
			named = append(named, i)
		}
	}
	if len(named) == 1 {
		return named[0]
	}
	var here []string
	addresses, _ := net.InterfaceAddrs()
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok {
			here = append(here, n.IP.String())
		}
	}
	return slices.IndexFunc(seeds, func(seed string) bool {
		host, _, _ := net.SplitHostPort(seed)
		found, _ := net.DefaultResolver.LookupHost(ctx, host) // it may come to have a name later
		return slices.ContainsFunc(found, func(a string) bool { return slices.Contains(here, canonical(a)) })
	})
}

// canonical is an address as Go writes it, without a zone: fd00:0::2 and fd00::2 are the same.
func canonical(address string) string {
	a, err := netip.ParseAddr(address)
	if err != nil {
		return address
	}
	return a.Unmap().WithZone("").String()
}

// connectSeeds tries the seeds in their order.
func (c *Client) connectSeeds(ctx context.Context, key []byte) (l *link, w Welcome, err error) {
	failed := &seedsError{place: c.place}
	if to := c.recall(); to != nil {
		if l, w, err = c.redirected(ctx, to, key); err == nil {
			return l, w, nil
		}
		c.recalled(nil) // it has moved, or is gone
	}
	for i, seed := range c.place.Seeds {
		var e error
		if i == c.ownSeed {
			e = c.askOwnSeed(ctx, key)
		} else if l, w, e = c.connectTo(ctx, seed, key, seedTry); e == nil {
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
		if i != c.ownSeed { // what is wrong there c.shut says
			failed.add(seed, e)
		}
	}
	failed.hopeless = c.judge.hopeless(failed)
	if c.shut != nil {
		failed.add(c.place.Seeds[c.ownSeed], c.shut)
	}
	return nil, w, failed
}

// askOwnSeed asks who listens at the seed of this host where the coordinator is. One on this host is not connected with there: it is
// found in the directory, and sees more of who comes that way.
func (c *Client) askOwnSeed(ctx context.Context, key []byte) error {
	if c.server.Load() != nil {
		return nil // it is we who are there
	}
	m, job, err := probe(ctx, c.place.Seeds[c.ownSeed], key, seedTry)
	if err == nil && len(m.Peers) > 0 {
		err = &elsewhere{job, m.Coordinator, m.Peers}
	}
	return err
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
	ctx, cancel := context.WithTimeout(ctx, 2*seedTry)
	defer cancel()
	return c.visit(ctx, v, self, to.peers[i])
}

// stopGathering ends the coordinator of this process if that has given way: it holds the directory, in which this process
// may have to take the place of the other one some day.
func (c *Client) stopGathering() {
	if s := c.server.Load(); s != nil && s.yielded() {
		s.Close()
		c.server.Store(nil)
	}
}

// gather makes this process the one that the others meet at, if it is its turn and nobody else of this host is faster.
func (c *Client) gather(began time.Time) {
	c.stopGathering()
	if c.ownSeed < 0 || c.server.Load() != nil || c.recall() != nil || time.Since(began) < time.Duration(c.ownSeed)*seedWait {
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
		shared: true, self: Identity{uint64(c.place.Rank), max(c.place.Incarnation, 1)}, seeds: c.place.Seeds, seed: c.ownSeed,
		gatherer: c.place, recalled: c.recalled,
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

// recalled keeps what a coordinator has said of where it is, which the door tells others; nil: that is not true any more.
func (c *Client) recalled(to *elsewhere) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known, c.holder = nil, Identity{}
	if to != nil {
		c.known, c.holder, c.place.Job = to.peers, to.coordinator, to.job
	}
}

// recall is what recalled keeps; nil: nothing.
func (c *Client) recall() *elsewhere {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) == 0 || c.id.Link != 0 { // or it has joined
		return nil
	}
	return &elsewhere{c.place.Job, c.holder, c.known}
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
		answer.Type = tellBegun
	}
	if _, err := talk.Write(answer.line()); err == nil {
		closeWrite(talk)
	}
}

// lookAround looks after the other seeds: while this coordinator gathers, it gives way if it must; later it tells those who
// gather there where it is.
func (s *Server) lookAround() {
	ticker := time.NewTicker(gatherEvery)
	defer ticker.Stop()
	hoped := time.Now() // that others may come
	var judge seedJudge
	ctx, cancel := context.WithCancel(context.Background())
	s.wg.Go(func() {
		<-s.quit
		cancel()
	})
	try := seedTry // twice as long each time, while nobody is found: names, networks and hosts may be slow
	for turn := 0; ; turn++ {
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
			if turn%recallEvery == 0 {
				s.recall()
			}
			continue
		}
		failed := &seedsError{place: s.cfg.gatherer}
		for i, seed := range s.cfg.seeds {
			if i == s.cfg.seed {
				continue
			}
			m, _, err := probe(ctx, seed, s.cfg.Key, try)
			if err == nil && (m.Type == tellBegun || i < s.cfg.seed) && s.yield(seed) {
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
		try = min(2*try, handshakeMax)
	}
}

// recallEvery is how many times gatherEvery lie between two looks of a coordinator whose job runs.
const recallEvery = 4

// recall tells who gathers at another seed where this coordinator is, if processes are missing.
func (s *Server) recall() {
	s.mu.Lock()
	missing := slices.ContainsFunc(s.members[:s.cfg.Size], func(m *member) bool { return m.death != nil || !m.joined })
	self := s.members[s.cfg.self.Rank()]
	if !missing || s.finished || s.closing || self.peer == nil {
		s.mu.Unlock()
		return
	}
	line := message{Type: sayRecall, Job: s.cfg.Job[:], Coordinator: s.cfg.self, Peers: []Peer{*self.peer}}.line()
	s.mu.Unlock()
	for i, seed := range s.cfg.seeds {
		if i == s.cfg.seed {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), seedTry)
		if conn, _, err := shake(ctx, seed, s.cfg.Key, wire.Identity{From: observerID, To: coordinatorID}); err == nil {
			conn.SetDeadline(time.Now().Add(seedTry))
			_, _ = conn.Write(line) // if it has gone, it comes again
			conn.Close()
		}
		cancel()
	}
}

// recalled gives way to the coordinator of a job that has begun, unless this one has.
func (s *Server) recalled(m message) {
	to := &elsewhere{coordinator: m.Coordinator, peers: m.Peers}
	if copy(to.job[:], m.Job) != len(to.job) || s.cfg.recalled == nil || len(m.Peers) != 1 || m.Peers[0].Rank != m.Coordinator.Rank() {
		return
	}
	if s.yield(fmt.Sprintf("the coordinator in the process of rank %v", m.Coordinator)) {
		s.cfg.recalled(to)
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

// probe asks at a seed whether a job has begun there, or somebody gathers, for as long as try. Who knows where the coordinator of
// its job is tells that, too.
func probe(ctx context.Context, seed string, key []byte, try time.Duration) (m message, job [16]byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, try)
	defer cancel()
	conn, peer, err := shake(ctx, seed, key, wire.Identity{From: observerID, To: coordinatorID})
	if err != nil {
		return m, job, err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(seedTry))
	if _, err = conn.Write(message{Type: sayProbe}.line()); err != nil {
		return m, job, err
	}
	m, err = readMessage(newLines(conn, tellMax))
	return m, peer.Job, err
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
