package node

// dispatch handles a message of which at least the beginning is here.
func (p *Process) dispatch(in *incoming) {
	switch op := in.plan.op; op {
	case opGrant:
		in.source.granted(uint32(in.extra), in.kind == 0)
		return
	case opBeat:
		if in.kind == beatAnswer && in.source.conn != nil {
			in.source.out = append(in.source.out, in.source.link.Alive())
			in.source.flush()
		}
		p.observedBy(in)
		return
	}
	if p.dead || p.engine.Stopped() || in.source.gone && in.plan.op != opView {
		return
	}
	switch in.plan.op {
	case opView:
		p.viewLetter(in)
		return
	case opReturned:
		p.toldReturned(in)
		return
	case opLoad:
		p.toldLoad(in)
		return
	}
	if p.ruled(in) {
		return
	}
	if p.stale(in) {
		p.late(in)
		return
	}
	if len(p.groups.releases.forgotten) > 0 && p.groups.releases.forgotten[memberKey{in.scope, in.to}] {
		p.late(in)
		return
	}
	m := p.member(in.scope, int(in.to))
	switch in.plan.op {
	case opMismatch:
		m.mismatched(in)
	case opRevoke:
		m.revoke()
	default:
		if !m.known && in.plan.op == opProbe && p.hasReturned(int(in.to)) {
			p.tellGone(in)
			return
		}
		if !m.known && in.plan.op == opChase {
			in.drop()
			return
		}
		if !m.known {
			m.held = append(m.held, in.stay())
			return
		}
		m.dispatch(in)
	}
}

// dispatch handles a message to a task in a group it has joined.
func (m *Member) dispatch(in *incoming) {
	from, ok := m.rankOf(in.from)
	if !ok {
		return // of a task that is not in the group
	}
	if in.plan.op >= opCredit && (in.source.rank != m.p.roster.Owner(int(in.from)) || m.p.otherLife(in.source)) {
		return // what was said by an attempt that is over, or is news to come, is not true of the one that counts
	}
	switch in.plan.op {
	case opSend:
		m.streamIn(from, in.extra).arrive(in)
	case opCredit:
		m.credit(from, in)
	case opProbe:
		m.probed(from, in)
	case opGone:
		m.goneFrom(from, in)
	case opAgree:
		m.letter(from, in)
	case opAsk, opHaveNot:
		m.inquiry(from, in)
	case opChase:
		m.chased(in)
	default:
		if op := in.plan.op; op >= opBarrier && op <= opSplit {
			m.collective(from, in)
		}
	}
}
