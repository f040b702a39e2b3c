package control

import (
	"container/list"
	"net"
	"sync"
	"time"
)

// lobby holds connections that have not proven the key yet, a bounded number of each
// network: a crowd from elsewhere keeps nobody of this host out. When it is full the
// one who is there longest has to go, unless it came just now: who knows the key needs
// little time, but some. Then the newcomer has to, and comes again.
type lobby struct {
	mu     sync.Mutex
	room   int                   // for each network
	least  time.Duration         // for which a guest is left alone
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

// order is the guests of a connection's network.
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

// close turns everybody out.
func (l *lobby) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for conn := range l.places {
		conn.Close()
	}
}
