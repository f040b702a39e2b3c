//go:build unix

package control

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/coppice-go/coppice/internal/wire"
)

// Break breaks a client's connection, as a network might.
func (c *Client) Break() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn.Close()
}

// Shake makes the handshake of a process that then says only what the test
// writes.
func Shake(ctx context.Context, address string, p Place) (net.Conn, error) {
	return ShakeAs(ctx, address, p, 0)
}

// ShakeAs is Shake of a process that has drawn a life.
func ShakeAs(ctx context.Context, address string, p Place, life uint64) (net.Conn, error) {
	id := wire.Identity{Job: p.Job, From: uint32(p.Rank), To: coordinatorID, Incarnation: p.Incarnation, Life: life}
	conn, _, err := shake(ctx, address, p.Key, id, limits{})
	return conn, err
}

// ShakeHere is Shake of a process that finds a coordinator at an address after it has not found it on this host. It reports whether it
// is connected on this host.
func ShakeHere(ctx context.Context, address string, p Place) (here bool, err error) {
	id := wire.Identity{Job: p.Job, From: uint32(p.Rank), To: coordinatorID, Incarnation: p.Incarnation}
	conn, _, err := shake(ctx, address, p.Key, id, limits{here: controlPath(p.Dir)})
	if err == nil {
		_, here = conn.(*net.UnixConn)
		conn.Close()
	}
	return here, err
}

// Inherits has a coordinator begin in the place of another one, with what a process knows of the job.
func (c ServerConfig) Inherits(peers ...Peer) ServerConfig {
	h := &heir{peers: make([]Peer, c.Size), deaths: make([]Death, c.Size)}
	for _, p := range peers {
		h.peers[p.Rank] = p
	}
	c.heir = h
	return c
}

// Dead has it begin with the death of a process.
func (c ServerConfig) Dead(rank int) ServerConfig {
	c.heir.deaths[rank] = Death{Rank: rank, Incarnation: 1, Certain: true, How: "killed"}
	return c
}

// InView has it begin with the latest view of that process.
func (c ServerConfig) InView(v *View) ServerConfig {
	c.heir.view = v
	return c
}

// Connect makes one try to connect; over a network it may take as long as try says.
func Connect(ctx context.Context, p Place, try time.Duration) error {
	c := &Client{place: p, id: wire.Identity{Job: p.Job, From: uint32(p.Rank), To: coordinatorID, Incarnation: p.Incarnation}}
	l, _, err := c.connect(ctx, try)
	if err == nil {
		l.conn.Close()
	}
	return err
}

// NewLobby is how connections enter a lobby in which they are left alone for a while.
func NewLobby(room int, least time.Duration) (enter func(net.Conn)) {
	l := newLobby(room)
	l.least = least
	return l.enter
}

// RemoveDir removes a job's directory.
func RemoveDir(dir string) { removeDir(dir) }

// LatestRecord is what is read from a file with these slots.
func LatestRecord(first, second []byte) ([]byte, error) { return latest(slots{first, second}) }

// slots are those of a file that is not there.
type slots [2][]byte

func (s slots) ReadAt(b []byte, at int64) (int, error) {
	slot := s[at/slotSize]
	if at %= slotSize; at >= int64(len(slot)) {
		return 0, io.EOF
	}
	n := copy(b, slot[at:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// TCPAddress is where processes on other hosts find the coordinator.
func TCPAddress(s *Server) string { return s.listeners[1].Addr().String() }

// Hear has a handler told what the lines of a coordinator mean to a rank.
func Hear(rank int, h Handler, lines ...string) {
	c := &Client{place: Place{Rank: rank}, handler: h}
	for _, line := range lines {
		var m message
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			panic(err)
		}
		if err := c.hear(m); err != nil {
			panic(err)
		}
	}
}

// Standing is what a client says of its tasks on every further connection.
func (c *Client) Standing() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.TrimSpace(string(c.standing))
}

// NoStatus has nobody tell how processes end, as on systems on which pidfds do not, until restore is called.
func NoStatus() (restore func()) {
	before := statusOf
	statusOf = func(int) (int, syscall.Signal, bool) { return 0, 0, false }
	return func() { statusOf = before }
}

// TellUnnamedAfter has users told after that time of names that do not resolve, until restore is called.
func TellUnnamedAfter(d time.Duration) (restore func()) {
	before := unnamedAfter
	unnamedAfter = d
	return func() { unnamedAfter = before }
}

// ServeInside serves as a part of process 0.
func ServeInside(t interface {
	Fatal(...any)
	Cleanup(func())
}, cfg ServerConfig,
) *Server {
	cfg.self = Identity{0, 1}
	s, err := Serve(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// KnowOver has the client know that the job was over in a view, and its connection break.
func (c *Client) KnowOver(view uint64) {
	c.hearOver(view, false)
	c.Break()
}

// ListenDoor listens at the seed of this host.
func ListenDoor(seed string) (net.Listener, error) { return listenTCP(seed) }

// Guide listens as a process of a job that has begun does: it says that the coordinator is in another one, at that address.
func Guide(t interface {
	Fatal(...any)
	Cleanup(func())
}, key []byte, coordinator string,
) (seed string) {
	l, err := listenTCP("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	c := &Client{
		place: Place{Key: key, Job: [16]byte{1}}, holder: Identity{0, 1},
		known: []Peer{{Incarnation: 1, Addresses: []string{coordinator}, Host: "elsewhere"}},
	}
	go c.admitAt(l)
	return l.Addr().String()
}

// ConnectOwnSeed looks for the coordinator at the seed of this host alone.
func ConnectOwnSeed(ctx context.Context, p Place) error {
	p.Seeds = []string{p.Coordinator}
	c := &Client{place: p, id: wire.Identity{Job: p.Job, From: uint32(p.Rank), To: coordinatorID, Incarnation: p.Incarnation}}
	l, _, err := c.connectSeeds(ctx, p.Key)
	if err == nil {
		l.conn.Close()
	}
	return err
}

// LinkLines returns the lines that come on a connection on which the coordinator may say nothing for so long.
func LinkLines(conn net.Conn, wait time.Duration) *bufio.Scanner {
	l := newLink(conn, false)
	l.wait = wait
	return l.lines
}

// FailAfter reports the failure of a process after something that the coordinator cannot notice before.
func (s *Server) FailAfter(rank int, happens func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	happens()
	s.returned(s.members[rank], message{Why: "another one is dead", View: 1})
}
