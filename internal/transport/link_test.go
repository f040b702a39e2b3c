//go:build unix

package transport_test

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/coppice-go/coppice/internal/transport"
	"github.com/coppice-go/coppice/internal/wire"

	"pgregory.net/rapid"
)

// end is one process of a pair whose connection breaks again and again.
type end struct {
	link    *transport.Link
	flying  [][]byte // frames written, not read by the peer
	sent    uint64   // payloads so far
	got     uint64   // payloads handed on so far
	waiting bool     // wanted to send and had no room
}

func (e *end) write(f transport.Frame) {
	e.flying = append(e.flying, slices.Concat(f.Head, f.Rest))
}

// send sends the next payload, its number.
func (e *end) send(extra int) {
	if e.waiting = !e.link.Room(8 + extra); e.waiting {
		return
	}
	e.sent++
	head := e.link.Head(8)
	binary.LittleEndian.PutUint64(head[wire.HeaderLen:], e.sent)
	e.write(e.link.Send(wire.Data, 7, head, make([]byte, extra)))
}

// read takes the oldest frame that the peer wrote.
func (e *end) read(t *rapid.T, peer *end) {
	if len(peer.flying) == 0 {
		return
	}
	b := peer.flying[0]
	peer.flying = peer.flying[1:]
	h, err := wire.ParseHeader(b)
	if err != nil {
		t.Fatal(err)
	}
	fresh, err := e.link.Arrive(h)
	if err != nil {
		t.Fatal(err)
	}
	if fresh {
		e.got++
		if n := binary.LittleEndian.Uint64(b[wire.HeaderLen:]); n != e.got {
			t.Fatalf("payload %d arrives as number %d", n, e.got)
		}
	}
	if e.link.Owes() {
		e.write(e.link.Alive())
	}
}

// reconnect makes a new connection after the old one, with all that was on it,
// is gone.
func reconnect(t *rapid.T, a, b *end) {
	for e, peer := range map[*end]*end{a: b, b: a} {
		e.flying = nil
		again, err := e.link.Resume(peer.link.Arrived())
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range again {
			e.write(e.link.Stamp(f))
		}
	}
}

// TestNothingIsLostDoubledOrReordered cuts the connection at random moments.
func TestNothingIsLostDoubledOrReordered(t *testing.T) {
	cuts, payloads := 0, uint64(0)
	rapid.Check(t, func(t *rapid.T) {
		room := rapid.SampledFrom([]int{100, 1000, 100_000}).Draw(t, "room")
		a, b := &end{link: transport.NewLink(room)}, &end{link: transport.NewLink(room)}
		ends := [2][2]*end{{a, b}, {b, a}}
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			e := ends[rapid.IntRange(0, 1).Draw(t, "who")]
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				reconnect(t, a, b)
				cuts++
			case 1, 2, 3, 4:
				e[0].send(rapid.IntRange(0, 200).Draw(t, "extra"))
			default:
				e[0].read(t, e[1])
			}
		}
		settle(t, a, b)
		payloads += a.sent + b.sent
	})
	t.Logf("%d cuts, %d payloads", cuts, payloads)
}

// settle lets everything arrive: nobody is left waiting for room.
func settle(t *rapid.T, a, b *end) {
	for range 10_000 {
		if len(a.flying)+len(b.flying) == 0 && a.link.Settled() && b.link.Settled() {
			break
		}
		a.read(t, b)
		b.read(t, a)
		if len(a.flying)+len(b.flying) == 0 { // a timer would do this
			a.write(a.link.Alive())
			b.write(b.link.Alive())
		}
	}
	if a.got != b.sent || b.got != a.sent || !a.link.Settled() || !b.link.Settled() {
		t.Fatalf("of %d and %d payloads %d and %d arrived", a.sent, b.sent, b.got, a.got)
	}
}

func number(f transport.Frame) uint64 {
	h, _ := wire.ParseHeader(f.Head)
	return h.Number
}

func TestRoomIsBounded(t *testing.T) {
	l := transport.NewLink(10_000)
	n := 0
	for l.Room(100) {
		l.Send(wire.Data, 0, l.Head(100), nil)
		n++
	}
	if n < 50 || n > 100 {
		t.Errorf("%d frames of 100 bytes in 10,000", n)
	}
	// An acknowledgement makes room again, for one frame of any size.
	if _, err := l.Arrive(wire.Header{Kind: wire.Alive, Ack: uint64(n)}); err != nil {
		t.Fatal(err)
	}
	if !l.Room(1 << 30) {
		t.Error("no room on a link that keeps nothing")
	}
}

func TestPeersThatBreakTheRules(t *testing.T) {
	for name, h := range map[string]wire.Header{
		"acknowledges what was not sent": {Kind: wire.Alive, Ack: 2},
		"leaves a frame out":             {Kind: wire.Data, Number: 3},
	} {
		l := transport.NewLink(1000)
		l.Send(wire.Data, 0, l.Head(0), nil)
		if _, err := l.Arrive(wire.Header{Kind: wire.Data, Number: 1}); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Arrive(h); !errors.Is(err, transport.ErrPeer) {
			t.Errorf("%s: %v", name, err)
		}
	}
	l := transport.NewLink(1000)
	if _, err := l.Arrive(wire.Header{Kind: wire.Bye, Number: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Arrive(wire.Header{Kind: wire.Data, Number: 2}); !errors.Is(err, transport.ErrPeer) {
		t.Errorf("speaks after its last word: %v", err)
	}
}

func TestWhatIsForgottenCannotBeResumed(t *testing.T) {
	l := transport.NewLink(1000)
	for range 3 {
		l.Send(wire.Data, 0, l.Head(0), nil)
	}
	if _, err := l.Arrive(wire.Header{Kind: wire.Alive, Ack: 2}); err != nil {
		t.Fatal(err)
	}
	for _, arrived := range []uint64{1, 4} {
		if _, err := l.Resume(arrived); !errors.Is(err, transport.ErrLost) {
			t.Errorf("resume after %d: %v", arrived, err)
		}
	}
	if again, err := l.Resume(2); err != nil || len(again) != 1 || number(again[0]) != 3 {
		t.Errorf("resume after 2: %v, %v", again, err)
	}
}
