package node

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/coppice-go/coppice/internal/node/engine"
	"github.com/coppice-go/coppice/internal/node/roster"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/agreement"
	"github.com/coppice-go/coppice/protocol/collective"
	"github.com/coppice-go/coppice/protocol/credit"
	"github.com/coppice-go/coppice/protocol/recovery"
	"github.com/coppice-go/coppice/protocol/revoke"
)

// world is the id of the group of all tasks.
const world = 1

type memberKey struct {
	scope
	task uint32
}

// Member is a task's place in a group: its rank, its operations and its streams
// to the others.
type Member struct {
	p *Process
	scope
	task  int
	known bool    // the task has joined the group
	rank  int     // of the task in the group
	tasks []int32 // by rank; nil: those of the world
	ranks map[int32]int
	hosts []protocol.Rank // see findHosts
	held  []*incoming     // came before the task joined, or the view of an attempt

	seq        uint64 // the last operation entered
	forks      uint64
	ops        table
	factories  map[Plan]factory
	lastPlan   Plan // that was asked for, and its factory
	lastMake   factory
	in         map[streamKey]*inStream
	out        map[streamKey]*outStream
	ahead      ahead
	unsent     int64          // bytes of its operations that wait to be sent
	broken     *Failure       // misuse: nothing works any more
	late       *Failure       // misuse that came to light after the operation; the task may not know it
	doomed     map[uint64]int // operations to come, by number, that a rank has returned without
	past       [pastMax]pastOp
	called     []uint64 // by operation: what the task called; see check.go
	lastCall   call
	digests    digests // of what it took
	agreed     uint64  // the agreed operation that the task is in, if it is in one
	patience   outliving
	revoking   revoke.State
	fate       fate                   // of the last operation, which may have further parts
	agreements *agreement.Tape[*pact] // nil: there are none
	blocks     [][]byte               // of the last result
	lent       []bool
	later      [][]byte // memory of the last result, which the task has copied when it calls the next
	parked     []parked // memory that was sent, until all have it
	log        *recovery.Log
	logged     int64 // bytes that it counts in the log
	onces      uint64
	anyRank    int                                // of which the task received last, of any
	asking     bool                               // the task calls the function of a Once
	forked     bool                               // made by the task: it may be for a goroutine of its own
	released   bool                               // which calls nothing more
	again      map[int]*credit.Anew[*heldMessage] // by rank: what is still to be sent again

	// For inquiries; see inquiry.go.
	pending     []pendingAsk
	recent      map[uint64]*operation
	recentFirst uint64
	recentBytes int
}

// groups is the places of the process's tasks in groups.
type groups struct {
	members  map[memberKey]*Member
	later    []*Member // of epochs after the first
	last     *Member   // that was asked for
	releases releases
	whole    collective.Table // the rules for values that cannot be cut
	counts   map[string]int   // operations entered, by task and name
	freeOps  []*operation
	values   []byte      // where small values are kept
	concat   []byte      // where blocks of a message are put together
	queued   int64       // what messages of streams that wait to be sent cost
	wanting  engine.Line // for room to send
}

// all lists the places of tasks, in any order.
func (g *groups) all() iter.Seq[*Member] { return maps.Values(g.members) }

// remove takes those of some places whose tasks are gone out of the tables, and returns them.
func (g *groups) remove(some iter.Seq[*Member], gone func(*Member) bool) (removed []*Member) {
	for m := range some {
		if gone(m) {
			delete(g.members, memberKey{m.scope, uint32(m.task)})
			removed = append(removed, m)
		}
	}
	g.later = slices.DeleteFunc(g.later, gone)
	g.releases.kept = slices.DeleteFunc(g.releases.kept, gone)
	g.last = nil
	return removed
}

// removeLater does so among those of epochs after the first.
func (g *groups) removeLater(gone func(*Member) bool) []*Member {
	return g.remove(slices.Values(g.later), gone)
}

// member returns a task's place in a group, known or not.
func (p *Process) member(at scope, task int) *Member {
	if m := p.groups.last; m != nil && m.scope == at && m.task == task {
		return m
	}
	key := memberKey{at, uint32(task)}
	m := p.groups.members[key]
	if m == nil {
		m = &Member{
			p: p, scope: at, task: task, ahead: ahead{Tape: credit.Tape{Account: credit.Account{Limits: aheadLimits}}},
			factories: map[Plan]factory{},
			in:        map[streamKey]*inStream{}, out: map[streamKey]*outStream{},
		}
		p.groups.members[key] = m
		if at.epoch > 0 {
			p.groups.later = append(p.groups.later, m)
		}
	}
	p.groups.last = m
	return m
}

// beside names another group, made in the same epoch. Those made in the first one go on
// in later ones under the same name.
func (s scope) beside(group uint64) scope {
	if s.epoch > 0 {
		group = protocol.Mix(group, laterSalt)
	}
	return scope{group, s.epoch}
}

const laterSalt = 0x45706f6368 // tells names of groups made later from those made in the first epoch

// join makes the group known: its tasks by rank.
func (m *Member) join(tasks []int32) {
	m.known, m.tasks, m.rank = true, tasks, m.task
	if tasks != nil {
		m.ranks = make(map[int32]int, len(tasks))
		for r, t := range tasks {
			m.ranks[t] = r
		}
		m.rank = m.ranks[int32(m.task)]
	}
	m.hosts = m.findHosts()
	m.trace()
	m.ahead.Fit(m.Size())
	m.revoking.Join()
	m.flood() // that it is revoked may have been known before
	m.takeHeld()
}

// enterGroup makes a group known to a task of this process, if it is not yet: its tasks by rank; nil: all.
func (p *Process) enterGroup(at scope, task int, tasks []int32) *Member {
	m := p.member(at, task)
	if !m.known {
		m.join(tasks)
	}
	return m
}

// takeHeld handles what has come before the task joined, or before the view of who tells it.
func (m *Member) takeHeld() {
	held := m.held
	m.held = nil
	for _, in := range held {
		if in.Complete() || !in.source.dead { // else the rest will not come, but all of it anew
			m.dispatch(in)
		}
	}
}

// Rank is the task's rank in the group, Size the group's, Task the task's number
// in the job.
func (m *Member) Rank() int { return m.rank }

// Task is the task's rank among all tasks of the job.
func (m *Member) Task() int { return m.task }

// TaskOf is the number in the job of a rank's task.
func (m *Member) TaskOf(rank int) int { return m.taskOf(rank) }

// Replays tells whether the tasks of the dead are run again.
func (m *Member) Replays() bool { return m.p.replays() }

// Size is the number of tasks in the group.
func (m *Member) Size() int {
	if m.tasks == nil {
		return m.p.roster.Len()
	}
	return len(m.tasks)
}

// Sight returns the view that is open.
func (m *Member) Sight() *Sight { return m.p.Sight() }

// Killed tells whether the process was killed, where it is a goroutine.
func (m *Member) Killed() bool { return m.p.Killed() }

// Name tells groups apart, the same at all tasks.
func (m *Member) Name() uint64 { return m.group }

func (m *Member) taskOf(rank int) int {
	if m.tasks == nil {
		return rank
	}
	return int(m.tasks[rank])
}

func (m *Member) rankOf(task uint32) (int, bool) {
	if m.tasks == nil {
		return int(task), true
	}
	r, ok := m.ranks[int32(task)]
	return r, ok
}

// peer returns the process of a rank.
func (m *Member) peer(rank int) *peer { return m.p.peerAt(m.p.roster.Owner(m.taskOf(rank))) }

// to is an envelope from this task to a rank of the group.
func (m *Member) to(rank int) envelope {
	return envelope{scope: m.scope, from: uint32(m.task), to: uint32(m.taskOf(rank))}
}

// goneRank tells what is known of a rank that takes part no more.
func (m *Member) goneRank(rank int) roster.Status { return m.p.roster.Status(m.taskOf(rank)) }

// Fork returns the same group with an own sequence of operations. All tasks fork
// in the same order.
func (m *Member) Fork() *Member {
	m.p.engine.Lock()
	defer m.p.engine.Unlock()
	m.forks++
	f := m.p.enterGroup(m.beside(protocol.Mix(m.group, m.forks<<1)), m.task, m.tasks)
	f.forked = true
	if f.broken == nil { // what is wrong with it may have come before
		f.broken = m.broken
	}
	return f
}

// Split makes a group of the tasks that pass the same color, in the order of
// their keys, equal ones by rank; a negative color: none.
func (m *Member) Split(ctx context.Context, color, key int) (*Member, error) {
	const op, size = "split", 16
	mine := binary.LittleEndian.AppendUint64(nil, uint64(color))
	mine = binary.LittleEndian.AppendUint64(mine, uint64(key))
	plan := m.Choose(collective.AllGather, Choice{Bytes: size})
	plan.op = opSplit
	got, err := m.Do(ctx, &Call{Plan: plan, Value: mine})
	if err != nil {
		return nil, err
	}
	type entry struct{ key, rank int }
	var group []entry
	for r, b := range got.Values {
		if len(b) != size {
			return nil, &Failure{Op: op, Tasks: []int{m.taskOf(r)}, Err: ErrMismatch, Text: fmt.Sprintf("task %d sent %d bytes for a color and a key", m.taskOf(r), len(b))}
		}
		if int(binary.LittleEndian.Uint64(b)) == color {
			group = append(group, entry{int(binary.LittleEndian.Uint64(b[8:])), r})
		}
	}
	if color < 0 {
		return nil, nil
	}
	slices.SortStableFunc(group, func(a, b entry) int { return cmp.Compare(a.key, b.key) })
	m.p.engine.Lock()
	defer m.p.engine.Unlock()
	tasks := make([]int32, len(group))
	for i, e := range group {
		tasks[i] = int32(m.taskOf(e.rank))
	}
	g := m.p.enterGroup(m.beside(protocol.Mix(protocol.Mix(m.group, m.seq<<1|1), uint64(color))), m.task, tasks)
	g.forked = true
	return g, nil
}

// usable tells why operations on the group must fail, if they must.
func (m *Member) usable(op string) error {
	if err := m.open(op); err != nil || !m.asking {
		return err
	}
	return m.WithinOnce(op)
}

// WithinOnce is the error of what a task calls in the function of a Once.
func (m *Member) WithinOnce(op string) *Failure {
	return &Failure{Op: op, Tasks: []int{m.task}, Err: ErrMismatch, Text: fmt.Sprintf("task %d calls %s within the function of Once, which is not called again; allowed: before or after Once", m.task, op)}
}

// open is usable for what a Once does by itself.
func (m *Member) open(op string) error {
	switch {
	case m.p.dead:
		return ErrKilled
	case m.p.ended != nil:
		return &Failure{Op: op, Err: m.p.ended}
	case m.broken != nil:
		m.late = nil // now it knows
		f := *m.broken
		return &f
	case m.p.engine.Stopped():
		return &Failure{Op: op, Err: errOver}
	case m.revoking.Revoked() && op != agreeName: // which is how to go on
		return &Failure{Op: op, Err: ErrRevoked}
	}
	return nil
}

func (m *Member) checkRank(what string, rank int) error {
	if rank < 0 || rank >= m.Size() {
		return fmt.Errorf("%s %d; allowed: 0 to %d", what, rank, m.Size()-1)
	}
	return nil
}
