package broadcast_test

import (
	"math/bits"
	"testing"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
)

// bfbGroup runs a BFB in miniature: messages arrive in the order sent, and all processes know which ones are dead from the
// start.
type bfbGroup struct {
	bfb       *broadcast.BFB
	states    []broadcast.BFBState
	dead      []bool
	level     []int // of the tree; 0 is the root
	delivered []int
	spreads   int
	acks      int
	toDead    int
}

func newBFBGroup(t *testing.T, p int, root protocol.Rank, dead func(r int) bool) *bfbGroup {
	t.Helper()
	b, err := broadcast.NewBFB(p, root)
	if err != nil {
		t.Fatal(err)
	}
	g := &bfbGroup{
		bfb: b, states: make([]broadcast.BFBState, p), dead: make([]bool, p),
		level: make([]int, p), delivered: make([]int, p),
	}
	for r := range p {
		b.Init(&g.states[r], protocol.Rank(r), 1)
		g.dead[r] = protocol.Rank(r) != root && dead(r)
	}
	for r := range p {
		for d := p - 1; d >= 0; d-- { // in falling order, which the machine has to sort
			if g.dead[d] {
				b.Notify(&g.states[r], 0, protocol.Notice{Kind: protocol.Death, Rank: protocol.Rank(d)})
			}
		}
	}
	return g
}

// run goes on until no process does anything and returns how the root ended.
func (g *bfbGroup) run() protocol.Kind {
	var end protocol.Kind
	for busy := true; busy; {
		busy = false
		for r := range g.states {
			if g.dead[r] {
				continue
			}
			a := g.bfb.Next(&g.states[r], 0)
			if protocol.Rank(r) == g.bfb.Root() {
				end = a.Kind
			}
			switch a.Kind {
			case protocol.Deliver:
				g.delivered[r]++
				busy = true
			case protocol.Send:
				g.send(protocol.Rank(r), a)
				busy = true
			}
		}
	}
	return end
}

func (g *bfbGroup) send(from protocol.Rank, a protocol.Action[broadcast.BFBMessage]) {
	if a.Msg.Kind == broadcast.Spread {
		g.spreads++
		g.level[a.To] = g.level[from] + 1
	} else {
		g.acks++
	}
	if g.dead[a.To] {
		g.toDead++
		return
	}
	g.bfb.Receive(&g.states[a.To], 0, from, a.Msg)
}

// TestBFBMakesALowTreeOfTheLiving: in one attempt, whichever processes are dead.
func TestBFBMakesALowTreeOfTheLiving(t *testing.T) {
	for p := 1; p <= 70; p++ {
		for seed := range uint64(20) {
			root := protocol.Rank(protocol.Below(protocol.Mix(seed, 1), uint64(p)))
			live := 0
			g := newBFBGroup(t, p, root, func(r int) bool {
				return protocol.Below(protocol.Mix(seed, uint64(100+r)), 20) < seed
			})
			end := g.run()
			for r := range p {
				if g.dead[r] {
					continue
				}
				live++
				if g.delivered[r] != 1 || g.level[r] > bits.Len(uint(p-1)) {
					t.Fatalf("P=%d, seed %d: %d delivered %d times, on level %d", p, seed, r, g.delivered[r], g.level[r])
				}
			}
			if end != protocol.Done || g.spreads != live-1 || g.acks != live-1 || g.toDead > 0 {
				t.Fatalf("P=%d, seed %d, %d live: %+v, the root ends %v", p, seed, live, g, end)
			}
		}
	}
}

// TestBFBRestartsWithAModifiedTree: 0 sends to 4, 2 and 1, 4 to 6 and 5, 6 to 7.
func TestBFBRestartsWithAModifiedTree(t *testing.T) {
	g := newBFBGroup(t, 8, 0, func(int) bool { return false })
	g.dead[6] = true // and no process knows
	if end := g.run(); end != protocol.Idle || g.delivered[7] != 0 || g.delivered[5] != 1 {
		t.Fatalf("with 6 dead: %+v, the root ends %v", g, end)
	}
	death := protocol.Notice{Kind: protocol.Death, Rank: 6}
	g.bfb.Notify(&g.states[2], 0, death) // is not concerned
	if g.run(); g.delivered[7] != 0 {
		t.Fatalf("2 was told, and 7 delivered: %+v", g)
	}
	g.bfb.Notify(&g.states[4], 0, death)
	if end := g.run(); end != protocol.Done || g.delivered[7] != 1 || g.delivered[4] != 1 || g.level[7] != 2 {
		t.Errorf("4 was told: %+v, the root ends %v", g, end)
	}
}

func TestBadBFBsAreRefused(t *testing.T) {
	for _, c := range []struct {
		p    int
		root protocol.Rank
	}{{0, 0}, {-1, 0}, {1 << 31, 0}, {4, 4}, {4, -1}} {
		if _, err := broadcast.NewBFB(c.p, c.root); err == nil {
			t.Errorf("P=%d, root %d is accepted", c.p, c.root)
		}
	}
}

// Machines that differ in anything have different fingerprints.
func TestBFBFingerprints(t *testing.T) {
	b, err := broadcast.NewBFB(16, 0)
	if err != nil {
		t.Fatal(err)
	}
	var s broadcast.BFBState
	b.Init(&s, 4, 0)
	seen := map[[2]uint64]int{s.Fingerprint(): 0}
	step := 0
	note := func() {
		step++
		if before, twice := seen[s.Fingerprint()]; twice {
			t.Errorf("steps %d and %d have the same fingerprint", before, step)
		}
		seen[s.Fingerprint()] = step
	}
	b.Notify(&s, 0, protocol.Notice{Kind: protocol.Death, Rank: 9})
	note()
	copied := s.Clone()
	b.Notify(&s, 0, protocol.Notice{Kind: protocol.Death, Rank: 7})
	note()
	b.Receive(&s, 0, 0, broadcast.BFBMessage{Kind: broadcast.Spread, Attempt: 1, End: 8})
	note()
	for range 4 { // delivers, sends to 6 and 5, rests
		if b.Next(&s, 0).Kind != protocol.Idle {
			note()
		}
	}
	b.Receive(&s, 0, 5, broadcast.BFBMessage{Kind: broadcast.Ack, Attempt: 1})
	note()
	b.Notify(&s, 0, protocol.Notice{Kind: protocol.Death, Rank: 6})
	note()
	b.Next(&s, 0) // NACK
	note()
	b.Receive(&s, 0, 0, broadcast.BFBMessage{Kind: broadcast.Spread, Attempt: 2, End: 8})
	note()
	if seen[copied.Fingerprint()] != 1 {
		t.Error("the copy has changed with the original")
	}
}
