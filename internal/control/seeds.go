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
// each other. Each is the address of a host, where one process listens as long as the job runs; this listener is the door. A process that
// connects to a door meets the coordinator, if that is in the same process, or learns where the coordinator is. With a rendezvous (rendezvous.go)
// each process has its own door, and the seeds are the first registered doors.
//
// At the beginning there is no coordinator. A process of a seed's host begins to gather the others if it finds no process that does,
// at the first seed at once, at each later seed after another seedWait. The gathering process welcomes no process before all have joined, or a
// majority within JoinTimeout. Until then nothing has happened, and it gives way to a process that gathers at a seed before its own,
// or whose job has begun (yields).
//
// While the job runs, processes that are started again ask at the seeds, too. If all processes of the seeds' hosts have died, no process
// there knows of the job, and the new processes gather. Therefore a coordinator whose job lacks processes checks the seeds, and tells processes that
// gather there where the job is (recall).

// seedWait is how long a process waits for each seed before its own.
const seedWait = time.Second

// gatherEvery is how often the gathering process checks the other seeds, and tells waiting processes that it is alive.
const gatherEvery = 250 * time.Millisecond

// seedTry bounds a connection to a seed, except for the welcome.
const seedTry = time.Second

// Visitor is a Handler that can connect to the coordinator in a process of another host, as a part of a job. me
// contains the Link.
type Visitor interface {
	Visit(ctx context.Context, self Place, p Peer, me wire.Identity) (conn net.Conn, peer wire.Identity, err error)
}

// seedList says where the processes of a job look for each other, in the order in which they gather.
type seedList struct {
	at   []string
	here []bool // whether the listener there is on this host
	own  int    // the seed where this process may listen; −1: none
}

// seeds returns the seeds of the job: those that the user listed, or the registered doors.
func (c *Client) seeds() seedList {
	if c.meet == nil {
		list := seedList{at: c.place.Seeds, here: make([]bool, len(c.place.Seeds)), own: c.ownSeed}
		if list.own >= 0 {
			list.here[list.own] = true
		}
		return list
	}
	list := seedList{own: -1}
	for i, d := range c.meet.Doors() {
		list.at, list.here = append(list.at, d.Address), append(list.here, d.Own || d.Host == c.place.HostID)
		if d.Own {
			list.own = i
		}
	}
	return list
}

// seedSource returns how a coordinator of this process learns of the seeds; nil: there are none.
func (c *Client) seedSource() func() seedList {
	switch {
	case !c.place.seeded():
		return nil
	case c.meet != nil:
		return c.seeds
	}
	list := c.seeds()
	return func() seedList { return list }
}

// elsewhere is the error that the coordinator is in another process.
type elsewhere struct {
	job         [16]byte
	coordinator Identity
	peers       []Peer
}

func (e *elsewhere) Error() string {
	return fmt.Sprintf("the coordinator is in the process of rank %v", e.coordinator)
}

// findDoor finds out which seed is on this host, and starts to listen there. A host may get its name a while
// after its processes have started: on Kubernetes it does.
func (c *Client) findDoor(ctx context.Context) {
	if c.place.Seeds == nil || c.ownSeed >= 0 || time.Since(c.searched) < gatherEvery {
		return
	}
	if c.ownSeed = ownSeed(ctx, c.place.Seeds, c.place.Node); c.ownSeed >= 0 {
		c.wg.Go(c.keepDoor)
	}
	c.searched = time.Now()
}

// ownSeed returns the index of the seed that is this host; −1: none is, as far as is known. If the scheduler names
// the host, ownSeed looks for that name. Otherwise it returns the seed that equals the host's name, or
// the only seed that begins with it, or an address of the host.
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
		found, _ := net.DefaultResolver.LookupHost(ctx, host) // the name may become known later
		return slices.ContainsFunc(found, func(a string) bool { return slices.Contains(here, canonical(a)) })
	})
}

// canonical returns an address as Go writes it, without a zone: fd00:0::2 and fd00::2 are the same.
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
		c.recalled(nil) // the coordinator has moved, or is gone
	}
	seeds := c.seeds()
	for i, seed := range seeds.at {
		var e error
		if seeds.here[i] {
			e = c.askHere(ctx, seed, i == seeds.own, key)
		} else if l, w, e = c.connectTo(ctx, seed, key, limits{shake: seedTry}); e == nil {
			return l, w, nil
		}
		var other *elsewhere
		if errors.As(e, &other) {
			if l, w, e = c.redirected(ctx, other, key); e == nil {
				return l, w, nil
			}
			c.begun = time.Now()
			if errors.Is(e, wire.Crossed) {
				c.taken = seed
			}
		}
		if final(e) {
			return nil, w, fmt.Errorf("seed %s: %w", seed, e)
		}
		if !seeds.here[i] { // c.shut says what is wrong on this host
			failed.add(seed, e)
		}
	}
	failed.hopeless = c.judge.hopeless(failed)
	if c.shut != nil {
		failed.add(seeds.at[seeds.own], c.shut)
	}
	return nil, w, failed
}

// askHere asks the listener at a seed of this host where the coordinator is. It does not connect there to a coordinator on this host:
// the client finds that one in the directory, and a coordinator sees more of a process that connects that way.
func (c *Client) askHere(ctx context.Context, seed string, own bool, key []byte) error {
	if c.server.Load() != nil || own && c.meet != nil {
		return nil // this process listens there itself
	}
	m, job, err := probe(ctx, seed, key, seedTry)
	if err == nil && len(m.Peers) > 0 {
		err = &elsewhere{job, m.Coordinator, m.Peers}
	}
	return err
}

// redirected connects to a coordinator that a door has named.
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

// stopGathering closes the coordinator of this process if that has given way: it holds the directory, in which this process
// may later have to replace the other coordinator.
func (c *Client) stopGathering() {
	if s := c.server.Load(); s != nil && s.yielded() {
		s.Close()
		c.server.Store(nil)
	}
}

// begunPause is how long a process does not gather after it has heard that a job has begun.
const begunPause = 4 * gatherEvery

// gather makes this process the coordinator that gathers the others, if it is its turn and no other process of this host is faster. If a job
// has begun, and its coordinator is not found, its processes are about to replace the coordinator. They may need the directory, which a gathering process would hold.
func (c *Client) gather(began time.Time) {
	c.stopGathering()
	if time.Since(c.begun) < begunPause {
		return
	}
	own := c.seeds().own
	if own < 0 || c.server.Load() != nil || c.recall() != nil || time.Since(began) < time.Duration(own)*seedWait {
		return
	}
	c.doorway.Lock()
	defer c.doorway.Unlock()
	if c.shut = c.openDoor(); c.shut != nil { // another process of this host listens there, or another program does: then other hosts gather
		c.log.Debug("control: the seed of this host is taken", "error", c.shut)
		return
	}
	err := c.coordinate(ServerConfig{
		Size: c.place.Size, Grow: c.place.Grow, LocalSize: c.place.LocalSize, Silence: c.place.Silence, Settings: c.place.Settings,
		gatherer: c.place, recalled: c.recalled, tellUnnamed: c.tellUnnamed,
	})
	if errors.Is(err, errTaken) {
		c.log.Debug("control: another one of this host gathers", "error", err)
	} else if err != nil {
		c.shut = err
	}
}

// coordinate starts a coordinator in this process. cfg need not contain what the place says.
func (c *Client) coordinate(cfg ServerConfig) error {
	cfg.Dir, cfg.Job, cfg.Key, cfg.JoinTimeout = c.place.Dir, c.place.Job, c.place.Key, c.place.JoinTimeout
	cfg.Command, cfg.Logger = strings.Join(os.Args, " "), c.log
	cfg.shared, cfg.self, cfg.seeds = true, Identity{uint64(c.place.Rank), max(c.place.Incarnation, 1)}, c.seedSource()
	s, err := Serve(cfg)
	if err == nil {
		c.server.Store(s)
		c.became = true
	}
	return err
}

// openDoor listens at the seed of this host, unless this process already does. c.doorway is held.
func (c *Client) openDoor() (err error) {
	if c.door == nil {
		c.door, err = listenTCP(c.place.Seeds[c.ownSeed])
	}
	return err
}

// takeDoor returns the listener of this process for others; nil: there is none.
func (c *Client) takeDoor() net.Listener {
	c.doorway.Lock()
	defer c.doorway.Unlock()
	if c.guides() {
		_ = c.openDoor()
	}
	return c.door
}

// closeDoor closes the listener that takeDoor has opened.
func (c *Client) closeDoor() {
	c.doorway.Lock()
	defer c.doorway.Unlock()
	if c.door != nil {
		c.door.Close()
		c.door = nil
	}
}

// keepDoor listens at the seed of this host, as soon as no other process does, until the client is closed. It does so while this process has
// the coordinator or knows where it is.
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
		if !pause(c.ctx, wait) {
			return
		}
	}
}

// recalled keeps what a coordinator has said about its place, which the door tells others; nil: that is no longer true.
func (c *Client) recalled(to *elsewhere) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known, c.holder = nil, Identity{}
	if to != nil {
		c.known, c.holder, c.place.Job = to.peers, to.coordinator, to.job
	}
}

// recall returns what recalled keeps; nil: nothing.
func (c *Client) recall() *elsewhere {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) == 0 || c.id.Link != 0 { // or this process has joined
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

// admitAt accepts connections at the door until the listener is closed, or there is nothing to tell. A process's own door stays
// open, so that a process that connects too early is turned away at once, not when its time is up.
func (c *Client) admitAt(l net.Listener) {
	for c.meet != nil || c.guides() {
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

// admits serves a connection to the door, unless the coordinator is closing.
func (s *Server) admits(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closing {
		s.wg.Go(func() { s.receive(conn) })
	}
	return !s.closing
}

// direct tells the process at the other end of a connection to the door where the coordinator is.
func (c *Client) direct(conn net.Conn) {
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(handshakeMax))
	c.mu.Lock()
	holder, known, job := c.holder, c.known, c.place.Job
	c.mu.Unlock()
	if len(known) == 0 {
		return // this process is looking for the coordinator itself
	}
	talk, binding, err := secure(conn, wire.Server)
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

// lookAround checks the other seeds: while this coordinator gathers, it gives way if it must; later it tells processes that
// gather there where it is.
func (s *Server) lookAround() {
	hoped := time.Now() // when there was last hope that other processes join
	var judge seedJudge
	try := seedTry // doubled each time while no process is found: names, networks and hosts may be slow
	turns := 0     // since the job began
	for range every(s.ctx, gatherEvery) {
		s.mu.Lock()
		gathering := s.gathering
		if gathering {
			s.tellAll(message{Type: tellBeat})
		}
		s.mu.Unlock()
		if !gathering {
			if turns%recallEvery == 0 {
				s.recall()
			}
			turns++
			continue
		}
		failed := &seedsError{place: s.cfg.gatherer}
		seeds := s.cfg.seeds()
		for i, seed := range seeds.at {
			if seeds.here[i] {
				continue
			}
			m, _, err := probe(s.ctx, seed, s.cfg.Key, try)
			if err == nil && (m.Type == tellBegun || i < seeds.own || seeds.own < 0) && s.yield(seed) {
				return
			}
			failed.add(seed, err)
		}
		names := unnamed(failed, "")
		s.mu.Lock()
		s.unnamed = names
		s.mu.Unlock()
		s.cfg.tellUnnamed(names, s.began, s.cfg.JoinTimeout)
		if !judge.hopeless(failed) {
			hoped = time.Now()
		}
		if time.Since(hoped) > seedPatience && s.despair(failed) {
			return
		}
		try = min(2*try, handshakeMax)
	}
}

// recallEvery is the number of intervals of gatherEvery between two checks by a coordinator whose job runs.
const recallEvery = 4

// recall tells processes that gather at other seeds where this coordinator is, if processes are missing.
func (s *Server) recall() {
	s.mu.Lock()
	missing := slices.ContainsFunc(s.members[:s.cfg.Size], func(m *member) bool { return m.death != nil || !m.joined })
	self := s.members[s.cfg.self.Rank()]
	if !missing || s.finished || s.closing || self.peer == nil {
		s.mu.Unlock()
		return
	}
	where := message{Type: sayRecall, Job: s.cfg.Job[:], Coordinator: s.cfg.self, Peers: []Peer{*self.peer}}
	s.mu.Unlock()
	seeds := s.cfg.seeds()
	for i, seed := range seeds.at {
		if seeds.here[i] {
			continue
		}
		ctx, cancel := context.WithTimeout(s.ctx, seedTry)
		if conn, _, err := speak(ctx, seed, s.cfg.Key, where); err == nil { // a process that does not hear it asks again
			conn.Close()
		}
		cancel()
	}
}

// recalled gives way to the coordinator of a job that has begun, unless this coordinator's job has.
func (s *Server) recalled(m message) {
	to := &elsewhere{coordinator: m.Coordinator, peers: m.Peers}
	if copy(to.job[:], m.Job) != len(to.job) || s.cfg.recalled == nil || len(m.Peers) != 1 || m.Peers[0].Rank != m.Coordinator.Rank() {
		return
	}
	if s.yield(fmt.Sprintf("the coordinator in the process of rank %v", m.Coordinator)) {
		s.cfg.recalled(to)
	}
}

// despair ends the gathering because no other seed is usable, unless the job has begun.
func (s *Server) despair(why error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.sessions {
		if !c.member.local { // more may follow from that host
			return false
		}
	}
	if s.gathering {
		s.disband(fmt.Sprintf("nobody of another seed has come within %v: %v", seedPatience, why))
	}
	return s.gathering
}

// disband tells the processes that have joined that the job does not begin. s.mu is held.
func (s *Server) disband(why string) {
	s.tellAll(message{Type: tellClosing, Why: why})
	s.closing = true // until its own client has received it, too
}

// probe asks at a seed, for at most try, whether a job has begun there or a process gathers. A process that knows where the coordinator of
// its job is says so in the answer.
func probe(ctx context.Context, seed string, key []byte, try time.Duration) (m message, job [16]byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, try)
	defer cancel()
	conn, peer, err := speak(ctx, seed, key, message{Type: sayProbe})
	if err != nil {
		return m, job, err
	}
	defer conn.Close()
	conn.SetReadDeadline(time.Now().Add(seedTry))
	m, err = readMessage(newLines(conn, tellMax))
	return m, peer.Job, err
}

// yield gives way to the process at another seed, unless the job has begun here.
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

// probed answers a probe: has the job begun?
func (s *Server) probed(conn net.Conn) {
	s.mu.Lock()
	answer := message{Type: tellGathers}
	if !s.gathering {
		answer.Type = tellBegun
	}
	s.mu.Unlock()
	_, _ = conn.Write(answer.line())
}

// gathered welcomes the processes that have joined if all have, or if a majority has and it is late. s.mu is held.
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
		why := fmt.Sprintf("%d of %d have come within %v; a majority is needed", came, s.cfg.Size, s.cfg.JoinTimeout)
		if len(s.unnamed) > 0 {
			why += fmt.Sprintf("; process %d, which waited for them, cannot resolve %s", s.cfg.gatherer.Rank, strings.Join(s.unnamed, ", "))
		}
		s.disband(why)
		return
	}
	s.gathering = false
	for _, m := range s.members {
		if m.joined { // from now on it beats
			m.heard = time.Now()
		}
	}
	s.log.Info("control: gathered", "processes", came)
	for session := range s.sessions {
		s.welcome(session)
	}
}

// errTooFew is the error that too few processes have joined.
var errTooFew = errors.New("too few processes")

// note updates what the door tells.
func (c *Client) note() {
	if c.ownSeed < 0 && c.meet == nil {
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
