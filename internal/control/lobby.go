package control

import (
	"container/list"
	"net"
	"sync"
	"time"
)

// lobby holds connections that have not proven the key yet, a bounded number from each
// network: a crowd from elsewhere keeps no process of this host out. When it is full, the
// oldest connection is closed, unless it is very new: a process that knows the key needs
// little time, but some. In that case the newcomer is closed, and tries again.
type lobby struct {
	mu     sync.Mutex
	room   int                   // limit for each network
	least  time.Duration         // how long a guest is left alone
	orders map[string]*list.List // by network: guests, the oldest first
	places map[net.Conn]*list.Element
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
	return &lobby{room: room, least: guestMin, orders: map[string]*list.List{}, places: map[net.Conn]*list.Element{}}
}

func (l *lobby) enter(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		conn.Close()
		return
	}
	order := l.order(conn)
	if order.Len() >= l.room {
		oldest := order.Front().Value.(guest)
		if time.Since(oldest.since) < l.least {
			conn.Close()
			return
		}
		oldest.conn.Close()
		l.remove(oldest.conn)
	}
	l.places[conn] = order.PushBack(guest{conn, time.Now()})
}

// order returns the guests of a connection's network.
func (l *lobby) order(conn net.Conn) *list.List {
	network := conn.LocalAddr().Network()
	if l.orders[network] == nil {
		l.orders[network] = list.New()
	}
	return l.orders[network]
}

func (l *lobby) leave(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remove(conn)
}

func (l *lobby) remove(conn net.Conn) {
	if place, ok := l.places[conn]; ok {
		l.order(conn).Remove(place)
		delete(l.places, conn)
	}
}

// close closes all connections.
func (l *lobby) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for conn := range l.places {
		conn.Close()
	}
}
