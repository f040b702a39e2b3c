package control

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/coppice-go/coppice/internal/wire"
)

// The ids that are not ranks.
const (
	coordinatorID = ^uint32(0)
	observerID    = ^uint32(1)
)

// lineMax bounds a message.
const lineMax = 1 << 20

// message is a line on a control connection, either way. Type says which of
// the others count.
type message struct {
	Type        string          `json:"type"`
	Rank        int             `json:"rank,omitempty"`
	Ranks       []int           `json:"ranks,omitempty"`
	Incarnation uint64          `json:"incarnation,omitempty"`
	Addresses   []string        `json:"addresses,omitempty"`
	Host        string          `json:"host,omitempty"`
	Pid         int             `json:"pid,omitempty"`
	Why         string          `json:"why,omitempty"` // reason, failure, how
	Certain     bool            `json:"certain,omitempty"`
	Size        int             `json:"size,omitempty"`
	LocalSize   int             `json:"local_size,omitempty"`
	Silence     time.Duration   `json:"silence,omitempty"` // ns
	Settings    json.RawMessage `json:"settings,omitempty"`
	Peers       []Peer          `json:"peers,omitempty"`
	Event       json.RawMessage `json:"event,omitempty"`
}

// What a client says.
const (
	sayAnnounce = "announce" // Addresses, Host, Pid: where it listens
	sayBeat     = "beat"     // it is alive
	sayReturned = "returned" // Why: its tasks have returned, how
	sayAsk      = "ask"      // Rank: is it alive?
	saySuspect  = "suspect"  // Rank, Incarnation, Why
	sayEvent    = "event"    // Event
	sayBye      = "bye"      // it leaves
	sayWatch    = "watch"    // an observer: it wants events
)

// What the coordinator tells.
const (
	tellWelcome  = "welcome"  // Size, LocalSize, Silence, Settings: the first line
	tellPeers    = "peers"    // Peers
	tellDied     = "died"     // Rank, Incarnation, Certain, Why
	tellReturned = "returned" // Ranks, Why
	tellFinished = "finished"
	tellStop     = "stop"    // Why
	tellBeat     = "beat"    // the answer to one: the coordinator is alive
	tellClosing  = "closing" // it ends: do not come back
)

// line is a message as it is written.
func (m message) line() []byte {
	b, err := json.Marshal(m)
	if err != nil { // raw parts were checked when they came in
		panic("control: " + err.Error())
	}
	return append(b, '\n')
}

// newLines reads lines of bounded length.
func newLines(r io.Reader) *bufio.Scanner {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, 4096), lineMax)
	return s
}

// mailbox holds things until they are fetched. Putting never blocks; who does
// not fetch is found out by how much is there.
type mailbox[T any] struct {
	mu     sync.Mutex
	things []T
	bytes  int
	room   int
	closed bool
	filled chan struct{} // capacity 1: there are things, or it was closed
}

func newMailbox[T any](room int) *mailbox[T] {
	return &mailbox[T]{room: room, filled: make(chan struct{}, 1)}
}

// put adds a thing of so many bytes. It returns false if there is no room.
func (m *mailbox[T]) put(thing T, bytes int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || m.bytes+bytes > m.room && m.bytes > 0 {
		return false
	}
	m.things = append(m.things, thing)
	m.bytes += bytes
	m.signal()
	return true
}

// take removes all. last means that there will be no more.
func (m *mailbox[T]) take() (things []T, last bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	things, m.things, m.bytes = m.things, nil, 0
	return things, m.closed
}

// close lets who fetches end when it has what is there.
func (m *mailbox[T]) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	m.signal()
}

func (m *mailbox[T]) signal() {
	select {
	case m.filled <- struct{}{}:
	default:
	}
}

// writeLines writes lines in as few calls as is reasonable.
func writeLines(w io.Writer, lines [][]byte) error {
	var buf []byte
	for i, line := range lines {
		buf = append(buf, line...)
		if len(buf) >= 64<<10 || i == len(lines)-1 {
			if _, err := w.Write(buf); err != nil {
				return err
			}
			buf = buf[:0]
		}
	}
	return nil
}

// final tells whether it is of no use to try again after an error of the
// handshake.
func final(err error) bool {
	var r wire.Refusal
	return errors.As(err, &r) && r != wire.Crossed && r != wire.Closing || errors.Is(err, wire.ErrVersion)
}
