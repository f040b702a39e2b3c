package runtime

import (
	"time"

	"github.com/coppice-go/coppice/protocol"
)

// patrolEvery is how often a process looks after what no message reports.
const patrolEvery = protocol.Time(100 * time.Millisecond)

// patrol looks after what no message reports: operations that wait for long and
// peers that cannot be reached.
func (p *Process) patrol() {
	p.inspect()
	p.at(p.now()+patrolEvery, p.patrol)
}

func (p *Process) inspect() {
	p.viewNow()
	p.views.looked = p.now()
	p.tellLoad()
	p.doubtAbsent()
	for _, m := range p.members {
		for o := range m.ops.all() {
			o.patrol()
		}
		for _, s := range m.in {
			s.patrol()
		}
		for _, a := range m.pacts {
			a.patrol()
		}
	}
	p.doubtLinks()
}

// doubtAbsent suspects those that have not begun if a view has been waiting for them for too
// long: all others wait for the view.
func (p *Process) doubtAbsent() {
	v := &p.views
	if p.sockets == nil || v.state.Settled() || !v.sight.View.Has(v.state.Self()) {
		v.waits = 0
		return
	}
	now := p.viewNow()
	if v.waits == 0 {
		v.waits = now
	}
	if now-v.waits < protocol.Time(p.cfg.Silence) {
		return
	}
	for _, m := range v.sight.View.Members {
		if q := p.peerAt(int(m.ID)); q.rank != p.cfg.Rank && q.incarnation == 0 && !q.dead && !q.way.suspected {
			q.way.suspected = true
			p.cfg.Logger.Info("has not begun, and a view waits for it", "peer", q.rank)
			p.viewSuspect(q.rank, uint64(m.Incarnation))
		}
	}
}

// probeEvery is how many patrols pass between two probes.
const probeEvery = 10

// patrol tells the tasks that a long-waiting operation waits for what it is: if
// they call another one, or have returned, that comes to light even if nobody
// would send anything.
func (o *operation) patrol() {
	if !o.waits() || o.w == nil || o.machine == nil && !o.plan.open() {
		return
	}
	o.patrols++
	if o.patrols%probeEvery != 2 {
		return
	}
	if o.patrols > probeEvery {
		o.giveUp()
	}
	for _, r := range o.awaits() {
		if int(r) != o.m.rank {
			o.probe(int(r))
		}
	}
}

// patrol asks the sender of a message that has been waited for for long whether
// it has returned.
func (s *inStream) patrol() {
	if !s.wanted || s.head() != nil {
		s.patrols = 0
		return
	}
	s.patrols++
	if s.patrols%probeEvery == 2 {
		s.m.probe(s.from, envelope{plan: Plan{op: opSend}})
	}
}
