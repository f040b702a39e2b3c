package node

import "slices"

// Released forks are kept for a while, since others may still ask for what they
// have. Then they are forgotten, but for their keys, so that what comes late does
// not count as coming early, for a fork that is still to be made.

const (
	keptMax      = 64      // released forks that are kept
	forgottenMax = 1 << 14 // keys of forks that are not
)

// releases are the released forks of a process.
type releases struct {
	kept      []*Member // in order
	forgotten map[memberKey]bool
	order     []memberKey // of forgotten, a ring
	oldest    int
}

// Release gives up a fork: its task calls nothing on it any more.
func (m *Member) Release() {
	p := m.p
	p.engine.Lock()
	defer p.engine.Unlock()
	if m.group == world {
		return
	}
	m.released = true
	r := &p.groups.releases
	r.kept = append(r.kept, m)
	if p.logs() { // who runs a task again makes it again
		return
	}
	bytes := 0
	for _, k := range r.kept {
		bytes += k.recentBytes
	}
	for tries := len(r.kept); tries > 0 && (len(r.kept) > keptMax || bytes > recentMax); tries-- {
		first := r.kept[0]
		r.kept[0] = nil
		r.kept = r.kept[1:]
		if !first.idle() {
			r.kept = append(r.kept, first)
			continue
		}
		bytes -= first.recentBytes
		p.forget(first)
	}
}

// idle tells whether nothing of the group is under way here.
func (m *Member) idle() bool {
	for o := range m.ops.all() {
		if o.entered && !o.finished {
			return false
		}
	}
	for _, s := range m.out {
		if len(s.held) > 0 {
			return false
		}
	}
	return len(m.pacts()) == 0 // that nobody needs the last decision any more is never known
}

// forget drops all of a fork but its key.
func (p *Process) forget(m *Member) {
	key := memberKey{m.scope, uint32(m.task)}
	delete(p.groups.members, key)
	p.groups.last = nil
	r := &p.groups.releases
	if r.forgotten == nil {
		r.forgotten = map[memberKey]bool{}
	}
	if len(r.order) < forgottenMax {
		r.order = append(r.order, key)
	} else {
		delete(r.forgotten, r.order[r.oldest])
		r.order[r.oldest] = key
		r.oldest = (r.oldest + 1) % forgottenMax
	}
	r.forgotten[key] = true
	m.declineStreams()
}

// declineStreams does without messages that nobody will receive.
func (m *Member) declineStreams() {
	for _, s := range m.in {
		for _, in := range slices.Concat(s.queue[s.first:], s.copies) {
			in.drop()
		}
		s.queue, s.first, s.copies = nil, 0, nil
	}
}

// drop ends a group of an epoch that is over, and does without all that is on its way to it.
func (m *Member) drop() {
	if m.broken == nil {
		m.spoil(&Failure{Tasks: []int{m.task}, Err: ErrMismatch, Text: "the group is of an epoch that is over: all that was made between two Saves ends with the second"})
	}
	m.declineStreams()
	for o := range m.ops.all() {
		o.declineRest()
	}
	for _, in := range m.held {
		in.drop()
	}
	for _, s := range m.out {
		s.drop(m.p)
	}
}

// late handles a message to a fork that was forgotten.
func (p *Process) late(in *incoming) {
	in.drop()
	switch in.plan.op {
	case opProbe:
		if p.hasReturned(int(in.to)) {
			p.tellGone(in)
		}
	case opAsk:
		in.source.send(envelope{scope: in.scope, from: in.to, to: in.from, seq: in.seq, extra: in.extra, plan: Plan{op: opHaveNot}}, nil, nil)
	}
}
