package oracle

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
	"github.com/coppice-go/coppice/protocol/recovery"
)

// script is the trace that processes write.
type script []*membership.Line[any]

// tape returns a process's tape for a new machine.
func (s *script) tape(who membership.Member, kind string, with ...any) protocol.Note {
	machine := uint64(len(*s) + 1)
	note := func(call string, values ...any) {
		*s = append(*s, &membership.Line[any]{Who: who, Machine: machine, Call: call, Values: values})
	}
	note(kind, with...)
	return note
}

// find returns the first line of a call for which is reports true.
func (s script) find(t *testing.T, call string, is func(values []any) bool) int {
	t.Helper()
	i := slices.IndexFunc(s, func(l *membership.Line[any]) bool { return l.Call == call && is(l.Values) })
	if i < 0 {
		t.Fatal("there is no such line")
	}
	return i
}

func always([]any) bool { return true }

// change is a change of a script.
type change func(*testing.T, script) script

// without omits a line.
func without(call string, is func([]any) bool) change {
	return func(t *testing.T, s script) script {
		i := s.find(t, call, is)
		return slices.Delete(s, i, i+1)
	}
}

// twice repeats a line.
func twice(call string, is func([]any) bool) change {
	return func(t *testing.T, s script) script {
		i := s.find(t, call, is)
		return slices.Insert(s, i, s[i])
	}
}

// other replaces a value of a line.
func other[T any](call string, is func([]any) bool, at int, f func(T) T) change {
	return func(t *testing.T, s script) script {
		l := *s[s.find(t, call, is)]
		l.Values = slices.Clone(l.Values)
		l.Values[at] = f(l.Values[at].(T))
		s[s.find(t, call, is)] = &l
		return s
	}
}

func (s script) check(t *testing.T) (Report, error) {
	t.Helper()
	var b bytes.Buffer
	for _, l := range s {
		if err := json.NewEncoder(&b).Encode(l); err != nil {
			t.Fatal(err)
		}
	}
	return Check(&b)
}

// cases are changes of a script, and what they are reported as.
type cases map[string]struct {
	change change
	want   string
}

func (all cases) run(t *testing.T, of func(*testing.T) script) {
	for name, c := range all {
		t.Run(name, func(t *testing.T) {
			if _, err := c.change(t, of(t)).check(t); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want %q", err, c.want)
			}
		})
	}
}

// trace returns the trace of two processes. Each saves once and the second dies; the first runs its task
// again.
func trace(t *testing.T) (s script) {
	t.Helper()
	first := membership.First(2, []protocol.Rank{0, 1})
	var all [2]*recovery.Tape
	for i := range all {
		self := first.Members[i]
		cfg := recovery.Config{
			First: first, Copies: 1, Adopts: true, Saves: true, Aborts: true,
			Ring: func(*membership.View, membership.Member) []protocol.Rank {
				return []protocol.Rank{protocol.Rank(1 - i)}
			},
			Nobodys: func(*membership.View) string { return "nobody's" },
		}
		all[i] = recovery.NewTape(&cfg, self, s.tape(self, "Recovery", cfg, self))
	}
	// carry delivers what the processes send each other, at once.
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
	return s
}

func TestWhatTheMachineSaysIsWell(t *testing.T) {
	lines := trace(t)
	report, err := lines.check(t)
	want := Report{Processes: 2, Steps: len(lines), Effects: report.Effects, Messages: report.Messages, Views: 1, Epochs: 1, Adoptions: 1, Resumptions: 1}
	if err != nil || report != want || report.Messages < 6 {
		t.Errorf("%+v, %v; want %+v", report, err, want)
	}
}

// TestWhatIsWrongIsFound changes one line of a trace at a time.
func TestWhatIsWrongIsFound(t *testing.T) {
	of := func(k recovery.Kind) func([]any) bool {
		return func(v []any) bool { return v[1].(recovery.Message).Kind == k }
	}
	cases{
		"a process that did not begin": {without("Recovery", always), "has not begun"},
		"a process that begins twice":  {twice("Recovery", always), "a process begins twice"},
		"a step that was not taken":    {without("Kept", always), "which it did before"},
		"a message that got lost":      {without("Receive", of(recovery.Keep)), "the machine says"},
		"an epoch that was not saved":  {without("Save", always), "the machine says"},
		"a ring that was not asked":    {without("Ring", always), "which it did not before"},
		"a ring that was asked again":  {twice("Ring", always), "which it did before"},
		"a message that came twice":    {twice("Receive", of(recovery.Kept)), "which has not sent it"},
		"a message that is another": {other("Receive", of(recovery.Keep), 1, func(m recovery.Message) recovery.Message {
			m.Key.Epoch++
			return m
		}), "which has not sent it"},
		"an effect that nobody wanted": {other("Effects", always, 0, func(all []recovery.Effect) []recovery.Effect {
			all[0].To = 5
			return all
		}), "the machine says"},
		"a state that is not the last": {other("Resumed", always, 1, func(uint64) uint64 { return 7 }), "goes on from epoch 7"},
		"a view that came before":      {twice("Opened", always), "comes after view 2"},
		"two views of one number": {func(t *testing.T, s script) script {
			i := s.find(t, "Opened", always)
			v := *s[i].Values[0].(*membership.View)
			v.Owners = []protocol.Rank{1, 1}
			second := *s[s.find(t, "Recovery", func(v []any) bool { return v[1].(membership.Member).ID == 1 })]
			second.Call, second.Values = "Opened", []any{&v, false}
			return slices.Insert(s, i+1, &second)
		}, "to another process it is"},
		"a call that does not exist": {func(t *testing.T, s script) script {
			s[len(s)-1].Call = "Hesitate"
			return s
		}, "there is no such call"},
		"a file that is of another kind": {func(*testing.T, script) script { return nil }, "there is no step"},
	}.run(t, trace)
}

// TestCutLines: a process that is killed while it writes leaves an incomplete line.
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
