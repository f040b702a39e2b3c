// Package doctor finds out what hosts lack for a job, before there is one.
//
// Examine calls this host and others, the latter through the command by which coppice run --hosts calls them, and talks to Serve at
// the other end. Each host examines itself: limits, the job's directory, shared memory, pidfds, a port. Then each host connects to
// all others as the processes of a job do (package transport), and sends them datagrams, which show what
// connections cannot: in which of two directions packets are lost. Examine asks all hosts at once, and every step has a
// timeout, so Examine takes no longer than the sum of these.
//
// Requests and answers are JSON, one message a line. An empty request asks for the time.
package doctor

import "time"

// How long each step may take.
const (
	CallTime    = 10 * time.Second      // until a host that was called answers
	StepTime    = 5 * time.Second       // until a host has examined itself, or has said what time it is
	ConnectTime = 3 * time.Second       // for a connection to another host, and as long again for the handshake
	datagrams   = 3                     // sent to each host
	gapTime     = 50 * time.Millisecond // between two of them
	heardTime   = time.Second           // for the last of them to arrive
)

// greeting is the first line of Serve. What a login shell may print before is skipped.
const greeting = "coppice doctor 1"

// States of findings.
const (
	OK   = "ok"
	Note = "note" // a job can run
	Fail = "fail" // a job cannot run, or not with all hosts
)

// Finding is the result of one check.
type Finding struct {
	State  string `json:"state"`
	Check  string `json:"check"`
	Where  string `json:"where"` // a host, or the path from one to another
	Text   string `json:"text"`
	Advice string `json:"advice,omitempty"` // what to do, unless all is well
}

// request is what a host is asked for; if several fields are set, the first counts.
type request struct {
	Examine *orders  `json:"examine,omitempty"`
	Reach   []target `json:"reach,omitempty"` // connect to these
	Heard   bool     `json:"heard,omitempty"` // report from which hosts datagrams have arrived
}

// orders say what a host must have.
type orders struct {
	Number  uint32   `json:"number"` // of this host
	Job     [16]byte `json:"job"`
	Key     []byte   `json:"key"`
	Env     []string `json:"env"`
	Slots   int      `json:"slots"` // processes that it will run
	Size    int      `json:"size"`  // processes of the job
	Program string   `json:"program,omitempty"`
}

// target is a host to connect to.
type target struct {
	Number    uint32   `json:"number"`
	Host      string   `json:"host"`
	Addresses []string `json:"addresses"`
	Fallback  string   `json:"fallback,omitempty"` // set for the launcher's host, which listens on all interfaces: use the address that has called, or this name
}

// answer is what a host says.
type answer struct {
	Time    time.Time `json:"time"`
	Facts   *facts    `json:"facts,omitempty"`
	Reached []reached `json:"reached,omitempty"`
	Heard   []uint32  `json:"heard,omitempty"`
}

// facts describe one host.
type facts struct {
	Version   string    `json:"version"`
	Agent     string    `json:"agent"`   // version of its protocol between launcher and agents
	Wire      uint32    `json:"wire"`    // version of its protocol between processes
	Host      string    `json:"host"`    // transport.HostID
	Program   string    `json:"program"` // its hash; "": none was asked for, or it does not exist
	Addresses []string  `json:"addresses"`
	Findings  []Finding `json:"findings"`
}

// reached is the result of a connection.
type reached struct {
	To      uint32        `json:"to"`
	Address string        `json:"address"`
	How     string        `json:"how"`  // reachedWell, or what was wrong
	Text    string        `json:"text"` // the error
	Took    time.Duration `json:"took"` // in ns, to connect
}

// Results of a connection.
const (
	reachedWell = "reached"
	blocked     = "blocked"     // no answer
	refused     = "refused"     // the connection was refused
	unreachable = "unreachable" // there is no route
	strange     = "strange"     // another process answered than the intended one
	unfinished  = "unfinished"  // connected, but the handshake did not complete
)
