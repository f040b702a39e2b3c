package transport

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// TLS on a stream that never blocks: crypto/tls above, a channel below that it
// takes for a net.Conn. The channel hands out one record at a time and no more,
// so it is known here, and not only inside crypto/tls, whether a whole record
// waits; and it takes everything that crypto/tls writes, keeping what the socket
// does not take. crypto/tls goes on with half a record after a temporary error.

const (
	recordHeader = 5
	plainMax     = 16 << 10  // bytes of a record, RFC 8446, 5.1
	unsentMax    = 128 << 10 // no more plaintext is taken while so many bytes wait
	unsentEver   = 1 << 20   // crypto/tls itself wrote this much: the peer is up to no good
	bufferMin    = 4 << 10   // room for what arrives, in the beginning
	bufferMax    = 64 << 10  // and as it is needed
)

// secure is the part of a Conn that has TLS.
type secure struct {
	conn    *tls.Conn
	below   *channel
	full    bool   // the last read filled its buffer: crypto/tls may have more
	scratch []byte // small pieces on their way into one record
}

func (s *secure) read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	n, err := s.conn.Read(b)
	s.full = n == len(b)
	if s.below.unsent() > 0 { // crypto/tls may have answered something
		if e := s.below.flush(); e != nil && e != ErrAgain && err == nil {
			err = e
		}
	}
	return n, err
}

func (s *secure) buffered() bool { return s.full || s.below.whole() }

// takeOver ends the time of blocking.
func (s *secure) takeOver(fd int) {
	s.below.blocking, s.below.fd = nil, fd
	s.full = true // perhaps: the peer's first bytes came with the handshake
}

func (s *secure) write(bufs [][]byte) (total int, err error) {
	for from := (cursor{bufs: bufs}); ; {
		if s.below.unsent() >= unsentMax {
			if err := s.below.flush(); err != nil && err != ErrAgain {
				return total, err
			}
			if s.below.unsent() >= unsentMax {
				break
			}
		}
		piece := from.next(&s.scratch)
		if len(piece) == 0 {
			break
		}
		n, err := s.conn.Write(piece)
		total += n
		if err != nil {
			return total, err
		}
	}
	if err := s.below.flush(); err != nil && err != ErrAgain {
		return total, err
	}
	if total == 0 && s.below.unsent() >= unsentMax {
		return 0, ErrAgain
	}
	return total, nil
}

// bye tells the peer that nothing more comes, if there is room for that.
func (s *secure) bye() {
	_ = s.conn.CloseWrite()
	_ = s.below.flush()
	s.below.release()
	s.below.fd = -1 // the number may soon be someone else's
}

// cursor walks through buffers in pieces of a record each.
type cursor struct {
	bufs [][]byte
	at   int // in the first
}

// next returns up to plainMax bytes: a piece of one buffer if that is enough,
// else of several, copied together.
func (c *cursor) next(scratch *[]byte) []byte {
	c.skip()
	if len(c.bufs) == 0 {
		return nil
	}
	if b := c.bufs[0][c.at:]; len(b) >= plainMax || len(c.bufs) == 1 {
		b = b[:min(len(b), plainMax)]
		c.at += len(b)
		return b
	}
	to := (*scratch)[:0]
	for len(c.bufs) > 0 && len(to) < plainMax {
		b := c.bufs[0][c.at:]
		b = b[:min(len(b), plainMax-len(to))]
		to = append(to, b...)
		c.at += len(b)
		c.skip()
	}
	*scratch = to
	return to
}

// skip leaves buffers that are used up.
func (c *cursor) skip() {
	for len(c.bufs) > 0 && c.at == len(c.bufs[0]) {
		c.bufs, c.at = c.bufs[1:], 0
	}
}

// channel is what crypto/tls reads from and writes to.
type channel struct {
	blocking net.Conn // during the handshake; nil after it
	fd       int

	in   []byte // in[r:w] has arrived and is not handed out
	r, w int
	left int // of the record that is being handed out

	out  *[]byte // (*out)[sent:] is not taken by the socket; nil: nothing
	sent int
}

// Read hands out bytes of one record.
func (c *channel) Read(b []byte) (int, error) {
	if c.left == 0 {
		for c.w-c.r < recordHeader {
			if err := c.fill(); err != nil {
				if err == io.EOF && c.w > c.r {
					err = errCut
				}
				return 0, err
			}
		}
		c.left = c.recordLen()
	}
	if c.w == c.r {
		if err := c.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(b, c.in[c.r:min(c.w, c.r+c.left)])
	c.r += n
	c.left -= n
	return n, nil
}

// recordLen is that of the record whose header is at the front.
func (c *channel) recordLen() int {
	return recordHeader + int(binary.BigEndian.Uint16(c.in[c.r+3:]))
}

// whole tells whether the record at the front has arrived to its end.
func (c *channel) whole() bool {
	n := c.w - c.r
	if c.left > 0 {
		return n >= c.left
	}
	return n >= recordHeader && n >= c.recordLen()
}

// fill reads what is there, at least a byte. At most a piece of a header is
// still here.
func (c *channel) fill() error {
	grown := c.in
	if c.w == len(c.in) && len(c.in) < bufferMax { // the last time it was too small
		grown = make([]byte, min(2*len(c.in), bufferMax))
	}
	c.w = copy(grown, c.in[c.r:c.w])
	c.in, c.r = grown, 0
	var n int
	var err error
	if c.blocking != nil {
		n, err = c.blocking.Read(c.in[c.w:])
	} else {
		n, err = receive(c.fd, c.in[c.w:])
	}
	c.w += n
	if n > 0 {
		return nil
	}
	return err
}

// errCut is not io.ErrUnexpectedEOF itself, which crypto/tls takes for an end
// between records where it has seen none of the next.
var errCut = fmt.Errorf("%w in the header of a record", io.ErrUnexpectedEOF)

var errFlood = errors.New("the peer makes TLS answer without end")

// Write takes everything.
func (c *channel) Write(b []byte) (int, error) {
	if c.blocking != nil {
		return c.blocking.Write(b)
	}
	if c.unsent() > unsentEver {
		return 0, errFlood
	}
	if c.out == nil {
		c.out = outs.Get().(*[]byte)
	}
	*c.out = append(*c.out, b...)
	return len(b), nil
}

// outs are buffers of channels that have nothing to send just now.
var outs = sync.Pool{New: func() any {
	b := make([]byte, 0, unsentMax+2*plainMax)
	return &b
}}

func (c *channel) unsent() int {
	if c.out == nil {
		return 0
	}
	return len(*c.out) - c.sent
}

// flush sends as much as there is room for; ErrAgain if some is left.
func (c *channel) flush() error {
	if c.unsent() == 0 {
		return nil
	}
	n, err := send(c.fd, (*c.out)[c.sent:])
	if err != nil {
		return err
	}
	c.sent += n
	if c.unsent() > 0 {
		c.compact()
		return ErrAgain
	}
	c.release()
	return nil
}

// compact forgets what is sent once that is most of it.
func (c *channel) compact() {
	if c.sent > len(*c.out)/2 {
		*c.out = (*c.out)[:copy(*c.out, (*c.out)[c.sent:])]
		c.sent = 0
	}
}

// release gives the buffer back.
func (c *channel) release() {
	if c.out != nil {
		*c.out = (*c.out)[:0]
		outs.Put(c.out)
		c.out, c.sent = nil, 0
	}
}

// The rest of net.Conn. Deadlines are set on the connection below.

func (c *channel) Close() error                     { return nil }
func (c *channel) LocalAddr() net.Addr              { return nil }
func (c *channel) RemoteAddr() net.Addr             { return nil }
func (c *channel) SetDeadline(time.Time) error      { return nil }
func (c *channel) SetReadDeadline(time.Time) error  { return nil }
func (c *channel) SetWriteDeadline(time.Time) error { return nil }
