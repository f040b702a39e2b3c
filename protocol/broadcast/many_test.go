package broadcast_test

import (
	"testing"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"

	"pgregory.net/rapid"
)

func TestWatermarkEqualsASetOfAllSeen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w broadcast.Watermark
		seen := map[uint64]bool{}
		newest := uint64(0)
		for range rapid.IntRange(1, 300).Draw(t, "n") {
			// Mostly near the newest, sometimes far ahead or behind.
			n := newest + uint64(rapid.SampledFrom([]int{0, 1, 1, 2, 3, broadcast.Window - 1, broadcast.Window, 3 * broadcast.Window}).Draw(t, "ahead"))
			if back := uint64(rapid.IntRange(0, 2*broadcast.Window).Draw(t, "back")); back <= n {
				n -= back
			}
			newest = max(newest, n)
			got := w.Add(n)
			switch {
			case seen[n] && got:
				t.Fatalf("%d is accepted twice", n)
			case !seen[n] && !got && n+broadcast.Window > newest:
				t.Fatalf("%d is refused, though it is new and within the window below %d", n, newest)
			}
			seen[n] = seen[n] || got
		}
	})
}

// Claim 1 of Corrected Gossip keeps a counter per root: a broadcast that is
// overtaken by the next one would be lost.
func TestManyDeliversWhatWasOvertaken(t *testing.T) {
	built, err := broadcast.Spec{P: 4, Tree: "binomial", Correction: "checked", O: 1}.Build()
	if err != nil {
		t.Fatal(err)
	}
	m, err := broadcast.NewMany(built.(*broadcast.Plain), 0)
	if err != nil {
		t.Fatal(err)
	}
	var s broadcast.ManyState[broadcast.Walk]
	m.Init(&s, 2, 1)
	id := func(seq uint64, root protocol.Rank) broadcast.ID { return broadcast.ID{Seq: seq, Root: root} }
	delivered := map[broadcast.ID]int{}
	settle := func() {
		for a := m.Next(&s, 0); a.Kind != protocol.Idle; a = m.Next(&s, 0) {
			if a.Kind == protocol.Deliver {
				delivered[a.Msg.ID]++
			}
		}
	}
	for _, b := range []broadcast.ID{id(1, 0), id(0, 0), id(0, 3), id(1, 0), id(0, 0), id(5, 3)} {
		m.Receive(&s, 0, b.Root, broadcast.Tagged[plain]{ID: b})
		settle()
	}
	for _, b := range []broadcast.ID{id(1, 0), id(0, 0), id(0, 3), id(5, 3)} {
		if delivered[b] != 1 {
			t.Errorf("%+v delivered %d times", b, delivered[b])
		}
	}
	later := broadcast.ID{Seq: 0, Root: 0, Incarnation: 1}
	m.Receive(&s, 0, 0, broadcast.Tagged[plain]{ID: later})
	m.Receive(&s, 0, 0, broadcast.Tagged[plain]{ID: id(7, 0)}) // of the dead incarnation
	settle()
	if delivered[later] != 1 || delivered[id(7, 0)] != 0 {
		t.Errorf("new incarnation delivered %d times, old one %d times", delivered[later], delivered[id(7, 0)])
	}
}

func TestManyRefusesWhatDoesNotEnd(t *testing.T) {
	for _, spec := range []broadcast.Spec{
		{P: 4, Tree: "binomial", Correction: "ack"},
		{P: 4, Tree: "binomial", Correction: "checked", Synchronized: true, Start: 5},
	} {
		built, err := spec.Build()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := broadcast.NewMany(built.(*broadcast.Plain), 0); err == nil {
			t.Errorf("%+v is accepted", spec)
		}
	}
	built, err := broadcast.Spec{P: 4, Tree: "binomial", Correction: "delayed:3"}.Build()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := broadcast.NewMany(built.(*broadcast.Delays), 0); err == nil {
		t.Error("delayed correction is accepted")
	}
}
