package chaos

import (
	"errors"
	"fmt"
	"slices"

	"github.com/coppice-go/coppice/protocol"
)

// Setup is what may differ from run to run. Config.Vary changes it, drawing every decision from Choose,
// Chance or FailUpTo, so that it is replayed, shortened and enumerated like everything else.
type Setup[S, M any] struct {
	*Choices

	// Protocol is the protocol of the run; initially Config.Protocol.
	Protocol protocol.Protocol[S, M]

	// Seed is passed to Init, the same at every process. Random draws it; Exhaustive leaves it 0.
	Seed uint64

	// Inputs are the run's; initially Config.Inputs. Replace the slice; never overwrite its elements.
	Inputs []Input

	// Faults are the run's; initially those of Config, which they must not exceed. Random only.
	Faults

	// Own is what Vary keeps from run to run; workers do not share it.
	Own any

	failed  []bool
	free    bool     // see whim.go
	horizon horizons // 0: that of the configuration
}

// Faults bounds the faults of a run; see Config.
type Faults struct {
	Crashes, Restarts, Cuts, Suspicions, Frozen, Late int

	LossyCrashes bool
	OneWay       bool
	MayCrash     func(protocol.Rank) bool
}

// Shrink keeps only the first p processes. Random only.
func (s *Setup[S, M]) Shrink(p int) { s.failed = s.failed[:p] }

// Expect sets how many effects the run usually has: those of the busiest process, and those of all. The
// moments of faults are drawn accordingly.
func (s *Setup[S, M]) Expect(one, all int) { s.horizon = horizons{one, all} }

// P returns the number of processes.
func (s *Setup[S, M]) P() int { return len(s.failed) }

// Fail makes rank dead from the start.
func (s *Setup[S, M]) Fail(rank protocol.Rank) { s.failed[rank] = true }

// Failed reports whether rank is dead from the start.
func (s *Setup[S, M]) Failed(rank protocol.Rank) bool { return s.failed[rank] }

// FailUpTo makes at most most further processes dead from the start, none of them in spare. Every number of
// them is equally likely, and every set of one size; Exhaustive sees every set once.
func (s *Setup[S, M]) FailUpTo(most int, spare ...protocol.Rank) {
	left := 0
	for r, dead := range s.failed {
		if !dead && !slices.Contains(spare, protocol.Rank(r)) {
			left++
		}
	}
	want := s.Choose(min(most, left) + 1)
	for r, dead := range s.failed {
		if dead || slices.Contains(spare, protocol.Rank(r)) {
			continue
		}
		if s.Chance(want, left) { // Knuth's algorithm S: uniform in one pass
			s.Fail(protocol.Rank(r))
			want--
		}
		left--
	}
}

// nextInput returns the index of r's next input, from the given one on; len(s.Inputs) if there is none.
func (s *Setup[S, M]) nextInput(from int32, r int) int32 {
	for int(from) < len(s.Inputs) && int(s.Inputs[from].Rank) != r {
		from++
	}
	return from
}

// prepare resets the setup to the configuration and lets Vary change it.
func (s *Setup[S, M]) prepare(cfg *Config[S, M], c *Choices) error {
	s.Choices = c
	s.Protocol = cfg.Protocol
	s.Inputs = cfg.Inputs
	s.Faults = Faults{cfg.Crashes, cfg.Restarts, cfg.Cuts, cfg.Suspicions, cfg.Frozen, cfg.Late, cfg.LossyCrashes, cfg.OneWay, cfg.MayCrash}
	s.horizon = horizons{}
	if s.failed == nil {
		s.failed = make([]bool, cfg.P)
	}
	s.failed = s.failed[:cfg.P]
	clear(s.failed)
	for _, r := range cfg.Failed {
		s.failed[r] = true
	}
	s.Seed = c.number()
	if s.free = s.Seed == free; s.free {
		s.Seed = 0
	}
	if cfg.Vary == nil {
		return nil
	}
	cfg.Vary(s)
	if s.Protocol == nil {
		return fmt.Errorf("%w: Vary left no Protocol", errSetup)
	}
	if err := validInputs(s.Inputs, s.P()); err != nil {
		return fmt.Errorf("%w: %w", errSetup, err)
	}
	return nil
}

// errSetup is a mistake in the configuration that shows only in a run.
var errSetup = errors.New("chaos: bad setup")
