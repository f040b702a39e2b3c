package deadlock

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
)

func TestMessage(t *testing.T) {
	for _, c := range []Chase{
		{Number: 1, Path: []Wait{recv(0, 1)}},
		{Number: 1 << 63, Found: true, Hops: 64, Path: append(row(PathMax-1), Wait{Task: 1<<31 - 1, Group: 1 << 63, Epoch: 1<<32 - 1, Kind: 255, Op: 255, Seq: 1 << 63, Rank: 7, Peer: 8, Tag: 1 << 63})},
		{Number: 2, Found: true, Path: row(3), Places: []string{"Recv at heat.go:42", "", "Barrier at wärme.go:7"}},
	} {
		b := c.Append(nil)
		if got, ok := Parse(b); !ok || !reflect.DeepEqual(got, c) {
			t.Errorf("%v, want %v", got, c)
		}
		for n := range b {
			if _, ok := Parse(b[:n]); ok {
				t.Error("half of a message is one", n)
			}
		}
		if _, ok := Parse(append(b, 0)); ok {
			t.Error("more than a message is one")
		}
	}
}

// TestPlacesAreLinesOfSomeLength: they come from other processes, and are shown to people.
func TestPlacesAreLinesOfSomeLength(t *testing.T) {
	for text, want := range map[string]string{
		"Recv at heat.go:42":                      "Recv at heat.go:42",
		"Recv at\n\x1b[2Jheat.go:42\xff":          "Recv at[2Jheat.go:42",
		strings.Repeat("ä", PlaceMax):             strings.Repeat("ä", PlaceMax/2),
		"x" + strings.Repeat("ä", PlaceMax) + "…": "x" + strings.Repeat("ä", PlaceMax/2-1),
	} {
		c := Chase{Found: true, Path: row(2)}
		if c.Next() != &c.Path[0] {
			t.Error("the place of the first is not wanted")
		}
		if c.Place(text); c.Places[0] != want {
			t.Errorf("%q, want %q", c.Places[0], want)
		}
		if got, ok := Parse(c.Append(nil)); !ok || !reflect.DeepEqual(got, c) || got.Next().Task != 1 {
			t.Errorf("%v, want %v", got, c)
		}
		if c.Place(""); c.Next() != nil {
			t.Error("more places than tasks are wanted")
		}
	}
	for _, c := range []Chase{
		{Found: true, Path: row(1), Places: []string{"a", "b"}},
		{Path: row(1), Places: []string{"a"}},
		{Found: true, Path: row(1), Places: []string{"a\n"}},
		{Found: true, Path: row(1), Places: []string{strings.Repeat("a", PlaceMax+1)}},
	} {
		if got, ok := Parse(c.Append(nil)); ok {
			t.Errorf("%v is a message", got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add((&Chase{Number: 1, Path: row(3)}).Append(nil))
	f.Add((&Chase{Number: 1, Found: true, Path: row(2), Places: []string{"Recv at heat.go:42"}}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, ok := Parse(b); ok {
			if d, ok := Parse(c.Append(nil)); !ok || !reflect.DeepEqual(c, d) || len(c.Append(nil)) > len(bytes.Clone(b)) {
				t.Error(c, d)
			}
		}
	})
}
