package control

import (
	"net"
	"slices"
	"sync"
	"time"
)

// lobby holds connections that have not proven the key yet, a bounded number from each
// network: a crowd from elsewhere keeps no process of this host out. When it is full, the
// oldest connection is closed, unless it is very new: a process that knows the key needs
// little time, but some. In that case the newcomer is closed, and tries again.
type lobby struct {
	mu     sync.Mutex
	room   int                // limit for each network
	least  time.Duration      // how long a guest is left alone
	guests map[string][]guest // by network, the oldest first
	closed bool
}

// guest is a connection in the lobby.
type guest struct {
	conn  net.Conn
	since time.Time
}

// guestMin is how long a guest is left alone.
const guestMin = 100 * time.Millisecond

func newLobby(room int) *lobby {
	return &lobby{room: room, least: guestMin, guests: map[string][]guest{}}
}

func (l *lobby) enter(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	network := conn.LocalAddr().Network()
	guests := l.guests[network]
	full := len(guests) >= l.room
	if l.closed || full && time.Since(guests[0].since) < l.least {
		conn.Close()
		return
	}
	if full {
		guests[0].conn.Close()
		guests = slices.Delete(guests, 0, 1)
	}
	l.guests[network] = append(guests, guest{conn, time.Now()})
}

func (l *lobby) leave(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	network := conn.LocalAddr().Network()
	l.guests[network] = slices.DeleteFunc(l.guests[network], func(g guest) bool { return g.conn == conn })
}

// close closes all connections.
func (l *lobby) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, guests := range l.guests {
		for _, g := range guests {
			g.conn.Close()
		}
	}
}
