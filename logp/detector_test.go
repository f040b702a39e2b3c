package logp_test

import (
	"slices"
	"testing"

	"github.com/coppice-go/coppice/logp"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
)

// listener records the Death notices that processes get. A process is Done after the given number of them.
type listener struct {
	told map[protocol.Rank][]obituary
	done int
}

type obituary struct {
	at   protocol.Time
	dead protocol.Rank
}

func (l listener) Init(s *protocol.Rank, self protocol.Rank, _ uint64) { *s = self }

func (l listener) Receive(*protocol.Rank, protocol.Time, protocol.Rank, struct{}) {}

func (l listener) Notify(s *protocol.Rank, now protocol.Time, n protocol.Notice) {
	if n.Kind == protocol.Death {
		l.told[*s] = append(l.told[*s], obituary{now, n.Rank})
	}
}

func (l listener) Next(s *protocol.Rank, _ protocol.Time) protocol.Action[struct{}] {
	if len(l.told[*s]) >= l.done {
		return protocol.Action[struct{}]{Kind: protocol.Done}
	}
	return protocol.Action[struct{}]{Kind: protocol.Idle}
}

func TestDetectorTellsEveryLiveProcessOfEveryDeathOnce(t *testing.T) {
	faults := logp.Faults{Failed: []protocol.Rank{2, 5}, Deaths: []logp.Death{{Rank: 3, At: 4}, {Rank: 2, At: 6}, {Rank: 0, At: 9}}}
	for _, o := range []protocol.Time{1, 3} {
		told := map[protocol.Rank][]obituary{}
		e, err := logp.NewEngine(listener{told, 99}, logp.Network{P: 7, L: 1, O: o, Detect: 2})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // nothing is left over from the first run
			clear(told)
			if _, err := e.Run(1, faults); err != nil {
				t.Fatal(err)
			}
		}
		all := []obituary{{2, 2}, {2, 5}, {6, 3}, {11, 0}}
		for r, want := range map[protocol.Rank][]obituary{0: all[:3], 1: all, 2: nil, 3: all[:2], 4: all, 5: nil, 6: all} {
			if !slices.Equal(told[r], want) {
				t.Errorf("o=%d: process %d was told %v, want %v", o, r, told[r], want)
			}
		}
	}
}

func TestDetectorTellsNobodyWhoIsDone(t *testing.T) {
	told := map[protocol.Rank][]obituary{}
	e, err := logp.NewEngine(listener{told, 1}, logp.Network{P: 3, O: 1, Detect: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Run(1, logp.Faults{Deaths: []logp.Death{{Rank: 0, At: 1}, {Rank: 1, At: 3}}}); err != nil {
		t.Fatal(err)
	}
	if want := []obituary{{2, 0}}; !slices.Equal(told[2], want) {
		t.Errorf("process 2 was told %v, want %v: it was done", told[2], want)
	}
}

// Protocols that ignore the detector behave the same with it.
func TestDetectorChangesNothingForOthers(t *testing.T) {
	faults := logp.Sampling{Count: 9, Fixed: logp.Faults{Deaths: []logp.Death{{Rank: 7, At: 5}, {Rank: 11, AfterSends: 2}}}}
	for _, spec := range []broadcast.Spec{{Tree: "binomial", Correction: "checked"}, {Tree: "lame:2", Correction: "delayed:3"}, {Tree: "big", Correction: "failure-proof:1"}} {
		net := logp.Network{P: 100, L: 3, O: 2}
		want := simulate(t, spec, net, logp.Runs{Runs: 20, Faults: faults})
		net.Detect = 4
		if got := simulate(t, spec, net, logp.Runs{Runs: 20, Faults: faults}); !slices.Equal(got, want) {
			t.Errorf("%+v: with a detector %v, without %v", spec, got, want)
		}
	}
}
