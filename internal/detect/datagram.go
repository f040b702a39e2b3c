package detect

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"time"
)

// Datagrams exchanges short UDP messages between the processes of a job on different hosts. Lost
// messages are not sent again, so nothing waits behind them. Each message carries a keyed hash and a
// growing number; Receive drops, without an answer, messages that do not prove the job's key.
// Duplicates are for the caller to drop.
type Datagrams struct {
	conn *net.UDPConn
	key  []byte
	rank uint32
	life uint32
	last atomic.Uint64
}

// Datagram is one message. It goes over the network field by field, little-endian.
type Datagram struct {
	From, Life  uint32 // the sender
	To          uint32
	ToLife      uint32 // 0: any
	Number      uint64 // grows from each datagram of a sender to the next
	Kind, Flags uint8
	Of          uint32
	Time        uint64
}

const (
	datagramBody = 4 + 4 + 4 + 4 + 8 + 1 + 1 + 4 + 8
	datagramLen  = datagramBody + 16
)

// ListenDatagrams opens the socket of a process.
func ListenDatagrams(at netip.AddrPort, job [16]byte, key []byte, rank int, incarnation uint64) (*Datagrams, error) {
	key, err := hkdf.Key(sha256.New, key, job[:], "coppice: beats between hosts", sha256.Size)
	if err != nil {
		return nil, err
	}
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
	if err != nil {
		return nil, fmt.Errorf("beats between hosts: %w", err)
	}
	d := &Datagrams{conn: conn, key: key, rank: uint32(rank), life: uint32(incarnation)}
	d.last.Store(uint64(time.Now().UnixNano())) // above the numbers of an earlier socket of this process
	return d, nil
}

// Address returns the address of the socket.
func (d *Datagrams) Address() netip.AddrPort { return d.conn.LocalAddr().(*net.UDPAddr).AddrPort() }

// Close closes the socket; Receive returns net.ErrClosed.
func (d *Datagrams) Close() error { return d.conn.Close() }

// Send sends a message and fills in its sender and number. The message may be lost.
func (d *Datagrams) Send(at netip.AddrPort, m Datagram) {
	m.From, m.Life, m.Number = d.rank, d.life, d.last.Add(1)
	var room [datagramLen]byte
	b, _ := binary.Append(room[:0], binary.LittleEndian, m) // all of fixed size
	b = append(b, d.sign(b)...)
	_, _ = d.conn.WriteToUDPAddrPort(b, at)
}

func (d *Datagrams) sign(b []byte) []byte {
	h := hmac.New(sha256.New, d.key)
	h.Write(b)
	return h.Sum(nil)[:16]
}

// Receive waits for a message to this process and returns it with its source address. The caller drops
// messages whose number is not above the last one of the sender.
func (d *Datagrams) Receive() (Datagram, netip.AddrPort, error) {
	var room [datagramLen + 1]byte
	for {
		n, from, err := d.conn.ReadFromUDPAddrPort(room[:])
		switch {
		case errors.Is(err, net.ErrClosed):
			return Datagram{}, from, err
		case err != nil: // an earlier datagram could not be delivered
			time.Sleep(time.Millisecond)
			continue
		case n != datagramLen || !hmac.Equal(d.sign(room[:datagramBody]), room[datagramBody:n]):
			continue
		}
		var m Datagram
		_, _ = binary.Decode(room[:], binary.LittleEndian, &m) // room is long enough
		if m.To == d.rank && (m.ToLife == 0 || m.ToLife == d.life) {
			return m, from, nil
		}
	}
}
