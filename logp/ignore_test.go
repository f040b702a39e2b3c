package logp_test

import (
	"strings"
	"testing"

	"github.com/coppice-go/coppice/logp"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
)

// A run that only counts messages that change nothing ends like an observed run, which hands all of them
// over. In groups this small the last message often goes to a process that had the message and died.
func TestIgnoredMessagesCount(t *testing.T) {
	for _, correction := range []string{"none", "checked", "opportunistic:1"} {
		spec := broadcast.Spec{P: 4, Tree: "gossip:8", Correction: correction, Synchronized: true, Start: 11, L: 2, O: 1}
		built, err := spec.Build()
		if err != nil {
			t.Fatal(err)
		}
		e, err := logp.NewEngine(built.(*broadcast.Plain), logp.Network{P: 4, L: 2, O: 1, NoQueue: true})
		if err != nil {
			t.Fatal(err)
		}
		for seed := range uint64(100) {
			faults := logp.Faults{Deaths: []logp.Death{{Rank: 1, At: protocol.Time(seed % 12)}, {Rank: 2, At: 7}}}
			counted, err := e.Run(seed, faults)
			if err != nil {
				t.Fatal(err)
			}
			var seen recorder
			e.Observe(seen.observer())
			handed, err := e.Run(seed, faults)
			if err != nil {
				t.Fatal(err)
			}
			e.Observe(logp.Observer[broadcast.Message[broadcast.None]]{})
			if counted != handed {
				t.Errorf("%s, seed %d: %+v, observed %+v", correction, seed, counted, handed)
			}
			if sent := strings.Count(strings.Join(seen, "\n"), " to "); int64(sent) != handed.Sent() {
				t.Errorf("%s, seed %d: the observer sees %d of %d messages", correction, seed, sent, handed.Sent())
			}
		}
	}
}
