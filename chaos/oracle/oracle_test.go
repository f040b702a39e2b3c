package oracle

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
	"github.com/coppice-go/coppice/protocol/recovery"
)

// trace is what two processes write down, of which each saves once and the second dies; the first runs its task again.
func trace(t *testing.T) []recovery.Line {
	t.Helper()
	var lines []recovery.Line
	first := membership.First(2, []protocol.Rank{0, 1})
	var all [2]*recovery.Tape
	for i := range all {
		self := first.Members[i]
		all[i] = recovery.NewTape(&recovery.Config{
			First: first, Copies: 1, Adopts: true, Saves: true, Aborts: true,
			Ring: func(*membership.View, membership.Member) []protocol.Rank {
				return []protocol.Rank{protocol.Rank(1 - i)}
			},
			Nobodys: func(*membership.View) string { return "nobody's" },
		}, self, func(s *recovery.Step) { lines = append(lines, recovery.Line{Who: self, Step: s}) })
	}
	// carry delivers what they tell each other, at once.
	carry := func(some ...int) {
		for more := true; more; {
			more = false
			for _, i := range some {
				for _, e := range all[i].Effects() {
					if (e.Act == recovery.Tell || e.Act == recovery.SendCopy) && len(some) > 1 {
						all[e.To].Receive(first.Members[i], e.Msg)
					}
					more = true
				}
			}
		}
	}
	for i, m := range all {
		m.Kept(recovery.Key{Task: protocol.Rank(i), Epoch: 1}, false)
		m.Save(protocol.Rank(i), 1, 0)
	}
	carry(0, 1)
	next := membership.NewView(2, first.Members[:1], first.Members[1:], []protocol.Rank{0, 0})
	next.Since = []uint64{1, 2}
	next.Epoch = 1
	all[0].Opened(next, false)
	carry(0)
	if epoch, here, known := all[0].Resume(1); epoch != 1 || !here || !known {
		t.Fatalf("the task goes on from epoch %d, %t, %t", epoch, here, known)
	}
	all[0].Resumed(1, 1)
	return lines
}

func check(t *testing.T, lines []recovery.Line) (Report, error) {
	t.Helper()
	var b bytes.Buffer
	for _, l := range lines {
		if err := json.NewEncoder(&b).Encode(l); err != nil {
			t.Fatal(err)
		}
	}
	return Check(&b)
}

func TestWhatTheMachineSaysIsWell(t *testing.T) {
	lines := trace(t)
	report, err := check(t, lines)
	want := Report{Processes: 2, Steps: len(lines), Effects: report.Effects, Messages: report.Messages, Views: 1, Epochs: 1, Adoptions: 1, Resumptions: 1}
	if err != nil || report != want || report.Messages < 6 {
		t.Errorf("%+v, %v; want %+v", report, err, want)
	}
}

// TestWhatIsWrongIsFound changes one line of a trace at a time.
func TestWhatIsWrongIsFound(t *testing.T) {
	at := func(lines []recovery.Line, is func(l *recovery.Line) bool) int {
		for i := range lines {
			if is(&lines[i]) {
				return i
			}
		}
		t.Fatal("there is no such line")
		return 0
	}
	call := func(c recovery.Call) func(*recovery.Line) bool {
		return func(l *recovery.Line) bool { return l.Call == c }
	}
	receives := func(k recovery.Kind) func(*recovery.Line) bool {
		return func(l *recovery.Line) bool { return l.Call == recovery.CallReceive && l.Msg.Kind == k }
	}
	without := func(is func(*recovery.Line) bool) func([]recovery.Line) []recovery.Line {
		return func(lines []recovery.Line) []recovery.Line {
			i := at(lines, is)
			return append(lines[:i:i], lines[i+1:]...)
		}
	}
	for name, c := range map[string]struct {
		change func([]recovery.Line) []recovery.Line
		want   string
	}{
		"a process that did not begin": {without(call(recovery.CallNew)), "has not begun"},
		"a step that was not taken":    {without(call(recovery.CallKept)), "the machine says"},
		"a message that got lost":      {without(receives(recovery.Keep)), "the machine says"},
		"an epoch that was not saved":  {without(call(recovery.CallSave)), "the machine says"},
		"a message that came twice": {func(l []recovery.Line) []recovery.Line {
			i := at(l, receives(recovery.Kept))
			return append(l[:i+1:i+1], l[i:]...)
		}, "which has not told it"},
		"a message that is another": {func(l []recovery.Line) []recovery.Line {
			i := at(l, receives(recovery.Keep))
			m := *l[i].Msg
			m.Key.Epoch++
			l[i].Msg = &m
			return l
		}, "which has not told it"},
		"an effect that nobody wanted": {func(l []recovery.Line) []recovery.Line {
			i := at(l, call(recovery.CallEffects))
			l[i].Came.Effects[0].To = 5
			return l
		}, "the machine says"},
		"a state that is not the last": {func(l []recovery.Line) []recovery.Line { l[at(l, call(recovery.CallResumed))].Epoch = 7; return l }, "goes on from epoch 7"},
		"a view that came before": {func(l []recovery.Line) []recovery.Line {
			i := at(l, call(recovery.CallOpened))
			return append(l[:i+1:i+1], l[i:]...)
		}, "comes after view 2"},
		"two views of one number": {func(l []recovery.Line) []recovery.Line {
			i := at(l, call(recovery.CallOpened))
			other, v := *l[i].Step, *l[i].View
			v.Owners = []protocol.Rank{1, 1}
			other.View = &v
			return append(l[:i+1:i+1], recovery.Line{Who: membership.Member{ID: 1, Incarnation: 1}, Step: &other})
		}, "to another process it is"},
		"a file that is of another kind": {func([]recovery.Line) []recovery.Line { return nil }, "there is no step"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := check(t, c.change(trace(t))); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want %q", err, c.want)
			}
		})
	}
}

// TestCutLines: who is killed while it writes leaves a line that ends early.
func TestCutLines(t *testing.T) {
	var b bytes.Buffer
	for i, l := range trace(t) {
		text, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(text)
		if b.WriteByte('\n'); i == 3 {
			b.Write(text[:len(text)/2])
			b.WriteByte('\n')
		}
	}
	if report, err := Check(&b); err != nil || report.Cut != 1 {
		t.Errorf("%+v, %v", report, err)
	}
}
