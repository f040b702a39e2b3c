package control

import (
	"container/list"
	"net"
	"sync"
)

// lobby holds connections that have not proven the key yet. It is of bounded
// size: when it is full the one who is there longest has to go, since who knows
// the key needs no time.
type lobby struct {
	mu     sync.Mutex
	room   int
	order  *list.List
	places map[net.Conn]*list.Element
	closed bool
}

func newLobby(room int) *lobby {
	return &lobby{room: room, order: list.New(), places: map[net.Conn]*list.Element{}}
}

func (l *lobby) enter(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		conn.Close()
		return
	}
	if l.order.Len() >= l.room {
		oldest := l.order.Front().Value.(net.Conn)
		oldest.Close()
		l.remove(oldest)
	}
	l.places[conn] = l.order.PushBack(conn)
}

func (l *lobby) leave(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remove(conn)
}

func (l *lobby) remove(conn net.Conn) {
	if place, ok := l.places[conn]; ok {
		l.order.Remove(place)
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
