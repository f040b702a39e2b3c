package node

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/transport"
	"github.com/coppice-go/coppice/internal/wire"
)

// supply holds connections, with both ends of each, for processes made by hand.
type supply struct {
	here, there *transport.Endpoint
	at          transport.Address
	got         chan *transport.Conn
	a, b        *transport.Conn // the two ends of the current connection
}

func newSupply(t testing.TB, kind string) *supply {
	t.Helper()
	s := &supply{got: make(chan *transport.Conn, 1)}
	listen := func(rank uint32, places ...transport.Place) *transport.Endpoint {
		e, err := transport.Listen(transport.Config{
			Key: testKey, Self: wire.Identity{Job: testJob, From: rank, Incarnation: 1},
			Decide:      func(wire.Identity) (wire.Identity, wire.Refusal) { return wire.Identity{}, wire.Accepted },
			Established: func(c *transport.Conn) { s.got <- c },
		}, places...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { e.Close() })
		return e
	}
	dir, err := os.MkdirTemp("", "rt")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s.here, s.there = listen(0, place(dir, kind, 0)), listen(1)
	s.at = s.here.Addresses()[0]
	return s
}

// conn returns this end of an unused connection.
func (s *supply) conn(t testing.TB) *transport.Conn {
	t.Helper()
	if s.a == nil {
		var err error
		if s.b, err = s.there.Dial(context.Background(), s.at, wire.Identity{To: 0}, 0); err != nil {
			t.Fatal(err)
		}
		s.a = <-s.got
	}
	return s.a
}

// drain throws away what was sent to the other end.
func (s *supply) drain() {
	var trash [64 << 10]byte
	for {
		if n, err := s.b.Read(trash[:]); err != nil || n < len(trash) {
			return
		}
	}
}

// byHand returns process 0 of 3, which no goroutine drives.
func byHand(t testing.TB) *Process {
	t.Helper()
	p, err := newProcess(Config{Rank: 0, Size: 3, Host: &witness{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.engine.Poll(); err != nil {
		t.Fatal(err)
	}
	p.mesh.peers[0].local = p
	return p
}

// another returns a second connection besides the current one.
func (s *supply) another(t testing.TB) (a, b *transport.Conn) {
	t.Helper()
	had, hadB := s.a, s.b
	s.a, s.b = nil, nil
	a, b = s.conn(t), s.b
	s.a, s.b = had, hadB
	return a, b
}

// The end of a large message may end the connection, since it causes others to be sent. The process
// then discards the rest of what it read, and does not take it for the beginning of what the next
// connection brings.
func TestMessageEndsItsConnection(t *testing.T) {
	s, p := newSupply(t, transport.Unix), byHand(t)
	defer p.engine.Stop()
	p.engine.Lock()
	defer p.engine.Unlock()
	q := p.mesh.peers[1]
	q.attach(s.conn(t))
	defer s.b.Close()
	x := &intruder{next: 1}
	first := letter(func(e *envelope) { e.plan.op, e.size = opSend, 10 })
	if err := q.parse(x.frame(wire.Data, 1, first, []byte("12345"))); err != nil {
		t.Fatal(err)
	}
	ended := false
	q.parts[1].arrived = func() {
		ended = true
		q.broken(errCut)
	}
	part := x.frame(wire.Part, 1, []byte("67890"))
	next := x.frame(wire.Data, 0, first, []byte("1234567890"))
	if err := q.parse(append(part, next[:50]...)); err != nil {
		t.Fatal(err)
	}
	if !ended || len(q.partial) > 0 || q.toCome > 0 || q.into != nil {
		t.Errorf("ended %v; %d bytes are left for the next connection", ended, len(q.partial))
	}
}

// If an attempt to connect fails because the peer's own connection was faster, the process does not
// conclude that there is no connection.
func TestOursFailsAfterTheirsCame(t *testing.T) {
	s, p := newSupply(t, transport.Unix), byHand(t)
	defer p.engine.Stop()
	p.engine.Lock()
	defer p.engine.Unlock()
	q := p.mesh.peers[1]
	q.attach(s.conn(t))
	defer s.b.Close()
	q.retry(0)
	if q.way.down != 0 || q.way.pausing {
		t.Errorf("with a connection: %+v", q.way)
	}
	q.broken(errCut)
	q.retry(0)
	if q.way.down == 0 || !q.way.pausing {
		t.Errorf("without one: %+v", q.way)
	}
}

// A connection that was accepted long ago and handed over late does not replace a newer one.
func TestLateConnectionIsNotTaken(t *testing.T) {
	s, p := newSupply(t, transport.Unix), byHand(t)
	defer p.engine.Stop()
	late, other := s.another(t)
	defer other.Close()
	p.engine.Lock()
	q := p.mesh.peers[1]
	newer := s.conn(t)
	q.attach(newer)
	defer s.b.Close()
	p.engine.Unlock()
	p.established(late)
	p.engine.Lock()
	defer p.engine.Unlock()
	if q.conn != newer {
		t.Error("the late connection was taken")
	}
	if late.Fd() >= 0 {
		t.Error("the late connection is open")
	}
	q.disconnect()
}

// Messages sent before there was a connection go out once.
func TestFirstBeatGoesOutOnce(t *testing.T) {
	s, p := newSupply(t, transport.Unix), byHand(t)
	defer p.engine.Stop()
	p.engine.Lock()
	defer p.engine.Unlock()
	q := p.mesh.peers[1]
	q.beat()
	q.attach(s.conn(t))
	defer s.b.Close()
	defer q.disconnect()
	var b [4096]byte
	n, err := s.b.Read(b[:])
	if err != nil || n != wire.HeaderLen+envelopeLen {
		t.Errorf("%d bytes, %v; want one frame of %d", n, err, wire.HeaderLen+envelopeLen)
	}
}

// Credit for more than was sent counts as credit for what was sent.
func TestCreditBeyondWhatWasSent(t *testing.T) {
	for _, kind := range allKinds {
		j := start(t, kind, 2, nil)
		m := j.ps[0].World(0)
		m.p.engine.Lock()
		m.streamOut(1, 0).credited(m, 1, 1<<63)
		m.ahead.credited(m, 1, 1<<64-1, false)
		m.p.engine.Unlock()
		ctx := patienceOf(t, 20*time.Second)
		plan := mustPlan(t, "binomial", "none")
		j.each(func(m *Member) error {
			if err := exchange(ctx, m, []int{1, 2, 3}, 1); err != nil {
				return err
			}
			for i := range 2 * aheadMax {
				if err := broadcasts1(ctx, m, plan, i%2, 8, 1); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// The poller does not see what a connection has buffered, so a read leaves none of it.
func TestReadLeavesNothingBuffered(t *testing.T) {
	s, p := newSupply(t, transport.TLS), byHand(t)
	defer p.engine.Stop()
	p.engine.Lock()
	defer p.engine.Unlock()
	q := p.mesh.peers[1]
	q.attach(s.conn(t))
	defer s.b.Close()
	defer q.disconnect()
	const frames = 4 * readsMax
	x := &intruder{next: 1}
	for range frames { // each in a record of its own
		b := x.frame(wire.Data, 0, letter(func(e *envelope) { e.plan.op, e.seq = opSend, x.next }))
		if n, err := s.b.Write([][]byte{b}); err != nil || n != len(b) {
			t.Fatal(n, err)
		}
	}
	for end := time.Now().Add(20 * time.Second); q.link.Arrived() < frames && time.Now().Before(end); {
		q.read()
		if q.conn == nil {
			t.Fatal("the connection has ended")
		}
		if q.conn.Buffered() {
			t.Fatalf("after %d frames some are buffered", q.link.Arrived())
		}
	}
	if got := q.link.Arrived(); got != frames {
		t.Errorf("%d frames arrived, want %d", got, frames)
	}
}

// A restarted process listens where its previous incarnation did. It turns away a peer that means the
// previous one: the connection could not be resumed, and the peer would be suspected.
func TestWhoMeansTheLifeBeforeIsTurnedAway(t *testing.T) {
	p := byHand(t)
	defer p.engine.Stop()
	p.cfg.Incarnation = 2
	for life, want := range map[uint64]wire.Refusal{1: wire.NotMe, 2: wire.Accepted} {
		if _, verdict := p.decide(wire.Identity{From: 1, Incarnation: 1, Life: life}); verdict != want {
			t.Errorf("life %d: %v; want: %v", life, verdict, want)
		}
	}
	p.reborn(1, 1)
	if id := p.peerAt(1).identity(); id.Life != 1 {
		t.Errorf("%+v", id)
	}
}
