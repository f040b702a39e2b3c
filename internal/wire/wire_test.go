package wire_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/wire"

	"pgregory.net/rapid"
)

func bytesOf(h wire.Header) []byte {
	b := make([]byte, wire.HeaderLen)
	h.Put(b)
	return b
}

func TestHeaderComesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := wire.Header{
			Length: rapid.Uint64Range(0, wire.LengthMax).Draw(t, "length"),
			Number: rapid.Uint64Range(1, 1<<64-1).Draw(t, "number"),
			Ack:    rapid.Uint64().Draw(t, "ack"),
			Tag:    rapid.Uint32().Draw(t, "tag"),
			Kind:   rapid.SampledFrom([]wire.Kind{wire.Data, wire.Alive, wire.Credit, wire.Bye}).Draw(t, "kind"),
		}
		if h.Kind == wire.Alive {
			h.Number = 0
		}
		b := bytesOf(h)
		if len(b) != wire.HeaderLen {
			t.Fatalf("%d bytes", len(b))
		}
		if back, err := wire.ParseHeader(b); err != nil || back != h {
			t.Fatalf("%+v comes back as %+v, %v", h, back, err)
		}
	})
}

func TestBadHeadersAreRefused(t *testing.T) {
	good := wire.Header{Length: 5, Number: 1, Kind: wire.Data}
	for name, spoil := range map[string]func(b []byte){
		"no kind":           func(b []byte) { b[24] = 0 },
		"unknown kind":      func(b []byte) { b[24] = 200 },
		"reserved":          func(b []byte) { b[26] = 1 },
		"length 2^63":       func(b []byte) { b[7] = 0x80 },
		"data unnumbered":   func(b []byte) { b[8] = 0 },
		"numbered greeting": func(b []byte) { b[24] = byte(wire.Alive) },
	} {
		b := bytesOf(good)
		spoil(b)
		if _, err := wire.ParseHeader(b); !errors.Is(err, wire.ErrFrame) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

var (
	key   = []byte("0123456789abcdef0123456789abcdef")
	left  = wire.Identity{Job: [16]byte{1, 2, 3}, From: 7, To: 9, Incarnation: 11, View: 3, Link: 5, Received: 17}
	right = wire.Identity{Job: [16]byte{1, 2, 3}, From: 9, To: 7, Incarnation: 12, View: 4, Link: 5, Received: 18}
)

func acceptAll(wire.Identity) (wire.Identity, wire.Refusal) { return right, wire.Accepted }

// meet lets two processes shake hands over a pipe.
func meet(t *testing.T, connect, accept func(conn net.Conn) (wire.Identity, error)) (peers [2]wire.Identity, errs [2]error) {
	t.Helper()
	a, b := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		peers[1], errs[1] = accept(b)
		b.Close()
	}()
	peers[0], errs[0] = connect(a)
	a.Close()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("the handshake hangs")
	}
	return peers, errs
}

func connecting(key, binding []byte, me wire.Identity) func(net.Conn) (wire.Identity, error) {
	return func(c net.Conn) (wire.Identity, error) { return wire.Connect(c, key, binding, me) }
}

func accepting(key, binding []byte, decide func(wire.Identity) (wire.Identity, wire.Refusal)) func(net.Conn) (wire.Identity, error) {
	return func(c net.Conn) (wire.Identity, error) { return wire.Accept(c, key, binding, decide) }
}

func TestTwoWhoKnowTheKeyMeet(t *testing.T) {
	peers, errs := meet(t, connecting(key, []byte("tls"), left), accepting(key, []byte("tls"), acceptAll))
	if errs[0] != nil || errs[1] != nil || peers[0] != right || peers[1] != left {
		t.Errorf("%+v, %v", peers, errs)
	}
}

func TestStrangersAreTurnedAway(t *testing.T) {
	other := bytes.Repeat([]byte("x"), 32)
	nobody := func(wire.Identity) (wire.Identity, wire.Refusal) {
		t.Error("was asked about a stranger")
		return right, wire.Accepted
	}
	for name, c := range map[string]struct {
		connect, accept func(net.Conn) (wire.Identity, error)
	}{
		"connects with another key":     {connecting(other, nil, left), accepting(key, nil, nobody)},
		"accepts with another key":      {connecting(key, nil, left), accepting(other, nil, nobody)},
		"sits in the middle of channel": {connecting(key, []byte("a"), left), accepting(key, []byte("b"), nobody)},
	} {
		_, errs := meet(t, c.connect, c.accept)
		if errs[0] == nil || errs[1] == nil {
			t.Errorf("%s: %v", name, errs)
		}
		if !errors.Is(errs[1], wire.ErrStranger) {
			t.Errorf("%s: the one who accepts says %v", name, errs[1])
		}
	}
}

// TestStrangerLearnsNothing checks that a peer that has not proven the key gets a greeting and nothing
// else, and that Accept does not call decide.
func TestStrangerLearnsNothing(t *testing.T) {
	for name, says := range map[string]string{
		"nothing":          "",
		"garbage":          strings.Repeat("\xff", 1000),
		"http":             "GET / HTTP/1.1\r\nHost: example\r\n\r\n" + strings.Repeat(" ", 100),
		"half a greeting":  "coppice\x00\x01",
		"greeting, zeroes": "coppice\x00\x01\x00\x00\x00" + strings.Repeat("\x00", 1000),
	} {
		conn := &scripted{in: strings.NewReader(says)}
		_, err := wire.Accept(conn, key, nil, func(wire.Identity) (wire.Identity, wire.Refusal) {
			t.Errorf("%s: was asked about", name)
			return right, wire.Accepted
		})
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
		if conn.out.Len() > 44 {
			t.Errorf("%s: was told %d bytes", name, conn.out.Len())
		}
	}
}

// scripted is a connection whose other end follows a script.
type scripted struct {
	in  io.Reader
	out bytes.Buffer
}

func (s *scripted) Read(b []byte) (int, error)  { return s.in.Read(b) }
func (s *scripted) Write(b []byte) (int, error) { return s.out.Write(b) }

// recorded is a connection that records what it reads.
type recorded struct {
	net.Conn
	read bytes.Buffer
}

func (r *recorded) Read(b []byte) (int, error) {
	n, err := r.Conn.Read(b)
	r.read.Write(b[:n])
	return n, err
}

// TestNothingCanBeRepeated replays a good client's words to another server, and a server's words to
// itself.
func TestNothingCanBeRepeated(t *testing.T) {
	var client, server *recorded
	_, errs := meet(t,
		func(c net.Conn) (wire.Identity, error) {
			server = &recorded{Conn: c}
			return wire.Connect(server, key, nil, left)
		},
		func(c net.Conn) (wire.Identity, error) {
			client = &recorded{Conn: c}
			return wire.Accept(client, key, nil, acceptAll)
		})
	if errs[0] != nil || errs[1] != nil {
		t.Fatal(errs)
	}
	if _, err := wire.Accept(&scripted{in: &client.read}, key, nil, acceptAll); !errors.Is(err, wire.ErrStranger) {
		t.Errorf("words of a client again: %v", err)
	}
	if _, err := wire.Connect(&scripted{in: &server.read}, key, nil, left); !errors.Is(err, wire.ErrStranger) {
		t.Errorf("words of a server again: %v", err)
	}
}

func TestRefusalsArriveWithTheirReason(t *testing.T) {
	for _, reason := range []wire.Refusal{wire.OtherJob, wire.NotMe, wire.Crossed, wire.Lost, wire.Excluded, wire.Closing} {
		peers, errs := meet(t, connecting(key, nil, left), accepting(key, nil, func(wire.Identity) (wire.Identity, wire.Refusal) { return right, reason }))
		if errs[0] != reason || errs[1] != reason || peers[0] != right {
			t.Errorf("%v: %v, %+v", reason, errs, peers[0])
		}
	}
}

func TestOtherVersion(t *testing.T) {
	greeting := append([]byte("coppice\x00\x01\x00\x00\x00"), make([]byte, 32)...)
	if _, err := wire.Connect(&scripted{in: bytes.NewReader(greeting)}, key, nil, left); !errors.Is(err, wire.ErrVersion) {
		t.Error(err)
	}
}

// TestBothSidesLearnOfAnotherVersion: a process turned away for its version must not conclude that the
// job is gone.
func TestBothSidesLearnOfAnotherVersion(t *testing.T) {
	greeting := make([]byte, 8+4+32)
	copy(greeting, "coppice\x00")
	greeting[8] = wire.Version + 1
	var said bytes.Buffer
	conn := struct {
		io.Reader
		io.Writer
	}{bytes.NewReader(greeting), &said}
	_, err := wire.Accept(conn, key, nil, func(wire.Identity) (wire.Identity, wire.Refusal) { return left, wire.Accepted })
	if !errors.Is(err, wire.ErrVersion) {
		t.Errorf("accepted: %v", err)
	}
	if _, err := wire.Connect(&scripted{in: bytes.NewReader(said.Bytes())}, key, nil, left); errors.Is(err, wire.ErrVersion) || said.Len() != len(greeting) {
		t.Errorf("%d bytes were said: %v", said.Len(), err)
	}
}

func TestShortKeyIsRefused(t *testing.T) {
	if _, err := wire.Connect(&scripted{in: strings.NewReader("")}, key[:8], nil, left); err == nil || !strings.Contains(err.Error(), "allowed: 16 or more") {
		t.Error(err)
	}
}

// FuzzAccept lets a stranger send anything.
func FuzzAccept(f *testing.F) {
	f.Add([]byte("coppice\x00\x02\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, says []byte) {
		conn := &scripted{in: bytes.NewReader(says)}
		if _, err := wire.Accept(conn, key, nil, acceptAll); err == nil {
			t.Fatal("a stranger got in")
		}
	})
}

// FuzzFrames reads frames from arbitrary bytes.
func FuzzFrames(f *testing.F) {
	f.Add(append(bytesOf(wire.Header{Length: 3, Number: 1, Kind: wire.Data}), 1, 2, 3))
	f.Fuzz(func(t *testing.T, says []byte) {
		r := bytes.NewReader(says)
		var head [wire.HeaderLen]byte
		for {
			if _, err := io.ReadFull(r, head[:]); err != nil {
				return
			}
			h, err := wire.ParseHeader(head[:])
			if err != nil {
				return
			}
			if again := bytesOf(h); !bytes.Equal(again, head[:]) {
				t.Fatalf("%x is read as %+v", head, h)
			}
			if _, err := r.Seek(int64(min(h.Length, uint64(r.Len()))), io.SeekCurrent); err != nil {
				t.Fatal(err)
			}
		}
	})
}
