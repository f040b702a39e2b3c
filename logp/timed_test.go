package logp_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/coppice-go/coppice/logp"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
)

// The promises of Corrected Gossip in LogP time, for every outcome of gossip
// and every death: docs/promises.md has the counts. COPPICE_GRID=1 runs the
// larger grids, which take minutes.
var largeGrid = os.Getenv("COPPICE_GRID") != ""

// paperNet is a network in the model of Corrected Gossip.
func paperNet(p int, l, o protocol.Time) logp.Network {
	return logp.Network{P: p, L: l, O: o, NoQueue: true}
}

// proof is failure-proof correction as FCG builds it.
func proof(net logp.Network, f int) *broadcast.FailureProof {
	return &broadcast.FailureProof{Ring: forwardFirst, F: f, Timeout: 4*protocol.Time(net.P)*net.O + 2*(2*net.O+net.L)}
}

// TestCheckedCorrectionReachesAllWhateverGossipLeft (Claim 3): all g-node sets
// with all sets of dead. The root may be one of them.
func TestCheckedCorrectionReachesAllWhateverGossipLeft(t *testing.T) {
	most := 10
	if largeGrid {
		most = 12
	}
	runs := 0
	for _, lo := range [][2]protocol.Time{{1, 1}, {2, 1}, {4, 2}} {
		for p := 1; p <= most; p++ {
			net := paperNet(p, lo[0], lo[1])
			var x *timed[broadcast.Walk, broadcast.None]
			last := group(0)
			outcomes(p, func(gNodes, dead group, rootDies bool) {
				if gNodes != last {
					x, last = afterGossip(t, gNodes, net, &broadcast.Checked{Ring: forwardFirst}), gNodes
				}
				faults, gone := x.before(dead, rootDies)
				x.run(1, faults)
				runs++
				// The root delivers at once, before it dies: only live g-nodes oblige.
				if gNodes&^gone == 0 {
					return
				}
				if wrong := x.allOrNone(gone); wrong != "" {
					t.Fatalf("%+v, g-nodes %v, dead %v: %s", net, gNodes.ranks(), gone.ranks(), wrong)
				}
			})
		}
	}
	t.Logf("%d runs, P to %d", runs, most)
}

// TestFailureProofCorrectionAllOrNone (Claim 4, Corollary 3): for everything
// that gossip and deaths before its end leave, and every death of up to f
// processes after each of their sends, all that live deliver or none.
func TestFailureProofCorrectionAllOrNone(t *testing.T) {
	grid := []struct {
		f, p int
		l, o protocol.Time
	}{{1, 5, 1, 1}, {1, 5, 2, 1}, {1, 5, 4, 2}, {2, 4, 1, 1}, {2, 4, 2, 1}}
	if largeGrid {
		grid = nil
		for f := range 3 {
			for p := 2; p <= 7; p++ {
				for _, lo := range [][2]protocol.Time{{1, 1}, {2, 1}, {4, 2}, {0, 1}, {8, 1}, {3, 2}} {
					grid = append(grid, struct {
						f, p int
						l, o protocol.Time
					}{f, p, lo[0], lo[1]})
				}
			}
		}
	}
	total := 0
	for _, c := range grid {
		runs, cries := 0, 0
		net := paperNet(c.p, c.l, c.o)
		outcomes(c.p, func(gNodes, dead group, rootDies bool) {
			x := afterGossip(t, gNodes, net, proof(net, c.f))
			faults, gone := x.before(dead, rootDies)
			(x.all() &^ gone).upTo(c.f, func(victims group) {
				x.killings(1, faults, gone, victims.ranks(), func(gone group) {
					if x.seen.cried != 0 {
						cries++
					}
					if wrong := x.allOrNone(gone); wrong != "" {
						t.Fatalf("f=%d, %+v, g-nodes %v, dead before %v, root too %t, %v die: %s", c.f, net,
							gNodes.ranks(), dead.ranks(), rootDies, victims.ranks(), wrong)
					}
				})
			})
			runs += x.runs
		})
		t.Logf("f=%d P=%d L=%d o=%d: %d runs, %d with SOS", c.f, c.p, c.l, c.o, runs, cries)
		total += runs
	}
	t.Log(fmt.Sprint(total, " runs in all"))
}
