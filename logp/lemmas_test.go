package logp_test

import (
	"testing"

	"github.com/coppice-go/coppice/logp"
	"github.com/coppice-go/coppice/model"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
	"github.com/coppice-go/coppice/topology"
)

var trees = []string{"binomial", "kary:2", "kary:4", "lame:2", "lame:3", "optimal"}

func simulate(t *testing.T, spec broadcast.Spec, net logp.Network, runs logp.Runs) []logp.Result {
	t.Helper()
	if runs.Runs == 0 {
		runs.Runs = 1
	}
	results, err := logp.Broadcast(spec, net, runs)
	if err != nil {
		t.Fatal(err)
	}
	return results
}

// networks calls f for a grid of networks, also with o ∤ L.
func networks(sizes []int, f func(logp.Network)) {
	for _, p := range sizes {
		for l := range protocol.Time(8) {
			for o := protocol.Time(1); o <= 4; o++ {
				f(logp.Network{P: p, L: l, O: o})
			}
		}
	}
}

// TestLemma2AndCorollary1: without failures synchronized checked correction takes L_SCC steps and M_SCC
// messages a process, for every tree.
func TestLemma2AndCorollary1(t *testing.T) {
	checked := 0
	networks([]int{8, 33, 100, 256}, func(net logp.Network) {
		l, o := int(net.L), int(net.O)
		if !model.SyncCheckedApplies(net.P, l, o, 0) {
			return
		}
		for _, tree := range trees {
			checked++
			r := simulate(t, broadcast.Spec{Tree: tree, Correction: "checked", Synchronized: true}, net, logp.Runs{})[0]
			if want := protocol.Time(model.SyncCheckedLatency(l, o)); r.Correction != want {
				t.Errorf("%s %+v: correction takes %d, Lemma 2 says %d", tree, net, r.Correction, want)
			}
			if want := int64(net.P * model.SyncCheckedMessages(l, o)); r.Corrections != want {
				t.Errorf("%s %+v: %d messages, Corollary 1 says %d", tree, net, r.Corrections, want)
			}
		}
	})
	if checked < 500 {
		t.Errorf("only %d cases", checked)
	}
}

// TestLemma3: with failures the correction time lies between the bounds that
// the largest gap gives, in every run.
func TestLemma3(t *testing.T) {
	checked := 0
	networks([]int{100, 256}, func(net logp.Network) {
		for _, tree := range trees {
			for _, count := range []int{1, 5, net.P / 20, net.P / 8} {
				results := simulate(t, broadcast.Spec{Tree: tree, Correction: "checked", Synchronized: true}, net,
					logp.Runs{Runs: 5, Seed: uint64(count), Faults: logp.Sampling{Count: count}})
				for _, r := range results {
					if r.Uncolored > 0 {
						t.Errorf("%s %+v: checked correction leaves %d uncolored", tree, net, r.Uncolored)
					}
					if r.GapMax == 0 || !model.SyncCheckedApplies(net.P, int(net.L), int(net.O), r.GapMax) {
						continue
					}
					checked++
					low, high := model.SyncCheckedBounds(int(net.L), int(net.O), r.GapMax)
					if c := int(r.Correction); c < low || c > high {
						t.Errorf("%s %+v, gap %d: correction takes %d, Lemma 3 says %d to %d", tree, net, r.GapMax, c, low, high)
					}
				}
			}
		}
	})
	if checked < 3000 {
		t.Errorf("only %d runs", checked)
	}
}

// TestTreeLatencyEqualsModel: simulated latencies equal those that the models compute.
func TestTreeLatencyEqualsModel(t *testing.T) {
	networks([]int{1, 2, 7, 64, 150}, func(net logp.Network) {
		for _, name := range trees {
			for _, order := range []topology.Order{topology.Interleaved, topology.InOrder} {
				shape, err := topology.ParseShape(name)
				if err != nil {
					t.Fatal(err)
				}
				tree, err := shape.Tree(net.P, order, int(net.L), int(net.O))
				if err != nil {
					t.Fatal(err)
				}
				spec := broadcast.Spec{Tree: name, Order: order, Correction: "none"}
				if got, want := simulate(t, spec, net, logp.Runs{})[0].Coloring, model.TreeLatency(tree, int(net.L), int(net.O)); int(got) != want {
					t.Errorf("%s %v %+v: colored at %d, model says %d", name, order, net, got, want)
				}
				spec.Correction = "ack"
				if got, want := simulate(t, spec, net, logp.Runs{})[0].Quiescence, model.AckLatency(tree, int(net.L), int(net.O)); int(got) != want {
					t.Errorf("%s %v %+v with acknowledgements: quiet at %d, model says %d", name, order, net, got, want)
				}
			}
		}
	})
}

// TestPapersNumbers: what Corrected Trees says about its standard case, P=65,536, L=2, o=1: correction takes
// 8 steps and 5 messages a process for every tree (§4.1), and opportunistic correction with d=4 colors every
// process at 1% faults.
func TestPapersNumbers(t *testing.T) {
	net := logp.Network{P: 65536, L: 2, O: 1}
	for _, tree := range []string{"binomial", "kary:4", "lame:2", "optimal"} {
		r := simulate(t, broadcast.Spec{Tree: tree, Correction: "checked", Synchronized: true}, net, logp.Runs{})[0]
		if r.Correction != 8 || r.Corrections != 5*65536 {
			t.Errorf("%s: correction takes %d steps and %d messages", tree, r.Correction, r.Corrections)
		}
		r = simulate(t, broadcast.Spec{Tree: tree, Correction: "optimized:4"}, net, logp.Runs{Faults: logp.Sampling{Count: 655}})[0]
		if r.Uncolored > 0 || r.Sent() >= 6*65536 {
			t.Errorf("%s: optimized correction leaves %d uncolored with %d messages", tree, r.Uncolored, r.Sent())
		}
	}
}
