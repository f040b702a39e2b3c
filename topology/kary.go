// Source: Küttler et al., Corrected Trees (PPoPP 2019), section 3.2.1.
//
// A full k-ary tree has k^ℓ ranks at level ℓ, numbered level by level. The
// subtrees that start at a level take turns, so the ranks of one of them lie
// k^ℓ apart and the children of r are r + i·k^ℓ for 0 < i ≤ k. The last level is
// cut at P.
//
// Cost: a table with one entry a level; Child and Parent in O(1).

package topology

// kary is a k-ary tree, k ≥ 2, in interleaved numbering.
type kary struct {
	levels timeline // ranks down to each level
	p, k   int
}

// newKAry returns the k-ary tree of p ranks.
func newKAry(p, k int) Tree {
	k = min(k, p) // more children than ranks change nothing
	if k <= 1 {
		return chain(p)
	}
	count := []int{1}
	for all, width := 1, k; all < p; width *= k {
		// Cut at p, the last level is still too wide for children, and small
		// enough not to overflow.
		all = min(all+width, p)
		count = append(count, all)
	}
	return &kary{levels: makeTimeline(count, p), p: p, k: k}
}

func (t *kary) Size() int { return t.p }
func (t *kary) Root() int { return 0 }

// width returns k^ℓ, less on the last level.
func (t *kary) width(level int) int { return t.levels.count[level] - t.levels.before(level) }

func (t *kary) Child(r, i int) int {
	if uint(i) >= uint(t.k) {
		return -1
	}
	if child := r + (i+1)*t.width(t.levels.step(r)); child < t.p {
		return child
	}
	return -1
}

func (t *kary) Parent(r int) int {
	if r == 0 {
		return -1
	}
	level := t.levels.step(r)
	place := r - t.levels.before(level)
	return t.levels.before(level-1) + place%t.width(level-1)
}

// chain is the 1-ary tree. It has as many levels as ranks, too many for the
// table.
type chain int

func (t chain) Size() int        { return int(t) }
func (t chain) Root() int        { return 0 }
func (t chain) Parent(r int) int { return r - 1 }

func (t chain) Child(r, i int) int {
	if i != 0 || r+1 >= int(t) {
		return -1
	}
	return r + 1
}
