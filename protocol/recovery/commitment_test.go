package recovery

import (
	"slices"
	"testing"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
)

// A process that drops a value of Once with a committed epoch passes on that it is committed: what it sends follows
// from the value.
func TestWhoDropsAValueSaysThatTheEpochIsCommitted(t *testing.T) {
	first := membership.First(3, []protocol.Rank{0, 1, 2})
	cfg := &Config{First: first, Copies: 1, Adopts: true, Saves: true}
	committed := func(epoch uint64) Message {
		return Message{Kind: Sweeping, Sweep: SweepMessage{View: 1, Saved: epoch, Committed: epoch}}
	}
	for _, c := range []struct {
		what  string
		drawn []Key
		want  []Key
	}{
		{what: "no value"},
		{"a value of the epoch before", []Key{{Task: 2, Epoch: 1, Name: 1}}, []Key{commitment(2, 1)}},
		{"a value of the epoch that is committed", []Key{{Task: 2, Epoch: 2, Name: 1}}, []Key{{Task: 2, Epoch: 2, Name: 1}}},
		{"a value of epoch 0, which stays", []Key{{Task: 2, Name: 1}}, []Key{{Task: 2, Name: 1}}},
	} {
		m := New(cfg, first.Members[2])
		m.Receive(first.Members[0], committed(1))
		for _, k := range c.drawn {
			m.Drew(k)
		}
		m.Receive(first.Members[0], committed(2))
		owed := m.Owes(1)
		if !slices.Equal(owed, c.want) {
			t.Errorf("%s: process 1 is told of %v, want %v", c.what, owed, c.want)
		}
	}

	other := New(cfg, first.Members[1])
	other.Drew(commitment(2, 1))
	if got := other.Committed(); got != 2 {
		t.Errorf("who is told goes on from epoch %d, want 2", got)
	}
	if owed := other.Owes(0); !slices.Equal(owed, []Key{commitment(2, 1)}) {
		t.Errorf("who was told passes on %v", owed)
	}
	later := New(cfg, first.Members[1])
	later.Drew(commitment(2, 2))
	if got := later.Committed(); got != 0 {
		t.Errorf("before the view it goes on from epoch %d", got)
	}
	later.Opened(first.Without(func(m membership.Member) bool { return m.ID == 2 }, true), false)
	if got := later.Committed(); got != 2 {
		t.Errorf("in the view it goes on from epoch %d, want 2", got)
	}
}
