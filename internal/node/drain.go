package node

import (
	"slices"
	"time"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
	"github.com/coppice-go/coppice/protocol/recovery"
)

// A process that is to end, and has time before it does, hands over what it has (rule 3 of docs/design.md; leaving.go of
// packages membership and recovery). Here it is told to, and tells when it may go.

// Drained is why a process that was told to leave may go.
type Drained uint8

// The reasons.
const (
	HandedOver Drained = iota // nobody needs it any more, and a view goes on without it
	Disbanded                 // all processes are to leave: there is nobody to hand anything over to
	Useless                   // it takes no part, or reaches nobody who would take its tasks over
)

// Drain tells the process to leave, and to hand over first what it has. The channel that it returns says when it may go, once.
func (p *Process) Drain() <-chan Drained {
	p.engine.Lock()
	defer p.engine.Unlock()
	v := &p.views
	if v.drained == nil {
		v.drained = make(chan Drained, 1)
	}
	if !p.replays() || p.engine.Stopped() || p.dead || p.ended != nil || !v.state.Member() {
		p.mayGo(Useless)
		return v.drained
	}
	p.cfg.Logger.Info("is to leave", "view", p.view().Number)
	v.state.Leave(p.viewNow(), 0)
	p.stepViews()
	p.lookAlone(p.engine.Now())
	return v.drained
}

// departs asks for a view without this process, or lets it go, as the machine says.
func (p *Process) departs(e *recovery.Effect) {
	if e.Act == recovery.Disband {
		p.mayGo(Disbanded)
		return
	}
	p.views.state.Leave(p.viewNow(), e.Epoch)
	p.stepViews()
}

// leftOut reports whether the process was left out of a view as it wanted, and lets it go then.
func (p *Process) leftOut(view uint64) bool {
	if !p.views.state.Free() {
		return false
	}
	p.cfg.Logger.Info("has handed over what it had", "view", view)
	p.mayGo(HandedOver)
	return true
}

// lookAlone lets a process that leaves go if it has had no connection with any other member since a moment that is half a silence
// ago: those may have left at once, and there is nobody to hand anything over to.
func (p *Process) lookAlone(since protocol.Time) {
	if p.dead || p.ended != nil {
		return
	}
	now := p.engine.Now()
	if slices.ContainsFunc(p.view().Members, func(m membership.Member) bool {
		q := p.peerAt(int(m.ID))
		return int(m.ID) != p.cfg.Rank && (q.conn != nil || q.local != nil) && !q.dead && !q.left
	}) {
		since = now
	}
	half := protocol.Time(p.cfg.Silence / 2)
	if now-since >= half {
		p.mayGo(Useless)
		return
	}
	p.engine.At(now+half/4, func() { p.lookAlone(since) })
}

func (p *Process) mayGo(why Drained) {
	select {
	case p.views.drained <- why:
	default:
	}
}

// letGo takes note of a process that left, and that a view goes on without. It is dead as soon as that is known, or in a while; until then
// it is told of the view.
func (p *Process) letGo(q *peer) {
	q.gone = true
	p.engine.At(p.engine.Now()+letGoTime, func() {
		if p.peerAt(q.rank) == q {
			p.died(q.rank, true, "it has left")
		}
	})
}

// letGoTime is how long a process that left has to hear of it.
const letGoTime = protocol.Time(2 * time.Second)
