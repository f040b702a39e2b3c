package logp_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/coppice-go/coppice/logp"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
)

// TestTraceOfATinyRun: P=4, L=0, o=1, opportunistic correction with d=1 to the
// left only; 1 is dead, and 2 dies at 4. The tree reaches 2; 3, the child of 1,
// is reached by the root's correction.
func TestTraceOfATinyRun(t *testing.T) {
	spec := broadcast.Spec{Tree: "binomial", Correction: "opportunistic:1", Ring: broadcast.Ring{OneSided: true}}
	runs := logp.Runs{Runs: 1, Faults: logp.Sampling{Fixed: logp.Faults{
		Failed: []protocol.Rank{1},
		Deaths: []logp.Death{{Rank: 2, At: 4}},
	}}}
	got, result, err := logp.TraceBroadcast(spec, logp.Network{P: 4, O: 1}, runs, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := []logp.Record{
		{At: 0, Kind: logp.Died, From: 1, To: 1},
		{At: 0, Kind: logp.Delivered},
		{At: 0, Kind: logp.Sent, To: 1, Until: 1}, // arrives at a dead process
		{At: 1, Kind: logp.Sent, To: 2, Until: 3},
		{At: 2, Kind: logp.Sent, To: 3, Until: 4, Correction: true, Message: broadcast.Left},
		{At: 3, Kind: logp.Received, To: 2, Until: 3},
		{At: 3, Kind: logp.Delivered, From: 2, To: 2},
		{At: 3, Kind: logp.Sent, From: 2, To: 1, Until: 4, Correction: true, Message: broadcast.Left},
		{At: 4, Kind: logp.Died, From: 2, To: 2},
		{At: 4, Kind: logp.Received, To: 3, Until: 4, Correction: true, Message: broadcast.Left},
		{At: 4, Kind: logp.Delivered, From: 3, To: 3},
		{At: 4, Kind: logp.Sent, From: 3, To: 2, Until: 5, Correction: true, Message: broadcast.Left},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v, want\n%+v", got, want)
	}
	if result.Quiescence != 5 || result.Uncolored != 0 {
		t.Errorf("result %+v, want quiescence at 5 and nobody uncolored", result)
	}
}

// TestTraceRepeatsARun: run i under trace gives the i-th result, and the trace agrees with it: as many
// messages, each received when the trace says, the last one over at quiescence.
func TestTraceRepeatsARun(t *testing.T) {
	for _, c := range []struct {
		name string
		spec broadcast.Spec
		net  logp.Network
	}{
		{"checked", broadcast.Spec{Tree: "binomial", Correction: "checked", Synchronized: true}, logp.Network{L: 2, O: 1}},
		{"overlapped", broadcast.Spec{Tree: "lame:2", Correction: "optimized:4", Root: 5}, logp.Network{L: 3, O: 2}},
		{"with a gap", broadcast.Spec{Tree: "kary:3", Correction: "checked"}, logp.Network{L: 1, O: 1, G: 3}},
		{"gossip without a queue", broadcast.Spec{Tree: "gossip:9", Correction: "checked", Synchronized: true}, logp.Network{L: 1, O: 1, NoQueue: true}},
		{"failure-proof", broadcast.Spec{Tree: "binomial", Correction: "failure-proof:1"}, logp.Network{L: 2, O: 1}},
		{"delayed", broadcast.Spec{Tree: "optimal", Correction: "delayed:3"}, logp.Network{L: 2, O: 1}},
		{"acknowledged", broadcast.Spec{Tree: "binomial", Correction: "ack"}, logp.Network{L: 2, O: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.net.P = 60
			runs := logp.Runs{Runs: 8, Seed: 3, Faults: logp.Sampling{
				Count: 4, Fixed: logp.Faults{Deaths: []logp.Death{{Rank: 17, At: 9}, {Rank: 31, AfterSends: 2}}},
			}}
			results, err := logp.Broadcast(c.spec, c.net, runs)
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range results {
				records, got, err := logp.TraceBroadcast(c.spec, c.net, runs, i)
				if err != nil || got != want {
					t.Fatalf("run %d: %+v, %v; without a trace %+v", i, got, err, want)
				}
				checkTrace(t, fmt.Sprintf("run %d", i), records, want)
			}
		})
	}
}

func checkTrace(t *testing.T, name string, records []logp.Record, result logp.Result) {
	t.Helper()
	type flight struct {
		from, to protocol.Rank
		until    protocol.Time
	}
	expected := map[flight]bool{}
	var now, last protocol.Time
	var sent, corrections, received int64
	for _, r := range records {
		if r.At < now {
			t.Fatalf("%s: %+v after %d", name, r, now)
		}
		now = r.At
		f := flight{r.From, r.To, r.Until}
		switch r.Kind {
		case logp.Sent:
			if expected[f] {
				t.Fatalf("%s: two messages end as %+v does", name, r)
			}
			expected[f] = true
			last = max(last, r.Until)
			sent++
			if r.Correction {
				corrections++
			}
		case logp.Received:
			if !expected[f] {
				t.Fatalf("%s: %+v, which was not to be received then", name, r)
			}
			delete(expected, f)
			received++
		}
	}
	if sent != result.Sent() || corrections != result.Corrections || last != result.Quiescence || received == 0 {
		t.Errorf("%s: %d messages, %d of correction, %d received, the last over at %d; result %+v", name, sent, corrections, received, last, result)
	}
}

func TestTraceOfNoRun(t *testing.T) {
	spec := broadcast.Spec{Tree: "binomial", Correction: "none"}
	for _, i := range []int{-1, 2} {
		_, _, err := logp.TraceBroadcast(spec, logp.Network{P: 4, O: 1}, logp.Runs{Runs: 2}, i)
		if want := fmt.Sprintf("trace of run %d; allowed: 0 to 1", i); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
