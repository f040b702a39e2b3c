package node

import "testing"

// Memory that a task provides to receive into never becomes memory of the process.
func TestRoomIsNotOurs(t *testing.T) {
	l, err := NewLocal(1, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := l.Processes[0]
	p.engine.Lock()
	defer p.engine.Unlock()
	room := make([]byte, 1<<20)
	in := &incoming{source: p.mesh.peers[0], value: make([]byte, eagerMax), filled: eagerMax, brief: true}
	in.plan, in.size = Plan{op: opAllGather, flags: scheduled}, 1<<20
	in.settle() // it came before the task called
	in.room = room
	in.makeRoom(0)
	in.discard()
	if m := p.engine.Buffers.Get(1 << 20); &m[0] == &room[0] {
		t.Error("the process would use the task's memory")
	}
	if m := p.engine.Buffers.Get(eagerMax); p.engine.Buffers.Bytes() != 0 || len(m) != eagerMax {
		t.Error("the memory of the beginning was not given back")
	}
}
