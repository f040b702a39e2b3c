package node

import (
	"testing"

	"github.com/coppice-go/coppice/protocol/membership"
)

// What a life of a process has said of its task is not true of the next one, which runs the task again, though
// the message was held until the group was joined and the view was open.
func TestOnlyTheLifeOfTheViewIsBelieved(t *testing.T) {
	job, err := NewLocal(2, Config{Adopt: func(int, int, int) {}})
	if err != nil {
		t.Fatal(err)
	}
	defer job.Close()
	p := job.Processes[0]
	p.engine.Lock()
	defer p.engine.Unlock()
	view := *p.view()
	view.Members = []membership.Member{{ID: 0, Incarnation: 1}, {ID: 1, Incarnation: 2}}
	p.views.sight.View = &view
	m := p.member(scope{group: world}, 0)
	for life, want := range map[uint64]bool{1: false, 3: false, 2: true} {
		out := m.streamOut(1, life)
		for range 5 {
			out.flow.Add(aheadMax)
		}
		e := envelope{scope: m.scope, from: 1, to: 0, seq: 5, extra: life, kind: creditStream, plan: Plan{op: opCredit}}
		m.dispatch(&incoming{envelope: e, source: newPeer(p, 1, life), complete: true})
		if got := out.flow.Taken(5); got != want {
			t.Errorf("credit of life %d is believed: %t, want %t", life, got, want)
		}
	}
}
