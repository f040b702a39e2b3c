package node

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/ending"
	"github.com/coppice-go/coppice/protocol/membership"
)

// Local is a job whose processes are goroutines of this program.
type Local struct {
	Processes []*Process // that it began with, by rank

	cfg     Config
	closed  chan struct{}
	patrols sync.WaitGroup
	over    sync.Once
	done    chan struct{}

	mu     sync.Mutex
	joined []*Process // ranks go on
	end    *ending.Job
}

// hub is the job that has the process as a goroutine; nil: it is a process of its own.
func (p *Process) hub() *Local { return p.mesh.hub }

// NewLocal returns a job of n processes.
func NewLocal(n int, cfg Config) (*Local, error) {
	cfg.Size = n
	l := &Local{cfg: cfg, closed: make(chan struct{}), done: make(chan struct{})}
	for r := range n {
		c := cfg
		c.Rank = r
		p, err := newProcess(c)
		if err != nil {
			return nil, err
		}
		p.mesh.hub = l
		l.Processes = append(l.Processes, p)
	}
	for _, p := range l.Processes {
		for r := range p.mesh.peers {
			p.mesh.peers[r].local = l.Processes[r]
		}
	}
	l.end = ending.New(l.Processes[0].view())
	if !l.Processes[0].replays() {
		l.end.Report()
	}
	l.patrols.Go(l.patrol)
	return l, nil
}

// All are the processes of the job, by rank.
func (l *Local) All() []*Process {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Concat(l.Processes, l.joined)
}

// process returns that of a rank, or nil.
func (l *Local) process(rank int) *Process {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch n := len(l.Processes); {
	case rank < n:
		return l.Processes[rank]
	case rank < n+len(l.joined):
		return l.joined[rank-n]
	}
	return nil
}

// Join has another process join the job, which Config.Moves allows. ready is called with it before it can be given tasks. Join returns when
// all processes know it, or the job is over.
func (l *Local) Join(ready func(p *Process)) error {
	l.mu.Lock()
	c := l.cfg
	c.Rank, c.Joins = len(l.Processes)+len(l.joined), true
	p, err := newProcess(c)
	if err != nil {
		l.mu.Unlock()
		return err
	}
	p.mesh.hub = l
	l.joined = append(l.joined, p)
	for r, q := range slices.Concat(l.Processes, l.joined) {
		p.mesh.peers[r].local = q
	}
	l.mu.Unlock()
	ready(p)
	p.engine.Lock()
	p.joinViews()
	p.engine.Unlock()
	l.await(func(v *membership.View) bool { return v.Last(protocol.Rank(c.Rank)) > 0 })
	return nil
}

// Leave has the process that owns a task leave the job, as Drain does. It returns when all processes know that, or the job is over.
func (l *Local) Leave(task int) {
	all := l.All()
	all[0].engine.Lock()
	rank := all[0].roster.Owner(task)
	all[0].engine.Unlock()
	if rank < 0 {
		return
	}
	all[rank].Drain()
	l.await(func(v *membership.View) bool {
		_, in := v.Find(protocol.Rank(rank))
		return !in || v.Leaves(protocol.Rank(rank))
	})
}

// await waits until all processes that take part have a view of a kind, or the job is over.
func (l *Local) await(has func(v *membership.View) bool) {
	for _, p := range l.All() {
		l.awaitAt(p, has)
	}
}

func (l *Local) awaitAt(p *Process, has func(v *membership.View) bool) {
	for s := p.Sight(); s != nil && !has(s.View); s, _ = s.Next(context.Background()) { // it is there
		select {
		case <-s.Come():
		case <-p.Out():
			return
		case <-l.done:
			return
		}
	}
}

// patrol does for all processes what each does for itself on sockets.
func (l *Local) patrol() {
	tick := time.NewTicker(time.Duration(patrolEvery))
	defer tick.Stop()
	for {
		select {
		case <-l.closed:
			return
		case <-tick.C:
		}
		for _, p := range l.All() {
			p.engine.Lock()
			p.inspect(1)
			p.engine.Unlock()
		}
	}
}

// Returned tells that the tasks that a process has in a view have returned, each of
// which was told to the process itself.
func (l *Local) Returned(p *Process, view *membership.View, failure string) {
	for _, q := range l.All() {
		if q != p {
			q.PeersReturned([]int{p.cfg.Rank}, 1, failure)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end.Viewed(view)
	l.end.Returned(membership.Member{ID: protocol.Rank(p.cfg.Rank), Incarnation: 1}, view.Number)
	l.settle()
}

// Done is closed when the job is over.
func (l *Local) Done() <-chan struct{} { return l.done }

func (l *Local) settle() {
	if l.end.Verdict() != ending.Going {
		l.over.Do(func() { close(l.done) })
	}
}

// killed tells of a process that died. The lock of p is held.
func (l *Local) killed(p *Process) {
	p.end(ErrKilled)
	l.mu.Lock()
	l.end.Died(membership.Member{ID: protocol.Rank(p.cfg.Rank), Incarnation: 1})
	l.settle()
	l.mu.Unlock()
	record := p.testament()
	go func() {
		for _, q := range l.All() {
			if q != p {
				q.Tell(Death{Rank: p.cfg.Rank, Certain: true, How: "killed", Record: record})
			}
		}
	}()
}

// Killed tells whether the process was killed.
func (p *Process) Killed() bool {
	p.engine.Lock()
	defer p.engine.Unlock()
	return p.dead
}

// Close ends the job's processes.
func (l *Local) Close() {
	close(l.closed)
	l.patrols.Wait()
	for _, p := range l.All() {
		p.engine.Lock()
		p.engine.Halt()
		p.engine.Unlock()
	}
}

// mail is a message between processes of this program.
type mail struct {
	envelope
	value  []byte
	origin *outgoing // of a large message: it waits for a grant
	rank   int       // of the sender
	shared bool
}

// mail puts a message where the receiver takes it, in order: this process's lock
// is held. Whoever gives it back steps the receiver.
func (q *peer) mail(t *terms, e *envelope, value []byte) {
	p := q.p
	shared := t.stream == nil || p.logs() // the log has the same memory
	if shared && len(value) <= inlineMax {
		value, shared = p.keep(value), false
	}
	m := mail{envelope: *e, value: value, rank: p.cfg.Rank, shared: shared}
	m.size = uint64(len(value))
	if len(value) > eagerMax {
		m.origin = &outgoing{envelope: *e, terms: *t, value: value}
		m.origin.id = q.asked.Ask(m.origin)
		p.waits(t, value)
	}
	q.local.mesh.post.Lock()
	q.local.mesh.inbox = append(q.local.mesh.inbox, m)
	first := len(q.local.mesh.inbox) == 1
	q.local.mesh.post.Unlock()
	if first { // else whoever put the first one there steps it
		p.engine.Visit(q.local.engine)
	}
}

// takeMail handles what others sent. The lock is held.
func (p *Process) takeMail() {
	p.mesh.post.Lock()
	letters := p.mesh.inbox
	p.mesh.inbox = p.mesh.spareInbox[:0]
	p.mesh.post.Unlock()
	for i := range letters {
		l := &letters[i]
		if p.peerAt(l.rank).dead { // what it said before its death was taken then
			continue
		}
		in := p.passing()
		in.envelope, in.source, in.shared = l.envelope, p.mesh.peers[l.rank], l.shared
		if l.origin == nil {
			in.value, in.filled = l.value, len(l.value)
			in.Came()
		} else {
			in.id, in.origin = l.origin.id, l.origin
		}
		p.dispatch(in)
	}
	clear(letters)
	p.mesh.spareInbox = letters
}
