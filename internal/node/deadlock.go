package node

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/deadlock"
)

// Tasks that wait for each other get ErrDeadlock: package deadlock says how they find out. That is so where tasks are run again. With
// Report others may end such a wait by revoking the group.

const (
	// saveMax is how many tasks a group has at most in which one that waits in Save follows what it waits for: all others.
	saveMax = 256
	// hopsMax is how often an operation passes a chase on that it has not ended with.
	hopsMax = 64
	// seenMax is how many chases a process passes on between two patrols.
	seenMax = 1 << 12
)

// chases is what a process knows of chases.
type chases struct {
	begun uint64
	due   []int              // tasks for which one is to begin
	seen  map[[3]uint64]bool // passed on within an operation: first task, number, and who passed it on where
}

// waitOf is what the task waits for in an operation; of some that is not known.
func (o *operation) waitOf() (w deadlock.Wait, known bool) {
	m := o.m
	w = deadlock.Wait{Task: m.task, Group: m.group, Epoch: m.epoch, Op: o.plan.op, Seq: o.seq, Rank: m.rank, Peer: int(o.plan.root)}
	if m.agreed > 0 || o.plan.remembered() || o.plan.corrected() {
		return w, false
	}
	switch o.plan.op {
	case opBarrier, opAllGather, opAllToAll, opAllReduce, opReduceScatter, opSplit, opSave:
		w.Kind = deadlock.All
	case opBroadcast, opScatter:
		w.Kind = deadlock.Root
	case opGather, opReduce:
		if w.Peer == m.rank { // others wait for some tasks, depending on the tree
			w.Kind = deadlock.All
		}
	case opScan, opExScan:
		w.Kind = deadlock.Before
	}
	return w, w.Kind != 0
}

// waitName is the name of what a task waits in.
func waitName(w *deadlock.Wait) string {
	if w.Kind == deadlock.Message {
		return "recv"
	}
	return opName(w.Op)
}

// inWords says what a task of this group waits for, and where, if that is known: "Recv at heat.go:42".
func (m *Member) inWords(w *deadlock.Wait, place string) string {
	call, line, known := strings.Cut(place, " at ")
	if !known {
		call = waitName(w)
	}
	what := fmt.Sprintf("operation %d of its group", w.Seq)
	if w.Kind == deadlock.Message {
		what = fmt.Sprintf("from %d, tag %d", m.taskOf(w.Peer), w.Tag)
	}
	text := fmt.Sprintf("task %d waits in %s(%s)", w.Task, call, what)
	if known {
		text += " at " + line
	}
	return text
}

// selfish is what a task gets that receives from itself what it has not sent: it cannot send it while it waits.
func (m *Member) selfish(op string, tag int) *Failure {
	return &Failure{
		Op: op, Tasks: []int{m.task}, Err: ErrDeadlock,
		Text: fmt.Sprintf("task %d receives from itself, and has sent itself nothing with tag %d that it has not received", m.task, tag),
	}
}

// stuck returns what a task of this process waits for, if it does nothing else and that has no time limit; otherwise nil.
func (p *Process) stuck(task int) *deadlock.Wait {
	var all []deadlock.Wait
	for m := range p.groups.all() {
		if m.task != task {
			continue
		}
		if m.forked && !m.released || len(m.pacts()) > 0 || m.asking {
			return nil
		}
		for o := range m.ops.all() {
			if !o.waits() || o.left {
				continue
			}
			w, known := o.waitOf()
			if !known || o.w == nil || !o.endless {
				return nil
			}
			all = append(all, w)
		}
		for key, s := range m.in {
			if !s.wanted {
				continue
			}
			if !s.endless || s.err != nil || s.head() != nil {
				return nil
			}
			all = append(all, deadlock.Wait{
				Task: task, Group: m.group, Epoch: m.epoch, Kind: deadlock.Message, Op: opSend, Seq: s.flow.Taken() + 1, Rank: m.rank, Peer: key.rank, Tag: key.tag,
			})
		}
	}
	if len(all) != 1 {
		return nil
	}
	return &all[0]
}

// endless reports whether nothing but the end of the job ends a context.
func (p *Process) endless(ctx context.Context) bool {
	done := ctx.Done()
	return done == nil || done == p.cfg.Ends
}

// pursue has a chase begin soon for a task that has waited for long.
func (p *Process) pursue(task int) {
	if p.replays() && !slices.Contains(p.chases.due, task) {
		p.chases.due = append(p.chases.due, task)
	}
}

// pursueDue begins a chase for each of so many tasks at most: where many wait in a row, each chase goes through many of them.
func (p *Process) pursueDue(most int) {
	for ; most > 0 && len(p.chases.due) > 0; p.chases.due = p.chases.due[1:] {
		if w := p.stuck(p.chases.due[0]); w != nil {
			p.chases.begun++
			p.follow(&deadlock.Chase{Number: p.chases.begun, Path: []deadlock.Wait{*w}})
			most--
		}
	}
}

// at is where the last one waits: a task of this process.
func (p *Process) at(w *deadlock.Wait) *Member { return p.member(scope{w.Group, w.Epoch}, w.Task) }

// follow sends a chase to those that the last one needs, as far as they are known here.
func (p *Process) follow(c *deadlock.Chase) {
	last := c.Last()
	if m := p.at(last); last.Kind == deadlock.Message || last.Kind == deadlock.Root {
		m.chase(last.Peer, c)
	} else {
		m.passOn(c)
	}
}

// passOn sends a chase to those for whom the operation waits here.
func (m *Member) passOn(c *deadlock.Chase) {
	last := c.Last()
	o := m.ops.get(last.Seq)
	switch {
	case o == nil || !o.entered || o.finished || c.Hops >= hopsMax:
		return
	case o.plan.op == opSave && (c.Hops > 0 || m.Size() > saveMax): // the one who waits has asked all
		return
	case len(m.p.chases.seen) >= seenMax:
		return
	}
	key := [3]uint64{uint64(c.Path[0].Task), c.Number, protocol.Mix(protocol.Mix(last.Group, last.Seq), uint64(m.task))}
	if m.p.chases.seen[key] {
		return
	}
	if m.p.chases.seen == nil {
		m.p.chases.seen = map[[3]uint64]bool{}
	}
	m.p.chases.seen[key] = true
	c.Hops++
	for _, r := range o.awaits() {
		m.chase(int(r), c)
	}
}

// chase sends a chase to a rank.
func (m *Member) chase(rank int, c *deadlock.Chase) {
	if rank == m.rank || rank < 0 || rank >= m.Size() {
		return
	}
	e := m.to(rank)
	e.plan = Plan{op: opChase}
	m.peer(rank).send(e, c.Append(nil), nil)
}

// chased takes a chase that has come to the task, from one that needs it or that passes it on.
func (m *Member) chased(in *incoming) {
	c, ok := deadlock.Parse(in.value)
	if !in.Complete() || !ok || !m.p.replays() {
		in.drop()
		return
	}
	in.taken()
	if c.Found {
		m.p.found(m.task, &c)
		return
	}
	last := c.Last()
	from, known := m.rankOf(uint32(last.Task))
	if !known || from != last.Rank || last.Group != m.group || last.Epoch != m.epoch {
		return
	}
	done := m.seq >= last.Seq
	if last.Kind == deadlock.Message {
		out := m.out[streamKey{from, last.Tag}]
		done = out != nil && out.flow.Last() >= last.Seq
	}
	var own *deadlock.Wait
	if !done {
		own = m.p.stuck(m.task)
	}
	switch c.Arrive(m.rank, done, own) {
	case deadlock.Pass:
		m.passOn(&c)
	case deadlock.Follow:
		m.p.follow(&c)
	case deadlock.Cycle:
		m.p.place(&c)
	}
}

// found takes a chase that has found a cycle, at a task.
func (p *Process) found(task int, c *deadlock.Chase) {
	if next := c.Next(); next != nil {
		if next.Task == task {
			p.place(c)
		}
		return
	}
	if task == c.Path[0].Task {
		first := p.at(&c.Path[0])
		if first == nil {
			return
		}
		for _, w := range c.Path[1:] {
			if r, ok := first.rankOf(uint32(w.Task)); ok {
				first.chase(r, c)
			}
		}
	}
	p.deadlocked(task, c)
}

// place adds where a task of this process waits, which is the next in a cycle, and sends the chase on to the one after.
func (p *Process) place(c *deadlock.Chase) {
	own := *c.Next()
	if w := p.stuck(own.Task); w == nil || *w != own {
		return
	}
	if p.cfg.Where == nil {
		p.placed(c, "")
		return
	}
	go func() { // it may take a while
		text := p.cfg.Where(own.Task, waitName(&own))
		p.engine.Lock()
		defer p.engine.Unlock()
		if w := p.stuck(own.Task); !p.dead && !p.engine.Stopped() && w != nil && *w == own {
			p.placed(c, text)
		}
	}()
}

func (p *Process) placed(c *deadlock.Chase, text string) {
	m, next := p.at(c.Next()), &c.Path[0]
	if c.Place(text); c.Next() != nil {
		next = c.Next()
	}
	if r, ok := m.rankOf(uint32(next.Task)); ok { // this one needs it
		m.chase(r, c)
	}
}

// deadlocked ends the wait of a task in a cycle, and all that its group calls: others may need it there.
func (p *Process) deadlocked(task int, c *deadlock.Chase) {
	own := p.stuck(task)
	if own == nil || !slices.Contains(c.Path, *own) {
		return
	}
	m := p.at(own)
	var tasks []int
	var texts []string
	for i := range c.Path {
		tasks, texts = append(tasks, c.Path[i].Task), append(texts, m.inWords(&c.Path[i], c.Places[i]))
	}
	m.announce(&Failure{Tasks: tasks, Err: ErrDeadlock, Text: strings.Join(texts, "; ")})
}
