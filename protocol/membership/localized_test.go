package membership

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/topology"
)

func newLocal(t testing.TB, c LocalConfig) *Localized {
	t.Helper()
	l, err := NewLocalized(c)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestLocalTreeIsTheRadixTree(t *testing.T) {
	for _, a := range []int{2, 4, 8} {
		tree := newLocalTree(a)
		radix, err := topology.Radix(a, 3000)
		if err != nil {
			t.Fatal(err)
		}
		for r := range 3000 {
			if got := tree.level(protocol.Rank(r)); got != radix.Level(r) {
				t.Fatalf("level of %d among %d: %d, want %d", r, a, got, radix.Level(r))
			}
			if r > 0 {
				if got := tree.ancestor(protocol.Rank(r), radix.Level(r)-1); int(got) != radix.Parent(r) {
					t.Fatalf("above %d: %d, want %d", r, got, radix.Parent(r))
				}
			}
		}
	}
}

// TestLocalTreeFromIsTheNextOfTheSubtree compares with a walk over all ids.
func TestLocalTreeFromIsTheNextOfTheSubtree(t *testing.T) {
	for _, a := range []int{2, 4, 8} {
		tree := newLocalTree(a)
		for range 2000 {
			q, r := protocol.Rank(rand.IntN(90)), protocol.Rank(rand.IntN(600))
			want := r
			for !tree.contains(q, want) {
				want++
			}
			if got := tree.from(q, r); got != want {
				t.Fatalf("of %d's subtree among %d, from %d on: %d, want %d", q, a, r, got, want)
			}
		}
	}
}

func TestLocalTableHasEveryIdOnce(t *testing.T) {
	for _, a := range []int{2, 4, 8} {
		l := newLocal(t, LocalConfig{Members: 200, Fanout: a})
		for self := range protocol.Rank(200) {
			var s LocalState
			l.Init(&s, self, 0)
			for r := range protocol.Rank(600) {
				i := l.entry(&s, r)
				onPath := l.tree.contains(r, self)
				if (i < 0) != onPath || i >= 0 && !l.tree.contains(l.place(&s, i), r) {
					t.Fatalf("%d at %d: entry %d", r, self, i)
				}
			}
		}
	}
}

func TestLocalStateIsSmallAndPlain(t *testing.T) {
	if size := reflect.TypeFor[LocalState]().Size(); size > 512 {
		t.Errorf("a state takes %d bytes; allowed: 512", size)
	}
	if a, b := (LocalState{}), (LocalState{}); a != b { // comparable: no slices, no maps
		t.Error("two empty states differ")
	}
}

func TestLocalConfigIsChecked(t *testing.T) {
	for _, c := range []struct {
		LocalConfig
		want string
	}{
		{LocalConfig{Members: 0, Fanout: 2}, "0 members; allowed: 1 to"},
		{LocalConfig{Members: 5, Capacity: 4, Fanout: 2}, "room for 4 ids; allowed: 5 to"},
		{LocalConfig{Members: 5, Fanout: 3}, "3 children; allowed: a power of two"},
		{LocalConfig{Members: 5, Fanout: 2, Retry: -1}, "asking again after -1; allowed"},
		{LocalConfig{Members: 1 << 20, Fanout: 8}, "up to 57 neighbours below; allowed: 34"},
	} {
		_, err := NewLocalized(c.LocalConfig)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.LocalConfig, err, c.want)
		}
	}
	for _, c := range []LocalConfig{{Members: 1 << 20, Fanout: 2}, {Members: 1 << 20, Fanout: 4}, {Members: 580, Fanout: 8}} {
		if _, err := NewLocalized(c); err != nil {
			t.Error(err)
		}
	}
}
