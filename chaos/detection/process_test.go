package detection

import (
	"fmt"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
	"github.com/coppice-go/coppice/protocol/suspicion"
)

// tick is what a process does every beat: it advances its counter in the page of its host, checks the
// counters of the others there, and calls its observer.
func (p *process) tick() {
	w := p.w
	p.beats++
	for r, q := range w.procs {
		if q.host == p.host && r != p.rank && p.look(r) {
			p.carryOut(p.observer.Heard(protocol.Rank(r), w.now))
		}
	}
	p.doubtLinks()
	effects, next := p.observer.Tick(w.now)
	p.carryOut(effects)
	w.at(next+w.upTo(w.cfg.Late), p.rank, p.tick)
}

// doubtLinks reports to the observer the processes to which there is no connection: all links are in use.
func (p *process) doubtLinks() {
	w, up := p.w, 0
	var down []suspicion.Link
	for r, q := range w.procs {
		since, connected := w.connects(p.host, q.host)
		switch {
		case r == p.rank:
		case connected:
			up++
		case p.view.Has(membership.Member{ID: protocol.Rank(r), Incarnation: 1}):
			down = append(down, suspicion.Link{Rank: protocol.Rank(r), Since: since})
		}
	}
	p.carryOut(p.observer.Unlinked(down, up, w.now))
}

// look reports whether a process of this host has beaten since the last look.
func (p *process) look(rank int) bool {
	beats := p.w.procs[rank].beats
	changed := beats != p.seen[rank]
	p.seen[rank] = beats
	return changed
}

func (p *process) carryOut(effects []suspicion.Effect) {
	for len(effects) > 0 {
		e := effects[0]
		effects = effects[1:]
		switch {
		case e.Act == suspicion.Suspected:
			p.said = append(p.said, fmt.Sprintf("%.3f s: %s", float64(p.w.now)/1e9, e.Why))
			p.suspect(int(e.Rank))
		case e.Act == suspicion.Cleared:
			p.suspected[int(e.Rank)] = false
			p.protocol.Heard(&p.views, p.w.now, membership.Member{ID: e.Rank, Incarnation: 1})
			p.step()
		case e.Rank == suspicion.Coordinator:
			p.askCoordinator(e.Msg)
		default:
			effects = append(effects, p.send(int(e.Rank), e.Msg)...)
		}
	}
}

// send sends a datagram. A ping on the same host needs none: beats, or the kernel, show whether the receiver
// lives.
func (p *process) send(to int, m suspicion.Message) []suspicion.Effect {
	w, q := p.w, p.w.procs[to]
	if q.host == p.host && m.Kind <= suspicion.Pong {
		if m.Kind == suspicion.Ping && (p.look(to) || w.working(to)) {
			return p.observer.Heard(protocol.Rank(to), w.now)
		}
		return nil
	}
	arrives := w.now + w.upTo(w.cfg.Delay)
	if w.passes(p.host, q.host, w.now) && w.passes(p.host, q.host, arrives) {
		w.at(arrives, to, func() { q.carryOut(q.observer.Receive(protocol.Rank(p.rank), m, w.now)) })
	}
	return nil
}

// askCoordinator asks the coordinator whether it hears a process.
func (p *process) askCoordinator(m suspicion.Message) {
	w := p.w
	var there, back protocol.Time
	w.letter(p.host, 0, &there, -1, func() {
		silent := w.now - w.heard[m.Of]
		answer := suspicion.Message{Kind: suspicion.Answer, Of: m.Of, Hears: silent <= w.cfg.Silence/4, Tried: silent}
		w.letter(0, p.host, &back, p.rank, func() { p.carryOut(p.observer.Receive(suspicion.Coordinator, answer, w.now)) })
	})
}

// suspect notifies the membership: at once about a process on another host; after a while about one on this
// host, since the coordinator may know better.
func (p *process) suspect(rank int) {
	w := p.w
	p.suspected[rank] = true
	tell := func() {
		if p.suspected[rank] {
			p.protocol.Notify(&p.views, w.now, protocol.Notice{Kind: protocol.Suspect, Rank: protocol.Rank(rank), Value: 1})
			p.step()
		}
	}
	if w.procs[rank].host != p.host {
		tell()
		return
	}
	w.at(w.now+w.cfg.Silence/2, p.rank, tell)
}

// step runs the membership until it rests.
func (p *process) step() {
	w := p.w
	for {
		switch a := p.protocol.Next(&p.views, w.now); a.Kind {
		case protocol.Send:
			q := w.procs[a.To]
			w.letter(p.host, q.host, &p.last[q.rank], q.rank, func() {
				q.protocol.Receive(&q.views, w.now, protocol.Rank(p.rank), a.Msg)
				q.step()
			})
		case protocol.Work: // a record is kept; no process is killed
			p.protocol.Notify(&p.views, w.now, protocol.Notice{Kind: protocol.WorkDone})
		case protocol.Deliver:
			p.news(a.Msg)
		case protocol.Wait:
			if p.wake <= w.now || a.At < p.wake {
				p.wake = a.At
				w.at(a.At, p.rank, p.step)
			}
			return
		default:
			return
		}
	}
}

// news handles a view, or the end.
func (p *process) news(m membership.Message) {
	switch m.Kind {
	case membership.Opened:
		for _, o := range p.view.Members {
			if !m.Base.Has(o) {
				p.observer.Gone(o.ID, p.w.now)
			}
		}
		p.view = m.Base
		p.opened = append(p.opened, p.w.now)
	case membership.Excluded, membership.NoQuorum:
		if p.out == 0 {
			p.out = m.Kind
		}
	}
}
