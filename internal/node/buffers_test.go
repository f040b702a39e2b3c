package node

import "testing"

func TestBuffersAreUsedAgain(t *testing.T) {
	var b buffers
	for _, n := range []int{1, 4096, 4097, 1 << 20, 1<<23 - 1} {
		m := b.get(n)
		if len(m) != n {
			t.Fatalf("%d bytes, want %d", len(m), n)
		}
		b.put(m)
		if again := b.get(n); &again[0] != &m[0] {
			t.Errorf("%d bytes: other memory", n)
		}
		if b.bytes != 0 {
			t.Errorf("%d bytes are free", b.bytes)
		}
	}
	b.put(make([]byte, 5000)) // none of its sizes
	b.put(nil)
	for range 100 {
		b.put(make([]byte, 1<<20))
	}
	if b.bytes != buffersMax {
		t.Errorf("%d bytes are kept, want %d", b.bytes, buffersMax)
	}
}

// What a task gave to receive into never becomes memory of the process.
func TestRoomIsNotOurs(t *testing.T) {
	l, err := NewLocal(1, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := l.Processes[0]
	room := make([]byte, 1<<20)
	in := &incoming{source: p.peers[0], value: make([]byte, eagerMax), filled: eagerMax, brief: true}
	in.plan, in.size = Plan{op: opAllGather, flags: scheduled}, 1<<20
	in.settle() // it came before the task
	in.room = room
	in.makeRoom(0)
	in.discard()
	if m := p.buffers.get(1 << 20); &m[0] == &room[0] {
		t.Error("the process would use the task's memory")
	}
	if m := p.buffers.get(eagerMax); p.buffers.bytes != 0 || len(m) != eagerMax {
		t.Error("the memory of the beginning was not given back")
	}
}
