package deadlock

import (
	"bytes"
	"reflect"
	"testing"
)

func TestMessage(t *testing.T) {
	for _, c := range []Chase{
		{Number: 1, Path: []Wait{recv(0, 1)}},
		{Number: 1 << 63, Found: true, Hops: 64, Path: append(row(PathMax-1), Wait{Task: 1<<31 - 1, Group: 1 << 63, Epoch: 1<<32 - 1, Kind: 255, Op: 255, Seq: 1 << 63, Rank: 7, Peer: 8, Tag: 1 << 63})},
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

func FuzzParse(f *testing.F) {
	f.Add((&Chase{Number: 1, Path: row(3)}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, ok := Parse(b); ok {
			if d, ok := Parse(c.Append(nil)); !ok || !reflect.DeepEqual(c, d) || len(c.Append(nil)) > len(bytes.Clone(b)) {
				t.Error(c, d)
			}
		}
	})
}
