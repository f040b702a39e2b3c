package membership

import (
	"testing"

	"github.com/coppice-go/coppice/protocol"
)

// letters returns some letters of every kind that goes over a wire.
func letters() (all []Message) {
	v := First(5, []protocol.Rank{0, 0, 1, 2, 4, nobody})
	next := v.Without(func(m Member) bool { return m.ID == 3 }, true)
	some := next.announced([]protocol.Rank{0, 2})
	for _, l := range []Letter{
		{Kind: Propose, Attempt: 3, Number: 1, Ballot: ballot(2, 1), Base: v, Value: next, Who: Member{1, 1}, Bits: 2, Route: []protocol.Rank{1, 0, 2, gap, 4}},
		{Kind: Prepare, Flat: true, Number: 1, Ballot: ballot(2, 4), Base: v, Who: Member{4, 1}, Bits: 2, Route: []protocol.Rank{4, 0, 2}},
		{Kind: Promise, Number: 1, Asked: ballot(2, 1), Ballot: ballot(0, 0), Value: next, Missing: []protocol.Rank{4, 1}},
		{Kind: Accept, Number: 1, Asked: ballot(0, 0)},
		{Kind: Confirm, Number: 2, Base: next, Who: Member{0, 1}, Bits: 2, Route: []protocol.Rank{0, 1}},
		{Kind: Stable, Number: 2, Base: next, Who: Member{0, 1}, Bits: 2, Route: []protocol.Rank{0, 1}},
		{Kind: Present, Number: 2},
		{Kind: Reject, Number: 1, Asked: ballot(0, 0), Ballot: ballot(1, 3)},
		{Kind: Decided, Number: 2, Base: next, Open: true},
		{Kind: Failure, Who: Member{3, 2}, Certain: true, Willed: true, Base: v, Value: next, Ballot: 9},
		{Kind: Noted, Who: Member{3, 2}},
		{Kind: Join, Who: Member{7, 1}},
		{Kind: Leave, Who: Member{2, 1}, Number: 3},
		{Kind: Decided, Number: 3, Base: some},
		{Kind: Fence, Who: Member{3, 1}, Certain: true, Number: 1, Base: v, Ballot: ballot(2, 1), Bits: 1, Route: []protocol.Rank{0, 1, 2}, Missing: []protocol.Rank{4}},
		{Kind: Will},
	} {
		all = append(all, Message{Letter: &l, From: 1, To: 2, At: 3})
	}
	return all
}

func TestLettersSurviveTheWire(t *testing.T) {
	for _, m := range letters() {
		b := m.Append(nil)
		got, err := Decode(b)
		if err != nil {
			t.Fatalf("%v: %v", m, err)
		}
		if got.Fingerprint() != m.Fingerprint() {
			t.Errorf("%v became %v", m, got)
		}
		for n := range b {
			if _, err := Decode(b[:n]); err == nil {
				t.Errorf("%v: %d of %d bytes are read as a letter", m, n, len(b))
			}
		}
		if _, err := Decode(append(b, 0)); err == nil {
			t.Errorf("%v: a byte more is read as a letter", m)
		}
	}
}

func TestAViewTakesAboutTwoBytesAMember(t *testing.T) {
	owners := make([]protocol.Rank, 1000)
	for i := range owners {
		owners[i] = protocol.Rank(i)
	}
	m := Message{Letter: &Letter{Kind: Decided, Base: First(1000, owners)}, From: 1}
	if n := len(m.Append(nil)); n > 6*1000 {
		t.Errorf("%d bytes", n)
	}
	m.Base = First(1000, nil)
	if n := len(m.Append(nil)); n > 2*1000+32 {
		t.Errorf("%d bytes without owners", n)
	}
}

// FuzzDecode checks that what Decode accepts, a process survives in any state.
func FuzzDecode(f *testing.F) {
	for _, m := range letters() {
		f.Add(m.Append(nil))
	}
	p, err := New(Config{First: First(5, nil)})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Decode(b)
		if err != nil {
			return
		}
		again, err := Decode(m.Append(nil))
		if err != nil || again.Fingerprint() != m.Fingerprint() {
			t.Fatalf("%v became %v: %v", m, again, err)
		}
		for self := range protocol.Rank(7) {
			var s State
			p.Init(&s, self, 1)
			if self == 6 {
				p.Notify(&s, 0, protocol.Notice{Kind: protocol.Begin, Value: 1})
			}
			for from := range protocol.Rank(7) {
				p.Receive(&s, 1, from, m)
				for range 100 {
					if a := p.Next(&s, 1); a.Kind == protocol.Idle || a.Kind == protocol.Wait {
						break
					} else if a.Kind == protocol.Work {
						p.Notify(&s, 1, protocol.Notice{Kind: protocol.WorkDone})
					}
				}
			}
		}
	})
}
