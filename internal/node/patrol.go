package node

import (
	"time"

	"github.com/coppice-go/coppice/protocol"
)

// patrolEvery is how often a process looks after what no message reports. While nothing
// happens it does so ever more rarely, down to every calmMax: an idle process should cost
// next to nothing.
const (
	patrolEvery = protocol.Time(100 * time.Millisecond)
	calmMax     = 64 * patrolEvery
)

// patrols is when a process looks after what no message reports.
type patrols struct {
	last, next protocol.Time
	calm       int    // so many in a row found that nothing had happened
	moved      uint64 // bytes, at the last
	do         func() // patrol
	drives     uint64
}

// calmAfter is how many of those have to be in a row.
const calmAfter = 4

// patrol looks after what no message reports: operations that wait for long and
// peers that cannot be reached.
func (p *Process) patrol() {
	t, now := &p.patrols, p.engine.Now()
	if now < t.next { // it was brought forward, and has been
		return
	}
	rounds := max(int((now-t.last+patrolEvery/2)/patrolEvery), 1)
	if rounds > int(calmMax/patrolEvery) { // it was stopped
		rounds = 1
	}
	t.last = now
	p.inspect(rounds)
	if t.calm++; t.moved != p.mesh.traffic() || t.drives != p.engine.Drives() || !p.viewsSettled() || p.someDown() {
		t.calm = 0
	}
	t.moved, t.drives = p.mesh.traffic(), p.engine.Drives()
	switch {
	case t.calm < calmAfter:
		t.next = now + patrolEvery
	case p.engine.Quiet():
		t.next = protocol.Never // nobody waits for anything
		return
	default:
		t.next = now + min(patrolEvery<<min(t.calm-calmAfter+3, 10), calmMax)
	}
	p.engine.At(t.next, t.do)
}

// patrolSoon brings the next patrol forward: something happens.
func (p *Process) patrolSoon() {
	t, now := &p.patrols, p.engine.Now()
	if !p.engine.Polls() || t.next <= now+patrolEvery {
		return
	}
	p.views.look(p)
	t.last, t.next, t.calm = now, now+patrolEvery, 0
	p.engine.At(t.next, t.do)
}

// inspect is a patrol, after the time of so many.
func (p *Process) inspect(rounds int) {
	clear(p.chases.seen)
	p.views.look(p)
	p.tellLoad()
	for m := range p.groups.all() {
		for o := range m.ops.all() {
			o.patrol(rounds)
		}
		for _, s := range m.in {
			s.patrol(rounds)
		}
		for _, a := range m.pacts() {
			a.patrol(rounds)
		}
	}
	p.pursueDue(rounds)
	p.doubtLinks()
}

// probeEvery is how many patrols pass between the first probe, which comes with the second
// patrol, and the next; then it is twice as many each time.
const probeEvery = 10

// probes counts patrols, and reports whether a probe is due.
func probes(patrols *int, rounds int) bool {
	before := *patrols
	*patrols += rounds
	at := 2
	for step := probeEvery; at <= before; step = min(2*step, 4*probeEvery) {
		at += step
	}
	return *patrols >= at
}

// patrol tells the tasks that a long-waiting operation waits for what it is: if
// they call another one, or have returned, that comes to light even if nobody
// would send anything.
func (o *operation) patrol(rounds int) {
	if !o.waits() || o.w == nil || !probes(&o.patrols, rounds) {
		return
	}
	if o.patrols > probeEvery {
		o.giveUp()
		o.m.p.pursue(o.m.task)
	}
	for _, r := range o.awaits() {
		if int(r) != o.m.rank {
			o.probe(int(r))
		}
	}
}

// patrol asks the sender of a message that has been waited for for long whether
// it has returned.
func (s *inStream) patrol(rounds int) {
	if !s.wanted || s.head() != nil {
		s.patrols = 0
		return
	}
	if probes(&s.patrols, rounds) {
		s.m.probe(s.from, envelope{plan: Plan{op: opSend}})
		if s.patrols > probeEvery {
			s.m.p.pursue(s.m.task)
		}
	}
}
