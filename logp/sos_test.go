package logp_test

import (
	"testing"

	"github.com/coppice-go/coppice/logp"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
)

// silent is failure-proof correction with SOS disabled: who would cry waits for
// more to arrive instead, as Claim 5 and its footnote have it.
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

// TestFewGNodesNeedSOS (§III.D): with at most f+1 g-nodes alive nobody can learn
// of f+1 others. With SOS everybody delivers, without it somebody never ends: the
// root that is alone, say.
func TestFewGNodesNeedSOS(t *testing.T) {
	runs := 0
	for f := range 4 {
		for p := 2; p <= grid(5, 7, 7); p++ {
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

// claim5 runs failure-proof correction without SOS for every set of g-nodes
// among p processes and every death of up to f of them after each of their
// correction sends, or before the first. Without SOS nobody else sends, so that
// deaths of others change nothing; and where receives overlap all ranks are alike,
// so that the root is always one of the g-nodes. It calls check with the g-nodes,
// the dead and those that never end.
func claim5(t *testing.T, f int, net logp.Network, check func(gNodes, dead, stuck group)) (runs int) {
	t.Helper()
	(group(1)<<net.P - 2).subsets(func(others group) {
		gNodes := others | 1
		x := afterGossip(t, gNodes, net, silent{proof(net, f)})
		gNodes.upTo(f, func(victims group) {
			x.killings(1, logp.Faults{}, 0, victims.ranks(), func(dead group) {
				if dead.has(0) && int(x.seen.sends[0]) < others.size() {
					return // the root died during gossip: not these g-nodes
				}
				runs++
				check(gNodes, dead, x.all()&^dead&^x.seen.ended)
			})
		})
	})
	return runs
}

// TestClaim5: without SOS all that live end if f+2 g-nodes live to the end, so
// 2f+2 g-nodes are enough at the start. One less is not, wherever they are. The
// paper has f²+f+1 for 2f+2: too few for f = 0 and f = 1.
func TestClaim5(t *testing.T) {
	type world struct {
		f, most int
		l, o    protocol.Time
	}
	worlds := []world{{0, 9, 1, 1}, {0, 9, 2, 1}, {1, 7, 1, 1}, {1, 7, 2, 1}, {1, 7, 8, 1}, {2, grid(5, 6, 6), 1, 1}}
	if largeGrid {
		worlds = nil
		for f := range 3 {
			for l := range protocol.Time(5) {
				worlds = append(worlds, world{f, 9, l * l, 1}) // L: 0, 1, 4, 9, 16
			}
		}
	}
	for _, g := range worlds {
		runs, enough, paper := 0, 0, 0
		for p := 2; p <= g.most; p++ {
			stuckAt := map[group]bool{} // sets of g-nodes with which somebody may never end
			runs += claim5(t, g.f, paperNet(p, g.l, g.o), func(gNodes, dead, stuck group) {
				if (gNodes &^ dead).size() >= g.f+2 {
					enough++
					if stuck != 0 {
						t.Fatalf("f=%d P=%d, g-nodes %v, dead %v: %v never end", g.f, p, gNodes.ranks(), dead.ranks(), stuck.ranks())
					}
				}
				if stuck != 0 && gNodes.size() >= g.f*g.f+g.f+1 {
					paper++
				}
				stuckAt[gNodes] = stuckAt[gNodes] || stuck != 0
			})
			for gNodes, stuck := range stuckAt {
				if want := gNodes.size() < 2*g.f+2; stuck != want {
					t.Errorf("f=%d P=%d, g-nodes %v: somebody may never end: %t, want %t", g.f, p, gNodes.ranks(), stuck, want)
				}
			}
		}
		t.Logf("f=%d, P to %d, L=%d o=%d: %d runs, %d with f+2 g-nodes that live; %d against the claim as printed", g.f, g.most, g.l, g.o, runs, enough, paper)
	}
}

// TestClaim5AsPrintedFails: the smallest cases. f = 0: one g-node among two, no
// death: it never learns of another. f = 1: three g-nodes, and one dies before it
// sends: the other two name each other, and nobody counts itself.
func TestClaim5AsPrintedFails(t *testing.T) {
	for _, c := range []struct {
		f, p  int
		dies  ranks
		stuck group
	}{{0, 2, nil, 0b01}, {1, 3, ranks{2}, 0b011}} {
		net := paperNet(c.p, 1, 1)
		gNodes := group(1)<<(c.f*c.f+c.f+1) - 1
		x := afterGossip(t, gNodes, net, silent{proof(net, c.f)})
		x.run(1, logp.Faults{Failed: c.dies})
		dead := group(0)
		for _, r := range c.dies {
			dead |= 1 << r
		}
		if stuck := x.all() &^ dead &^ x.seen.ended; stuck != c.stuck {
			t.Errorf("f=%d: %v never end, want %v", c.f, stuck.ranks(), c.stuck.ranks())
		}
	}
}

// TestSOSMayComeWithoutNeed: four g-nodes and no death need no SOS for f = 1. But
// where a message takes longer than a way around the ring, everybody has sent to
// everybody before it hears of anybody, and cries. All deliver all the same.
func TestSOSMayComeWithoutNeed(t *testing.T) {
	net := paperNet(4, 8, 1)
	loud, mute := afterGossip(t, 0b1111, net, proof(net, 1)), afterGossip(t, 0b1111, net, silent{proof(net, 1)})
	loud.run(1, logp.Faults{})
	mute.run(1, logp.Faults{})
	if mute.seen.ended != 0b1111 || loud.seen.cried != 0b1111 || loud.allOrNone(0) != "" {
		t.Errorf("without SOS %v end; with it %v cry; %s", mute.seen.ended.ranks(), loud.seen.cried.ranks(), loud.allOrNone(0))
	}
}
