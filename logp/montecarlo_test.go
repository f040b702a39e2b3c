package logp_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/coppice-go/coppice/logp"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
	"github.com/coppice-go/coppice/topology"
)

func TestSameSeedSameResultsOnAnyNumberOfCores(t *testing.T) {
	net := logp.Network{P: 500, L: 2, O: 1}
	for _, spec := range []broadcast.Spec{
		{Tree: "binomial", Correction: "checked", Synchronized: true},
		{Tree: "gossip:12", Correction: "failure-proof:1", Synchronized: true},
		{Tree: "lame:2", Correction: "optimized:2", Order: topology.InOrder},
	} {
		runs := logp.Runs{Runs: 60, Seed: 7, Workers: 1, Faults: logp.Sampling{Count: 20}}
		want := simulate(t, spec, net, runs)
		for _, workers := range []int{2, 5, 0} {
			runs.Workers = workers
			if got := simulate(t, spec, net, runs); !slices.Equal(got, want) {
				t.Errorf("%+v: %d workers give other results than 1", spec, workers)
			}
		}
		runs.Seed = 8
		if slices.Equal(simulate(t, spec, net, runs), want) {
			t.Errorf("%+v: another seed gives the same results", spec)
		}
	}
}

// TestScaledNetworkScalesTime: with L and o k times as large everything takes k
// times as long. The large k goes beyond the calendar's wheel.
func TestScaledNetworkScalesTime(t *testing.T) {
	for _, spec := range []broadcast.Spec{
		{Tree: "binomial", Correction: "checked", Synchronized: true},
		{Tree: "lame:3", Correction: "checked"},
		{Tree: "kary:2", Correction: "failure-proof:1"},
		{Tree: "optimal", Correction: "ack"},
	} {
		runs := logp.Runs{Runs: 5, Seed: 3, Faults: logp.Sampling{Count: 9}}
		base := simulate(t, spec, logp.Network{P: 100, L: 3, O: 2}, runs)
		for _, k := range []protocol.Time{2, 100, 100_000} {
			scaled := simulate(t, spec, logp.Network{P: 100, L: 3 * k, O: 2 * k}, runs)
			for i, r := range scaled {
				r.Coloring /= k
				r.Delivery /= k
				r.Completion /= k
				r.Quiescence /= k
				r.Correction /= k
				if r != base[i] {
					t.Errorf("%+v, k=%d: %+v, want %+v", spec, k, r, base[i])
				}
			}
		}
	}
}

// TestLongReceiveQueues: every process sends to every other (SOS), so receives queue for about P·o: one
// receive port takes P−1 messages one after the other.
func TestLongReceiveQueues(t *testing.T) {
	net := logp.Network{P: 300, L: 2, O: 1}
	r := simulate(t, broadcast.Spec{Tree: "binomial", Correction: "failure-proof:7", Synchronized: true}, net, logp.Runs{Faults: logp.Sampling{Count: 295}})[0]
	if r.Uncolored != 0 || r.Corrections < 4*299 {
		t.Errorf("SOS: %+v", r)
	}
}

func TestSamplingDrawsExactly(t *testing.T) {
	const p = 97
	for _, s := range []logp.Sampling{
		{Count: 1}, {Count: 40, Spare: 96}, {Count: 49, Spare: 3}, {Count: 96, Spare: 50}, {Count: 20, Block: 7, Spare: 1}, {Count: 96, Block: 10},
	} {
		hit := make([]int, p)
		for seed := range uint64(400) {
			failed := logp.DrawFaults(s, p, seed)
			seen := map[protocol.Rank]bool{}
			for _, r := range failed {
				seen[r] = true
				hit[r]++
			}
			if len(failed) != s.Count || len(seen) != s.Count || seen[s.Spare] {
				t.Fatalf("%+v: drew %v", s, failed)
			}
		}
		for r, n := range hit {
			mean := 400 * s.Count / (p - 1)
			if protocol.Rank(r) != s.Spare && s.Block <= 1 && (n < mean/4-5 || n > mean*2+25) {
				t.Errorf("%+v: rank %d drawn %d times of 400, expected about %d", s, r, n, mean)
			}
		}
	}
}

func TestBlocksAreNeighbours(t *testing.T) {
	for seed := range uint64(50) {
		failed := logp.DrawFaults(logp.Sampling{Count: 8, Block: 8, Spare: 0}, 1000, seed)
		// One block, unless the root cut it short.
		if n := failed[len(failed)-1] - failed[0]; n != 7 && failed[0] != 1 && failed[len(failed)-1] != 999 {
			t.Errorf("seed %d: block %v", seed, failed)
		}
	}
}

func TestDeathsDuringTheRun(t *testing.T) {
	net := logp.Network{P: 8, L: 2, O: 1}
	spec := broadcast.Spec{Tree: "binomial", Correction: "none"}
	die := func(d logp.Death) logp.Result {
		return simulate(t, spec, net, logp.Runs{Faults: logp.Sampling{Fixed: logp.Faults{Deaths: []logp.Death{d}}}})[0]
	}
	// The root's sends start at 0, 1, 2: to 1, 2 and 4. 1 sends to 3 and 5, 2
	// to 6, 3 to 7.
	if r := die(logp.Death{Rank: 0, AfterSends: 1}); r.Uncolored != 3 || r.Sent() != 4 {
		t.Errorf("root dies after one send: %+v", r)
	}
	if r := die(logp.Death{Rank: 0, At: 2}); r.Uncolored != 1 || r.Sent() != 6 {
		t.Errorf("root dies at 2, after two sends: %+v", r)
	}
	// Rank 1 gets the message at 4: dead at 4 it does not, dead at 5 it has sent once.
	if r := die(logp.Death{Rank: 1, At: 4}); r.Uncolored != 3 || r.Sent() != 3+1 {
		t.Errorf("rank 1 dies at 4: %+v", r)
	}
	if r := die(logp.Death{Rank: 1, At: 5}); r.Uncolored != 1 || r.Sent() != 3+1+1+1 {
		t.Errorf("rank 1 dies at 5: %+v", r)
	}
}

func TestSummaryIsExact(t *testing.T) {
	var results []logp.Result
	for i := 1; i <= 1000; i++ {
		results = append(results, logp.Result{Coloring: protocol.Time(i), Disseminations: int64(i)})
	}
	slices.Reverse(results)
	s := logp.Summarize(results, 10)
	if want := (logp.Statistic{Mean: 500.5, P50: 500, P99: 990, P999: 999, Max: 1000}); s.Coloring != want {
		t.Errorf("coloring %+v, want %+v", s.Coloring, want)
	}
	if want := (logp.Statistic{Mean: 50.05, P50: 50, P99: 99, P999: 99.9, Max: 100}); !near(s.MessagesPerProcess, want) {
		t.Errorf("messages per process %+v, want %+v", s.MessagesPerProcess, want)
	}
	one := logp.Summarize(results[:1], 10)
	if one.Coloring.P50 != 1000 || one.Coloring.P999 != 1000 || one.Runs != 1 {
		t.Errorf("one run: %+v", one)
	}
}

func near(a, b logp.Statistic) bool {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range x.NumField() {
		if d := x.Field(i).Float() - y.Field(i).Float(); d > 1e-9 || d < -1e-9 {
			return false
		}
	}
	return true
}

func TestBadInputIsRefused(t *testing.T) {
	good := logp.Network{P: 8, L: 2, O: 1}
	spec := broadcast.Spec{Tree: "binomial", Correction: "checked"}
	once := func(s logp.Sampling) logp.Runs { return logp.Runs{Runs: 1, Faults: s} }
	dead := func(r protocol.Rank) logp.Runs {
		return once(logp.Sampling{Fixed: logp.Faults{Failed: []protocol.Rank{r}}})
	}
	for name, bad := range map[string]struct {
		spec broadcast.Spec
		net  logp.Network
		runs logp.Runs
	}{
		"P=0":           {spec, logp.Network{O: 1}, once(logp.Sampling{})},
		"o=0":           {spec, logp.Network{P: 8}, once(logp.Sampling{})},
		"L<0":           {spec, logp.Network{P: 8, O: 1, L: -1}, once(logp.Sampling{})},
		"no runs":       {spec, good, logp.Runs{}},
		"all dead":      {spec, good, once(logp.Sampling{Count: 8})},
		"dead root":     {spec, good, dead(0)},
		"rank too high": {spec, good, dead(8)},
		"two reasons":   {spec, good, once(logp.Sampling{Fixed: logp.Faults{Deaths: []logp.Death{{Rank: 1, At: 1, AfterSends: 1}}}})},
		"unknown tree":  {broadcast.Spec{Tree: "oak", Correction: "none"}, good, once(logp.Sampling{})},
		"d ≥ P":         {broadcast.Spec{Tree: "binomial", Correction: "opportunistic:8"}, good, once(logp.Sampling{})},
	} {
		if _, err := logp.Broadcast(bad.spec, bad.net, bad.runs); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// TestRunsGoOn: two halves of a set of runs equal the whole set.
func TestRunsGoOn(t *testing.T) {
	net := logp.Network{P: 300, L: 2, O: 1}
	spec := broadcast.Spec{Tree: "lame:2", Correction: "checked", Synchronized: true}
	runs := logp.Runs{Runs: 10, Seed: 5, Faults: logp.Sampling{Count: 20}}
	whole := simulate(t, spec, net, runs)
	runs.Runs = 4
	halves := simulate(t, spec, net, runs)
	runs.First, runs.Runs = 4, 6
	halves = append(halves, simulate(t, spec, net, runs)...)
	if !slices.Equal(halves, whole) {
		t.Errorf("4 and 6 runs give other results than 10:\n%v\n%v", halves, whole)
	}
}
