package agreement

import (
	"math"
	"slices"
	"testing"

	"github.com/coppice-go/coppice/protocol"
)

func messages() []Message {
	return []Message{
		{Kind: Up, View: 1},
		{Kind: Up, View: 300, Value: []byte("value")},
		{Kind: Up, View: 2, Abort: true},
		{Kind: Up, View: 9, Decided: 7, Value: []byte{0}, Failed: []Rank{3, 1, math.MaxInt32, 0}},
		{Kind: Down, View: math.MaxUint64, Decided: math.MaxUint64, Failed: ranks(200)},
		{Kind: Down, View: 2, Decided: 1, Abort: true},
	}
}

func TestMessagesSurviveTheWire(t *testing.T) {
	for _, m := range messages() {
		b := m.Append(nil)
		got, err := Decode(b)
		if err != nil {
			t.Fatalf("%v: %v", m, err)
		}
		if got.Fingerprint() != m.Fingerprint() || !got.Same(m) {
			t.Errorf("%v became %v", m, got)
		}
		for n := range len(b) - len(m.Value) {
			if _, err := Decode(b[:n]); err == nil {
				t.Errorf("%v: %d of %d bytes are read as a message", m, n, len(b))
			}
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	for name, b := range map[string][]byte{
		"nothing":                     {},
		"an unknown flag":             {8, 1},
		"view 0":                      {0, 0},
		"down without a decision":     {flagDown, 1},
		"a decision of no view":       {flagDecided, 1, 0, 0},
		"a decision of a later view":  {flagDecided, 1, 2, 0},
		"abort with a value":          {flagAbort, 1, 'x'},
		"more failed than bytes":      {flagDecided, 1, 1, 200, 1, 0},
		"a negative rank":             {flagDecided, 1, 1, 1, 1},
		"a rank beyond all":           {flagDecided, 1, 1, 1, 0x80, 0x80, 0x80, 0x80, 0x10},
		"a view that does not end":    {0, 0x80},
		"a list that does not end":    {flagDecided, 1, 1},
		"a rank that does not end":    {flagDecided, 1, 1, 1, 0x80},
		"a number of too many digits": {0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1},
	} {
		if m, err := Decode(b); err == nil {
			t.Errorf("%s is read as %v", name, m)
		}
	}
}

// A participant survives what Decode accepts in any state, and it keeps the contract: it comes to rest.
func FuzzReceive(f *testing.F) {
	for _, m := range messages() {
		f.Add(m.Append(nil), uint8(5), uint8(2), true)
	}
	f.Fuzz(func(t *testing.T, b []byte, p, self uint8, begun bool) {
		m, err := Decode(b)
		if err != nil {
			return
		}
		again, err := Decode(m.Append(nil))
		if err != nil || again.Fingerprint() != m.Fingerprint() {
			t.Fatalf("%v became %v: %v", m, again, err)
		}
		var s State
		s.Init(Rank(self%16), ranks(int(p%16)))
		if begun {
			s.Begin([]byte("mine"))
		}
		for view := range uint64(3) {
			s.NewView(m.View-1+view, ranks(int(p%16)-int(view)))
			for from := range Rank(17) {
				s.Receive(from, m)
			}
			exhaust(t, &s)
		}
	})
}

// exhaust lets a participant act until it rests.
func exhaust(t *testing.T, s *State) {
	t.Helper()
	for range 100 {
		switch a := s.Next(); a.Kind {
		case protocol.Idle:
			if before := s.Fingerprint(); s.Next().Kind != protocol.Idle || s.Fingerprint() != before {
				t.Fatal("it rests, and then does not")
			}
			return
		case protocol.Work:
			s.Fold(bracket)
		case protocol.Send:
			if !slices.Contains(s.live, a.To) || a.To == s.self {
				t.Fatalf("a message to %d", a.To)
			}
		}
	}
	t.Fatal("it never rests")
}
