package logp_test

import (
	"testing"

	"github.com/coppice-go/coppice/logp"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
)

// silent is failure-proof correction with SOS disabled: a process that would send an SOS waits for more
// messages instead, as Claim 5 and its footnote have it.
type silent struct{ *broadcast.FailureProof }

func (c silent) Next(s *broadcast.Proving, self protocol.Rank, now protocol.Time, corrected bool) protocol.Action[broadcast.Message[broadcast.Known]] {
	before := *s
	a := c.FailureProof.Next(s, self, now, corrected)
	if a.Kind == protocol.Correct && a.Msg.Kind == broadcast.SOS {
		*s = before
		return protocol.Action[broadcast.Message[broadcast.Known]]{Kind: protocol.Idle}
	}
	return a
}

// TestFewGNodesNeedSOS (§III.D): with at most f+1 g-nodes alive no process can learn of f+1 others. With SOS
// every process delivers, without it some process never ends: for instance a root that is alone.
func TestFewGNodesNeedSOS(t *testing.T) {
	runs := 0
	for f := range 4 {
		for p := 2; p <= grid(5, 6, 7); p++ {
			net := paperNet(p, 1, 1)
			outcomes(p, func(gNodes, dead group, rootDies bool) {
				loud, mute := afterGossip(t, gNodes, net, proof(net, f)), afterGossip(t, gNodes, net, silent{proof(net, f)})
				faults, gone := loud.before(dead, rootDies)
				if alive := (gNodes &^ gone).size(); alive == 0 || alive > f+1 {
					return
				}
				loud.run(1, faults)
				if wrong := loud.allOrNone(gone); wrong != "" || loud.seen.cried == 0 {
					t.Errorf("f=%d P=%d, g-nodes %v, dead %v: %s; SOS from %v", f, p, gNodes.ranks(), gone.ranks(), wrong, loud.seen.cried.ranks())
				}
				mute.run(1, faults)
				if live := mute.all() &^ gone; live&^mute.seen.ended == 0 {
					t.Errorf("f=%d P=%d, g-nodes %v, dead %v: all end without SOS", f, p, gNodes.ranks(), gone.ranks())
				}
				runs += 2
			})
		}
	}
	t.Logf("%d runs", runs)
}

// claim5 runs failure-proof correction without SOS for every set of g-nodes among p processes and every death
// of up to f of them after each of their correction sends, or before the first. Without SOS no other process
// sends, so deaths of others change nothing; and where receives overlap all ranks are alike, so the root may
// be a g-node that survives. claim5 calls check with the g-nodes, the dead and those that never end.
func claim5(t *testing.T, f int, net logp.Network, check func(gNodes, dead, stuck group)) (runs int) {
	t.Helper()
	(group(1)<<net.P - 2).subsets(func(others group) {
		x := afterGossip(t, others|1, net, silent{proof(net, f)})
		others.upTo(f, func(victims group) {
			if victims.size() < min(f, others.size()) {
				return // part of a larger case: a victim may have fewer sends than it would die after
			}
			x.killings(1, logp.Faults{}, 0, victims.ranks(), func(dead group) {
				check(others|1, dead, x.all()&^dead&^x.seen.ended)
			})
		})
		runs += x.runs
	})
	return runs
}

// TestClaim5: without SOS all live processes end if there are f²+f+1 g-nodes, as the paper says, and also
// 2f+2, which is more for f = 0 and f = 1. With fewer than 2f+2 some process may never end, wherever the
// g-nodes are.
func TestClaim5(t *testing.T) {
	type world struct {
		f, most int
		l, o    protocol.Time
	}
	worlds := []world{{0, 9, 1, 1}, {0, 9, 2, 1}, {1, 7, 1, 1}, {1, 7, 2, 1}, {1, 6, 8, 1}, {2, grid(5, 6, 7), 1, 1}}
	if largeGrid {
		worlds = nil
		for f := range 3 {
			for _, l := range []protocol.Time{0, 1, 2, 4, 8} {
				worlds = append(worlds, world{f, 9, l, 1})
			}
		}
	}
	for _, w := range worlds {
		runs, printed := 0, 0
		claimed, needed := w.f*w.f+w.f+1, 2*w.f+2
		for p := 2; p <= w.most; p++ {
			open := map[group]bool{} // with these g-nodes some process may never end
			runs += claim5(t, w.f, paperNet(p, w.l, w.o), func(gNodes, dead, stuck group) {
				open[gNodes] = open[gNodes] || stuck != 0
				if n := gNodes.size(); stuck != 0 && n >= claimed {
					printed++
					if n >= needed {
						t.Fatalf("f=%d P=%d, g-nodes %v, dead %v: %v never end", w.f, p, gNodes.ranks(), dead.ranks(), stuck.ranks())
					}
				}
			})
			for gNodes, open := range open {
				if gNodes.size() < needed && !open {
					t.Errorf("f=%d P=%d, g-nodes %v: all end", w.f, p, gNodes.ranks())
				}
			}
		}
		t.Logf("f=%d, P to %d, L=%d o=%d: %d runs, %d against the claim as printed", w.f, w.most, w.l, w.o, runs, printed)
	}
}

// TestTooFewGNodesForClaim5: the smallest cases. f = 0: one g-node among two, no death: it never learns of
// another. f = 1: three g-nodes, and one dies before it sends: the other two name each other, and neither
// counts itself. Both are f²+f+1. f = 2: 2f+2 are not enough, from nine processes on.
func TestTooFewGNodesForClaim5(t *testing.T) {
	for _, c := range []struct {
		f, p   int
		gNodes group
		faults logp.Faults
		dead   group
		stuck  group
	}{
		{0, 2, 0b1, logp.Faults{}, 0, 0b1},
		{1, 3, 0b111, logp.Faults{Failed: ranks{2}}, 0b100, 0b011},
		{2, 9, 0b1_1111_0001, logp.Faults{Failed: ranks{7}, Deaths: []logp.Death{{Rank: 8, AfterSends: 1}}}, 0b1_1000_0000, 0b10_0000},
	} {
		net := paperNet(c.p, 1, 1)
		mute, loud := afterGossip(t, c.gNodes, net, silent{proof(net, c.f)}), afterGossip(t, c.gNodes, net, proof(net, c.f))
		mute.run(1, c.faults)
		if stuck := mute.all() &^ c.dead &^ mute.seen.ended; stuck != c.stuck {
			t.Errorf("f=%d: %v never end, want %v", c.f, stuck.ranks(), c.stuck.ranks())
		}
		loud.run(1, c.faults)
		if wrong := loud.allOrNone(c.dead); wrong != "" {
			t.Errorf("f=%d, with SOS: %s", c.f, wrong)
		}
	}
}

// TestSOSMayComeWithoutNeed: four g-nodes and no death need no SOS for f = 1. But where a message takes
// longer than a way around the ring, every process has sent to all before it hears of any, and sends an SOS.
// All deliver all the same.
func TestSOSMayComeWithoutNeed(t *testing.T) {
	net := paperNet(4, 8, 1)
	loud, mute := afterGossip(t, 0b1111, net, proof(net, 1)), afterGossip(t, 0b1111, net, silent{proof(net, 1)})
	loud.run(1, logp.Faults{})
	mute.run(1, logp.Faults{})
	if mute.seen.ended != 0b1111 || loud.seen.cried != 0b1111 || loud.allOrNone(0) != "" {
		t.Errorf("without SOS %v end; with it %v cry; %s", mute.seen.ended.ranks(), loud.seen.cried.ranks(), loud.allOrNone(0))
	}
}
