package node

import (
	"bytes"
	"context"
	"slices"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/transport"
	"github.com/coppice-go/coppice/protocol/collective"
)

// What a task receives in place of what it has sent can arrive before the latter has left, since
// another attempt of the task has sent the same to others. It does not change what waits to be sent.
func TestWhatWaitsToBeSentIsNotReplaced(t *testing.T) {
	for name, owner := range map[string][]int32{"to another process": {0, 1, 2, 3}, "to a task of the process": {0, 1, 0, 1}} {
		t.Run(name, func(t *testing.T) {
			n, absent := 4, 2
			if owner[2] == 0 {
				n, absent = 2, -1
			}
			j := startWithout(t, transport.Unix, n, absent, func(c *Config) {
				c.Tasks, c.Owner, c.Buffer = 4, owner, 1<<32
				c.Adopt = func(int, int, int) {}
			})
			ctx, cancel := context.WithTimeout(context.Background(), hangTime)
			defer cancel()
			x := trial{op: collective.AllReduce, by: collective.Rabenseifner, spans: 1, size: 1 << 20, seed: 3}
			for _, task := range []int{0, 1} { // without the other two it does not end
				c := x.call(task, 4)
				go func() { _, _ = j.ps[task].World(task).Do(ctx, &c) }()
			}
			p, value := j.ps[0], []byte(nil)
			m, to := p.World(0), p.peerAt(int(owner[2]))
			for ; value == nil; time.Sleep(time.Millisecond) {
				if ctx.Err() != nil {
					t.Fatal("nothing waits to be sent")
				}
				p.engine.Lock()
				if value = waiting(to); value != nil {
					before := bytes.Clone(value)
					if replaceSent(m, x.size); !bytes.Equal(before, value) {
						t.Error("what came in its place changed what waits to be sent")
					}
				}
				p.engine.Unlock()
			}
		})
	}
}

// waiting returns a large value that waits to be sent to a process, or nil.
func waiting(q *peer) []byte {
	for _, o := range slices.Concat(q.queue, slices.Collect(q.asked.All())) {
		if len(o.value) > eagerMax {
			return o.value
		}
	}
	return nil
}

// replaceSent writes where a task in an operation on n bytes receives parts of the result.
func replaceSent(m *Member, n int) {
	for o := range m.ops.all() {
		g := o.sched.program
		for i, st := range g.Steps {
			if st.Kind == collective.RecvStep && int(st.Slots[0]) < g.Segments {
				copy(o.sched.store.Room(&g.Steps[i], n/g.Segments*len(st.Slots)), bytes.Repeat([]byte{0xFF}, n))
			}
		}
	}
}
