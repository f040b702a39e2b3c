package node

import (
	"context"
	"time"
)

// settleTime is how long a process whose tasks have returned waits for its peers
// to have all that it sent.
const settleTime = time.Second

// Settle waits, though not for long, until the peers have all that was sent to
// them: what does not fit there comes to light before the job ends. It returns
// what Misuse does.
func (p *Process) Settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	p.engine.Lock()
	defer p.engine.Unlock()
	p.lingered()
	for p.mesh.sockets != nil && p.ended == nil && !p.dead && !p.settled() {
		for _, q := range p.mesh.up {
			if !q.link.Settled() && !q.asksAck {
				q.asksAck = true
				q.tell(envelope{plan: Plan{op: opBeat}, kind: beatAnswer})
			}
		}
		if p.engine.Stand(ctx, &p.mesh.settling) != nil {
			break
		}
	}
	return p.misuse()
}

// beatAnswer marks a sign of life that asks for another.
const beatAnswer = 1

// settled tells whether nothing is on its way to a peer that lives.
func (p *Process) settled() bool {
	for r := range p.mesh.peers {
		q := p.mesh.peers[r]
		if q.dead || q.left || q.link == nil {
			continue
		}
		if len(q.queue) > 0 || !q.link.Settled() || p.checks() && q.asked.Len() > 0 { // that is to be compared
			return false
		}
	}
	return true
}

// settlesNow lets those look again who wait for peers to have everything.
func (p *Process) settlesNow() { p.engine.LookAgain(&p.mesh.settling) }

// misuse is what went wrong in a group without its task having been told.
func (p *Process) misuse() error {
	for m := range p.groups.all() {
		if m.late != nil {
			return m.late
		}
	}
	return nil
}

// Misuse is what went wrong in a group and came to light only after a task had
// what it called for.
func (p *Process) Misuse() error {
	p.engine.Lock()
	defer p.engine.Unlock()
	return p.misuse()
}
