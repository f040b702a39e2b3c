// Source: Küttler et al., Corrected Trees (PPoPP 2019), Definition 1.
//
// A tree is interleaved if, for each of its subtrees T_s and the ring R_s of the
// subtree's ranks in order, any two distinct neighbours on R_s either descend
// from each other or have only root(T_s) as a common ancestor. Then no failure
// below root(T_s) can take away two neighbours at once, unless one of them is
// the other's ancestor.
//
// Cost: O(P²) time and O(P) memory; for tests and for trees of one's own.

package topology

import "fmt"

// CheckInterleaved returns nil if t is interleaved (Definition 1), and
// otherwise an error that names a subtree and a pair of neighbours that break
// the rule.
func CheckInterleaved(t Tree) error {
	number, rank := depthFirst(t)
	// The subtree of s is the run of depth-first numbers number[s] … last[s].
	last := make([]int32, t.Size())
	for n := t.Size() - 1; n >= 0; n-- {
		r := rank[n]
		last[r] = max(last[r], int32(n))
		if n > 0 {
			parent := t.Parent(int(r))
			last[parent] = max(last[parent], last[r])
		}
	}
	holds := func(s, r int) bool { return number[s] <= number[r] && number[r] <= last[s] }

	for s := range t.Size() {
		first, prev := -1, -1
		pair := func(u, v int) error {
			if holds(u, v) || holds(v, u) {
				return nil
			}
			common := t.Parent(u)
			for !holds(common, v) {
				common = t.Parent(common)
			}
			if common == s {
				return nil
			}
			return fmt.Errorf("not interleaved: in the subtree of %d the neighbours %d and %d both descend from %d", s, u, v, common)
		}
		for r := range t.Size() {
			if !holds(s, r) {
				continue
			}
			if first < 0 {
				first = r
			} else if err := pair(prev, r); err != nil {
				return err
			}
			prev = r
		}
		if err := pair(prev, first); err != nil {
			return err
		}
	}
	return nil
}
