package broadcast_test

import (
	"slices"
	"testing"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
)

func TestCorrectedGossipIsGossipAndACorrection(t *testing.T) {
	for _, c := range []struct {
		spec       broadcast.Spec
		correction string
		start      protocol.Time
	}{
		{broadcast.OCG(4096, 32, 7, 2, 1), "opportunistic-sends:4", 35},
		{broadcast.OCG(1024, 24, 7, 1, 1), "opportunistic-sends:5", 26},
		{broadcast.OCG(1024, 24, 15, 4, 2), "opportunistic-sends:4", 31}, // C = 4·2+4+2, and one step that is too short for a send
		{broadcast.CCG(4096, 36, 2, 1), "checked", 39},
		{broadcast.FCG(4096, 37, 1, 2, 1), "failure-proof:1", 40},
		{broadcast.CCG(10, 0, 2, 1), "checked", 4}, // no process gossips
	} {
		s := c.spec
		if s.Correction != c.correction || s.Start != c.start || s.Ring.First != broadcast.ToRight || !s.Synchronized {
			t.Errorf("%+v, want %s from %d on, forward first, synchronized", s, c.correction, c.start)
		}
		if _, err := s.Build(); err != nil {
			t.Errorf("%+v: %v", s, err)
		}
	}
	for name, s := range map[string]broadcast.Spec{
		"no time to send":   broadcast.OCG(100, 10, 3, 2, 1),
		"less than that":    broadcast.OCG(100, 10, 0, 2, 1),
		"no overhead":       broadcast.OCG(100, 10, 5, 2, 0),
		"twice around":      broadcast.OCG(10, 10, 22, 2, 1),
		"negative time":     broadcast.CCG(10, -1, 2, 1),
		"too many failures": broadcast.FCG(10, 3, 8, 2, 1),
	} {
		if _, err := s.Build(); err == nil {
			t.Errorf("%s is accepted: %+v", name, s)
		}
	}
}

func TestOpportunisticSendsInTurn(t *testing.T) {
	for _, c := range []struct {
		correction broadcast.Opportunistic
		want       []protocol.Rank // that process 10 of 100 sends to
	}{
		{broadcast.Opportunistic{N: 1}, []protocol.Rank{9}},
		{broadcast.Opportunistic{N: 5}, []protocol.Rank{9, 11, 8, 12, 7}},
		{broadcast.Opportunistic{N: 5, Ring: broadcast.Ring{First: broadcast.ToRight}}, []protocol.Rank{11, 9, 12, 8, 13}},
		{broadcast.Opportunistic{N: 4, Ring: broadcast.Ring{First: broadcast.ToRight}}, []protocol.Rank{11, 9, 12, 8}},
		{broadcast.Opportunistic{N: 3, Ring: broadcast.Ring{OneSided: true}}, []protocol.Rank{9, 8, 7}},
		{broadcast.Opportunistic{D: 2}, []protocol.Rank{9, 11, 8, 12}},
	} {
		if err := c.correction.Fit(100); err != nil {
			t.Fatal(err)
		}
		var w broadcast.Walk
		c.correction.Init(&w, 10)
		var got []protocol.Rank
		for a := c.correction.Next(&w, 10, 0, false); a.Kind == protocol.Correct; a = c.correction.Next(&w, 10, 0, false) {
			got = append(got, a.To)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v sends to %v, want %v", c.correction, got, c.want)
		}
	}
	for _, bad := range []broadcast.Opportunistic{{}, {N: -1}, {N: 199}, {N: 2, D: 1}, {N: 100, Ring: broadcast.Ring{OneSided: true}}} {
		if bad.Fit(100) == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}
