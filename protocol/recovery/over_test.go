package recovery

import (
	"slices"
	"testing"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
)

// Once all processes know that the job is over they leave, and with them values of Once. Who finds them dead runs no task again, and draws
// no value again where it had begun to.
func TestNothingIsRunAgainAfterTheEnd(t *testing.T) {
	first := membership.First(3, []protocol.Rank{0, 1, 2})
	without := func(v *membership.View, id protocol.Rank) *membership.View {
		return v.Without(func(m membership.Member) bool { return m.ID == id }, true)
	}
	for _, over := range []bool{false, true} {
		m := New(&Config{First: first, Copies: 1, Adopts: true, Saves: true}, first.Members[1])
		second := without(first, 0)
		m.Opened(second, false)
		m.Receive(first.Members[2], Message{Kind: Word, View: second.Number})
		var began protocol.Rank = -1
		for _, e := range m.Effects() {
			if e.Act == Adopt {
				began = e.Task
			}
		}
		if began < 0 {
			t.Fatalf("view %v gives process 1 no task", second)
		}
		if over {
			m.Over()
		}
		want := map[bool]Recollection{false: Fresh, true: Unknown}[over]
		if got := m.Recall(Key{Task: began, Name: 1}); got != want {
			t.Errorf("over %v: of a value that nobody has, what is known is %d, want %d", over, got, want)
		}
		m.Opened(without(second, 2), false)
		adopted := 0
		for _, e := range m.Effects() {
			if e.Act == Adopt {
				adopted++
			}
		}
		if (adopted > 0) == over {
			t.Errorf("over %v: %d tasks are run again", over, adopted)
		}
	}
}

// A check of a trace knows of the end what the machine knew.
func TestTapeRecordsTheEnd(t *testing.T) {
	first := membership.First(2, []protocol.Rank{0, 1})
	var calls []string
	m := NewTape(&Config{First: first, Adopts: true}, first.Members[0], func(call string, _ ...any) { calls = append(calls, call) })
	m.Over()
	if !slices.Equal(calls, []string{"Over"}) {
		t.Errorf("recorded: %q", calls)
	}
}
