package node

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/coppice-go/coppice/internal/detect"
	"github.com/coppice-go/coppice/protocol"
)

// What ends an operation without a result. Programs see these errors: the API says what they mean.
var (
	ErrLost      = errors.New("task lost")
	ErrMismatch  = errors.New("tasks disagree about the operation")
	ErrUnreached = errors.New("value did not arrive")
	ErrDiverged  = errors.New("program diverged")
	ErrDeadlock  = errors.New("tasks wait for each other")
	ErrExcluded  = errors.New("excluded from the job")
	ErrNoQuorum  = errors.New("no quorum")
	ErrAborted   = errors.New("aborted by the end of a task's context")
	ErrRevoked   = errors.New("group revoked")
	ErrMoved     = errors.New("task moved to another process")
	ErrAbandoned = errors.New("job abandoned")

	// ErrLeft: a task that is needed has returned well, without taking part.
	ErrLeft = fmt.Errorf("%w: a task has returned", ErrMismatch)
	// ErrKilled: this process, a goroutine, was killed; its task must end.
	ErrKilled = errors.New("killed")
)

// Failure is why an operation failed. Err is one of the errors above, the end of
// a context, or what the job ended with.
type Failure struct {
	Op    string
	Tasks []int // whose fault it is
	Err   error
	Text  string // more words
}

func (f *Failure) Error() string { return f.Op + ": " + cmp.Or(f.Text, f.Err.Error()) }

func (f *Failure) Unwrap() error { return f.Err }

// Parting is why a process takes no more part in its job.
type Parting struct {
	Err  error // ErrExcluded or ErrNoQuorum
	Text string
}

func (p *Parting) Error() string { return p.Text }

func (p *Parting) Unwrap() error { return p.Err }

// goneFailure is what a rank that takes part no more makes of an operation.
func (m *Member) goneFailure(op string, rank int) *Failure {
	task := m.taskOf(rank)
	g := m.p.roster.Status(task)
	f := &Failure{Op: op, Tasks: []int{task}, Err: ErrLost}
	switch {
	case g.Dead || g.Orphan:
		f.Text = fmt.Sprintf("task %d is dead", task)
	case g.Why != "":
		f.Text = fmt.Sprintf("task %d has failed", task)
	default:
		f.Err, f.Text = ErrLeft, fmt.Sprintf("task %d has returned without taking part", task)
	}
	if g.Why != "" {
		f.Text += ": " + g.Why
	}
	return f
}

// nameTime is how long a death that the kernel tells waits for the coordinator to
// say how it came about.
const nameTime = protocol.Time(5 * time.Millisecond)

// askTime is when it is asked, if it has not told before: the next view comes first.
const askTime = protocol.Time(2 * time.Millisecond)

// exited learns from the kernel that the peer's process is dead.
func (q *peer) exited() {
	p := q.p
	dead := func() {
		if p.peerAt(q.rank) == q { // its next life may be there
			p.died(q.rank, true, "its process has exited")
		}
	}
	for q.conn != nil && q.read() { // what it still said
	}
	if p.cfg.Host == nil {
		p.viewDeath(q.rank, q.incarnation, nil, false) // nobody has kept a record
		dead()
		return
	}
	p.engine.Unwatch(q.pidfd) // it has said what it has to say
	if p.cfg.Unwatched {
		if exit, sig, ok := detect.StatusPidfd(q.pidfd); ok && exit == 0 && sig == 0 {
			p.quitted(q.rank)
		}
	}
	if record, err := p.cfg.Host.Will(q.records, q.rank, max(q.incarnation, 1)); err == nil {
		p.viewDeath(q.rank, q.incarnation, record, true)
	} else {
		p.cfg.Logger.Info("no record at hand", "peer", q.rank, "error", err) // the coordinator will tell what it was
	}
	p.engine.At(p.engine.Now()+askTime, func() {
		if !q.dead {
			go p.cfg.Host.Ask(q.rank)
		}
	})
	p.engine.At(p.engine.Now()+nameTime, dead)
}

// died handles a death: after what the dead sent, so that it counts.
func (p *Process) died(rank int, certain bool, how string) {
	q := p.peerAt(rank)
	if q.dead || p.engine.Stopped() {
		return
	}
	if q.conn != nil {
		for q.read() {
		}
	}
	q.dead = true
	q.forget()
	if !certain {
		p.cfg.Logger.Warn("process given up", "peer", rank, "why", how)
	}
	p.roster.Died(rank, how)
	p.lingered()
	for m := range p.groups.all() {
		if p.replays() {
			m.orphaned()
		} else {
			m.lost()
		}
	}
	p.settlesNow()
	p.roomAgain()
}

// lost looks which operations of the group fail because of the dead.
func (m *Member) lost() {
	if !m.known {
		return
	}
	m.ahead.lookGone(m)
	m.dropGone()
	for o := range m.ops.all() {
		o.bereaved()
		if o.waits() {
			o.needs()
		}
	}
	m.failStreams(func(s *inStream) *Failure {
		if m.goneRank(s.from).Dead {
			return m.goneFailure("", s.from)
		}
		return nil
	})
	m.answerPending()
}

// bereaved takes note of a death.
func (o *operation) bereaved() {
	o.dropUnfinished()
	o.askPromised()
	if o.pausing > 0 { // there is reason to hurry now
		o.pausing = 0
		o.step()
	}
}

// dropUnfinished forgets what the dead began to send: the rest will not come, and
// what others sent must not wait behind it.
func (o *operation) dropUnfinished() {
	unfinished := func(a arrival) bool { return !a.in.Complete() && a.in.source.dead }
	o.early = slices.DeleteFunc(o.early, unfinished)
	was := len(o.arrived)
	o.arrived = slices.DeleteFunc(o.arrived, unfinished)
	if len(o.arrived) < was && o.sched == nil {
		o.catchUp()
	}
}

// needs fails the operation if it needs a task that is dead, and asks about
// those that have returned.
func (o *operation) needs() {
	if o.delivered || o.err != nil || !o.m.p.roster.Gone() && !o.m.p.roster.Deaths() {
		return
	}
	m := o.m
	switch {
	case o.plan.corrected() && !m.p.replays():
		o.outlive()
	case !o.plan.unasked(), o.plan.op == opScatter, o.plan.is(unlogged) && m.p.replays():
		for r := range m.Size() {
			if g := m.goneRank(r); g.Dead || g.Orphan && o.plan.is(unlogged) {
				o.fail(m.lostFailure(r))
				return
			}
		}
	case o.plan.remembered():
		o.inquireSoon()
	default:
		for _, r := range m.ancestors(o.plan) {
			if m.goneRank(int(r)).Dead {
				o.fail(m.goneFailure("", int(r)))
				return
			}
		}
	}
	o.probeReturned()
}

// awaits lists the ranks whose messages the operation waits for.
func (o *operation) awaits() (ranks []protocol.Rank) {
	switch {
	case o.plan.op == opSave:
		for r := range o.m.Size() {
			ranks = append(ranks, protocol.Rank(r))
		}
		return ranks
	case o.machine != nil:
		ranks = o.machine.awaits()
	case !o.plan.open():
		return nil // it has not begun
	}
	if ranks == nil && o.plan.unasked() && !o.begins() {
		if up := o.m.ancestors(o.plan); len(up) > 0 {
			ranks = append(ranks, up[0])
		}
		ranks = append(ranks, protocol.Rank(o.plan.root))
	}
	return ranks
}
