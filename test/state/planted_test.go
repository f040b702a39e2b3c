package state_test

import (
	"testing"

	"github.com/coppice-go/coppice/internal/plant"
)

// Mistakes in the code that executes the effects of package recovery. The machine does not see them: a
// repetition of its steps (chaos/oracle), the results of the jobs, or a hang reveals them.

var planted = plant.Garden{
	Machine: "../../internal/node", Package: "node",
	Mistakes: []plant.Mistake{
		{
			Name: "what goes up in the sweep comes down", File: "rules.go",
			Old: `		if s.Up {`, New: `		if s.Up && !wrong("what goes up in the sweep comes down") {`,
		},
		{
			Name: "the sweep goes before the values that it follows from", File: "rules.go",
			Old: `		q.tellDrawn()
		q.tell(e)
`,
			New: `		if !wrong("the sweep goes before the values that it follows from") {
			q.tellDrawn()
		}
		q.tell(e)
`,
		},
		{
			Name: "what is told is told twice", File: "rules.go",
			Old: `		p.peerAt(int(e.To)).tellRule(&e.Msg)
`,
			New: `		p.peerAt(int(e.To)).tellRule(&e.Msg)
		if wrong("what is told is told twice") {
			p.peerAt(int(e.To)).tellRule(&e.Msg)
		}
`,
		},
		{
			Name: "of effects that were wanted together the last is forgotten", File: "rules.go",
			Old: `		for i := 0; i < len(all) && !p.dead && !p.engine.Stopped(); i++ {`,
			New: `		for i := 0; i < len(all) && !p.dead && !p.engine.Stopped() && !(i > 1 && i == len(all)-1 && wrong("of effects that were wanted together the last is forgotten")); i++ {`,
		},
		{
			Name: "a copy that is kept is said to be of no name", File: "rules.go",
			Old: `		q.tell(keyed(m.Key, opCopied))
`,
			New: `		if wrong("a copy that is kept is said to be of no name") {
			m.Key.Name = 0
		}
		q.tell(keyed(m.Key, opCopied))
`,
		},
		{
			Name: "everybody is in its first life", File: "rules.go",
			Old: `	return membership.Member{ID: protocol.Rank(q.rank), Incarnation: uint32(max(q.incarnation, 1))}
`,
			New: `	if wrong("everybody is in its first life") {
		return membership.Member{ID: protocol.Rank(q.rank), Incarnation: 1}
	}
	return membership.Member{ID: protocol.Rank(q.rank), Incarnation: uint32(max(q.incarnation, 1))}
`,
		},
		{
			Name: "a copy for the new owner is taken for one to keep", File: "copies.go",
			Old: `	if in.kind == copyYours {
		said.Kind`,
			New: `	if in.kind == copyYours && !wrong("a copy for the new owner is taken for one to keep") {
		said.Kind`,
		},
		{
			Name: "copies that are handed over are forgotten", File: "copies.go",
			Old: `	if r == nil || q.dead {
		return
	}
	head`,
			New: `	if r == nil || q.dead || e.Msg.Kind == recovery.Have && wrong("copies that are handed over are forgotten") {
		return
	}
	head`,
		},
		{
			Name: "a task goes on from the epoch before", File: "epoch.go",
			Old: `	p.recovery.rules.Resumed(protocol.Rank(m.task), epoch)
`,
			New: `	if wrong("a task goes on from the epoch before") {
		epoch--
	}
	p.recovery.rules.Resumed(protocol.Rank(m.task), epoch)
`,
		},
		{
			Name: "another epoch is saved", File: "epoch.go",
			Old: `			p.recovery.rules.Save(protocol.Rank(m.task), to, te.balance)
`,
			New: `			if wrong("another epoch is saved") && m.task == 1 && to > 1 {
				p.recovery.rules.Save(protocol.Rank(m.task), to-1, te.balance)
			} else {
				p.recovery.rules.Save(protocol.Rank(m.task), to, te.balance)
			}
`,
		},
		{
			Name: "a letter of the membership is sent twice", File: "views.go",
			Old: `	p.peerAt(to).send(envelope{plan: Plan{op: opView}}, value, nil)
`,
			New: `	p.peerAt(to).send(envelope{plan: Plan{op: opView}}, value, nil)
	if wrong("a letter of the membership is sent twice") {
		p.peerAt(to).send(envelope{plan: Plan{op: opView}}, value, nil)
	}
`,
		},
		{
			Name: "the sender of a stream is told of one message more than was taken", File: "replay.go",
			Old: `	e.seq, e.extra, e.plan, e.kind = s.flow.Tell(), key.tag, Plan{op: opCredit}, creditStream
`,
			New: `	e.seq, e.extra, e.plan, e.kind = s.flow.Tell(), key.tag, Plan{op: opCredit}, creditStream
	if wrong("the sender of a stream is told of one message more than was taken") {
		e.seq++
	}
`,
			By: []string{"messages are said to be taken"},
		},
		{
			Name: "a task is said to have completed one operation more", File: "ahead.go",
			Old: `	e.seq, e.plan, e.sign = m.ahead.Count(), Plan{op: opCredit}, uint64(m.p.roster.Attempt(m.task))
`,
			New: `	e.seq, e.plan, e.sign = m.ahead.Count(), Plan{op: opCredit}, uint64(m.p.roster.Attempt(m.task))
	if wrong("a task is said to have completed one operation more") {
		e.seq++
	}
`,
			By: []string{"is said to have completed"},
		},
		{
			Name: "a task that has moved goes on", File: "rules.go",
			Old: `		p.leaves(int(e.Task))
`,
			New: `		if !wrong("a task that has moved goes on") {
			p.leaves(int(e.Task))
		}
`,
		},
	},
	Healthy: "^(TestSavedJobs|TestRoamingJobs)$",
}

func TestMistakesOfTheExecutorAreFound(t *testing.T) {
	for i := range planted.Mistakes {
		planted.Mistakes[i].Test = planted.Healthy
	}
	planted.Find(t)
}
