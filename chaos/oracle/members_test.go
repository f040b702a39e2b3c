package oracle

import (
	"testing"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
	"github.com/coppice-go/coppice/protocol/recovery"
)

// membersTrace returns the trace of three processes, of which the last dies and the others go on.
func membersTrace(t *testing.T) (s script) {
	t.Helper()
	first := membership.First(3, nil)
	cfg := membership.Config{First: first}
	var all [3]*membership.Tape
	for i := range all {
		who := first.Members[i]
		tape, err := membership.NewTape(cfg, who.ID, s.tape(who, "Membership", cfg, who.ID))
		if err != nil {
			t.Fatal(err)
		}
		all[i] = tape
	}
	all[1].Receive(1, 2, membership.Message{Letter: &membership.Letter{Kind: membership.Will}, From: 1})
	all[1].Notify(1, protocol.Notice{Kind: protocol.Death, Rank: 2, Value: 1})
	for more := true; more; {
		more = false
		for i := range 2 {
			a := all[i].Next(2)
			more = more || a.Kind != protocol.Idle && a.Kind != protocol.Wait
			switch a.Kind {
			case protocol.Send:
				all[a.To].Receive(2, protocol.Rank(i), a.Msg)
			case protocol.Work:
				all[i].Notify(2, protocol.Notice{Kind: protocol.WorkDone})
			case protocol.Deliver:
				if all[i].View().Number != 2 {
					t.Fatalf("%v, want view 2", all[i].View())
				}
			}
		}
	}
	return s
}

func TestMembershipIsWell(t *testing.T) {
	report, err := membersTrace(t).check(t)
	if err != nil || report.Letters < 2 || report.Processes != 3 {
		t.Errorf("%+v, %v", report, err)
	}
}

func TestWhatIsWrongInTheMembershipIsFound(t *testing.T) {
	received := func(v []any) bool { return v[1].(protocol.Rank) < 2 }
	action := func(v []any) protocol.Action[membership.Message] { return v[1].(protocol.Action[membership.Message]) }
	cases{
		"a process that did not begin": {without("Membership", always), "has not begun"},
		"a letter that was lost":       {without("Receive", received), "the machine says"},
		"a will that was not read":     {without("Receive", func(v []any) bool { return v[1].(protocol.Rank) == 2 }), "the machine says"},
		"a letter that nobody sent": {other("Receive", received, 2, func(m membership.Message) membership.Message {
			l := *m.Letter
			l.Number++
			m.Letter = &l
			return m
		}), "which has not sent it"},
		"a letter that came twice": {twice("Receive", received), "or before what came already"},
		"a letter to another": {other("Next", func(v []any) bool { return action(v).Kind == protocol.Send }, 1,
			func(a protocol.Action[membership.Message]) protocol.Action[membership.Message] {
				a.To = 2
				return a
			}), "the machine says"},
		"a view that recovery did not get": {func(t *testing.T, s script) script {
			i := s.find(t, "Next", func(v []any) bool { return action(v).Kind == protocol.Deliver })
			second := *action(s[i].Values).Msg.Base
			second.Epoch = 9
			add := s[: i+1 : i+1]
			add.tape(s[i].Who, "Recovery", recovery.Config{First: membership.First(3, nil)}, s[i].Who)("Opened", &second, false)
			return append(add, s[i+1:]...)
		}, "the membership opened"},
	}.run(t, membersTrace)
}
