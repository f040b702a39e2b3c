package node

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/transport"
	"github.com/coppice-go/coppice/protocol"
	busy "github.com/coppice-go/coppice/test/machine"
)

// TestSignsOfLifeNeedNoConnection: where datagrams arrive, processes of different hosts connect for
// views and for collectives, but not to watch each other. If datagrams stop arriving, they connect, and
// suspect nobody.
func TestSignsOfLifeNeedNoConnection(t *testing.T) {
	t.Parallel()                                     // it waits
	for silence := 2 * time.Second; ; silence *= 2 { // longer on a machine that keeps processes waiting
		still := busy.Watch()
		suspected := signsOfLife(t, silence)
		late := still().Most
		if len(suspected) == 0 {
			return
		} else if late < silence/20 || silence > 10*time.Second {
			t.Fatalf("with a silence of %v, on a machine that kept a process waiting for %v: %q", silence, late, suspected)
		}
	}
}

// signsOfLife returns the suspicions.
func signsOfLife(t *testing.T, silence time.Duration) (suspected []string) {
	t.Helper()
	const n = 12
	var all []Address
	var ps []*Process
	witnesses := make([]witness, n)
	for r := range n {
		p, err := New(
			Config{Rank: r, Size: n, Silence: silence, Host: &witnesses[r], HostName: fmt.Sprint("host", r)},
			Socket{Job: testJob, Key: testKey, Incarnation: 1, Places: []transport.Place{place("", transport.TCP, r)}, Datagrams: true},
		)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		ps = append(ps, p)
		all = append(all, Address{Rank: r, Incarnation: 1, At: p.Endpoint().Addresses()[0], Host: fmt.Sprint("host", r)})
	}
	neighbours := make([][]protocol.Rank, n)
	for r, p := range ps {
		p.Peers(all...)
		p.engine.Lock()
		neighbours[r] = p.views.state.Neighbours()
		p.engine.Unlock()
	}
	confirmed := func(p *Process) (count int) {
		o := p.mesh.sockets.observation
		o.mu.Lock()
		defer o.mu.Unlock()
		for _, s := range o.signs {
			if s != nil && s.confirmed {
				count++
			}
		}
		return count
	}
	for late := time.Now().Add(hangTime); slices.ContainsFunc(ps, func(p *Process) bool { return confirmed(p) < 2 }); time.Sleep(silence / 16) {
		if time.Now().After(late) {
			t.Fatal("beats are not confirmed")
		}
	}
	time.Sleep(silence / 2) // the connections that they need exist by now
	for r, p := range ps {
		p.engine.Lock()
		for _, q := range p.mesh.peers {
			if q != nil && q.link != nil && q.rank != r && !slices.Contains(neighbours[r], protocol.Rank(q.rank)) && !slices.Contains(neighbours[q.rank], protocol.Rank(r)) {
				t.Errorf("process %d has a link to process %d; neighbours: %v", r, q.rank, neighbours[r])
			}
		}
		p.engine.Unlock()
	}
	for _, p := range ps { // from now on datagrams are lost
		o := p.mesh.sockets.observation
		o.mu.Lock()
		for _, s := range o.signs {
			s.at = netip.MustParseAddrPort("127.0.0.1:9")
		}
		o.mu.Unlock()
	}
	time.Sleep(3 * silence)
	for r := range ps {
		for _, said := range witnesses[r].said() {
			suspected = append(suspected, fmt.Sprintf("process %d: %s", r, said))
		}
	}
	return suspected
}

// TestNobodyConnectsForViewsBeforeAllHaveBegun: starting processes have enough to do.
func TestNobodyConnectsForViewsBeforeAllHaveBegun(t *testing.T) {
	t.Parallel() // it waits
	const n, absent = 4, 3
	var ps []*Process
	var all []Address
	for r := range n {
		p, err := New(
			Config{Rank: r, Size: n, Silence: time.Minute, Host: &witness{}, HostName: fmt.Sprint("host", r)},
			Socket{Job: testJob, Key: testKey, Incarnation: 1, Places: []transport.Place{place("", transport.TCP, r)}, Datagrams: true},
		)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		ps = append(ps, p)
		all = append(all, Address{Rank: r, Incarnation: 1, At: p.Endpoint().Addresses()[0], Host: fmt.Sprint("host", r)})
	}
	links := func() (count int) {
		for _, p := range ps {
			p.engine.Lock()
			count += len(slices.DeleteFunc(slices.Clone(p.mesh.peers), func(q *peer) bool { return q.link == nil }))
			p.engine.Unlock()
		}
		return count
	}
	for _, p := range ps {
		p.Peers(all[:absent]...)
	}
	time.Sleep(3 * time.Duration(warmAfter))
	if count := links(); count > 0 {
		t.Errorf("%d links while a process has yet to begin", count)
	}
	for _, p := range ps {
		p.Peers(all[absent])
	}
	for late := time.Now().Add(hangTime); links() < 2*(n-1); time.Sleep(10 * time.Millisecond) { // both ends count
		if time.Now().After(late) {
			t.Fatalf("%d links when all have begun; want those of a tree", links())
		}
	}
}

// TestLateHandshakesGetMoreTime: a peer whose kernel answers is only busy, so the next handshake with
// it may take twice as long. If the kernel does not answer, the process retries soon.
func TestLateHandshakesGetMoreTime(t *testing.T) {
	p, err := newProcess(Config{Rank: 0, Size: 2, Silence: 4 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	q := p.peerAt(1)
	q.way.address.Kind = transport.TLS
	for _, c := range []struct {
		tries, late  int
		reach, whole time.Duration
	}{
		{0, 0, 500 * time.Millisecond, 2500 * time.Millisecond},
		{1, 1, 625 * time.Millisecond, 4625 * time.Millisecond},
		{2, 2, 750 * time.Millisecond, 8750 * time.Millisecond},
		{4, 0, time.Second, 3 * time.Second},
		{40, 40, 5500 * time.Millisecond, 10 * time.Second},
	} {
		q.way.tries, q.way.late = c.tries, c.late
		if reach, whole := q.dialTimes(); reach != c.reach || whole != c.whole {
			t.Errorf("after %d tries, of which %d were late: %v and %v, want %v and %v", c.tries, c.late, reach, whole, c.reach, c.whole)
		}
	}
}

// TestStrangerIsAnswered: a process answers another one that it has not heard of yet, since the machine
// is busy, that it is alive.
func TestStrangerIsAnswered(t *testing.T) {
	var ps []*Process
	var witnesses [2]witness
	for r := range 2 {
		p, err := New(
			Config{Rank: r, Size: 2, Silence: 800 * time.Millisecond, Host: &witnesses[r], HostName: fmt.Sprint("host", r)},
			Socket{Job: testJob, Key: testKey, Incarnation: 1, Places: []transport.Place{place("", transport.TCP, r)}, Datagrams: true},
		)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		ps = append(ps, p)
	}
	ps[0].Peers(Address{Rank: 1, Incarnation: 1, At: ps[1].Endpoint().Addresses()[0], Host: "host1"})
	o := ps[0].mesh.sockets.observation
	for late := time.Now().Add(hangTime); ; time.Sleep(10 * time.Millisecond) {
		o.mu.Lock()
		heard := o.sign(1).reached && o.sign(1).confirmed
		o.mu.Unlock()
		if heard {
			return
		}
		if time.Now().After(late) {
			t.Fatal("process 0 does not hear process 1, which does not know it")
		}
	}
}
