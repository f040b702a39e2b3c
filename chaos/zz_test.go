package chaos

import (
	"testing"

	"github.com/coppice-go/coppice/protocol/broadcast"
)

func TestZZ(t *testing.T) {
	for _, sync := range []bool{true, false} {
		for p := 3; p <= 7; p++ {
			spec := broadcast.Spec{P: p, Tree: "gossip:2", Correction: "failure-proof:1", O: 1, L: 1, Synchronized: sync, Counted: true, Early: broadcast.Serve}
			if sync {
				spec.Start = 1
				spec.Early = 0
			}
			built, err := spec.Build()
			if err != nil {
				t.Fatal(err)
			}
			r, err := Random(BroadcastConfig(Broadcast{Crashes: 2, Failed: p - 1, Cumulative: true, EagerTimers: !sync}, built.(*broadcast.Provers), Promise{Crashes: 2, Gap: p, EndGap: p}), 1, 300000, 1)
			t.Log(sync, p, r.Schedules, err)
		}
	}
}
