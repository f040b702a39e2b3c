package logp_test

import (
	"slices"
	"testing"

	"github.com/coppice-go/coppice/logp"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
	"github.com/coppice-go/coppice/topology"

	"pgregory.net/rapid"
)

// naive simulates one run in the simplest way: step by step, asking every process that is alive and whose
// send port is free, even if it has nothing to do.
func naive[S, M any](p protocol.Protocol[S, M], net logp.Network, seed uint64, faults logp.Faults, steps protocol.Time) logp.Result {
	type message struct {
		end        protocol.Time
		from, to   protocol.Rank
		correction bool
		msg        M

		at       protocol.Time // its next station, on networks where messages have some
		toSwitch bool          // that station is the switch, before the receive port
	}
	gap := max(net.O, net.G)
	state := make([]S, net.P)
	dead, done := make([]bool, net.P), make([]bool, net.P)
	colored, spread, delivered := make([]bool, net.P), make([]bool, net.P), make([]bool, net.P)
	sendFree, receiveFree := make([]protocol.Time, net.P), make([]protocol.Time, net.P)
	sends := make([]int, net.P)
	for r := range state {
		p.Init(&state[r], protocol.Rank(r), seed)
	}
	for _, r := range faults.Failed {
		dead[r] = true
	}
	var flying []message
	switchFree := protocol.Time(0)
	var res logp.Result
	first := protocol.Time(-1)
	for now := protocol.Time(0); now <= steps; now++ {
		for _, d := range faults.Deaths {
			if d.AfterSends == 0 && d.At == now {
				dead[d.Rank] = true
			}
		}
		for i := range flying {
			m := &flying[i]
			if m.at == now && m.toSwitch {
				begun := max(now, switchFree)
				switchFree = begun + net.Switch.Packet
				m.toSwitch = false
				m.at = begun + net.L
			}
			if m.at == now && m.end == 0 {
				m.end = now
				if !dead[m.to] {
					if !net.NoQueue {
						m.end = max(m.end, receiveFree[m.to])
						receiveFree[m.to] = m.end + gap
					}
					m.end += net.O
				}
				res.Quiescence = max(res.Quiescence, m.end)
			}
		}
		flying = slices.DeleteFunc(flying, func(m message) bool {
			if m.end != now {
				return false
			}
			if dead[m.to] || done[m.to] {
				return true
			}
			if !colored[m.to] {
				colored[m.to] = true
				spread[m.to] = !m.correction
				res.Coloring = now
			}
			p.Receive(&state[m.to], now, m.from, m.msg)
			return true
		})
		var sending []message
		for r := range protocol.Rank(net.P) {
			for !dead[r] && !done[r] && sendFree[r] <= now {
				a := p.Next(&state[r], now)
				if a.Kind == protocol.Deliver && !colored[r] || now == 0 && a.Kind != protocol.Idle && a.Kind != protocol.Wait {
					colored[r], spread[r] = true, true // it has the message from the start
				}
				switch a.Kind {
				case protocol.Deliver:
					delivered[r] = true
					res.Delivery = now
					continue
				case protocol.Done:
					done[r] = true
					res.Completion = now
				case protocol.Send, protocol.Correct:
					sendFree[r] = now + gap
					sending = append(sending, message{from: r, to: a.To, msg: a.Msg, correction: a.Kind == protocol.Correct})
				}
				break
			}
		}
		for _, m := range sending {
			if !m.correction {
				res.Disseminations++
			} else if res.Corrections++; first < 0 {
				first = now
			}
			if at, toSwitch := naiveRoute(net, m.from, m.to); at >= 0 {
				m.at, m.toSwitch = now+at, toSwitch
				flying = append(flying, m)
				continue
			}
			m.end = now + net.O + net.L
			if !dead[m.to] {
				if !net.NoQueue {
					m.end = max(m.end, receiveFree[m.to])
					receiveFree[m.to] = m.end + gap
				}
				m.end += net.O
				flying = append(flying, m)
			}
			res.Quiescence = max(res.Quiescence, m.end)
		}
		for _, m := range sending {
			sends[m.from]++
			for _, d := range faults.Deaths {
				if d.Rank == m.from && d.AfterSends == sends[m.from] {
					dead[m.from] = true
				}
			}
		}
	}
	if first >= 0 {
		res.Correction = res.Quiescence - first
	}
	gapNow := 0
	for i := range 2 * net.P {
		r := i % net.P
		if gapNow++; spread[r] {
			gapNow = 0
		}
		res.GapMax = max(res.GapMax, min(gapNow, net.P))
		if i < net.P && !colored[r] && !dead[r] {
			res.Uncolored++
		}
		if i < net.P && !delivered[r] && !dead[r] {
			res.Undelivered++
		}
	}
	return res
}

// drawSpec draws any broadcast that a Spec can describe.
func drawSpec(t *rapid.T) (broadcast.Spec, logp.Network) {
	net := logp.Network{
		P: rapid.IntRange(1, 40).Draw(t, "P"),
		L: protocol.Time(rapid.IntRange(0, 6).Draw(t, "L")),
		O: protocol.Time(rapid.IntRange(1, 3).Draw(t, "o")),
		G: protocol.Time(rapid.IntRange(0, 4).Draw(t, "g")),

		NoQueue: rapid.Bool().Draw(t, "no queue"),
	}
	spec := broadcast.Spec{
		P: net.P, L: net.L, O: net.O,
		Root:         protocol.Rank(rapid.IntRange(0, net.P-1).Draw(t, "root")),
		Tree:         rapid.SampledFrom([]string{"binomial", "kary:1", "kary:2", "kary:3", "lame:2", "lame:3", "optimal", "gossip:4", "gossip:9", "big"}).Draw(t, "tree"),
		Correction:   rapid.SampledFrom([]string{"none", "ack", "opportunistic:1", "opportunistic:3", "opportunistic-sends:3", "optimized:1", "optimized:3", "optimized-paper:2", "checked", "delayed:0", "delayed:7", "failure-proof:0", "failure-proof:1", "failure-proof:2", "failure-proof:7"}).Draw(t, "correction"),
		Synchronized: rapid.Bool().Draw(t, "sync"),
		Early:        rapid.SampledFrom([]broadcast.Early{broadcast.Join, broadcast.Serve}).Draw(t, "early"),
		Order:        rapid.SampledFrom([]topology.Order{topology.Interleaved, topology.InOrder}).Draw(t, "order"),
		Ring: broadcast.Ring{
			Open:     rapid.Bool().Draw(t, "open"),
			First:    rapid.SampledFrom([]broadcast.Side{broadcast.ToLeft, broadcast.ToRight}).Draw(t, "first"),
			OneSided: rapid.Bool().Draw(t, "one-sided"),
		},
	}
	if spec.Synchronized {
		spec.Start = protocol.Time(rapid.IntRange(0, 60).Draw(t, "start"))
	}
	return spec, net
}

func drawFaults(t *rapid.T, p int, root protocol.Rank) logp.Faults {
	var f logp.Faults
	ranks := rapid.IntRange(0, p-1)
	for _, r := range rapid.SliceOfN(ranks, 0, p/2).Draw(t, "failed") {
		if protocol.Rank(r) != root {
			f.Failed = append(f.Failed, protocol.Rank(r))
		}
	}
	seen := map[int]bool{}
	for _, r := range rapid.SliceOfN(ranks, 0, 3).Draw(t, "die") {
		if seen[r] {
			continue
		}
		seen[r] = true
		d := logp.Death{Rank: protocol.Rank(r)}
		if rapid.Bool().Draw(t, "by sends") {
			d.AfterSends = rapid.IntRange(1, 6).Draw(t, "sends")
		} else {
			d.At = protocol.Time(rapid.IntRange(0, 40).Draw(t, "at"))
		}
		f.Deaths = append(f.Deaths, d)
	}
	return f
}

// TestEngineEqualsNaiveSimulation runs any broadcast under any faults in the engine and in the naive
// simulation. Equality also shows that extra calls of Next are harmless.
func TestEngineEqualsNaiveSimulation(t *testing.T) { rapid.Check(t, engineEqualsNaive) }

// FuzzEngine lets coverage find what random cases do not reach.
func FuzzEngine(f *testing.F) { f.Fuzz(rapid.MakeFuzz(engineEqualsNaive)) }

func engineEqualsNaive(t *rapid.T) {
	spec, net := drawSpec(t)
	built, err := spec.Build()
	if err != nil {
		t.Skip("a broadcast that cannot be built; another one is drawn:", err)
	}
	faults := drawFaults(t, net.P, spec.Root)
	seed := rapid.Uint64().Draw(t, "seed")
	switch p := built.(type) {
	case *broadcast.Plain:
		compare(t, p, net, seed, faults)
	case *broadcast.Delays:
		compare(t, p, net, seed, faults)
	case *broadcast.Provers:
		want := compare(t, p, net, seed, faults)
		b, ok := broadcast.Brief(p)
		if !ok {
			t.Fatalf("no brief form of %s among %d", spec.Correction, net.P)
		}
		if got := compare(t, b, net, seed, faults); got != want {
			t.Fatalf("in brief %+v, in full %+v", got, want)
		}
	}
}

func compare[S, M any](t *rapid.T, p protocol.Protocol[S, M], net logp.Network, seed uint64, faults logp.Faults) (got logp.Result) {
	e, err := logp.NewEngine(p, net)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second run sees what the first one left
		if got, err = e.Run(seed, faults); err != nil {
			t.Fatal(err)
		}
		if want := naive(p, net, seed, faults, max(got.Quiescence+20*(net.O+net.L+net.G), 60)); got != want {
			t.Fatalf("engine %+v, naive %+v", got, want)
		}
	}
	return got
}
