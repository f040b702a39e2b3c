// Package doctor says what hosts lack for a job, before there is one.
//
// Examine calls this host and others, the latter through the command that coppice run --hosts calls them by, and talks with Serve at
// the other end. Each host examines itself: limits, the job's directory, shared memory, pidfds, a port. Then each connects with
// all others as the processes of a job do (package transport), and sends them datagrams, which tell apart what
// connections do not: in which of two directions packets are lost. All hosts are asked at once, and every step has a
// time-out, so that Examine takes no longer than the sum of these.
//
// The talk is JSON, one message a line. A request that asks for nothing is for the time.
package doctor

import "time"

// What each step may take.
const (
	CallTime    = 10 * time.Second      // until a host that was called answers
	StepTime    = 5 * time.Second       // until a host has examined itself, or says what time it is
	ConnectTime = 3 * time.Second       // for a connection with another host, and as long again for the handshake
	datagrams   = 3                     // sent to each host
	gapTime     = 50 * time.Millisecond // between two of them
	heardTime   = time.Second           // for the last of them to come
)

// greeting is the first line that Serve says. What a login shell may print before is skipped.
const greeting = "coppice doctor 1"

// States of findings.
const (
	OK   = "ok"
	Note = "note" // a job can run
	Fail = "fail" // it cannot, or not with all hosts
)

// Finding is one thing that was examined.
type Finding struct {
	State  string `json:"state"`
	Check  string `json:"check"`
	Where  string `json:"where"` // a host, or the way from one to another
	Text   string `json:"text"`
	Advice string `json:"advice,omitempty"` // what to do, unless all is well
}

// request is what a host is asked for; of several, the first that is set.
type request struct {
	Examine *orders  `json:"examine,omitempty"`
	Reach   []target `json:"reach,omitempty"` // connect with these
	Heard   bool     `json:"heard,omitempty"` // say whose datagrams have come
}

// orders say what a host is to have.
type orders struct {
	Number  uint32   `json:"number"` // of this host
	Job     [16]byte `json:"job"`
	Key     []byte   `json:"key"`
	Env     []string `json:"env"`
	Slots   int      `json:"slots"` // processes that it is to take
	Size    int      `json:"size"`  // of the job
	Program string   `json:"program,omitempty"`
}

// target is a host to connect with.
type target struct {
	Number    uint32   `json:"number"`
	Host      string   `json:"host"`
	Addresses []string `json:"addresses"`
	Fallback  string   `json:"fallback,omitempty"` // it is the launcher's host, on all interfaces: at the address that has called, or by this name
}

// answer is what a host says.
type answer struct {
	Time    time.Time `json:"time"`
	Facts   *facts    `json:"facts,omitempty"`
	Reached []reached `json:"reached,omitempty"`
	Heard   []uint32  `json:"heard,omitempty"`
}

// facts are about one host.
type facts struct {
	Version   string    `json:"version"`
	Agent     string    `json:"agent"`   // of its protocol
	Wire      uint32    `json:"wire"`    // the same between processes
	Host      string    `json:"host"`    // transport.HostID
	Program   string    `json:"program"` // its hash; "": none was asked for, or it is not there
	Addresses []string  `json:"addresses"`
	Findings  []Finding `json:"findings"`
}

// reached is what came of a connection.
type reached struct {
	To      uint32        `json:"to"`
	Address string        `json:"address"`
	How     string        `json:"how"`  // reachedWell, or what was wrong
	Text    string        `json:"text"` // the error
	Took    time.Duration `json:"took"` // in ns, to connect
}

// What may come of a connection.
const (
	reachedWell = "reached"
	blocked     = "blocked"     // nobody answers
	refused     = "refused"     // somebody says no
	unreachable = "unreachable" // there is no way
	strange     = "strange"     // who answers is not the one that was meant
	unfinished  = "unfinished"  // connected, but the handshake did not come to its end
)
