package logp

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/coppice-go/coppice/protocol"
)

// Sampling draws the faults of each run of a Monte Carlo simulation.
type Sampling struct {
	Count int           // how many processes, drawn without Spare, are dead from the start
	Block int           // they die in blocks of this many neighbours; 0 counts as 1
	Spare protocol.Rank // the process that is never drawn: the root
	Fixed Faults        // happens in every run
}

// Check returns what is wrong for p processes.
func (s Sampling) Check(p int) error {
	switch {
	case s.Count < 0 || s.Count > p-1:
		return fmt.Errorf("%d of %d processes dead; allowed: 0 to %d, since the root stays", s.Count, p, p-1)
	case s.Block < 0 || s.Block > max(p-1, 1):
		return fmt.Errorf("blocks of %d; allowed: 1 to %d", s.Block, p-1)
	}
	if slices.Contains(s.Fixed.Failed, s.Spare) {
		return fmt.Errorf("the root %d is dead from the start; allowed: all others", s.Spare)
	}
	return s.Fixed.Check(p)
}

// sampler draws faults and reuses its memory.
type sampler struct {
	Sampling
	p      int
	drawn  set
	failed []protocol.Rank
}

func newSampler(s Sampling, p int) *sampler {
	return &sampler{Sampling: s, p: p, drawn: newSet(p)}
}

// draw returns the faults of the run with the given seed. They are valid until
// the next call.
func (s *sampler) draw(seed uint64) Faults {
	s.failed = append(s.failed[:0], s.Fixed.Failed...)
	if s.Count > 0 {
		// Draw the smaller of the two: the dead or the living processes.
		few, invert := s.Count, false
		if s.Block <= 1 && s.Count > s.p/2 {
			few, invert = s.p-1-s.Count, true
		}
		s.drawFew(protocol.Mix(seed, faultStream), few)
		for w, word := range s.drawn {
			if invert {
				word = s.drawn.others(w, s.p)
			}
			for ; word != 0; word &= word - 1 {
				if r := protocol.Rank(w<<6 + bits.TrailingZeros64(word)); r != s.Spare {
					s.failed = append(s.failed, r)
				}
			}
		}
	}
	return Faults{Failed: s.failed, Deaths: s.Fixed.Deaths}
}

// drawFew draws n ranks, block by block.
func (s *sampler) drawFew(seed uint64, n int) {
	clear(s.drawn)
	for i := uint64(0); n > 0; i++ {
		r := int(protocol.Below(protocol.Mix(seed, i), uint64(s.p)))
		for b := max(s.Block, 1); b > 0 && n > 0; b-- {
			if s.drawn.has(r) || protocol.Rank(r) == s.Spare {
				break
			}
			s.drawn.set(r)
			n--
			if r++; r == s.p {
				r = 0
			}
		}
	}
}

// faultStream numbers a run's stream of random faults, apart from the streams of its processes.
const faultStream = 1 << 40
