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
	coordinatorID = wire.Coordinator
	observerID    = ^uint32(1)
)

// sayMax bounds what a client sends, tellMax what the coordinator sends: a death
// with the largest record takes the most.
const (
	sayMax  = 1 << 20
	tellMax = recordMax/3*4 + sayMax
)

// message is a line on a control connection, in either direction. Type says which of
// the other fields count.
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
	Groups      []peerGroup     `json:"groups,omitempty"`
	Event       json.RawMessage `json:"event,omitempty"`
	Record      []byte          `json:"record,omitempty"`
	Proof       []byte          `json:"proof,omitempty"` // a letter of the membership
	Hears       bool            `json:"hears,omitempty"`
	Known       bool            `json:"known,omitempty"` // whether all processes know it
	Grow        int             `json:"grow,omitempty"`
	Joins       bool            `json:"joins,omitempty"`
	Name        string          `json:"name,omitempty"` // of a host, for people
	Request     *JoinRequest    `json:"request,omitempty"`
	Joined      []Joiner        `json:"joined,omitempty"`
	View        uint64          `json:"view,omitempty"`   // its number
	Report      bool            `json:"report,omitempty"` // nothing is adopted
	Turn        int             `json:"turn,omitempty"`   // how often a process has resumed
	Tasks       int             `json:"tasks,omitempty"`  // how many tasks the process can own
	Bytes       int64           `json:"bytes,omitempty"`  // how many bytes one takes
	Coordinator Identity        `json:"coordinator,omitzero"`
	Job         []byte          `json:"job,omitempty"` // its id
}

// Messages of a client.
const (
	sayAnnounce = "announce" // Addresses, Host, Name, Pid: where it listens
	sayBeat     = "beat"     // it is alive
	sayReturned = "returned" // View, Why, Report: its tasks in that view have returned, how
	sayResumed  = "resumed"  // View: it has adopted tasks there
	sayAsk      = "ask"      // Rank: is this process alive?
	saySuspect  = "suspect"  // Rank, Incarnation, Why
	sayHears    = "hears"    // Rank, Incarnation: does the coordinator hear this process?
	sayFence    = "fence"    // Rank, Incarnation, Why, Proof
	sayLoad     = "load"     // Tasks, Bytes: how many tasks it can own, how much memory each takes
	sayEvent    = "event"    // Event
	sayOver     = "over"     // View: it knows that the job was over in this view; Known: and that all processes know it
	sayBye      = "bye"      // Record: it leaves
	sayWatch    = "watch"    // an observer: it wants events
	sayJoin     = "join"     // an observer: Request
	sayProbe    = "probe"    // an observer: has the job begun?
	sayStates   = "states"   // Turn, Event: what its tasks do; of an observer: it wants to know what they all do
	sayRecall   = "recall"   // from another coordinator: Job, Coordinator, Peers: the job has begun, and where
)

// Messages of the coordinator.
const (
	tellWelcome  = "welcome"  // the first line. Incarnation: the receiver's own, Size, LocalSize, Silence, Settings, Grow, Coordinator, Joins
	tellPeers    = "peers"    // Groups
	tellDied     = "died"     // Rank, Incarnation, Certain, Why, Record
	tellAlive    = "alive"    // Rank: the process that the receiver suspected is alive
	tellSpared   = "spared"   // Rank, Incarnation, Why: the process is not killed, although the receiver asked for it
	tellHears    = "hears"    // Rank, Hears, Silence: for how long it has not been heard
	tellReturned = "returned" // Ranks, Incarnation, Why, Turn
	tellOver     = "over"     // View: every task has returned in this view; wait until the other processes know it, too; Known: they do
	tellFinished = "finished" // View: every task has returned in this view; Why: the processes that had tasks are dead
	tellStop     = "stop"     // Why
	tellBeat     = "beat"     // the answer to a beat: the coordinator is alive
	tellPaged    = "paged"    // the coordinator sees the beats of this process in the directory's page
	tellKeep     = "keep"     // the directory was removed
	tellClosing  = "closing"  // the coordinator ends: do not come back; Why: too few processes have joined
	tellJoined   = "joined"   // Joined: the answer to an observer's request
	tellStates   = "states"   // Turn: what do the receiver's tasks do? To an observer, Event: the answers
	tellRefused  = "refused"  // Why: likewise, if it is refused

	tellElsewhere = "elsewhere" // Coordinator, Peers: the coordinator is not here
	tellGathers   = "gathers"   // the answer to a probe: the job has not begun
	tellBegun     = "begun"     // the answer to a probe: it has
)

// line returns the message as it is written.
func (m message) line() []byte {
	b, err := json.Marshal(m)
	if err != nil { // raw parts were checked when they came in
		panic("control: " + err.Error())
	}
	return append(b, '\n')
}

// newLines reads lines of bounded length. It drops an incomplete line at the end of a broken connection.
func newLines(r io.Reader, most int) *bufio.Scanner {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, 4096), most)
	s.Split(func(data []byte, _ bool) (int, []byte, error) { return bufio.ScanLines(data, false) })
	return s
}

// readMessage reads the next line.
func readMessage(lines *bufio.Scanner) (m message, err error) {
	if !lines.Scan() {
		return m, errors.Join(io.ErrUnexpectedEOF, lines.Err())
	}
	return m, json.Unmarshal(lines.Bytes(), &m)
}

// mailbox holds things until they are fetched. Putting never blocks; a reader that does
// not fetch is detected by how much waits.
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

// put adds a thing of a number of bytes. It returns false if there is no room.
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

// take removes all things. last means that no more will follow.
func (m *mailbox[T]) take() (things []T, last bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	things, m.things, m.bytes = m.things, nil, 0
	return things, m.closed
}

// empty reports whether nothing waits to be fetched.
func (m *mailbox[T]) empty() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.things) == 0 && !m.closed
}

// close lets the reader end when it has fetched what is there.
func (m *mailbox[T]) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	m.signal()
}

func (m *mailbox[T]) signal() { signal(m.filled) }

// signal wakes who waits for a channel of capacity one, now or next.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
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

// final reports whether it is of no use to try again after an error of the
// handshake.
func final(err error) bool {
	var r wire.Refusal
	return errors.As(err, &r) && r != wire.Crossed && r != wire.Closing || errors.Is(err, wire.ErrVersion) || errors.Is(err, errSize)
}

// errSize is the error of a process whose COPPICE_SIZE is not that of the job.
var errSize = errors.New("another size")
