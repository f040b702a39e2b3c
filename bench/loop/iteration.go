package loop

// Iteration is one iteration as the group saw it.
type Iteration struct {
	Root      Span  // at rank 0
	LastBegin int64 // at any rank
	LastEnd   int64
	Slowest   int64 // the longest from beginning to end at one rank
}

// Time returns the nanoseconds that the iteration took the group as a whole:
//
//   - ping-pong: from beginning to end at rank 0;
//   - broadcast, scatter: from the beginning at the root, rank 0, to the last end;
//   - barrier: from the last beginning to the last end;
//   - all others: what it took the slowest rank.
func (it Iteration) Time(op string) int64 {
	switch op {
	case PingPong:
		return it.Root.End - it.Root.Begin
	case Broadcast, Scatter:
		return it.LastEnd - it.Root.Begin
	case Barrier:
		return it.LastEnd - it.LastBegin
	default:
		return it.Slowest
	}
}
