package node

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/coppice-go/coppice/protocol"
)

// Tasks that wait for each other wait for ever. A task that has waited for long follows what it waits for: it sends a chase to the task
// that it needs; if that one waits, too, and has not done what is needed, it adds itself and sends the chase on. One that comes
// back to the task where it began has gone round a cycle, and all tasks of the cycle get ErrDeadlock.
//
// It never says so of tasks that could go on:
//
//   - A task counts as waiting only if its only goroutine does, without a time limit: one that has forks may do something else, and
//     one that combines values does.
//   - What a task needs does not depend on how an operation is carried out. A Recv needs the sender to send that message, a barrier
//     needs all tasks to enter it. That one has entered is enough: the rest is up to processes, not to tasks.
//   - Each task of the cycle has looked whether it has done what the one before needs, while it was waiting. The first one looks last.
//     It still waits for the same then, so the last one still does, and so on, back to the first: none has gone on in between.
//
// Only where tasks are run again: with Report others may end such a wait by revoking the group.

// stuck is a task that waits, with what it needs.
type stuck struct {
	Task  int
	Group uint64
	Epoch uint32
	Op    uint8
	Root  int // rank
	Rank  int // of the task in the group
	Seq   uint64
	Peer  int    // rank of the sender of a message
	Tag   uint64 // of the message
	Text  string
}

func (s *stuck) scope() scope { return scope{s.Group, s.Epoch} }

// same reports whether a task waits for the same.
func (s *stuck) same(o *stuck) bool {
	return s.Task == o.Task && s.Group == o.Group && s.Epoch == o.Epoch && s.Op == o.Op && s.Seq == o.Seq && s.Peer == o.Peer && s.Tag == o.Tag
}

// needs reports whether the operation that the task waits in can only end when a rank has entered it.
func (s *stuck) needs(rank int) bool {
	switch s.Op {
	case opBarrier, opAllGather, opAllToAll, opAllReduce, opReduceScatter, opSplit, opSave:
		return true
	case opBroadcast, opScatter:
		return rank == s.Root
	case opGather, opReduce:
		return s.Rank == s.Root
	case opScan, opExScan:
		return rank < s.Rank
	}
	return false
}

// chase follows what tasks wait for.
type chase struct {
	Number uint64 // of those that the first task's process has begun
	Path   []stuck
	Hops   int `json:",omitempty"`

	Found bool `json:",omitempty"` // the path is a cycle
}

const (
	// chaseMax is how long a chase in JSON may be, and with it a cycle that is found: some hundred tasks.
	chaseMax = 48 << 10
	// hopsMax is how often an operation passes a chase on that it has not ended with.
	hopsMax = 64
	// seenMax is how many chases a process remembers that it has passed on.
	seenMax = 1 << 12
)

// chases is what a process knows of chases.
type chases struct {
	begun uint64
	seen  map[[3]uint64]bool // passed on within an operation: first task, number, and who passed it on where
}

// stuck returns what a task of this process waits for, if it does nothing else.
func (p *Process) stuck(task int) (s stuck, ok bool) {
	n := 0
	for m := range p.groups.all() {
		if m.task != task {
			continue
		}
		if m.forked && !m.released || len(m.pacts()) > 0 || m.asking {
			return s, false
		}
		for o := range m.ops.all() {
			if !o.waits() {
				continue
			}
			if n++; o.w == nil || !o.endless || o.err != nil || o.plan.remembered() || o.plan.corrected() || m.agreed > 0 {
				return s, false
			}
			s = stuck{Op: o.plan.op, Root: int(o.plan.root), Seq: o.seq, Rank: m.rank}
			s.Task, s.Group, s.Epoch = task, m.group, m.epoch
			s.Text = fmt.Sprintf("task %d waits in %s, operation %d of its group", task, opName(o.plan.op), o.seq)
		}
		for key, in := range m.in {
			if !in.wanted {
				continue
			}
			if n++; !in.endless || in.err != nil || in.head() != nil {
				return s, false
			}
			s = stuck{Op: opSend, Seq: in.flow.Taken() + 1, Rank: m.rank, Peer: key.rank, Tag: key.tag}
			s.Task, s.Group, s.Epoch = task, m.group, m.epoch
			s.Text = fmt.Sprintf("task %d waits in recv from task %d with tag %d", task, m.taskOf(key.rank), key.tag)
		}
	}
	return s, n == 1
}

// pursue begins a chase for a task that has waited for long.
func (p *Process) pursue(task int) {
	if s, ok := p.stuck(task); ok && p.replays() {
		p.chases.begun++
		p.follow(chase{Number: p.chases.begun, Path: []stuck{s}})
	}
}

// follow sends a chase to those that the last task of its path needs: all, as far as the process does not know that they have entered.
func (p *Process) follow(c chase) {
	last := &c.Path[len(c.Path)-1]
	m := p.member(last.scope(), last.Task)
	switch {
	case last.Op == opSend:
		m.chase(last.Peer, &c)
	case last.Op == opBroadcast || last.Op == opScatter:
		m.chase(last.Root, &c)
	default:
		m.passOn(&c)
	}
}

// passOn sends a chase to those for whom the operation waits here.
func (m *Member) passOn(c *chase) {
	last := &c.Path[len(c.Path)-1]
	o := m.ops.get(last.Seq)
	if o == nil || !o.entered || o.finished || c.Hops >= hopsMax {
		return
	}
	key := [3]uint64{uint64(c.Path[0].Task), c.Number, protocol.Mix(protocol.Mix(last.Group, last.Seq), uint64(m.task))}
	if seen := m.p.chases.seen; seen[key] {
		return
	} else if seen == nil || len(seen) >= seenMax {
		m.p.chases.seen = map[[3]uint64]bool{}
	}
	m.p.chases.seen[key] = true
	c.Hops++
	for _, r := range o.awaits() {
		m.chase(int(r), c)
	}
}

// chase sends a chase to a rank.
func (m *Member) chase(rank int, c *chase) {
	text, err := json.Marshal(c)
	if err != nil || len(text) > chaseMax || rank == m.rank || rank >= m.Size() {
		return
	}
	e := m.to(rank)
	e.plan = Plan{op: opChase}
	m.peer(rank).send(e, text, nil)
}

// chased takes a chase that has come to the task, from one that needs it or that passes it on.
func (m *Member) chased(in *incoming) {
	var c chase
	if !in.Complete() || json.Unmarshal(in.value, &c) != nil || len(c.Path) == 0 || !m.p.replays() {
		in.drop()
		return
	}
	in.taken()
	last := &c.Path[len(c.Path)-1]
	from, known := m.rankOf(uint32(last.Task))
	switch {
	case c.Found:
		m.p.deadlocked(m.task, &c)
		return
	case last.scope() != m.scope || !known || from != last.Rank:
		return
	case last.Op == opSend:
		if out := m.out[streamKey{from, last.Tag}]; last.Peer != m.rank || out != nil && out.flow.Last() >= last.Seq {
			return // it is sent
		}
	case m.seq >= last.Seq: // this task has entered the operation
		if last.Op != opBroadcast && last.Op != opScatter {
			m.passOn(&c)
		}
		return
	case !last.needs(m.rank):
		return
	}
	s, ok := m.p.stuck(m.task)
	first := &c.Path[0]
	switch {
	case !ok || s.Task < first.Task: // whoever is first finds the cycle
	case s.Task == first.Task:
		if s.same(first) {
			c.Found = true
			m.p.tellDeadlock(&c)
		}
	case !slices.ContainsFunc(c.Path, func(o stuck) bool { return o.Task == s.Task }):
		c.Path, c.Hops = append(c.Path, s), 0
		m.p.follow(c)
	}
}

// tellDeadlock tells all tasks of a cycle.
func (p *Process) tellDeadlock(c *chase) {
	text, err := json.Marshal(c)
	if err != nil {
		return
	}
	own := c.Path[0].Task
	m := p.member(c.Path[0].scope(), own)
	for _, s := range c.Path[1:] {
		if r, ok := m.rankOf(uint32(s.Task)); ok {
			e := m.to(r)
			e.plan = Plan{op: opChase}
			m.peer(r).send(e, text, nil)
		}
	}
	p.deadlocked(own, c)
}

// deadlocked ends the wait of a task in a cycle, and all that its group calls: others may need it there.
func (p *Process) deadlocked(task int, c *chase) {
	s, ok := p.stuck(task)
	if !ok || !slices.ContainsFunc(c.Path, func(o stuck) bool { return o.same(&s) }) {
		return
	}
	var tasks []int
	var texts []string
	for i := range c.Path {
		tasks, texts = append(tasks, c.Path[i].Task), append(texts, c.Path[i].Text)
	}
	p.member(s.scope(), task).announce(&Failure{Tasks: tasks, Err: ErrDeadlock, Text: "deadlock: " + strings.Join(texts, "; ")})
}
