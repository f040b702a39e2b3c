package node

import (
	"testing"

	"github.com/coppice-go/coppice/protocol/agreement"
)

// A task that learns the decision before it has combined its values goes on to serve the others.
func TestDecisionBeforeTheWorkIsDone(t *testing.T) {
	job, err := NewLocal(4, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer job.Close()
	p := job.Processes[0]
	m := p.World(0)
	p.engine.Lock()
	a, f := m.enterPact(&Call{Value: []byte{1}, Works: true, Kind: outcomes})
	if f != nil {
		t.Fatal(f)
	}
	a.step()
	for rank, msg := range map[int]agreement.Message{
		1: {Kind: agreement.Up, View: 1, Value: []byte{2}},
		2: {Kind: agreement.Up, View: 1, Decided: 1, Value: []byte{3}},
	} {
		value := msg.Append(nil)
		m.letter(rank, &incoming{envelope: envelope{seq: 1, size: uint64(len(value))}, value: value, In: whole(), source: p.mesh.peers[rank]})
	}
	delivered := a.delivered
	p.engine.Unlock()
	if !delivered {
		t.Error("the decision is not known")
	}
	for _, rank := range []int{1, 2} {
		q := job.Processes[rank]
		q.engine.Lock()
		child := q.groups.members[memberKey{scope{group: world}, uint32(rank)}].agreements
		if child == nil || child.Find(1) == nil {
			t.Errorf("task %d is not told", rank)
		}
		q.engine.Unlock()
	}
}

// A process keeps forks whose agreement others may still need, however many there are.
func TestForksKeepTheirAgreements(t *testing.T) {
	job, err := NewLocal(2, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer job.Close()
	p := job.Processes[0]
	const forks = 2 * keptMax
	for range forks {
		f := p.World(0).Fork()
		p.engine.Lock()
		f.pact(f.series().Hear(1), 0)
		p.engine.Unlock()
		f.Release()
	}
	if len(p.groups.members) != forks+1 {
		t.Errorf("%d groups of %d are left", len(p.groups.members), forks+1)
	}
}
