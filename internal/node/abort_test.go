package node

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
	"github.com/coppice-go/coppice/protocol/recovery"
)

// A task that is run again waits until the others have reported which operations they know to be
// aborted, but no longer than its process takes part in the job.
func TestVoteEndsWithTheProcess(t *testing.T) {
	job, err := NewLocal(2, Config{Adopt: func(int, int, int) {}})
	if err != nil {
		t.Fatal(err)
	}
	defer job.Close()
	p := job.Processes[0]
	p.engine.Lock()
	second := *p.view()
	second.Number, second.Since = 2, []uint64{2, 1} // gives task 0 to this process
	p.assign(&second)
	p.recovery.rules.Opened(&second, false)
	p.recovery.rules.Effects()
	p.engine.Unlock()
	over := errors.New("over")
	voted := make(chan error)
	go func() {
		_, err := p.World(0).DoAgreed(context.Background(), &Call{Plan: BarrierPlan()})
		voted <- err
	}()
	for waits := false; !waits; time.Sleep(time.Millisecond) {
		p.engine.Lock()
		waits = len(p.recovery.rules.waiting) > 0
		p.engine.Unlock()
	}
	p.End(over)
	select {
	case err := <-voted:
		if !errors.Is(err, over) {
			t.Error(err)
		}
	case <-time.After(hangTime):
		t.Fatal("it still waits")
	}
}

// A process sends a joiner its aborted operations and lost tasks before anything else: what it sends
// from the log, or to keep, may follow from them. The sender may crash at any moment.
func TestWhoJoinsIsToldFirst(t *testing.T) {
	job, err := NewLocal(3, Config{Tasks: 3, Owner: []int32{0, 1, 0}, Buffer: 1 << 20, Copies: 1, Adopt: func(int, int, int) {}})
	if err != nil {
		t.Fatal(err)
	}
	defer job.Close()
	p, joiner := job.Processes[0], job.Processes[2]
	p.engine.Lock()
	defer p.engine.Unlock()
	id := func(r protocol.Rank) membership.Member { return membership.Member{ID: r, Incarnation: 1} }
	first := p.view()
	before := *first
	before.Members = []membership.Member{id(0), id(1)}
	p.views.sight.View = &before
	p.initRules()

	m := p.member(scope{group: world}, 0)
	e := m.to(1)
	e.seq, e.plan = 1, Plan{op: opSend}
	m.record(1, &e, []byte("follows from the abort"))
	p.own(recovery.Key{Name: 1}, 0, []byte("value"), false, nil)
	p.heardRule(p.peerAt(1), recovery.Message{Kind: recovery.Record, Op: recovery.Op{Group: world, Seq: 1}})
	p.tellLost("its state is gone", 2)

	after := before
	after.Number++
	after.Members = []membership.Member{id(0), id(2)}
	after.Owners, after.Since = []protocol.Rank{0, 2, 0}, []uint64{1, after.Number, 1}
	p.viewOpened(&after)

	joiner.mesh.post.Lock()
	defer joiner.mesh.post.Unlock()
	var order []uint8
	for _, letter := range joiner.mesh.inbox {
		if op := letter.plan.op; op != opView {
			order = append(order, op)
		}
	}
	told := []uint8{opAbort, opLost, opAborts}
	if len(order) < len(told) || !slices.Equal(order[:len(told)], told) {
		t.Errorf("it is sent messages for %v, want %v first", order, told)
	}
	for _, op := range []uint8{opSend, opCopy} {
		if !slices.Contains(order, op) {
			t.Errorf("it is sent messages for %v, want one for %v", order, op)
		}
	}
}
