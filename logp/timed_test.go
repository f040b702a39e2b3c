package logp_test

import (
	"os"
	"testing"

	"github.com/coppice-go/coppice/internal/extent"
	"github.com/coppice-go/coppice/logp"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
)

// The promises of Corrected Gossip in LogP time, for every outcome of gossip
// and every death: docs/promises.md has the counts. COPPICE_GRID=1 runs the
// large grids, which take half an hour on one core.
var largeGrid = os.Getenv("COPPICE_GRID") != ""

// grid returns how far a test goes: the usual size where tests run in full (bash .ci/run full).
func grid(short, usual, large int) int {
	switch {
	case largeGrid:
		return large
	case extent.Full():
		return usual
	default:
		return short
	}
}

// paperNet is a network in the model of Corrected Gossip.
func paperNet(p int, l, o protocol.Time) logp.Network {
	return logp.Network{P: p, L: l, O: o, NoQueue: true}
}

// proof returns failure-proof correction as FCG builds it.
func proof(net logp.Network, f int) *broadcast.FailureProof {
	return &broadcast.FailureProof{Ring: forwardFirst, F: f, Timeout: 4*protocol.Time(net.P)*net.O + 2*(2*net.O+net.L)}
}

// TestCheckedCorrectionReachesAllWhateverGossipLeft (Claim 3): all sets of g-nodes with all sets of dead
// processes. The root may be one of them.
func TestCheckedCorrectionReachesAllWhateverGossipLeft(t *testing.T) {
	runs, most := 0, grid(7, 9, 12)
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

// TestFailureProofCorrectionAllOrNone (Claim 4, Corollary 3): for everything that gossip and deaths before
// its end leave, and every death of up to f processes after each of their sends, all live processes deliver
// or none.
func TestFailureProofCorrectionAllOrNone(t *testing.T) {
	type world struct {
		f, p int
		l, o protocol.Time
	}
	worlds := []world{{1, 5, 1, 1}, {1, 5, 2, 1}, {1, 5, 4, 2}, {2, 4, 1, 1}, {2, 4, 2, 1}}
	if largeGrid {
		worlds = nil
		for f := range 3 {
			for p := 2; p <= 7; p++ {
				for _, lo := range [][2]protocol.Time{{1, 1}, {2, 1}, {4, 2}, {0, 1}, {8, 1}, {3, 2}} {
					worlds = append(worlds, world{f, p, lo[0], lo[1]})
				}
			}
		}
	}
	total := 0
	for _, c := range worlds {
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
	t.Logf("%d runs in all", total)
}

// TestFailureProofCorrectionAfterRealGossip: gossip by chance, any number of
// deaths at any moment before correction, and up to f after each send of the
// whole run.
func TestFailureProofCorrectionAfterRealGossip(t *testing.T) {
	seeds := uint64(grid(10, 30, 2000))
	runs, died := 0, 0
	for f := 1; f <= 2; f++ {
		for seed := range seeds {
			draw := func(n, of uint64) uint64 { return protocol.Below(protocol.Mix(seed, n), of) }
			p := 2 + int(draw(0, 6))
			lo := [][2]protocol.Time{{1, 1}, {2, 1}, {4, 2}}[draw(1, 3)]
			net := paperNet(p, lo[0], lo[1])
			built, err := broadcast.FCG(p, protocol.Time(draw(2, 12)), f, net.L, net.O).Build()
			if err != nil {
				t.Fatal(err)
			}
			x := newTimed(t, built.(*broadcast.Provers), net)
			var faults logp.Faults
			gone := group(0)
			for n := range draw(3, uint64(p)) {
				r := protocol.Rank(draw(4+2*n, uint64(p)))
				gone |= 1 << r
				faults.Deaths = append(faults.Deaths, logp.Death{Rank: r, At: protocol.Time(draw(5+2*n, uint64(x.start)+1))})
			}
			died += gone.size()
			(x.all() &^ gone).upTo(f, func(victims group) {
				x.killings(seed, faults, gone, victims.ranks(), func(gone group) {
					if wrong := x.allOrNone(gone); wrong != "" {
						t.Fatalf("f=%d seed %d, %+v, %+v, %v die: %s", f, seed, net, faults, victims.ranks(), wrong)
					}
				})
			})
			runs += x.runs
		}
	}
	t.Logf("%d runs, %d deaths before correction in %d outcomes of gossip", runs, died, 2*seeds)
}

// TestDeathTimesAddNothingToDeathsBySends: deaths at every moment, in pairs, until nothing happens anymore.
// All or none holds, and the processes do what they do for some deaths after a number of sends.
func TestDeathTimesAddNothingToDeathsBySends(t *testing.T) {
	type did struct {
		delivered, ended group
		sends            [16]uint8
	}
	runs, most := 0, grid(3, 4, 5)
	for p := 2; p <= most; p++ {
		net := paperNet(p, 2, 1)
		(group(1)<<p - 2).subsets(func(others group) {
			x := afterGossip(t, others|1, net, proof(net, 2))
			known := map[did]bool{}
			x.all().upTo(2, func(victims group) {
				x.killings(1, logp.Faults{}, 0, victims.ranks(), func(group) {
					known[did{x.seen.delivered, x.seen.ended, x.seen.sends}] = true
				})
			})
			x.all().upTo(2, func(victims group) {
				x.everyMoment(logp.Faults{}, victims.ranks(), func(f logp.Faults) {
					runs++
					if !known[did{x.seen.delivered, x.seen.ended, x.seen.sends}] {
						t.Fatalf("%+v, g-nodes %v, %+v: not among the deaths by sends", net, (others | 1).ranks(), f)
					}
					if wrong := x.allOrNone(victims); wrong != "" {
						t.Fatalf("%+v, g-nodes %v, %+v: %s", net, (others | 1).ranks(), f, wrong)
					}
				})
			})
		})
	}
	t.Logf("%d runs, P to %d", runs, most)
}

// everyMoment runs x with a death of every victim at every moment up to the one after everything has ended.
func (x *timed[C, E]) everyMoment(faults logp.Faults, victims ranks, check func(logp.Faults)) (end protocol.Time) {
	if len(victims) == 0 {
		x.run(1, faults)
		check(faults)
		return max(x.result.Quiescence, x.result.Completion)
	}
	for at := protocol.Time(0); at <= end+1; at++ {
		f := logp.Faults{Deaths: append([]logp.Death{{Rank: victims[0], At: at}}, faults.Deaths...)}
		end = max(end, x.everyMoment(f, victims[1:], check))
	}
	return end
}

// TestOneDeathTooMany: what goes beyond the promises breaks them, so that these
// tests can fail. Checked correction with a death during it, and failure-proof(f)
// with f+1, in the smallest groups.
func TestOneDeathTooMany(t *testing.T) {
	for p := 2; p <= 4; p++ {
		x, broken := afterGossip(t, 1, paperNet(p, 1, 1), &broadcast.Checked{Ring: forwardFirst}), false
		x.killings(1, logp.Faults{}, 0, ranks{0}, func(dead group) {
			some := x.seen.delivered &^ dead
			broken = broken || some != 0 && x.all()&^dead&^some != 0
		})
		if broken != (p >= 3) {
			t.Errorf("checked correction, P=%d: a death of the root leaves somebody out: %t", p, broken)
		}
	}
	for f, fewest := range []int{3, 5} {
		for p := 2; p <= fewest; p++ {
			if broken := breaks(t, f, paperNet(p, 1, 1)); broken != (p == fewest) {
				t.Errorf("failure-proof(%d), P=%d: %d deaths break it: %t", f, p, f+1, broken)
			}
		}
	}
}

// breaks reports whether f+1 deaths break the promise of failure-proof(f).
func breaks(t *testing.T, f int, net logp.Network) (broken bool) {
	t.Helper()
	outcomes(net.P, func(gNodes, dead group, rootDies bool) {
		if broken {
			return
		}
		x := afterGossip(t, gNodes, net, proof(net, f))
		faults, gone := x.before(dead, rootDies)
		(x.all() &^ gone).upTo(f+1, func(victims group) {
			x.killings(1, faults, gone, victims.ranks(), func(gone group) {
				if x.allOrNone(gone) != "" && !broken {
					broken = true
					t.Logf("f=%d P=%d: g-nodes %v, dead before %v, root too %t; %v die after %v sends; delivered by %v alone",
						f, net.P, gNodes.ranks(), dead.ranks(), rootDies, victims.ranks(), x.seen.sends[:net.P], x.seen.delivered.ranks())
				}
			})
		})
	})
	return broken
}
