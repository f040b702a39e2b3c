//go:build unix

package transport_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/transport"

	"golang.org/x/sys/unix"
)

// relay sits between two ends. It passes everything on until it is stopped;
// then the test passes on, or not, what the one who dialed says.
type relay struct {
	address        transport.Address
	client, server *net.TCPConn
	up             chan struct{} // closed when what the client says is no longer passed on
}

func newRelay(t *testing.T, to transport.Address) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{up: make(chan struct{})}
	r.address = transport.Address{Kind: to.Kind, Host: l.Addr().(*net.TCPAddr).AddrPort()}
	down := make(chan struct{})
	go func() {
		defer close(r.up)
		client, err := l.Accept()
		_ = l.Close()
		server, err2 := net.Dial("tcp", to.Host.String())
		if err != nil || err2 != nil {
			t.Error(err, err2)
			close(down)
			return
		}
		r.client, r.server = client.(*net.TCPConn), server.(*net.TCPConn)
		go func() {
			defer close(down)
			_, _ = io.Copy(struct{ io.Writer }{client}, server)
		}()
		_, _ = io.Copy(struct{ io.Writer }{server}, struct{ io.Reader }{client})
	}()
	t.Cleanup(func() {
		<-r.up
		_ = r.client.Close()
		_ = r.server.Close()
		<-down
	})
	return r
}

// stop ends the passing on of what the client says.
func (r *relay) stop(t *testing.T) {
	t.Helper()
	_ = r.client.SetReadDeadline(time.Unix(1, 0))
	<-r.up
	_ = r.client.SetReadDeadline(time.Now().Add(30 * time.Second))
}

// relayed returns both ends of a TLS connection through a relay that is stopped.
func relayed(t *testing.T) (dialed, accepted *transport.Conn, r *relay) {
	t.Helper()
	one := start(t, 1, nil, place(t, transport.TLS))
	r = newRelay(t, one.Addresses()[0])
	ready := make(chan struct{})
	var err error
	go func() {
		defer close(ready)
		dialed, err = start(t, 2, nil).dial(t, r.address)
	}()
	<-ready
	if err != nil {
		t.Fatal(err)
	}
	accepted = one.accepted(t)
	r.stop(t)
	return dialed, accepted, r
}

// sealed returns what goes over the wire when c writes the message.
func (r *relay) sealed(t *testing.T, c *transport.Conn, message []byte) []byte {
	t.Helper()
	if n, err := c.Write([][]byte{message[:len(message)/2], message[len(message)/2:]}); n != len(message) || err != nil {
		t.Fatal(n, err)
	}
	records := (len(message) + 16383) / 16384
	b := make([]byte, len(message)+22*records) // RFC 8446, 5.2: header, type and tag
	if _, err := io.ReadFull(r.client, b); err != nil {
		t.Fatal(err)
	}
	return b
}

func (r *relay) pass(t *testing.T, b []byte) {
	t.Helper()
	if _, err := r.server.Write(b); err != nil {
		t.Fatal(err)
	}
}

// quiet reads from c once something is there, and wants it to be too little.
func quiet(t *testing.T, c *transport.Conn) {
	t.Helper()
	wait(t, []unix.PollFd{{Fd: int32(c.Fd()), Events: unix.POLLIN}})
	if n, err := c.Read(make([]byte, 100)); n != 0 || err != transport.ErrAgain || c.Buffered() {
		t.Fatalf("a piece of a record gives %d bytes, %v, buffered %v", n, err, c.Buffered())
	}
}

// TestRecordsMayComeInPieces cuts records at every byte.
func TestRecordsMayComeInPieces(t *testing.T) {
	leavesNothing(t)
	rng := rand.New(rand.NewPCG(1, 2))
	a, b, r := relayed(t)
	for _, size := range []int{1, 8, 40, 600, 16384, 20000} {
		message := random(rng, size)
		first := min(size, 16384) + 22 // the first record
		step := 1
		if size > 1000 {
			step = 997
		}
		for cut := 1; cut < first; cut += step {
			wire := r.sealed(t, a, message)
			r.pass(t, wire[:cut])
			quiet(t, b)
			r.pass(t, wire[cut:])
			if !bytes.Equal(readAll(t, b, size), message) {
				t.Fatalf("%d bytes cut at %d: not what was sent", size, cut)
			}
		}
	}
	message := random(rng, 100)
	wire := r.sealed(t, a, message)
	for i := range wire[:len(wire)-1] {
		r.pass(t, wire[i:i+1])
		quiet(t, b)
	}
	r.pass(t, wire[len(wire)-1:])
	if !bytes.Equal(readAll(t, b, 100), message) {
		t.Fatal("byte by byte: not what was sent")
	}
}

// TestBufferedIsExact: several records that came at once are announced, one
// after the other, and then no more.
func TestBufferedIsExact(t *testing.T) {
	leavesNothing(t)
	a, b, r := relayed(t)
	if _, err := b.Read(make([]byte, 1)); err != transport.ErrAgain {
		t.Fatal(err)
	}
	var together []byte
	for i := range 5 {
		together = append(together, r.sealed(t, a, bytes.Repeat([]byte{byte(i)}, 8))...)
	}
	r.pass(t, together)
	wait(t, []unix.PollFd{{Fd: int32(b.Fd()), Events: unix.POLLIN}})
	buffer := make([]byte, 100)
	for i := range 5 {
		if n, err := b.Read(buffer); n != 8 || err != nil || buffer[0] != byte(i) {
			t.Fatal(i, n, err)
		}
		if b.Buffered() != (i < 4) {
			t.Errorf("after record %d of 5: buffered %v", i+1, b.Buffered())
		}
	}
	r.pass(t, r.sealed(t, a, make([]byte, 50)))
	wait(t, []unix.PollFd{{Fd: int32(b.Fd()), Events: unix.POLLIN}})
	if n, err := b.Read(buffer[:20]); n != 20 || err != nil || !b.Buffered() {
		t.Errorf("a piece of a record: %d, %v, buffered %v", n, err, b.Buffered())
	}
	if n, err := b.Read(buffer); n != 30 || err != nil || b.Buffered() {
		t.Errorf("the rest: %d, %v, buffered %v", n, err, b.Buffered())
	}
}

func TestChangedRecordsAreRefused(t *testing.T) {
	leavesNothing(t)
	a, b, r := relayed(t)
	wire := r.sealed(t, a, []byte("message"))
	wire[10] ^= 1
	r.pass(t, wire)
	wait(t, []unix.PollFd{{Fd: int32(b.Fd()), Events: unix.POLLIN}})
	for range 2 { // and it stays so
		if n, err := b.Read(make([]byte, 100)); n != 0 || err == nil || err == transport.ErrAgain || err == io.EOF {
			t.Errorf("%d, %v", n, err)
		}
	}
}

// TestCutOffRecordIsNoEnd: half a record and then nothing is an error, at
// whatever byte.
func TestCutOffRecordIsNoEnd(t *testing.T) {
	leavesNothing(t)
	for _, cut := range []int{1, 4, 5, 6, 29} {
		a, b, r := relayed(t)
		r.pass(t, r.sealed(t, a, make([]byte, 8))[:cut])
		_ = r.server.CloseWrite()
		var err error
		for err = transport.ErrAgain; err == transport.ErrAgain; _, err = b.Read(make([]byte, 100)) {
			wait(t, []unix.PollFd{{Fd: int32(b.Fd()), Events: unix.POLLIN}})
		}
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cut at %d: %v", cut, err)
		}
	}
}

// TestNothingIsReadableOnTheWire: the relay sees no plaintext.
func TestNothingIsReadableOnTheWire(t *testing.T) {
	leavesNothing(t)
	a, _, r := relayed(t)
	secret := []byte("a secret of the job, not short")
	if bytes.Contains(r.sealed(t, a, secret), secret[:8]) {
		t.Error("the message is on the wire")
	}
}
