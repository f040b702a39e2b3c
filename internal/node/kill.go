package node

import (
	"fmt"
	"os"
	"syscall"

	"github.com/coppice-go/coppice/internal/posix"
)

// fate is what is ordered for an operation, and how far it has come.
type fate struct {
	steps int
	kill  *Kill
}

// count counts an operation that a task enters, and carries out the orders to
// die in it. f is nil for one that is a single step, such as a message.
func (p *Process) count(task int, op string, f *fate) {
	if len(p.cfg.Kills) == 0 && p.cfg.Entered == nil || p.roster.Again(task) { // orders are for the first attempt
		return
	}
	if p.cfg.Entered != nil {
		p.cfg.Entered(task, op)
	}
	key := fmt.Sprintf("%d %s", task, op)
	p.groups.counts[key]++
	for i, k := range p.cfg.Kills {
		if k.Task != task || k.Op != op || k.Seq != p.groups.counts[key] {
			continue
		}
		// The process may have made the step before its task came to it.
		switch {
		case k.Step == 0 || f == nil && k.Step == 1 || f != nil && f.steps >= k.Step:
			p.obey(&p.cfg.Kills[i])
			if p.dead {
				return
			}
		case f != nil:
			f.kill = &p.cfg.Kills[i]
		}
	}
}

// countOn goes on with the orders and the count of the part before.
func (p *Process) countOn(f *fate, before fate) {
	if before.kill == nil || before.steps >= before.kill.Step {
		return
	}
	f.kill = before.kill
	if f.steps += before.steps; f.steps >= f.kill.Step {
		p.obey(f.kill)
	}
}

// dies counts a step of an operation and tells whether to die in it.
func (f *fate) dies() bool {
	f.steps++
	return f.kill != nil && f.steps == f.kill.Step
}

// counted counts a step that is no write, and dies in it if that was ordered.
func (w *entry) counted() {
	if w.dies() {
		w.m.p.obey(w.kill)
	}
}

// diesSending counts a step that sends a message, and reports whether the process dies in it: then it sends nothing, or
// half of it.
func (w *entry) diesSending(q *peer, e envelope, value []byte) bool {
	if !w.dies() {
		return false
	}
	if w.kill.Half {
		q.half(e, value)
	}
	w.m.p.obey(w.kill)
	return w.m.p.dead
}

// half writes the first half of a message.
func (q *peer) half(e envelope, value []byte) {
	if q.conn == nil {
		return
	}
	q.flush()
	was := len(q.out)
	e.size = uint64(len(value))
	q.first(&e, value[:min(len(value), eagerMax)], 0)
	f := q.out[was]
	b := append(append([]byte(nil), f.Head...), f.Rest...)
	_, _ = q.conn.Write([][]byte{b[:len(b)/2]})
}

// obey carries out an order.
func (p *Process) obey(k *Kill) {
	if k.Still != nil {
		p.engine.Still(k.Still)
		return
	}
	p.die()
}

// die ends the process: as a process, at once; as a goroutine, by failing
// everything it does.
func (p *Process) die() {
	if hub := p.hub(); hub != nil {
		p.dead = true
		hub.killed(p)
		return
	}
	_ = posix.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // the signal is on its way
}
