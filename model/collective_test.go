package model_test

import (
	"testing"

	"github.com/coppice-go/coppice/model"
)

// That the formulas are those of the machines is tested in package logp, by
// simulation; here are some by hand.
func TestCollectiveByHand(t *testing.T) {
	for _, c := range []struct {
		op, algorithm string
		p             int
		want          model.CollectiveCost
	}{
		{"broadcast", "binomial", 1, model.CollectiveCost{}},
		{"broadcast", "binomial", 8, model.CollectiveCost{Steps: 3, Messages: 7, Bytes: 7 * 80}},
		{"broadcast", "binomial", 15, model.CollectiveCost{Steps: 3, Messages: 14, Bytes: 14 * 80}},
		{"scatter", "binomial", 8, model.CollectiveCost{Steps: 3, Messages: 7, Bytes: 12 * 80}}, // 4 + 2·2 + 4·1
		{"allgather", "ring", 5, model.CollectiveCost{Steps: 4, Messages: 20, Bytes: 20 * 80}},
		{"allgather", "doubling", 5, model.CollectiveCost{Steps: 3, Messages: 13, Bytes: 20 * 80}}, // 4, 4, 5
		{"alltoall", "hub", 4, model.CollectiveCost{Steps: 2, Messages: 6, Bytes: 24 * 80}},
		{"alltoall", "bruck", 4, model.CollectiveCost{Steps: 2, Messages: 8, Bytes: 16 * 80}},
		{"allreduce", "rabenseifner", 4, model.CollectiveCost{Steps: 4, Messages: 16, Bytes: 6 * 80}},
		{"reduce", "rabenseifner", 4, model.CollectiveCost{Steps: 3, Messages: 11, Bytes: 3*80 + 60}},
	} {
		if got, ok := model.Collective(c.op, c.algorithm, c.p, 80); !ok || got != c.want {
			t.Errorf("%s by %s, P=%d: %+v, %t, want %+v", c.op, c.algorithm, c.p, got, ok, c.want)
		}
	}
	for _, c := range []struct {
		op, algorithm string
		p             int
	}{{"allreduce", "rabenseifner", 6}, {"scatter", "ring", 4}, {"sort", "ring", 4}} {
		if _, ok := model.Collective(c.op, c.algorithm, c.p, 80); ok {
			t.Errorf("%s by %s among %d has a cost", c.op, c.algorithm, c.p)
		}
		if _, ok := model.CollectiveTime(c.op, c.algorithm, c.p, 80, model.LogGP{}); ok {
			t.Errorf("%s by %s among %d has a time", c.op, c.algorithm, c.p)
		}
	}
}

// The switch of all-reduce that the literature gives: doubling for short values,
// Rabenseifner for long ones, the ring for the longest only where latency is small.
func TestCollectiveTimesCrossWhereTheyShould(t *testing.T) {
	net := model.LogGP{L: 10, O: 2, PerByte: 0.01}
	at := func(algorithm string, size int64) float64 {
		t.Helper()
		v, ok := model.CollectiveTime("allreduce", algorithm, 64, size, net)
		if !ok {
			t.Fatalf("no time of %s", algorithm)
		}
		return v
	}
	if at("doubling", 64) >= at("rabenseifner", 64) || at("doubling", 64) >= at("ring", 64) {
		t.Error("doubling is not the fastest for 64 bytes")
	}
	if at("rabenseifner", 1<<20) >= at("doubling", 1<<20) || at("rabenseifner", 1<<20) >= at("ring", 1<<20) {
		t.Error("Rabenseifner's is not the fastest for a mebibyte")
	}
	if lead := at("ring", 1<<30) - at("rabenseifner", 1<<30); lead/at("ring", 1<<30) > 0.001 {
		t.Errorf("for a gibibyte, which takes the same bytes, the ring is %g behind", lead)
	}
}
