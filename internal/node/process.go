package node

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/coppice-go/coppice/internal/large"
	"github.com/coppice-go/coppice/internal/node/engine"
	"github.com/coppice-go/coppice/internal/node/roster"
	"github.com/coppice-go/coppice/protocol/collective"
	"github.com/coppice-go/coppice/protocol/grant"
	"github.com/coppice-go/coppice/protocol/membership"
)

// Config is what a process is told of itself.
type Config struct {
	Rank        int    // of this process
	Size        int    // number of processes
	Grow        int    // so many may join beyond them, with ranks from Size on
	Tasks       int    // number of tasks; 0: one a process
	Joins       bool   // it joins a running job, and owns no task
	Incarnation uint64 // of this process; default 1

	// Owner is, by task, the process that owns it; nil: tasks in order, about as
	// many for each process. A process may own none.
	Owner []int32

	Spin      bool            // a processor for every process of this host: waiters may spin
	Pause     time.Duration   // the background drives after nobody has waited for so long; default 1 ms
	Unwatched bool            // there is no launcher to see how processes end
	Silence   time.Duration   // a peer that is silent for so long is suspected; default 3 s
	Buffer    int64           // bytes that may wait to be sent; default 1 GiB
	Memory    int64           // bytes that the process may use: it takes over no more tasks than fit; 0: any number
	Copies    int             // processes that have copies of what a task saves, besides its own; default 2
	Check     bool            // compare what a task that is run again sends with what it sent before
	Ends      <-chan struct{} // closed when the job's own context ends: nil if it never does
	Kills     []Kill
	Entered   func(task int, op string) // a task's first attempt begins an operation; nil: nobody wants to know
	Network   collective.Network        // what lies between the processes of the job
	Hosts     []int                     // how many processes each of several hosts began with, by rank; the same at all processes, as Network
	Rules     collective.Table          // which algorithms to use, before those for the network
	SignName  func(sign uint64) string  // the type, and the operator, that a signature of a call is of; "": unknown. nil: always
	Fanout    int                       // children of a node in the tree of views: a power of two; default 4
	Logger    *slog.Logger

	// Where says which call of the program a task of this process waits in, at which line: "Recv at heat.go:42". op is the operation. No lock is held. nil:
	// nobody knows.
	Where func(task int, op string) string

	Trace io.Writer // every call of the machines that decide is written there; nil: it is not

	// HostName tells hosts apart, as Address.Host does.
	HostName string

	// Host is told what the rest of the job must know; nil if there is none.
	Host Host

	// Arbiter asks a register outside the job, which is written once for each view, to name this process: then it may
	// go on from that view with half of its members. It returns whether it did, or an error if there is no
	// answer. nil: there is none.
	Arbiter func(ctx context.Context, view uint64) (named bool, err error)

	// Adopt has a process run the program of a task that was another's, as an attempt of
	// that number; it does not block. nil: the tasks of the dead are lost.
	Adopt func(rank, task, attempt int)

	// Moves says that processes may join, or leave, and tasks of the living be given to others.
	Moves bool

	gather bool // the processes begin one after the other
}

// Host is what a process asks of the one who started it.
type Host interface {
	Ask(rank int)                                     // the link to a process broke: is it alive?
	Suspect(rank int, incarnation uint64, why string) // a process is silent, or cannot be reached
	Hears(rank int, incarnation uint64)               // does the coordinator hear a process? HeardOf is told

	Record(record []byte) error // keep it, in place of the one before, where it outlives the process
	// Will is what a process of this host, now dead, recorded last, in the directory that its Address names.
	Will(dir string, rank int, incarnation uint64) ([]byte, error)
	// Fence has a suspect killed, if the proof is one; otherwise it is a wish. See membership.Letter.Condemns.
	Fence(rank int, incarnation uint64, why string, proof []byte)
	Opened(v *membership.View) // a view is open: told by its lowest member
	Epoch(number uint64)       // all tasks have saved it: told by the lowest member, now and then; it does not block
	Load(most int, each int64) // the process can own so many tasks, of so many bytes each; it does not block
}

// Kill is an order to die: in the Seq-th operation of a name that a task enters,
// at its Step-th Receive or Action (0: as it enters), in the middle of the write
// if Half.
type Kill struct {
	Task, Seq, Step int
	Op              string
	Half            bool
	Still           func() // if not nil, the process does not die, but stands still as long as this takes: for one that is a goroutine
}

// Limits of what waits in memory; see the package comment.
const (
	eagerMax   = 64 << 10  // bytes of a value that are sent without a grant
	partMax    = 256 << 10 // bytes of a value in a frame after the first
	aheadMax   = 256       // messages of a stream, or operations of a group
	aheadBytes = 1 << 20   // of operations that go without a grant, to a task that completes none
	linkRoom   = 4 << 20   // bytes on a link that the peer has not acknowledged
	earlyMax   = 64 << 20  // bytes of large values that nobody here has asked for

	unsentMax = 16 << 20 // bytes of operations that a task has left but whose values are not all sent
)

// Process is one process of a job. Its methods are safe for concurrent use.
//
// What it knows is in rooms: only the files of a room use its fields, others call its methods.
type Process struct {
	cfg      Config
	engine   *engine.Engine // the lock, who waits and who drives
	roster   *roster.Table  // whose tasks are, and what became of them
	mesh     mesh           // the other processes, and the ways to them
	views    views          // who is in the job
	recovery recovering     // what is kept for those that are run again
	groups   groups         // the tasks' places in groups, and their operations
	patrols  patrols
	chases   chases
	trace    *tracer // nil: nothing is written down

	dead  bool // killed, where a process is a goroutine
	ended error
	out   chan struct{} // closed then
}

func newProcess(cfg Config) (*Process, error) {
	if cfg.Tasks == 0 {
		cfg.Tasks = cmp.Or(len(cfg.Owner), cfg.Size)
	}
	if cfg.Size < 1 || cfg.Rank < 0 || cfg.Rank >= cfg.Size && !cfg.Joins || cfg.Owner == nil && cfg.Tasks < cfg.Size {
		return nil, fmt.Errorf("process %d of %d with %d tasks; allowed: ranks from 0 to below the size, no fewer tasks than processes", cfg.Rank, cfg.Size, cfg.Tasks)
	}
	for _, k := range cfg.Kills {
		if k.Task >= cfg.Tasks {
			return nil, fmt.Errorf("kill of task %d of %d; allowed: 0 to %d", k.Task, cfg.Tasks, cfg.Tasks-1)
		}
	}
	cfg.Incarnation = max(cfg.Incarnation, 1)
	cfg.Pause = cmp.Or(cfg.Pause, time.Millisecond)
	cfg.Silence = cmp.Or(cfg.Silence, 3*time.Second)
	cfg.Buffer = cmp.Or(cfg.Buffer, 1<<30)
	cfg.Copies = cmp.Or(cfg.Copies, 2)
	cfg.Fanout = cmp.Or(cfg.Fanout, 4)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.SignName == nil {
		cfg.SignName = func(uint64) string { return "" }
	}
	cfg.Rules = slices.Concat(cfg.Network.Table(), cfg.Rules)
	p := &Process{
		cfg: cfg, out: make(chan struct{}),
		roster: roster.New(cfg.Rank, cfg.owners(), cfg.Joins, cfg.Adopt != nil),
		mesh:   mesh{peers: make([]*peer, cfg.Size), early: grant.Room{Max: earlyMax}},
		groups: groups{members: map[memberKey]*Member{}, counts: map[string]int{}, whole: cfg.Rules.Whole()},
	}
	if cfg.Trace != nil {
		p.trace = &tracer{p: p}
	}
	p.engine = engine.New(engine.Config{Handler: handler{p}, Spin: cfg.Spin, Pause: cfg.Pause})
	p.patrols.do = p.patrol
	block := make([]peer, cfg.Size)
	for r := range p.mesh.peers {
		block[r] = peer{p: p, rank: r, pidfd: -1}
		p.mesh.peers[r] = &block[r]
	}
	p.peerAt(cfg.Rank)
	p.recovery.history.keeps = p.replays()
	for _, t := range p.tasks() {
		p.enterGroup(scope{group: world}, t, nil)
	}
	if err := p.initViews(); err != nil {
		return nil, err
	}
	p.initEpochs()
	p.initRules()
	return p, nil
}

// owners returns, by task, the process that owns it.
func (c *Config) owners() []int32 {
	if c.Owner != nil {
		return slices.Clone(c.Owner)
	}
	owner := make([]int32, c.Tasks)
	for t := range owner {
		owner[t] = int32(t * c.Size / c.Tasks)
	}
	return owner
}

// Tasks returns the tasks that the process began with.
func (p *Process) Tasks() (tasks []int) {
	p.engine.Lock()
	defer p.engine.Unlock()
	return p.tasks()
}

func (p *Process) tasks() (tasks []int) {
	return slices.DeleteFunc(p.roster.Of(p.cfg.Rank), p.roster.Again)
}

// World returns a task's place in the group of all tasks.
func (p *Process) World(task int) *Member {
	p.engine.Lock()
	defer p.engine.Unlock()
	return p.groups.members[memberKey{scope{group: world}, uint32(task)}]
}

// Logger is the process's.
func (p *Process) Logger() *slog.Logger { return p.cfg.Logger }

// copy copies what need not, or cannot, be copied without the lock.
func (p *Process) copy(dst, src []byte) { p.engine.Work(large.Copy(dst, src)) }

// keep returns a copy of a small value.
func (p *Process) keep(b []byte) []byte {
	n := (len(b) + 7) &^ 7 // the next one begins on a word, too
	if n > cap(p.groups.values)/8 {
		if n > 1<<10 {
			c := make([]byte, len(b))
			p.copy(c, b)
			return c
		}
		p.groups.values = make([]byte, 0, 8<<10)
	}
	if len(p.groups.values)+n > cap(p.groups.values) {
		p.groups.values = make([]byte, 0, cap(p.groups.values))
	}
	at := len(p.groups.values)
	p.groups.values = p.groups.values[:at+n]
	copy(p.groups.values[at:], b)
	return p.groups.values[at : at+len(b) : at+len(b)]
}

// End makes every operation, present and to come, fail: the job is over, or the process takes no more part in it.
func (p *Process) End(why error) {
	p.engine.Lock()
	defer p.engine.Unlock()
	p.end(why)
}

func (p *Process) end(why error) {
	if p.ended != nil {
		return
	}
	p.ended = why
	close(p.out)
	for m := range p.groups.all() {
		m.fail(func(o *operation) *Failure { return &Failure{Err: why} })
	}
	p.settlesNow()
	p.roomAgain()
	p.lookRules()
	close(p.views.sight.come)
}

// roomAgain lets those look again who wait for room to send.
func (p *Process) roomAgain() { p.engine.LookAgain(&p.groups.wanting) }
