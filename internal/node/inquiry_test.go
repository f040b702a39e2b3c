package node

import (
	"testing"
	"time"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
	"github.com/coppice-go/coppice/protocol/membership"
)

// A process does not keep values of operations that end long after later ones, as timers make them do;
// its search for them among the kept values terminates.
func TestLateValuesAreNotKept(t *testing.T) {
	p, err := newProcess(Config{Size: 2})
	if err != nil {
		t.Fatal(err)
	}
	m := p.World(0)
	plan := mustPlan(t, "binomial", "checked")
	done := make(chan struct{})
	go func() {
		defer close(done)
		const ops = 8 * aheadMax
		for first := range uint64(2) {
			for seq := first + 1; seq <= ops; seq += 2 {
				m.remember(&operation{entry: entry{m: m}, seq: seq, plan: plan, hasValue: true, value: []byte("v")})
			}
		}
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("it looks for ever")
	}
	for seq := range m.recent {
		if seq < m.recentFirst {
			t.Errorf("keeps operation %d, the first is %d", seq, m.recentFirst)
		}
	}
	if m.recentBytes != len(m.recent) {
		t.Errorf("%d bytes in %d values", m.recentBytes, len(m.recent))
	}
}

// TestPromiseIsAskedForInTheView: process 2 runs task 1 again and corrects a broadcast without its
// value before process 0 has opened the view. Process 0 asks the crashed process; when the view opens
// it asks process 2.
func TestPromiseIsAskedForInTheView(t *testing.T) {
	job, err := NewLocal(3, Config{Tasks: 3, Adopt: func(int, int, int) {}})
	if err != nil {
		t.Fatal(err)
	}
	defer job.Close()
	p, heir := job.Processes[0], job.Processes[2]
	p.engine.Lock()
	defer p.engine.Unlock()
	p.mesh.peers[1].dead = true
	m := p.member(scope{group: world}, 0)
	e := envelope{scope: m.scope, from: 1, seq: 1, plan: mustPlan(t, "gossip:2", "checked").WithRoot(2), kind: uint8(broadcast.Left) | withheld}
	m.dispatch(&incoming{envelope: e, source: p.mesh.peers[2], In: whole()})
	m.ops.get(1).askPromised() // as the timer does

	asked := func() (n int) {
		heir.mesh.post.Lock()
		defer heir.mesh.post.Unlock()
		for _, letter := range heir.mesh.inbox {
			if letter.plan.op == opAsk {
				n++
			}
		}
		return n
	}
	if n := asked(); n != 0 {
		t.Fatalf("%d questions before the view", n)
	}
	view := *p.view()
	view.Number++
	view.Members = []membership.Member{{ID: 0, Incarnation: 1}, {ID: 2, Incarnation: 1}}
	view.Owners, view.Since = []protocol.Rank{0, 2, 2}, []uint64{1, view.Number, 1}
	p.viewOpened(&view)
	if n := asked(); n != 1 {
		t.Errorf("%d questions in the view, want 1", n)
	}
}
