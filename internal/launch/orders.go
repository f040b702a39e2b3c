package launch

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/coppice-go/coppice/internal/control"
	"github.com/coppice-go/coppice/internal/spool"
)

// What a launcher and the agent on another host say to each other, as JSON, one
// message a line: the launcher on the agent's standard input, the agent on its
// standard output. Nothing of it, the key above all, is on a command line.

// agentGreeting is the agent's first line. What a login shell may print before
// is skipped.
const agentGreeting = agentName + "3"

// AgentVersion is what a launcher and its agents must have in common.
func AgentVersion() string { return agentGreeting }

// agentName begins the greeting of agents of all versions.
const agentName = "coppice agent "

// greets tells whether a line is an agent's greeting.
func greets(line string) (bool, error) {
	if line != agentGreeting && strings.HasPrefix(line, agentName) {
		return false, InputError{fmt.Errorf("it has another version of coppice: it says %q, and this one %q; allowed: the same version on all hosts", line, agentGreeting)}
	}
	return line == agentGreeting, nil
}

// agentOrders are the launcher's first line: what to start on a host.
type agentOrders struct {
	Job         [16]byte `json:"job"`
	Key         []byte   `json:"key"`
	Size        int      `json:"size"`
	Grow        int      `json:"grow,omitempty"`
	Coordinator string   `json:"coordinator"` // HOST:PORT; without HOST: where the agent was called from
	Fallback    string   `json:"fallback"`    // HOST, should the agent not know that
	Ranks       []int    `json:"ranks"`
	Life        uint64   `json:"incarnation"` // of all of them
	Program     string   `json:"program"`
	Args        []string `json:"args"`
	Dir         string   `json:"dir"`
	Env         []string `json:"env"`

	Patience time.Duration `json:"patience"` // in ns: an agent that has not heard of the launcher for so long may take it for gone

	Seed   bool          `json:"seed,omitempty"`   // only this: tell where others may look for processes of this host; the orders come then
	Keep   *keepOrders   `json:"keep,omitempty"`   // the processes outlive the launcher
	Follow *followOrders `json:"follow,omitempty"` // only this: tell of those that did
}

// keepOrders are about a job that outlives its launcher. Coordinator has its seeds then.
type keepOrders struct {
	Name     string          `json:"name"`     // of the job
	Host     string          `json:"host"`     // as the user calls this one
	About    spool.About     `json:"about"`    // what every host knows of the job: who asks may ask there
	Settings json.RawMessage `json:"settings"` // for the processes
	Grace    time.Duration   `json:"grace"`    // in ns
	Prefix   bool            `json:"prefix"`
	Hidden   bool            `json:"hidden,omitempty"` // what they write is not kept
	Shown    []int           `json:"shown,omitempty"`  // only of these ranks; nil: of all
}

// followOrders are about processes that have outlived their launcher.
type followOrders struct {
	Job    string `json:"job"`
	Host   string `json:"host"`           // as the user calls this one
	From   int64  `json:"from,omitempty"` // a position in its spool
	Wait   bool   `json:"wait,omitempty"` // the output is of no interest
	Remove bool   `json:"remove,omitempty"`
}

// KeptName is the name of what is kept of a job on a host. The home directory may be on all of them.
func KeptName(job, host string) string { return job + "." + host }

// patienceMin is the least patience of agents. The launcher is heard of six times in that time.
const patienceMin = 30 * time.Second

// command is what the launcher says then; an empty one says that it is there. The end of its input tells an agent
// that the launcher is gone: it kills what it started, and ends.
type command struct {
	Signal syscall.Signal `json:"signal,omitempty"` // to send
	Rank   *int           `json:"rank,omitempty"`   // to the process of this rank; nil: to all that still run
	Undo   bool           `json:"undo,omitempty"`   // kill what was to outlive the launcher, and forget it
}

// notice is what an agent says.
type notice struct {
	Type   string  `json:"type"`
	Rank   int     `json:"rank"`
	PID    int     `json:"pid,omitempty"`
	Stream int     `json:"stream,omitempty"`
	Data   []byte  `json:"data,omitempty"`
	Status *status `json:"status,omitempty"`
	Text   string  `json:"text,omitempty"`
	control.Will

	At     int64         `json:"at,omitempty"`
	Result *spool.Result `json:"result,omitempty"`
}

// The types of notices.
const (
	noticeStarted = "started" // Rank, PID
	noticeOutput  = "output"  // Rank, Stream, Data
	noticeClosed  = "closed"  // Rank, Stream: no more of that
	noticeExited  = "exited"  // Rank, Status, Will
	noticeRefused = "refused" // Text: nothing could be started, and why

	noticeSeed   = "seed"   // Text: an address
	noticeSpool  = "spool"  // Stream, Data, At: after that
	noticeResult = "result" // Result
	noticeGone   = "gone"   // Text: there will be no result, and why
	noticeAlive  = "alive"
)

// lineWriter writes messages, from any goroutine.
type lineWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lineWriter) say(message any) error {
	line, err := json.Marshal(message)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err = l.w.Write(append(line, '\n'))
	return err
}

// messageMax bounds a message in bytes: an end with a large record takes the most.
const messageMax = 32 << 20

func newLineReader(r io.Reader) *bufio.Scanner {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, 64<<10), messageMax)
	return s
}
