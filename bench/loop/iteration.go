package loop

import (
	"fmt"
	"os"
)

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
//   - all others: the time of the slowest rank.
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

// ReadRanks reads what the p ranks of a job wrote: ranks[r][i] is iteration i at rank r.
func (j Job) ReadRanks(p int) (ranks [][]Span, err error) {
	for r := range p {
		file, err := os.Open(File(j.Out, r))
		if err != nil {
			return nil, fmt.Errorf("rank %d wrote no spans: %w", r, err)
		}
		spans, err := Read(file)
		file.Close()
		if err != nil {
			return nil, fmt.Errorf("spans of rank %d: %w", r, err)
		}
		if len(spans) != j.Iterations {
			return nil, fmt.Errorf("rank %d wrote %d spans, want %d", r, len(spans), j.Iterations)
		}
		ranks = append(ranks, spans)
	}
	return ranks, nil
}

// Times returns the µs that each iteration took the group as a whole.
func Times(op string, ranks [][]Span) (us []float64) {
	for i, atRoot := range ranks[0] {
		it := Iteration{Root: atRoot}
		for _, spans := range ranks {
			s := spans[i]
			it.LastBegin, it.LastEnd = max(it.LastBegin, s.Begin), max(it.LastEnd, s.End)
			it.Slowest = max(it.Slowest, s.End-s.Begin)
		}
		us = append(us, float64(it.Time(op))/1e3)
	}
	return us
}
