package collective

// Rule says which algorithm carries out an operation from so many tasks and so
// many bytes on.
type Rule struct {
	Op        Op
	P         int   // from so many tasks on
	Bytes     int64 // and from so many bytes on: a task's value, or one block
	Algorithm Algorithm
	Span      int64 // bytes of a piece, where a vector goes in several; 0: in one
}

// rules are those that hold; of an operation the last that fits counts.
var rules = []Rule{
	{Op: Broadcast, Algorithm: Binomial},
	{Op: Scatter, Algorithm: Flat},
	{Op: Gather, Algorithm: Flat},
	{Op: AllGather, Algorithm: Direct},
	{Op: AllGather, P: 5, Algorithm: Hub},
	{Op: AllGather, P: 5, Bytes: 8 << 10, Algorithm: Ring},
	{Op: AllToAll, Algorithm: Direct},
	{Op: AllToAll, P: 5, Algorithm: Hub},
	{Op: AllToAll, P: 5, Bytes: 4 << 10, Algorithm: Direct},
	{Op: Reduce, Algorithm: Flat},
	{Op: Reduce, P: 4, Bytes: 16 << 10, Algorithm: Binomial},
	{Op: AllReduce, Algorithm: Doubling},
	{Op: AllReduce, P: 4, Algorithm: Hub},
	{Op: AllReduce, P: 4, Bytes: 16 << 10, Algorithm: Binomial},
	{Op: Scan, Algorithm: Doubling},
}

// Choose is the rule for an operation. A size below 0 is one that tasks do not
// know of each other: it counts as small.
func Choose(op Op, p int, bytes int64, anyOrder bool) (best Rule) {
	for _, r := range rules {
		if r.Op == op && p >= r.P && max(bytes, 0) >= r.Bytes {
			best = r
		}
	}
	return best
}

// Small is for operations on blocks whose sizes tasks do not know of each other:
// whether the algorithm for small ones is another than that for large ones, and
// up to which size it is the right one.
func Small(op Op, p int) (differ bool, limit int64) {
	first := Choose(op, p, 0, false)
	for _, r := range rules {
		if r.Op == op && p >= r.P && r.Bytes > 0 && r.Algorithm != first.Algorithm {
			return true, r.Bytes - 1
		}
	}
	return false, 0
}
