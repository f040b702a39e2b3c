package detect

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"testing"
	"time"
)

var (
	testJob = [16]byte{1}
	testKey = bytes.Repeat([]byte("k"), 32)
)

func listen(t *testing.T, key []byte, rank int) *Datagrams {
	t.Helper()
	d, err := ListenDatagrams(netip.MustParseAddrPort("127.0.0.1:0"), testJob, key, rank, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func TestDatagramsArriveAsTheyWereSent(t *testing.T) {
	a, b := listen(t, testKey, 3), listen(t, testKey, 4)
	sent := Datagram{To: 4, ToLife: 1, Kind: 3, Flags: 5, Of: 77, Time: 1 << 40}
	a.Send(b.Address(), sent)
	got, _, err := b.Receive()
	if err != nil {
		t.Fatal(err)
	}
	if number := got.Number; number == 0 || got.From != 3 || got.Life != 1 {
		t.Errorf("got %+v", got)
	}
	first := got.Number
	got.From, got.Life, got.Number = 0, 0, 0
	if got != sent {
		t.Errorf("got %+v, want %+v", got, sent)
	}
	a.Send(b.Address(), sent)
	if again, _, err := b.Receive(); err != nil || again.Number <= first {
		t.Errorf("numbers do not grow: %d after %d, %v", again.Number, first, err)
	}
}

// Receive skips what a stranger sends and what is addressed to another process: it returns the next
// valid message.
func TestStrangersAreNotHeard(t *testing.T) {
	us, stranger := listen(t, testKey, 0), listen(t, bytes.Repeat([]byte("x"), 32), 1)
	friend := listen(t, testKey, 1)
	for _, d := range []Datagram{{To: 0}, {To: 0, ToLife: 1}} {
		stranger.Send(us.Address(), d)
	}
	friend.Send(us.Address(), Datagram{To: 2})            // another process
	friend.Send(us.Address(), Datagram{To: 0, ToLife: 2}) // its next incarnation
	raw, err := net.Dial("udp", us.Address().String())
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	for _, b := range [][]byte{nil, []byte("hello"), make([]byte, datagramLen), make([]byte, datagramLen+1), make([]byte, 2000)} {
		_, _ = raw.Write(b)
	}
	friend.Send(us.Address(), Datagram{To: 0, Of: 9})
	got, _, err := us.Receive()
	if err != nil || got.From != 1 || got.Of != 9 {
		t.Errorf("received %+v, %v; want the last one of process 1", got, err)
	}
	time.AfterFunc(10*time.Millisecond, func() { us.Close() })
	if d, _, err := us.Receive(); err == nil {
		t.Errorf("received %+v from a closed socket", d)
	}
}

func FuzzDatagram(f *testing.F) {
	f.Add(make([]byte, datagramBody))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < datagramBody {
			return
		}
		var m Datagram
		if n, err := binary.Decode(b, binary.LittleEndian, &m); err != nil || n != datagramBody {
			t.Fatalf("%d bytes of %d read: %v", n, datagramBody, err)
		}
		if got, _ := binary.Append(nil, binary.LittleEndian, m); !bytes.Equal(got, b[:datagramBody]) {
			t.Errorf("%x is written as %x", b[:datagramBody], got)
		}
	})
}
