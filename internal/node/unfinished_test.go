package node

import (
	"bytes"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/wire"
)

// begin lets the intruder send the beginning of a large value, and waits until it has arrived.
func (x *intruder) begin(t *testing.T, p *Process, change func(*envelope)) {
	t.Helper()
	const size = 200 << 10
	e := letter(func(e *envelope) {
		e.size, e.sign = size, 5
		change(e)
	})
	x.say(x.frame(wire.Data, 7, e, make([]byte, eagerMax)))
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		p.engine.Lock()
		n := len(p.mesh.peers[1].parts)
		p.engine.Unlock()
		if n > 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatal("nothing came")
		}
	}
}

// A task that receives, after the crash, what a crashed process began to send gets an error.
func TestReceiveWhatTheDeadBegan(t *testing.T) {
	j, x := intrude(t)
	x.begin(t, j.ps[0], func(e *envelope) { e.plan = Plan{op: opSend} })
	j.ps[0].Tell(Death{Rank: 1, Certain: true, How: "killed"})
	if _, err := j.ps[0].World(0).Recv(patience(t), 1, 0, 5, "bytes"); !errors.Is(err, ErrLost) {
		t.Errorf("recv: %v", err)
	}
}

// A value of a corrected broadcast that a crashed process began to send does not keep out the same
// value from other processes.
func TestOthersSendWhatTheDeadBegan(t *testing.T) {
	j, x := intrude(t)
	ctx := patience(t)
	plan := mustPlan(t, "binomial", "checked").WithRoot(2)
	x.begin(t, j.ps[0], func(e *envelope) { e.plan = plan })
	value := bytes.Repeat([]byte{3}, 200<<10)
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := j.ps[2].World(2).Do(ctx, &Call{Plan: plan, Value: value, Sign: 5}); err != nil {
			t.Errorf("root: %v", err)
		}
	})
	wg.Go(func() {
		got, err := j.ps[0].World(0).Do(ctx, &Call{Plan: plan, Sign: 5})
		if err != nil || !bytes.Equal(got.Value, value) {
			t.Errorf("%d bytes, %v", len(got.Value), err)
		}
	})
	time.Sleep(20 * time.Millisecond)
	for _, r := range []int{0, 2} {
		j.ps[r].Tell(Death{Rank: 1, Certain: true, How: "killed"})
	}
	wg.Wait()
}
