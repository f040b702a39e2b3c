package runtime

// dispatch handles a message of which at least the beginning is here.
func (p *Process) dispatch(in *incoming) {
	switch op := in.plan.op; op {
	case opGrant:
		in.source.granted(uint32(in.extra), in.kind == 0)
		return
	case opBeat:
		return
	}
	if p.dead || p.closed {
		return
	}
	if len(p.releases.forgotten) > 0 && p.releases.forgotten[memberKey{in.group, in.to}] {
		p.late(in)
		return
	}
	m := p.member(in.group, int(in.to))
	switch in.plan.op {
	case opMismatch:
		m.mismatched(in)
	default:
		if !m.known && in.plan.op == opProbe && p.gone[in.to].returned {
			p.tellGone(in)
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
	switch in.plan.op {
	case opSend:
		m.streamIn(from, in.extra).arrive(in)
	case opCredit:
		m.credit(from, in)
	case opProbe:
		m.probed(from, in)
	case opGone:
		m.goneFrom(from, in)
	case opAsk, opHaveNot:
		m.inquiry(from, in)
	case opBarrier, opBroadcast, opSplit:
		m.collective(from, in)
	}
}

// want asks for the rest of a large message, if that was not done.
func (in *incoming) want() {
	if in.complete || in.granted {
		return
	}
	in.granted = true
	if in.origin != nil { // a process of this program: it is all there
		in.value, in.filled, in.complete = in.origin.value, len(in.origin.value), true
		in.answer(0)
		if in.arrived != nil {
			in.arrived()
		}
		return
	}
	in.makeRoom(0)
	in.answer(0)
}

// roomMax is how much room is made for a message before any of it has come: its
// size may be a lie.
const roomMax = 1 << 30

// makeRoom makes room for n more bytes of the value, and for more in advance.
func (in *incoming) makeRoom(n int) {
	if len(in.value) >= in.filled+n && n > 0 {
		return
	}
	value := make([]byte, min(in.size, max(roomMax, 2*uint64(in.filled+n))))
	copy(value, in.value[:in.filled])
	in.value = value
}

// decline does without the rest of a large message.
func (in *incoming) decline() {
	if in.complete || in.granted {
		return
	}
	in.granted, in.complete, in.value = true, true, nil
	delete(in.source.parts, in.id)
	in.answer(1)
}

func (in *incoming) answer(verdict uint8) {
	in.source.tell(envelope{
		group: in.group, from: in.to, to: in.from, extra: uint64(in.id), kind: verdict,
		plan: Plan{op: opGrant},
	})
}

// wantEarly asks for the rest although nobody here has asked for the message,
// as long as there is memory for such.
func (in *incoming) wantEarly() {
	p := in.source.p
	if in.complete || in.granted || p.early+int64(in.size) > earlyMax {
		return
	}
	in.early = true
	p.early += int64(in.size)
	in.want()
}

// taken takes note that somebody has the message.
func (in *incoming) taken() {
	if in.early {
		in.early = false
		in.source.p.early -= int64(in.size)
	}
}
