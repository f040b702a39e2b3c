package node

import (
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/extent"
	"github.com/coppice-go/coppice/internal/transport"
	"github.com/coppice-go/coppice/internal/wire"
)

// Lost signs of life, one in ten or all of them, change no view and raise no suspicion: a process that
// is missed is asked, and answers.
func TestLostBeats(t *testing.T) {
	const n, silence = 4, 300 * time.Millisecond
	silences := int64(20)
	if !extent.Full() {
		silences = 6
	}
	want := silences * n * 2 // two beats a process in an eighth of the silence: at least this many silences
	for _, c := range []struct {
		name      string
		part      float64
		datagrams bool // are sent as well, to an address where nobody receives them
	}{{"one in ten", 0.1, false}, {"all", 1, false}, {"one in ten, and all datagrams", 0.1, true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			part := c.part
			j, loss := startLossy(t, n, silence, part, c.datagrams)
			for late := time.Now().Add(hangTime); loss.beats.Load() < want || loss.lost.Load() == 0; time.Sleep(silence) {
				if time.Now().After(late) {
					t.Fatalf("%d beats in %v; want %d", loss.beats.Load(), hangTime, want)
				}
			}
			for r, p := range j.ps {
				if v := p.Sight().View; v.Number != 1 {
					t.Errorf("process %d is in view %d: %v", r, v.Number, v.Members)
				}
				if s := loss.suspects(r); len(s) > 0 {
					t.Errorf("process %d suspects %q", r, s)
				}
			}
			beats, lost := loss.beats.Load(), loss.lost.Load()
			t.Logf("%d of %d beats lost", lost, beats)
			if part < 1 && lost > beats/3 {
				t.Errorf("%d of %d beats lost; want a part of %v", lost, beats, part)
			}
		})
	}
}

// lossy forwards what processes send to each other, but for some signs of life.
type lossy struct {
	part        float64 // the fraction that is lost
	beats, lost atomic.Int64
	witnesses   []*witness // of the processes; not the job's, in which no process may be suspected
}

// suspects returns the suspicions of a process.
func (l *lossy) suspects(rank int) []string {
	return l.witnesses[rank].said()
}

// startLossy makes a job whose processes reach each other through a lossy.
func startLossy(t *testing.T, n int, silence time.Duration, part float64, datagrams bool) (*job, *lossy) {
	t.Helper()
	l := &lossy{part: part}
	j := &job{t: t, kind: transport.TCP}
	var all []Address
	for r := range n {
		w := &witness{}
		p, err := New(
			Config{Rank: r, Size: n, Silence: silence, Host: w},
			Socket{Job: testJob, Key: testKey, Incarnation: 1, Places: []transport.Place{place("", transport.TCP, r)}, Datagrams: datagrams},
		)
		if err != nil {
			t.Fatal(err)
		}
		j.ps, l.witnesses = append(j.ps, p), append(l.witnesses, w)
		at := p.Endpoint().Addresses()[0]
		at.Host = l.before(t, at.Host)
		all = append(all, Address{Rank: r, Incarnation: 1, At: at})
	}
	t.Cleanup(j.close)
	for _, p := range j.ps {
		p.Peers(all...)
	}
	return j, l
}

// before listens in front of an address until the test ends.
func (l *lossy) before(t *testing.T, to netip.AddrPort) netip.AddrPort {
	t.Helper()
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var open sync.WaitGroup
	t.Cleanup(func() {
		at.Close()
		open.Wait()
	})
	open.Go(func() {
		for {
			from, err := at.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			} else if err != nil {
				continue
			}
			there, err := net.Dial("tcp", to.String())
			if err != nil {
				from.Close()
				continue
			}
			open.Go(func() { l.pass(from, there) })
			open.Go(func() { l.pass(there, from) })
		}
	})
	return at.Addr().(*net.TCPAddr).AddrPort()
}

// pass forwards bytes until either end closes. Where nothing else is sent, a sign of life comes alone.
func (l *lossy) pass(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		if l.loses(b[:n]) {
			continue
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}

func (l *lossy) loses(b []byte) bool {
	if len(b) != wire.HeaderLen {
		return false
	}
	if h, err := wire.ParseHeader(b); err != nil || h.Kind != wire.Alive || h.Length != 0 {
		return false
	}
	l.beats.Add(1)
	if rand.Float64() >= l.part {
		return false
	}
	l.lost.Add(1)
	return true
}
