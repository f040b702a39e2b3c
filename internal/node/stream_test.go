package node

import (
	"slices"
	"testing"

	"github.com/coppice-go/coppice/protocol/collective"
)

// TestEitherCopyOfAMessageWillDo: the sender of a large message crashes in the middle of it, and its
// next attempt sends the message before this process has heard of the crash.
func TestEitherCopyOfAMessageWillDo(t *testing.T) {
	l, err := NewLocal(3, Config{Adopt: func(int, int, int) {}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := l.Processes[0]
	p.engine.Lock()
	defer p.engine.Unlock()
	s := p.member(scope{group: world}, 0).streamIn(1, 0)
	begin := func(from int, seq uint64) *incoming {
		in := &incoming{source: p.mesh.peers[from], id: 1, value: make([]byte, eagerMax), filled: eagerMax}
		in.plan, in.seq, in.size = Plan{op: opSend}, seq, 1<<20
		s.arrive(in)
		return in
	}
	complete := func(in *incoming) {
		in.filled = int(in.size)
		in.Came()
		if in.arrived != nil {
			in.arrived()
		}
	}
	first, second := begin(1, 1), begin(2, 1)
	complete(second)
	if s.head() != second || !s.head().Complete() {
		t.Error("the second copy is complete; the stream waits for the first")
	}
	complete(first)
	other := begin(2, 2)
	last := begin(1, 2)
	complete(other)
	complete(last)
	if *s.place(2) != other || len(s.copies) != 0 || p.mesh.early.Used() != 2<<20 {
		t.Errorf("%d copies are left, %d bytes count as early; want 0, %d", len(s.copies), p.mesh.early.Used(), 2<<20)
	}
	late := begin(1, 3)
	s.m.declineStreams()
	if complete(late); p.mesh.early.Used() != 0 {
		t.Errorf("the group is forgotten, and %d bytes count as early", p.mesh.early.Used())
	}
}

// TestOnlyOneAttemptWritesToAResult: two attempts of a task send a large message, and the second
// attempt's copy is complete first. Later bytes of the first must not reach the result.
func TestOnlyOneAttemptWritesToAResult(t *testing.T) {
	l, err := NewLocal(3, Config{Adopt: func(int, int, int) {}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := l.Processes[1]
	p.engine.Lock()
	defer p.engine.Unlock()
	const size = 1 << 20
	m := p.member(scope{group: world}, 1)
	plan := m.Choose(collective.AllReduce, Choice{Bytes: size, Pieces: true})
	add := func(dst, _, _ []byte) ([]byte, error) { return dst, nil }
	o, err := m.enter(&Call{Plan: plan, Value: make([]byte, size), Room: make([]byte, size), Kind: collective.Kind{Elem: 8, Fold: add}})
	if err != nil || o.sched == nil {
		t.Fatal(o, err)
	}
	steps, store := o.sched.program.Steps, &o.sched.store
	i := slices.IndexFunc(steps, func(st collective.Step) bool {
		return st.Kind == collective.RecvStep && store.Room(&st, size) != nil
	})
	if i < 0 {
		t.Fatalf("%v receives nothing into the memory of the task", plan)
	}
	begin := func(process int) *incoming {
		in := &incoming{source: p.mesh.peers[process], id: 1, value: make([]byte, eagerMax), filled: eagerMax}
		in.plan, in.seq, in.size, in.round = plan, o.seq, size, steps[i].Lane
		in.from = uint32(steps[i].Peer)
		m.collective(int(steps[i].Peer), in)
		return in
	}
	first, second := begin(0), begin(2)
	if &first.value[0] != &second.value[0] {
		t.Fatal("both are not received into the memory of the task")
	}
	second.filled = size
	second.Came()
	second.arrived()
	if first.value != nil {
		t.Error("what the first attempt has sent gets into the result")
	}
}
