package transport

import (
	"container/list"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"

	"github.com/coppice-go/coppice/internal/posix"
	"github.com/coppice-go/coppice/internal/wire"
)

// guests are the connections whose handshake is not made. Anyone can connect, so
// there is a bound on those who have not knocked: when it is reached, the older
// half is shown out. A peer knocks at once, so it does not stay among the
// strangers that long, however many connect and say nothing; and nobody is shown
// out whose knock is there and was only not read yet, the processor being busy.
// Who has knocked is not shown out either: only the job's own processes can,
// since a knock that was overheard is not heard twice.
type guests struct {
	key []byte
	job [16]byte

	mu        sync.Mutex
	strangers list.List // *guest: those who have not knocked, the oldest first
	max       int       // of them
	all       map[*guest]struct{}
	heard     map[[wire.KnockLen]byte]struct{} // the latest knocks
	latest    [][wire.KnockLen]byte            // the same, as a ring
	next      int                              // in the ring
	closed    bool
}

// knocksMax is how many knocks are remembered.
const knocksMax = 4096

type guest struct {
	conn    net.Conn
	at      *list.Element // among the strangers; nil: no longer
	knocked bool
}

// thin makes room for another stranger, if there is none: the older half of them
// go.
func (gs *guests) thin() {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if gs.strangers.Len() >= gs.max {
		gs.showOldestOut(gs.max/2 + 1)
	}
}

// clear shows all strangers out: their descriptors are needed.
func (gs *guests) clear() {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	gs.showOldestOut(gs.strangers.Len())
}

// showOldestOut ends the connections of so many strangers, but for those who
// turn out to have knocked. Their goroutines notice.
func (gs *guests) showOldestOut(n int) {
	for range min(n, gs.strangers.Len()) {
		g := gs.strangers.Front().Value.(*guest)
		if k, there := peek(g.conn); there && gs.note(g, k) == nil {
			continue
		}
		gs.unlist(g)
		discard(g.conn)
	}
}

// peek looks at the knock that has arrived on a connection, without reading it.
func peek(conn net.Conn) (k [wire.KnockLen]byte, there bool) {
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err != nil {
		return k, false
	}
	var n int
	err = raw.Control(func(fd uintptr) {
		n = posix.Peek(fd, k[:])
	})
	return k, err == nil && n == len(k)
}

// admit takes in a new one.
func (gs *guests) admit(conn net.Conn) *guest {
	g := &guest{conn: conn}
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if gs.closed {
		discard(conn)
		return g
	}
	if gs.all == nil {
		gs.all = map[*guest]struct{}{}
	}
	gs.all[g] = struct{}{}
	g.at = gs.strangers.PushBack(g)
	return g
}

func (gs *guests) unlist(g *guest) {
	if g.at != nil {
		gs.strangers.Remove(g.at)
		g.at = nil
	}
}

// Why someone is turned away. Made once: strangers cost as little as possible.
var (
	errNoKnock  = fmt.Errorf("%w: does not knock", wire.ErrStranger)
	errNoKey    = fmt.Errorf("%w: does not know the job's key", wire.ErrStranger)
	errRepeated = fmt.Errorf("%w: repeats a knock that was overheard", wire.ErrStranger)
	errCrowded  = errors.New("too many connections at once")
)

// knock waits for g's knock and takes note of it.
func (gs *guests) knock(g *guest) error {
	var k [wire.KnockLen]byte
	_, err := io.ReadFull(g.conn, k[:])
	gs.mu.Lock()
	defer gs.mu.Unlock()
	switch {
	case g.knocked: // it was peeked at
		return err
	case g.at == nil:
		return errCrowded
	case err != nil:
		return errNoKnock
	}
	return gs.note(g, k)
}

// note takes note of a knock, unless it is none.
func (gs *guests) note(g *guest, k [wire.KnockLen]byte) error {
	if !wire.Knocked(gs.key, gs.job, k) {
		return errNoKey
	}
	if _, again := gs.heard[k]; again {
		return errRepeated
	}
	gs.remember(k)
	gs.unlist(g)
	g.knocked = true
	return nil
}

// remember keeps a knock and forgets the oldest.
func (gs *guests) remember(k [wire.KnockLen]byte) {
	if gs.heard == nil {
		gs.heard = map[[wire.KnockLen]byte]struct{}{}
	}
	gs.heard[k] = struct{}{}
	if len(gs.latest) < knocksMax {
		gs.latest = append(gs.latest, k)
		return
	}
	delete(gs.heard, gs.latest[gs.next])
	gs.latest[gs.next] = k
	gs.next = (gs.next + 1) % knocksMax
}

// leave takes note that g's handshake has ended, one way or the other.
func (gs *guests) leave(g *guest) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	gs.unlist(g)
	delete(gs.all, g)
}

// close ends all, and admits no more.
func (gs *guests) close() {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	gs.closed = true
	for g := range gs.all {
		_ = g.conn.Close()
	}
}

// discard closes the connection of someone to whom nothing is owed, without
// leaving a trace of it in the kernel.
func discard(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
