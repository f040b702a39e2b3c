package node

import (
	"slices"
	"testing"

	"github.com/coppice-go/coppice/protocol/collective"
)

// received is process 1 of three, which receives values of 1 MiB from absent senders.
type received struct {
	p *Process
	m *Member
	t *testing.T
}

const receivedSize = 1 << 20

func receives(t *testing.T) received {
	l, err := NewLocal(3, Config{Adopt: func(int, int, int) {}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	p := l.Processes[1]
	p.engine.Lock()
	t.Cleanup(p.engine.Unlock)
	return received{p, p.member(scope{group: world}, 1), t}
}

// begin lets the beginning of a value arrive from a process.
func (r received) begin(process int, plan Plan, from int, lane uint16) *incoming {
	q := r.p.mesh.peers[process]
	in := &incoming{source: q, id: 1, value: make([]byte, eagerMax), filled: eagerMax}
	in.plan, in.seq, in.size, in.round, in.from = plan, 1, receivedSize, lane, uint32(from)
	q.parts = map[uint32]*incoming{in.id: in}
	r.m.collective(from, in)
	return in
}

// complete lets the rest of it arrive.
func (r received) complete(in *incoming) {
	in.filled = receivedSize
	if in.Came(); in.arrived != nil {
		in.arrived()
	}
}

// TestOnlyOneAttemptWritesToABroadcast: a task's parent in a tree is run again, and two of its attempts
// send the value. Once one attempt's value is complete, bytes of the other must not reach the task's
// memory.
func TestOnlyOneAttemptWritesToABroadcast(t *testing.T) {
	r := receives(t)
	plan := mustPlan(t, "binomial", "none")
	o, err := r.m.enter(&Call{Plan: plan, Room: make([]byte, receivedSize)})
	if err != nil {
		t.Fatal(err)
	}
	first, second := r.begin(0, plan, 0, 0), r.begin(2, plan, 0, 0)
	if &first.value[0] != &o.room[0] || &second.value[0] != &o.room[0] {
		t.Fatal("both are not received into the memory of the task")
	}
	r.complete(first)
	if !o.delivered || second.value != nil || !second.Void() {
		t.Errorf("delivered: %t; what the second attempt sends gets into the result: %t", o.delivered, second.value != nil)
	}
}

// TestOnlyOneAttemptWritesToABlock is the same of a scatter's block, which is received where the task wants it as well.
func TestOnlyOneAttemptWritesToABlock(t *testing.T) {
	r := receives(t)
	plan := r.m.Choose(collective.Scatter, Choice{Bytes: receivedSize, Decides: true})
	room := make([]byte, receivedSize)
	o, err := r.m.enter(&Call{Plan: plan, Rooms: [][]byte{room}})
	if err != nil {
		t.Fatal(err)
	}
	lane := o.sched.program.Steps[0].Lane
	first, second := r.begin(0, plan, 0, lane), r.begin(2, plan, 0, lane)
	if &first.value[0] != &room[0] || &second.value[0] != &room[0] {
		t.Fatal("both are not received into the memory of the task")
	}
	r.complete(first)
	if !o.delivered || second.value != nil || !second.Void() {
		t.Errorf("delivered: %t; what the second attempt sends gets into the result: %t", o.delivered, second.value != nil)
	}
}

// TestWhatTheDeadBeganTakesNoRoom: a value arrives before its task asked for it, and its sender crashes
// in the middle of it.
func TestWhatTheDeadBeganTakesNoRoom(t *testing.T) {
	r := receives(t)
	plan := r.m.Choose(collective.AllReduce, Choice{Bytes: receivedSize, Pieces: true})
	call := &Call{Plan: plan, Value: make([]byte, receivedSize), Kind: collective.Kind{Elem: 8, Fold: func(dst, _, _ []byte) ([]byte, error) { return dst, nil }}}
	make, err := schedules(plan, 3, nil)
	if err != nil {
		t.Fatal(err)
	}
	steps := make(1).(*stepper).program.Steps
	st := &steps[slices.IndexFunc(steps, func(st collective.Step) bool { return st.Kind == collective.RecvStep })]
	in := r.begin(int(st.Peer), plan, int(st.Peer), st.Lane)
	in.wantEarly()
	o, err := r.m.enter(call)
	if err != nil {
		t.Fatal(err)
	}
	if n := r.p.mesh.early.Used(); n != receivedSize || len(o.arrived) > 0 {
		t.Fatalf("%d bytes count as early, want %d; %d messages wait for the task", n, receivedSize, len(o.arrived))
	}
	r.p.died(int(st.Peer), true, "for the test")
	if n := r.p.mesh.early.Used(); n != 0 {
		t.Errorf("%d bytes count as early, which will never come", n)
	}
}
