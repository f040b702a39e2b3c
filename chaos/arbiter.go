package chaos

import (
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
)

// arbitrated is the machine with an arbiter of its own in each run. The arbiter names the first process that
// asks about a view. Each answer comes after a number of calls of Next of the process that asked, or never.
type arbitrated struct {
	protocol.Protocol[memberState, memberMessage]
	named   map[uint64]membership.Member // by view
	pending map[membership.Member]*verdict
	mistake bool  // the arbiter names every process that asks
	late    []int // calls of Next until the answer comes, by how many questions were asked before
	asked   int
}

// verdict is an answer on its way.
type verdict struct {
	msg   memberMessage
	calls int
}

// lateMax bounds the lateness of an answer, in calls of Next; an answer that is drawn later never comes.
const lateMax = 12

// withArbiter draws how an arbiter answers in a run.
func withArbiter(s *Setup[memberState, memberMessage], mistake bool) {
	a := &arbitrated{Protocol: s.Protocol, mistake: mistake, named: map[uint64]membership.Member{}, pending: map[membership.Member]*verdict{}}
	for range 4 {
		a.late = append(a.late, s.Choose(lateMax+2))
	}
	s.Protocol = a
}

// Next implements protocol.Protocol.
func (a *arbitrated) Next(s *memberState, now protocol.Time) protocol.Action[memberMessage] {
	if v := a.pending[s.Self()]; v != nil {
		if v.calls--; v.calls < 0 {
			delete(a.pending, s.Self())
			a.Receive(s, now, s.Self().ID, v.msg)
		}
	}
	act := a.Protocol.Next(s, now)
	if act.Kind == protocol.Work && act.Msg.Kind == membership.Arbitrate {
		a.ask(act.Msg.Who, act.Msg.Number)
	}
	return act
}

// ask decides at once, and answers when it is time; one of the answers is that there is no arbiter.
func (a *arbitrated) ask(who membership.Member, view uint64) {
	late := a.late[a.asked%len(a.late)]
	a.asked++
	kind := membership.NoArbiter
	if late <= lateMax || a.asked%2 == 0 { // even if the answer never comes, a process may be named
		if _, taken := a.named[view]; !taken {
			a.named[view] = who
		}
	}
	switch {
	case late > lateMax:
	case a.named[view] == who || a.mistake:
		kind = membership.Granted
	default:
		kind = membership.Denied
	}
	a.pending[who] = &verdict{memberMessage{Letter: &membership.Letter{Kind: kind, Number: view}, From: who.Incarnation}, late}
}
