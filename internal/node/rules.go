package node

import (
	"slices"

	"github.com/coppice-go/coppice/internal/node/engine"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
	"github.com/coppice-go/coppice/protocol/recovery"
)

// What package recovery decides is carried out here: its effects, in their order, and its
// messages, to and from the wire. The bytes that it names are in copies.go and replay.go.

// recovering is what a process does for the tasks of the dead.
type recovering struct {
	quit    map[int]int // by task that had not returned: the process that exited with 0
	rules   rules       // that decide
	history history     // the log
	epochs  epochs      // what tasks save, and copies
	load    load        // how many tasks it can own
}

// rules is a process's part in recovery.
type rules struct {
	*recovery.Tape
	carrying bool
	moving   bool        // a view was asked for that moves tasks
	waiting  engine.Line // for what others know, for what is committed, or for copies
}

// initRules begins in the first view.
func (p *Process) initRules() {
	cfg := recovery.Config{
		First: p.view(), Copies: p.cfg.Copies, Adopts: p.replays(), Saves: p.replays(), Aborts: true,
		Ring: p.ring, Nobodys: p.nobodys,
	}
	p.recovery.rules.Tape = recovery.NewTape(&cfg, p.self(), p.trace.begin("Recovery", cfg, p.self()))
	p.carryOut()
}

// life is which life of which process a peer is.
func (q *peer) life() membership.Member {
	return membership.Member{ID: protocol.Rank(q.rank), Incarnation: uint32(max(q.incarnation, 1))}
}

// ruleOpened begins a view.
func (p *Process) ruleOpened(v *membership.View) {
	p.recovery.rules.moving = false
	if !p.dead && !p.engine.Stopped() {
		p.recovery.rules.Opened(v, p.holds(v))
		p.carryOut()
	}
}

// heardRule takes a message.
func (p *Process) heardRule(from *peer, m recovery.Message) {
	p.recovery.rules.Receive(from.life(), m)
	p.carryOut()
}

// Over says that all processes know that the job is over: from now on no task is run again.
func (p *Process) Over() {
	p.engine.Lock()
	defer p.engine.Unlock()
	p.recovery.rules.Over()
}

// carryOut does what the machine wants done.
func (p *Process) carryOut() {
	r := &p.recovery.rules
	if r.carrying { // what it wants now comes behind what it wanted before
		return
	}
	r.carrying = true
	for all := r.Effects(); len(all) > 0; all = r.Effects() {
		for i := 0; i < len(all) && !p.dead && !p.engine.Stopped(); i++ {
			switch e := &all[i]; e.Act {
			case recovery.Resend:
				tasks := tasksOf(all[i:])
				p.resend(tasks, e.Again)
				i += len(tasks) - 1
			case recovery.Lose:
				tasks := tasksOf(all[i:])
				p.lose(e.Why, tasks...)
				i += len(tasks) - 1
			default:
				p.do(e)
			}
		}
	}
	r.carrying = false
	p.lookRules()
}

// lookRules lets those look again who wait for what others know.
func (p *Process) lookRules() { p.engine.LookAgain(&p.recovery.rules.waiting) }

// do carries out one effect.
func (p *Process) do(e *recovery.Effect) {
	switch e.Act {
	case recovery.Tell:
		p.peerAt(int(e.To)).tellRule(&e.Msg)
	case recovery.SendCopy:
		p.sendCopy(p.peerAt(int(e.To)), e)
	case recovery.GiveUp:
		p.leaves(int(e.Task))
	case recovery.Adopt:
		p.adopts(int(e.Task))
	case recovery.Commit:
		p.commit(e.Epoch, e.Balance)
	case recovery.Move:
		p.balance(e.Epoch)
	case recovery.Depart, recovery.Disband:
		p.departs(e)
	case recovery.Complete:
		if r := p.recovery.epochs.copies[e.Key]; r != nil {
			r.fate = nil
		}
	}
}

// tasksOf are the tasks of the effects at the beginning that differ only in those: they are
// carried out together.
func tasksOf(effects []recovery.Effect) (tasks []int) {
	for _, e := range effects {
		if e.Act != effects[0].Act || e.Why != effects[0].Why || e.Again != effects[0].Again {
			break
		}
		tasks = append(tasks, int(e.Task))
	}
	return tasks
}

// resend sends tasks what they were sent before; again: once more.
func (p *Process) resend(tasks []int, again bool) {
	members := slices.Collect(p.groups.all()) // there will be more
	for _, t := range tasks {
		for _, m := range members {
			if r, in := m.rankOf(uint32(t)); m.known && in {
				m.reopen(r, again)
			}
		}
	}
	for _, t := range tasks {
		if p.roster.Early(t) {
			p.lookReturned()
		}
	}
}

// tellRule sends a message of the machine. A word goes behind copies, and what is lost and what is
// asked for once more behind what was sent before; the others go at once.
func (q *peer) tellRule(m *recovery.Message) {
	switch m.Kind {
	case recovery.Record:
		q.tellDrawn()
		q.tell(envelope{scope: scope{m.Op.Group, uint32(m.Op.Epoch)}, seq: m.Op.Seq, plan: Plan{op: opAbort}})
	case recovery.Word:
		q.send(envelope{seq: m.View, plan: Plan{op: opAborts}}, nil, nil)
	case recovery.Sweeping:
		s := &m.Sweep
		e := envelope{seq: s.View, extra: s.Saved, sign: s.Committed, plan: Plan{op: opSweep}}
		e.group = uint64(s.Balance)
		if s.Up {
			e.kind = sweepUp
		}
		q.tellDrawn()
		q.tell(e)
	case recovery.Kept:
		q.tell(keyed(m.Key, opCopied))
	case recovery.Spare:
		q.tellDrawn()
		q.tell(envelope{seq: m.View, extra: m.Key.Epoch, plan: Plan{op: opSpare}})
	case recovery.Again:
		q.send(envelope{seq: m.View, extra: uint64(m.Task), plan: Plan{op: opAgain}}, nil, nil)
	case recovery.Lost:
		q.send(envelope{extra: uint64(m.Task), plan: Plan{op: opLost}}, []byte(m.Why), nil)
	}
}

// sweepUp marks a message of the sweep that goes up.
const sweepUp = 1

// keyed is a message about what is kept.
func keyed(k recovery.Key, op uint8) envelope {
	return envelope{scope: scope{k.Name, uint32(k.Epoch)}, extra: uint64(k.Task), plan: Plan{op: op}}
}

// keyOf is what a message is about.
func keyOf(in *incoming) recovery.Key {
	return recovery.Key{Task: protocol.Rank(uint32(in.extra)), Epoch: uint64(in.epoch), Name: in.group}
}

// ruled takes a message of the machine, if it is one.
func (p *Process) ruled(in *incoming) bool {
	m := recovery.Message{}
	switch in.plan.op {
	case opAbort:
		m = recovery.Message{Kind: recovery.Record, Op: recovery.Op{Group: in.group, Epoch: uint64(in.epoch), Seq: in.seq}}
	case opAborts:
		m = recovery.Message{Kind: recovery.Word, View: in.seq}
	case opSpare:
		m = recovery.Message{Kind: recovery.Spare, View: in.seq, Key: recovery.Key{Epoch: in.extra}}
	case opSweep:
		m = recovery.Message{Kind: recovery.Sweeping, Sweep: recovery.SweepMessage{
			View: in.seq, Up: in.kind == sweepUp, Saved: in.extra, Committed: in.sign, Balance: int64(in.group),
		}}
	case opCopied:
		p.copied(in)
		return true
	case opCopy:
		p.copyCame(in)
		return true
	case opDrawn:
		if k := keyOf(in); k.Commitment() || p.roster.Has(in.extra) {
			p.recovery.rules.Drew(k)
			p.carryOut()
		}
		return true
	case opAgain, opLost:
		if !p.roster.Has(in.extra) {
			return true
		}
		m = recovery.Message{Kind: recovery.Again, Task: protocol.Rank(in.extra), View: in.seq}
		if in.plan.op == opLost {
			m = recovery.Message{Kind: recovery.Lost, Task: protocol.Rank(in.extra), Why: string(in.value)}
		}
	default:
		return false
	}
	p.heardRule(in.source, m)
	if m.Kind == recovery.Record {
		p.endAborted(m.Op)
	}
	return true
}

// tellDrawn sends a process the names of what Owes says that it does not know yet: the next message
// to it may depend on them, and goes out in the same write.
func (q *peer) tellDrawn() {
	if q.mute(opDrawn) || !q.p.recovery.rules.Owing(protocol.Rank(q.rank)) {
		return
	}
	for _, k := range q.p.recovery.rules.Owes(protocol.Rank(q.rank)) {
		e := keyed(k, opDrawn)
		if q.local != nil {
			q.mail(&terms{}, &e, nil)
			continue
		}
		q.linked()
		q.first(&e, nil, 0)
	}
}
