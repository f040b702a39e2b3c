package oracle

import (
	"strings"
	"testing"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
	"github.com/coppice-go/coppice/protocol/recovery"
)

// membersTrace is what three processes write down, of which the last dies and the others go on.
func membersTrace(t *testing.T) (lines []recovery.Line) {
	t.Helper()
	first := membership.First(3, nil)
	var all [3]*membership.Tape
	for i := range all {
		who := first.Members[i]
		tape, err := membership.NewTape(membership.Config{First: first}, who.ID, func(s *membership.Step) {
			lines = append(lines, recovery.Line{Who: who, Members: s})
		})
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
	return lines
}

func TestMembershipIsWell(t *testing.T) {
	report, err := check(t, membersTrace(t))
	if err != nil || report.Letters < 2 || report.Processes != 3 {
		t.Errorf("%+v, %v", report, err)
	}
}

func TestWhatIsWrongInTheMembershipIsFound(t *testing.T) {
	find := func(l []recovery.Line, is func(s *membership.Step) bool) int {
		for i := range l {
			if is(l[i].Members) {
				return i
			}
		}
		t.Fatal("there is no such line")
		return 0
	}
	receives := func(s *membership.Step) bool { return s.Call == membership.CallReceive && s.From < 2 }
	sends := func(s *membership.Step) bool { return s.Came != nil && s.Came.Kind == protocol.Send }
	opens := func(s *membership.Step) bool { return s.Came != nil && s.Came.View != nil }
	without := func(is func(*membership.Step) bool) func([]recovery.Line) []recovery.Line {
		return func(l []recovery.Line) []recovery.Line {
			i := find(l, is)
			return append(l[:i:i], l[i+1:]...)
		}
	}
	for name, c := range map[string]struct {
		change func([]recovery.Line) []recovery.Line
		want   string
	}{
		"a process that did not begin": {without(func(s *membership.Step) bool { return s.Call == membership.CallInit }), "has not begun"},
		"a letter that was lost":       {without(receives), "the machine says"},
		"a will that was not read":     {without(func(s *membership.Step) bool { return s.Call == membership.CallReceive && s.From == 2 }), "the machine says"},
		"a letter that nobody sent": {func(l []recovery.Line) []recovery.Line {
			i := find(l, receives)
			m, err := membership.Decode(l[i].Members.Msg)
			if err != nil {
				t.Fatal(err)
			}
			other := *m.Letter
			other.Number++
			m.Letter = &other
			l[i].Members.Msg = m.Append(nil)
			return l
		}, "which has not sent it"},
		"a letter that came twice": {func(l []recovery.Line) []recovery.Line {
			i := find(l, receives)
			return append(l[:i+1:i+1], l[i:]...)
		}, "or before what came already"},
		"a letter to another": {func(l []recovery.Line) []recovery.Line {
			s := *l[find(l, sends)].Members
			came := *s.Came
			came.To, s.Came = 2, &came
			l[find(l, sends)].Members = &s
			return l
		}, "the machine says"},
		"a view that recovery did not get": {func(l []recovery.Line) []recovery.Line {
			i := find(l, opens)
			first := membership.First(3, nil)
			other := *l[i].Members.Came.View
			other.Epoch = 9
			return append(l[:i+1:i+1],
				recovery.Line{Who: l[i].Who, Step: &recovery.Step{Call: recovery.CallNew, Config: &recovery.Config{First: first}, From: &l[i].Who}},
				recovery.Line{Who: l[i].Who, Step: &recovery.Step{Call: recovery.CallOpened, View: &other}})
		}, "the membership opened"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := check(t, c.change(membersTrace(t))); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want %q", err, c.want)
			}
		})
	}
}
