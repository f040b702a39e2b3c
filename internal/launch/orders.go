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

// Messages between a launcher and the agent on another host, as JSON, one
// message a line: the launcher writes to the agent's standard input, the agent to its
// standard output. Nothing of it, above all the key, is on a command line.

// agentGreeting is the agent's first line. The launcher skips what a login shell may print
// before it.
const agentGreeting = agentName + "4"

// AgentVersion is the version that a launcher and its agents must have in common.
func AgentVersion() string { return agentGreeting }

// agentName begins the greeting of agents of all versions.
const agentName = "coppice agent "

// greets reports whether a line is an agent's greeting.
func greets(line string) (bool, error) {
	if line != agentGreeting && strings.HasPrefix(line, agentName) {
		return false, InputError{fmt.Errorf("it has another version of coppice: it says %q, and this one %q; allowed: the same version on all hosts", line, agentGreeting)}
	}
	return line == agentGreeting, nil
}

// agentOrders is the launcher's first line: what to start on a host.
type agentOrders struct {
	Job         [16]byte `json:"job"`
	Key         []byte   `json:"key"`
	Size        int      `json:"size"`
	Grow        int      `json:"grow,omitempty"`
	Coordinator string   `json:"coordinator"` // HOST:PORT; without HOST: the host that called the agent
	Fallback    string   `json:"fallback"`    // HOST, if the agent does not know that
	Ranks       []int    `json:"ranks"`
	Life        uint64   `json:"incarnation"` // of all these processes
	Program     string   `json:"program"`
	Args        []string `json:"args"`
	Dir         string   `json:"dir"`
	Env         []string `json:"env"`

	Patience time.Duration `json:"patience"` // in ns: how long an agent hears nothing from the launcher before it may take it for gone

	Seed   bool          `json:"seed,omitempty"`   // only report where others may look for processes of this host; the orders follow then
	Listen string        `json:"listen,omitempty"` // with Seed: where processes listen (Plan.Listen)
	Keep   *keepOrders   `json:"keep,omitempty"`   // the processes outlive the launcher
	Follow *followOrders `json:"follow,omitempty"` // only report on processes that have outlived their launcher
}

// keepOrders describe a job that outlives its launcher. Coordinator then has its seeds.
type keepOrders struct {
	Name     string          `json:"name"`     // of the job
	Host     string          `json:"host"`     // this host, as the user calls it
	About    spool.About     `json:"about"`    // what every host knows of the job, so that any host can be asked
	Settings json.RawMessage `json:"settings"` // for the processes
	Grace    time.Duration   `json:"grace"`    // in ns
	Timeout  time.Duration   `json:"timeout"`  // in ns; 0: never
	Prefix   bool            `json:"prefix"`
	Hidden   bool            `json:"hidden,omitempty"` // whether the output is dropped
	Shown    []int           `json:"shown,omitempty"`  // the ranks whose output is kept; nil: all
}

// followOrders describe processes that have outlived their launcher.
type followOrders struct {
	Job    string `json:"job"`
	Host   string `json:"host"`           // this host, as the user calls it
	From   int64  `json:"from,omitempty"` // a position in its spool
	Wait   bool   `json:"wait,omitempty"` // the output is not needed
	Remove bool   `json:"remove,omitempty"`
}

// KeptName returns the name of what is kept of a job on a host. All hosts may share the home directory.
func KeptName(job, host string) string { return job + "." + host }

// patienceMin is the least patience of agents. The launcher sends six messages in that time.
const patienceMin = 30 * time.Second

// command is a later line of the launcher; an empty one says that the launcher is alive. The end of its input tells an agent
// that the launcher is gone: the agent kills what it started, and ends. A Signal is an order of the user, whose run it is (a signal, a time-out, --kill), or
// of the launcher that ends the run; the agent obeys. A Fence is an order of the coordinator, which may be wrong: the agent checks it.
type command struct {
	Signal syscall.Signal `json:"signal,omitempty"` // to send
	Rank   *int           `json:"rank,omitempty"`   // to the process of this rank; nil: to all that still run
	Fence  *control.Fence `json:"fence,omitempty"`  // kill a process that the others continue without
	Undo   bool           `json:"undo,omitempty"`   // kill what was to outlive the launcher, and forget it
}

// notice is a message of an agent.
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
	noticeClosed  = "closed"  // Rank, Stream: end of the output
	noticeExited  = "exited"  // Rank, Status, Will
	noticeRefused = "refused" // Text: nothing could be started, and why
	noticeSpared  = "spared"  // Rank, Text: a Fence is refused, and why

	noticeSeed   = "seed"   // Text: an address
	noticeSpool  = "spool"  // Stream, Data, At: the position after Data
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
