package node

import (
	"testing"

	"github.com/coppice-go/coppice/protocol/membership"
)

// A report of one incarnation about its task is not believed of the next incarnation, which runs the
// task again, even if the message was held until the group was joined and the view was open.
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
		m.dispatch(&incoming{envelope: e, source: newPeer(p, 1, life), In: whole()})
		if got := out.flow.Taken(5); got != want {
			t.Errorf("credit of life %d is believed: %t, want %t", life, got, want)
		}
	}
}

// TestOnlyTheAttemptThatCountsIsBelieved: a view gives task 1 back to the process that runs it. Reports
// of the previous attempt's progress may still arrive. Reports of the new attempt stay true when what
// it was sent must be sent once more, since it sends each report once.
func TestOnlyTheAttemptThatCountsIsBelieved(t *testing.T) {
	job, err := NewLocal(2, Config{Adopt: func(int, int, int) {}})
	if err != nil {
		t.Fatal(err)
	}
	defer job.Close()
	p := job.Processes[0]
	p.engine.Lock()
	defer p.engine.Unlock()
	m := p.member(scope{group: world}, 0)
	out := m.streamOut(1, 7)
	for range 5 {
		out.flow.Add(aheadMax)
	}
	tells := func(attempt uint64) {
		for _, kind := range []uint8{creditOperations, creditStream} {
			e := envelope{scope: m.scope, from: 1, seq: 5, extra: 7, sign: attempt, kind: kind, plan: Plan{op: opCredit}}
			m.dispatch(&incoming{envelope: e, source: p.mesh.peers[1], In: whole()})
		}
	}
	believed := func(want bool, when string) {
		t.Helper()
		if ops, stream := m.ahead.Has(1, 5), out.flow.Taken(5); ops != want || stream != want {
			t.Errorf("%s, operations and messages are taken to be done: %t, %t; want %t", when, ops, stream, want)
		}
	}
	tells(0)
	believed(true, "told by the first attempt")
	opens := func(since uint64) {
		view := *p.view()
		view.Since = []uint64{1, since}
		p.assign(&view)
		p.resend([]int{1}, false)
	}
	opens(3)
	tells(0)
	believed(false, "told late by the first attempt")
	tells(2)
	p.resend([]int{1}, true)
	believed(true, "told by the second attempt, before it has asked for what it was sent")
	tells(4)
	opens(5)
	believed(true, "told by the third attempt, before its view")
}
