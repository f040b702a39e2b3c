// The radix tree as localized views need it: without an end, since processes join
// at the bottom. Ids and links are those of topology.Radix.

package membership

import (
	"math"
	"math/bits"

	"github.com/coppice-go/coppice/protocol"
)

// localIDs is how many ids there can be.
const localIDs = 1 << 30

// localNone is a place that no process has.
const localNone protocol.Rank = math.MaxInt32

// localTree is an endless radix tree with a = 2^digit children each.
type localTree struct {
	digit int
	start [33]int64 // first id of each level, (a^ℓ−1)/(a−1)
}

func newLocalTree(a int) localTree {
	t := localTree{digit: bits.TrailingZeros(uint(a))}
	for l := 1; l < len(t.start); l++ {
		t.start[l] = min(t.start[l-1]<<t.digit+1, math.MaxInt32)
	}
	return t
}

func (t *localTree) fanout() int { return 1 << t.digit }

// level returns the number of links from the place 0 to r.
func (t *localTree) level(r protocol.Rank) int {
	return (bits.Len64(uint64(r)<<t.digit-uint64(r)+1) - 1) / t.digit
}

// route returns the links to r from the place 0, a digit each, the first one lowest.
func (t *localTree) route(r protocol.Rank) (level int, route int64) {
	level = t.level(r)
	return level, int64(r) - t.start[level]
}

// ancestor returns the place at a level on the way to r, at most r's.
func (t *localTree) ancestor(r protocol.Rank, level int) protocol.Rank {
	_, route := t.route(r)
	return protocol.Rank(t.start[level] + route&(1<<(t.digit*level)-1))
}

// link returns the link that leads from level towards r, which is below.
func (t *localTree) link(r protocol.Rank, level int) int {
	_, route := t.route(r)
	return int(route>>(t.digit*level)) & (t.fanout() - 1)
}

// child returns the place that a link leads to.
func (t *localTree) child(r protocol.Rank, link int) protocol.Rank {
	return t.clip(int64(r) + int64(link+1)<<(t.digit*t.level(r)))
}

// contains reports whether r is in the subtree of q.
func (t *localTree) contains(q, r protocol.Rank) bool {
	level := t.level(q)
	return r >= q && t.ancestor(r, level) == q
}

// from returns the lowest id of the subtree of q that is r or higher.
func (t *localTree) from(q, r protocol.Rank) protocol.Rank {
	if r <= q {
		return q
	}
	if r == localNone || q == localNone {
		return localNone
	}
	top, first := t.route(q)
	level, route := t.route(r)
	if level == top {
		level, route = level+1, 0
	}
	// The routes of the subtree at this level end in q's.
	stride := int64(1) << (t.digit * top)
	if route += (first - route) & (stride - 1); route < 1<<(t.digit*level) {
		return t.clip(t.start[level] + route)
	}
	return t.clip(t.start[level+1] + first)
}

func (t *localTree) clip(id int64) protocol.Rank {
	return protocol.Rank(min(id, int64(localNone)))
}
