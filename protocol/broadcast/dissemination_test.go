package broadcast_test

import (
	"strings"
	"testing"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
	"github.com/coppice-go/coppice/topology"
)

func TestGossipDrawsEverybodyElseEvenly(t *testing.T) {
	const p, self, rounds = 7, 3, 7000
	g := &broadcast.Gossip{Rounds: rounds, Hop: 1}
	if err := g.Fit(p); err != nil {
		t.Fatal(err)
	}
	s := broadcast.Spreading{Keep: 42}
	hit := make([]int, p)
	for i := range rounds {
		a := g.Next(&s, self, 0)
		if a.Kind != protocol.Send || int(a.Msg.Round) != i {
			t.Fatalf("round %d: %+v", i, a)
		}
		hit[a.To]++
	}
	for r, n := range hit {
		if r == self && n != 0 || r != self && (n < 1000 || n > 1333) {
			t.Errorf("rank %d was drawn %d times of %d", r, n, rounds)
		}
	}
	if a := g.Next(&s, self, 0); a.Kind != protocol.Done {
		t.Errorf("after the last round: %+v", a)
	}
}

func TestGossipGoesOnFromTheRoundOfItsMessage(t *testing.T) {
	g := &broadcast.Gossip{Rounds: 10, Hop: 4}
	if err := g.Fit(100); err != nil {
		t.Fatal(err)
	}
	var s broadcast.Spreading
	g.Color(&s, 5, 3)
	for round := uint16(7); round < 10; round++ {
		if a := g.Next(&s, 5, 0); a.Msg.Round != round {
			t.Errorf("%+v, want round %d", a, round)
		}
	}
	if a := g.Next(&s, 5, 0); a.Kind != protocol.Done {
		t.Errorf("after round 9 of 10: %+v", a)
	}
}

func TestGossipByClockStopsAtItsTime(t *testing.T) {
	g := &broadcast.Gossip{Until: 5}
	if err := g.Fit(100); err != nil {
		t.Fatal(err)
	}
	var s broadcast.Spreading
	for now := range protocol.Time(8) {
		if a := g.Next(&s, 1, now); (a.Kind == protocol.Send) != (now < 5) {
			t.Errorf("at %d: %v", now, a.Kind)
		}
	}
}

func TestAckTreeWaitsForAllItsChildren(t *testing.T) {
	tree, err := topology.Binomial(8, topology.Interleaved)
	if err != nil {
		t.Fatal(err)
	}
	d := &broadcast.AckTree{Tree: tree}
	var s broadcast.Spreading // of rank 1, with the children 3 and 5 and the parent 0
	d.Next(&s, 1, 0)
	d.Acknowledge(&s, 1, 3) // overtakes the send to 5
	if a := d.Next(&s, 1, 0); a.To != 5 {
		t.Errorf("%+v, want the send to 5", a)
	}
	if a := d.Next(&s, 1, 0); a.Kind != protocol.Idle {
		t.Errorf("%+v before 5 acknowledged, want idle", a)
	}
	d.Acknowledge(&s, 1, 5)
	if a := d.Next(&s, 1, 0); a.To != 0 || a.Msg.Kind != broadcast.Ack {
		t.Errorf("%+v, want an acknowledgement to 0", a)
	}
	if a := d.Next(&s, 1, 0); a.Kind != protocol.Done {
		t.Errorf("%+v, want done", a)
	}
}

// FuzzSpec: whatever the words, a Spec is built or refused in one line.
func FuzzSpec(f *testing.F) {
	f.Add(8, "binomial", "checked", int64(2), int64(1))
	f.Add(1, "gossip:3", "failure-proof:7", int64(0), int64(3))
	f.Add(100, "kary:4", "optimized-paper:9", int64(7), int64(2))
	f.Add(9, "big", "opportunistic-sends:3", int64(2), int64(1))
	f.Add(9, "bfb", "none", int64(2), int64(1))
	f.Fuzz(func(t *testing.T, p int, tree, correction string, l, o int64) {
		l, o = l&1023, o&1023+1
		_, err := broadcast.Spec{P: p, Tree: tree, Correction: correction, L: protocol.Time(l), O: protocol.Time(o)}.Build()
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("more than a line: %q", err)
		}
	})
}

func TestBadSpecsAreRefused(t *testing.T) {
	good := broadcast.Spec{P: 8, Tree: "binomial", Correction: "checked", L: 2, O: 1}
	if _, err := good.Build(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*broadcast.Spec){
		"P=0":                   func(s *broadcast.Spec) { s.P = 0 },
		"root beyond P":         func(s *broadcast.Spec) { s.Root = 8 },
		"root below 0":          func(s *broadcast.Spec) { s.Root = -1 },
		"unknown tree":          func(s *broadcast.Spec) { s.Tree = "oak" },
		"kary:0":                func(s *broadcast.Spec) { s.Tree = "kary:0" },
		"gossip without time":   func(s *broadcast.Spec) { s.Tree = "gossip" },
		"gossip for ever":       func(s *broadcast.Spec) { s.Tree = "gossip:99999999" },
		"unknown correction":    func(s *broadcast.Spec) { s.Correction = "wishful" },
		"no distance":           func(s *broadcast.Spec) { s.Correction = "opportunistic" },
		"distance 0":            func(s *broadcast.Spec) { s.Correction = "optimized:0" },
		"distance P":            func(s *broadcast.Spec) { s.Correction = "opportunistic:8" },
		"distance −1":           func(s *broadcast.Spec) { s.Correction = "opportunistic:-1" },
		"checked with a number": func(s *broadcast.Spec) { s.Correction = "checked:2" },
		"too many failures":     func(s *broadcast.Spec) { s.Correction = "failure-proof:8" },
		"one-sided checked":     func(s *broadcast.Spec) { s.Ring.OneSided = true },
		"one-sided delayed":     func(s *broadcast.Spec) { s.Correction = "delayed:3"; s.Ring.OneSided = true },
		"delayed, right, open": func(s *broadcast.Spec) {
			s.Correction = "delayed:3"
			s.Ring = broadcast.Ring{Open: true, First: broadcast.ToRight}
		},
		"failure-proof open":      func(s *broadcast.Spec) { s.Correction = "failure-proof:1"; s.Ring.Open = true },
		"acknowledged gossip":     func(s *broadcast.Spec) { s.Tree = "gossip:5"; s.Correction = "ack" },
		"gossip in order":         func(s *broadcast.Spec) { s.Tree = "gossip:5"; s.Order = topology.InOrder },
		"acknowledged big":        func(s *broadcast.Spec) { s.Tree = "big"; s.Correction = "ack" },
		"big in order":            func(s *broadcast.Spec) { s.Tree = "big"; s.Order = topology.InOrder },
		"corrected bfb":           func(s *broadcast.Spec) { s.Tree = "bfb" },
		"bfb in order":            func(s *broadcast.Spec) { s.Tree, s.Correction, s.Order = "bfb", "none", topology.InOrder },
		"bfb, root beyond P":      func(s *broadcast.Spec) { s.Tree, s.Correction, s.Root = "bfb", "none", 8 },
		"no sends":                func(s *broadcast.Spec) { s.Correction = "opportunistic-sends:0" },
		"overlapped with a start": func(s *broadcast.Spec) { s.Start = 7 },
	} {
		spec := good
		change(&spec)
		if _, err := spec.Build(); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
