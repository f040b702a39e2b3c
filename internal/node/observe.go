package node

import (
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coppice-go/coppice/internal/detect"
	"github.com/coppice-go/coppice/internal/transport"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/suspicion"
)

// observation carries out what package suspicion decides: it gives signs of life and
// notices who gives none. It has a lock and goroutines of its own, so that neither a
// long step under the process's lock nor a link that is stuck keeps a process from being
// heard. The process's lock may be held when this one is taken, never the other way
// round.
//
// Signs of life travel in three ways. Processes of one host count beats in a page of
// shared memory (detect.Page), and the kernel is asked about one that does not. To other
// hosts they are datagrams, for which nothing is ever sent again. Where neither is to
// be had, or the other side does not confirm datagrams, they are frames on the link. Only then is a connection made for them: hundreds of
// processes that doubt each other, since the machine is busy, must not give it more to do.
type observation struct {
	p     *Process
	began time.Time
	page  *detect.Page      // nil: there is none
	udp   *detect.Datagrams // nil: there are none

	mu      sync.Mutex
	machine *suspicion.Observer
	signs   []*sign        // by rank
	hosts   map[string]int // numbers, from 1
	linking atomic.Bool    // a goroutine is at work on links
	quit    chan struct{}
	ended   sync.WaitGroup
}

// sign is what is known of how a process gives signs of life.
type sign struct {
	fresh     atomic.Bool // something came on the link since the last look
	life      uint64
	host      int
	here      bool            // on this host, and it beats in the page
	at        netip.AddrPort  // where it takes datagrams; not valid: nowhere
	sent      protocol.Time   // the first to it; 0: none
	confirmed bool            // it has got one
	reached   bool            // one of its has come
	number    uint64          // of the last
	beats     uint64          // in the page, when last looked at
	activity  detect.Activity // the same
}

// observe begins the process's part in watching the others.
func (p *Process) observe(s Socket) *observation {
	server := suspicion.Coordinator
	if p.cfg.Host == nil {
		server = -1
	}
	o := &observation{
		p: p, began: p.engine.Began(), page: s.Page,
		machine: suspicion.NewObserver(protocol.Rank(p.cfg.Rank), p.cfg.Size, protocol.Time(p.cfg.Silence), server, 0),
		hosts:   map[string]int{}, quit: make(chan struct{}),
	}
	if s.Datagrams {
		o.openDatagrams(s)
	}
	if s.Page != nil { // before anybody knows of this process: whoever finds no beat there expects messages
		s.Page.Beat(p.cfg.Rank, p.cfg.Incarnation)
	}
	o.know(p.cfg.Rank, p.cfg.HostName, p.cfg.Incarnation, netip.AddrPort{})
	return o
}

// openDatagrams opens the socket for datagrams: beside the one for connections, under the
// same number, so that whoever knows the one knows the other. Without it signs of life
// go over links.
func (o *observation) openDatagrams(s Socket) {
	for _, a := range o.p.mesh.sockets.endpoint.Addresses() {
		if !a.Host.IsValid() {
			continue
		}
		at := netip.AddrPortFrom(netip.Addr{}, a.Host.Port()) // all interfaces
		if a.Host.Addr().IsLoopback() || slices.ContainsFunc(s.Places, func(p transport.Place) bool { return p.Net.IsValid() }) {
			at = a.Host
		}
		var err error
		if o.udp, err = detect.ListenDatagrams(at, s.Job, s.Key, o.p.cfg.Rank, s.Incarnation); err != nil {
			o.udp = nil
			o.p.cfg.Logger.Info("no datagrams", "error", err)
		}
		return
	}
}

// run starts the goroutines.
func (o *observation) run() {
	o.ended.Go(o.tickOn)
	if o.udp != nil {
		o.ended.Go(o.receive)
	}
}

// close ends them. The process's lock is not held.
func (o *observation) close() {
	close(o.quit)
	if o.udp != nil {
		_ = o.udp.Close()
	}
	o.ended.Wait()
}

func (o *observation) now() protocol.Time { return protocol.Time(time.Since(o.began)) }

// sign returns that of a rank, which may not be known yet. o.mu is held.
func (o *observation) sign(rank int) *sign {
	if rank < len(o.signs) && o.signs[rank] != nil {
		return o.signs[rank]
	}
	return &sign{}
}

// know says that a process has begun, on which host it is, and where it takes datagrams.
func (o *observation) know(rank int, host string, life uint64, at netip.AddrPort) *sign {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.hosts[host] == 0 {
		o.hosts[host] = len(o.hosts) + 1
	}
	for len(o.signs) <= rank {
		o.signs = append(o.signs, nil)
	}
	s := o.signs[rank]
	if s == nil || s.life != life {
		s = &sign{life: life}
		o.signs[rank] = s
	}
	s.host = o.hosts[host]
	if o.page != nil && host == o.p.cfg.HostName {
		_, pid := o.page.Beats(rank, life)
		s.here = pid != 0
	}
	s.at = at
	o.machine.Know(protocol.Rank(rank), s.host, o.now())
	return s
}

// tell tells the machine something, and carries out what it wants then; nil: there is no observer.
func (o *observation) tell(what func(m *suspicion.Observer, now protocol.Time) []suspicion.Effect) {
	if o == nil {
		return
	}
	o.mu.Lock()
	effects := what(o.machine, o.now())
	o.mu.Unlock()
	o.carryOut(effects)
}

// gone says that a process is dead, was evicted or has left.
func (o *observation) gone(rank int) {
	o.tell(func(m *suspicion.Observer, now protocol.Time) []suspicion.Effect {
		m.Gone(protocol.Rank(rank), now)
		return nil
	})
}

// heard is a sign of life that came in another way.
func (o *observation) heard(rank int) {
	o.tell(func(m *suspicion.Observer, now protocol.Time) []suspicion.Effect {
		return m.Heard(protocol.Rank(rank), now)
	})
}

// take takes a message.
func (o *observation) take(from protocol.Rank, msg suspicion.Message) {
	o.tell(func(m *suspicion.Observer, now protocol.Time) []suspicion.Effect { return m.Receive(from, msg, now) })
}

// tickOn ticks until the end.
func (o *observation) tickOn() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-o.quit:
			return
		case <-timer.C:
		}
		timer.Reset(o.tick())
	}
}

// tick does what is due, and returns how long there is nothing more to do.
func (o *observation) tick() time.Duration {
	if o.page != nil {
		o.page.Beat(o.p.cfg.Rank, o.p.cfg.Incarnation)
	}
	o.mu.Lock()
	now := o.now()
	var effects []suspicion.Effect
	for r, s := range o.signs {
		if s != nil && o.look(s, r) {
			effects = append(effects, o.machine.Heard(protocol.Rank(r), now)...)
		}
	}
	more, next := o.machine.Tick(now)
	o.mu.Unlock()
	o.carryOut(append(effects, more...))
	return time.Duration(next - o.now())
}

// look reports whether a process has given a sign of life since the last look.
func (o *observation) look(s *sign, rank int) bool {
	heard := s.fresh.Load() && s.fresh.Swap(false)
	if s.here {
		beats, _ := o.page.Beats(rank, s.life)
		heard = heard || beats != s.beats
		s.beats = beats
	}
	return heard
}

// carryOut does what the machine wants done.
func (o *observation) carryOut(effects []suspicion.Effect) {
	var links []onLink
	for len(effects) > 0 {
		e := effects[0]
		effects = effects[1:]
		switch {
		case e.Act == suspicion.Suspected:
			go o.p.suspectSilent(int(e.Rank), e.Why)
		case e.Act == suspicion.Cleared:
			go o.p.cleared(int(e.Rank))
		case e.Rank == suspicion.Coordinator:
			life := o.lifeOf(int(e.Msg.Of))
			go o.p.cfg.Host.Hears(int(e.Msg.Of), life)
		default:
			heard, over := o.send(e)
			effects = append(effects, heard...)
			if over != noLink {
				links = append(links, onLink{e, over})
			}
		}
	}
	if len(links) > 0 && o.linking.CompareAndSwap(false, true) {
		go o.onLinks(links)
	}
}

// onLink is a message that goes over the link.
type onLink struct {
	suspicion.Effect
	over linkUse
}

// linkUse says whether a message goes over the link.
type linkUse uint8

const (
	noLink   linkUse = iota
	ifLinked         // if there is a connection
	linked           // and if there is none, one is made
)

func (o *observation) lifeOf(rank int) uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.sign(rank).life
}

// observedKind marks a message of an observer on a link: its kind and its flags follow.
const observedKind = 1 << 6

// Flags of a message, and of a datagram.
const (
	flagDeaf = 1 << iota
	flagHears
	flagReached // the sender has got a datagram of the receiver
	flagConfirm // the sender asks for such a datagram
)

// send sends a message in a datagram, and reports whether it goes over the link, too. A sign of life to a process
// of this host needs not be sent: whether it lives shows.
func (o *observation) send(e suspicion.Effect) (heard []suspicion.Effect, over linkUse) {
	o.mu.Lock()
	s := o.sign(int(e.Rank))
	if s.here && (e.Msg.Kind == suspicion.Ping || e.Msg.Kind == suspicion.Beat || e.Msg.Kind == suspicion.Pong) {
		defer o.mu.Unlock()
		if e.Msg.Kind == suspicion.Ping && o.atWork(s, int(e.Rank)) {
			heard = o.machine.Heard(e.Rank, o.now())
		}
		return heard, noLink
	}
	if o.udp == nil || !s.at.IsValid() {
		o.mu.Unlock()
		return nil, linked
	}
	now := o.now()
	if s.sent == 0 {
		s.sent = now
	}
	at, life, confirmed, reached := s.at, s.life, s.confirmed, s.reached
	silence := protocol.Time(o.p.cfg.Silence)
	switch {
	case !confirmed && now-s.sent >= silence/4, e.Msg.Kind == suspicion.Ping && e.Msg.Tried >= silence*3/4: // datagrams may be blocked, from the beginning or of late
		over = linked
	case e.Msg.Kind != suspicion.Beat:
		over = ifLinked
	}
	o.mu.Unlock()
	o.udp.Send(at, detect.Datagram{
		To: uint32(e.Rank), ToLife: uint32(life), Kind: uint8(e.Msg.Kind), Of: uint32(e.Msg.Of), Time: uint64(e.Msg.Tried),
		Flags: said(e.Msg) | flag(flagReached, reached) | flag(flagConfirm, !confirmed),
	})
	return nil, over
}

// said are the flags of a message.
func said(m suspicion.Message) uint8 { return flag(flagDeaf, m.Deaf) | flag(flagHears, m.Hears) }

func flag(f uint8, on bool) uint8 {
	if on {
		return f
	}
	return 0
}

// atWork reports whether a process of this host is alive: it has beaten, or the kernel
// says that it works.
func (o *observation) atWork(s *sign, rank int) bool {
	if o.look(s, rank) {
		return true
	}
	_, pid := o.page.Beats(rank, s.life)
	before := s.activity
	s.activity = detect.Inspect(pid)
	return s.activity.Working(before)
}

// receive takes datagrams until the socket is closed.
func (o *observation) receive() {
	for {
		d, from, err := o.udp.Receive()
		if err != nil {
			return
		}
		o.mu.Lock()
		s := o.sign(int(d.From))
		stranger := s.life == 0
		fresh := s.life != 0 && s.life == uint64(d.Life) && d.Number > s.number
		if fresh {
			s.number, s.reached = d.Number, true
			s.confirmed = s.confirmed || d.Flags&flagReached != 0
		}
		o.mu.Unlock()
		if stranger && d.Flags&flagConfirm != 0 {
			// Its sender is of this job, and has heard of this process before this one has heard of it.
			o.udp.Send(from, detect.Datagram{To: d.From, ToLife: d.Life, Kind: uint8(suspicion.Pong), Flags: flagReached})
		}
		if fresh {
			o.take(protocol.Rank(d.From), suspicion.Message{
				Kind: suspicion.Kind(d.Kind), Of: protocol.Rank(d.Of), Tried: protocol.Time(d.Time),
				Deaf: d.Flags&flagDeaf != 0, Hears: d.Flags&flagHears != 0,
			})
			if d.Flags&(flagConfirm|flagDeaf) == flagConfirm && d.Kind != uint8(suspicion.Ping) { // a Ping is answered anyway
				o.carryOut([]suspicion.Effect{{Act: suspicion.Send, Rank: protocol.Rank(d.From), Msg: suspicion.Message{Kind: suspicion.Pong}}})
			}
		}
	}
}

// onLinks sends messages over links.
func (o *observation) onLinks(list []onLink) {
	defer o.linking.Store(false)
	p := o.p
	p.engine.Lock()
	defer p.engine.Unlock()
	for _, e := range list {
		if p.engine.Stopped() {
			return
		}
		q := p.peerAt(int(e.Rank))
		switch {
		case q.conn == nil && e.over == ifLinked:
		case e.Msg.Kind == suspicion.Beat && !e.Msg.Deaf:
			q.beat()
		case q.conn != nil || q.link == nil:
			q.observed(e.Msg)
		}
	}
}

// observed sends a message of the observer over the link.
func (q *peer) observed(m suspicion.Message) {
	if q.dead || q.left || q.local != nil {
		return
	}
	q.tell(envelope{plan: Plan{op: opBeat}, kind: observedKind | uint8(m.Kind)<<2 | said(m), extra: uint64(uint32(m.Of)), seq: uint64(m.Tried)})
}

// observedBy takes a message of an observer from a link. What comes on it is a sign of life by
// itself, unless the sender is deaf.
func (p *Process) observedBy(in *incoming) {
	if in.kind&observedKind == 0 {
		return
	}
	m := suspicion.Message{
		Kind: suspicion.Kind(in.kind >> 2 & 15), Of: protocol.Rank(uint32(in.extra)), Tried: protocol.Time(in.seq),
		Deaf: in.kind&flagDeaf != 0, Hears: in.kind&flagHears != 0,
	}
	if m.Deaf && in.source.sign != nil {
		in.source.sign.fresh.Store(false)
	}
	go p.observation().take(protocol.Rank(in.source.rank), m)
}

// beat gives a peer a sign of life on its link.
func (q *peer) beat() {
	if q.dead || q.left || q.local != nil {
		return
	}
	if q.conn == nil {
		if q.link == nil {
			q.tell(envelope{plan: Plan{op: opBeat}})
		}
		q.connect()
		return
	}
	q.out = append(q.out, q.link.Alive())
	q.flush()
}

// knowPeer has a peer watched: from the beginning, or from the view that lets it in.
func (p *Process) knowPeer(q *peer) {
	if p.mesh.sockets == nil || q.dead || q.left || !q.way.known {
		return
	}
	if m, in := p.view().Find(protocol.Rank(q.rank)); in && uint64(m.Incarnation) == q.incarnation {
		q.sign = p.mesh.sockets.observation.know(q.rank, q.host, q.incarnation, q.way.address.Host)
	}
}

// suspectSilent reports a peer that is silent.
func (p *Process) suspectSilent(rank int, why string) {
	p.engine.Lock()
	defer p.engine.Unlock()
	if !p.engine.Stopped() {
		p.suspect(p.peerAt(rank), why)
	}
}

// cleared takes note that a suspect was heard again.
func (p *Process) cleared(rank int) {
	p.engine.Lock()
	defer p.engine.Unlock()
	if q := p.peerAt(rank); !q.dead && !p.engine.Stopped() {
		q.way.suspected = false
		p.viewHeard(q)
	}
}

// Coordinator tells that the coordinator is part of a process.
func (p *Process) Coordinator(rank int) {
	p.observation().tell(func(m *suspicion.Observer, _ protocol.Time) []suspicion.Effect {
		m.Serve(protocol.Rank(rank))
		return nil
	})
}

// HeardOf is told whether the coordinator hears a process, or for how long it has not.
func (p *Process) HeardOf(rank int, hears bool, silent time.Duration) {
	p.observation().take(suspicion.Coordinator, suspicion.Message{Kind: suspicion.Answer, Of: protocol.Rank(rank), Hears: hears, Tried: protocol.Time(silent)})
}

// Doubt is told by another detector that a process is silent.
func (p *Process) Doubt(rank int) {
	p.observation().tell(func(m *suspicion.Observer, now protocol.Time) []suspicion.Effect {
		m.Doubt(protocol.Rank(rank), now-protocol.Time(p.cfg.Silence), now)
		return nil
	})
}

// observation is the process's; nil: it needs none.
func (p *Process) observation() *observation {
	if p.mesh.sockets == nil {
		return nil
	}
	return p.mesh.sockets.observation
}

// doubtLinks tells the observer to whom links are of no use for a while.
func (p *Process) doubtLinks() {
	if p.mesh.sockets == nil || !p.someDown() {
		return
	}
	up := 0
	var down []suspicion.Link
	for _, q := range p.mesh.peers {
		switch {
		case q.dead || q.left:
		case q.way.down != 0:
			down = append(down, suspicion.Link{Rank: protocol.Rank(q.rank), Since: q.way.down})
		case q.conn != nil:
			up++
		}
	}
	p.observation().tell(func(m *suspicion.Observer, now protocol.Time) []suspicion.Effect { return m.Unlinked(down, up, now) })
}
