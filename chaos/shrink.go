package chaos

import (
	"cmp"
	"fmt"
)

// A violation is shortened by changing its choices and keeping what still violates and is simpler: fewer
// faults, then fewer steps, then fewer and smaller choices. An exhausted list of choices answers 0, so
// leaving out the end means "and then everything took its ordinary course".

// shrinkSteps bounds the effort, in transitions: about a second.
const shrinkSteps = 10_000_000

type shrinker[S, M any] struct {
	w      *World[S, M]
	nature error
	best   []uint64
	size   size
	asked  int // number of choices that best's run makes
	budget int
}

// size orders runs by how much there is to understand.
type size struct {
	deaths, steps, choices int // deaths counts all faults
	sum                    uint64
}

func (a size) less(b size) bool {
	return cmp.Or(cmp.Compare(a.deaths, b.deaths), cmp.Compare(a.steps, b.steps), cmp.Compare(a.choices, b.choices), cmp.Compare(a.sum, b.sum)) < 0
}

// shrink returns the simplest violation of the same nature that it finds, or nil if the choices violate
// nothing.
func (w *World[S, M]) shrink(choices []uint64) *Violation {
	first := w.replay(choices)
	if first == nil {
		return nil
	}
	s := shrinker[S, M]{w: w, nature: nature(first.Err), best: first.Choices, budget: shrinkSteps}
	s.size, s.asked = s.measure(s.best), len(w.choices.made)
	for improved := true; improved && s.budget > 0; {
		improved = s.remove()
		improved = s.change() || improved
	}
	return w.replay(s.best)
}

// violation returns the simplest violation that shrink finds for the choices, as the error that ends an
// exploration, and adds it to the report.
func (w *World[S, M]) violation(choices []uint64, what error, r *Report) error {
	v := w.shrink(choices)
	if v == nil {
		return fmt.Errorf("chaos: a violation does not replay: the protocol or a check is not deterministic: %w", what)
	}
	r.First, r.Violations = v, 1
	return v
}

// measure sizes the run just made.
func (s *shrinker[S, M]) measure(choices []uint64) size {
	z := size{deaths: s.w.crashes + s.w.fate.blows, steps: s.w.steps, choices: len(choices)}
	for _, failed := range s.w.setup.failed {
		if failed {
			z.deaths++
		}
	}
	for _, v := range choices {
		z.sum += min(v, 1<<32)
	}
	return z
}

// try keeps the candidate if it still violates and is simpler.
func (s *shrinker[S, M]) try(candidate []uint64) bool {
	if s.budget <= 0 {
		return false
	}
	s.w.choices.fromScript(candidate)
	err := s.w.play()
	s.budget -= s.w.steps + 1
	if err == nil || nature(err) != s.nature {
		return false
	}
	made := trimmed(s.w.choices.made)
	if z := s.measure(made); z.less(s.size) {
		s.best, s.size, s.asked = made, z, len(s.w.choices.made)
		return true
	}
	return false
}

// remove leaves out runs of choices, long ones first.
func (s *shrinker[S, M]) remove() bool {
	improved := false
	for n := len(s.best); n > 0; n /= 2 {
		for i := 0; i+n <= len(s.best); {
			candidate := append(append([]uint64(nil), s.best[:i]...), s.best[i+n:]...)
			if s.try(candidate) {
				improved = true
			} else {
				i += n
			}
		}
	}
	return improved
}

// change gives single choices another value: every small one, since a larger choice may make a shorter run,
// and large ones by halves. Zeros at the end, which best leaves out, are choices as well.
func (s *shrinker[S, M]) change() bool {
	improved := false
	for i := 0; i < s.asked; i++ {
		for to := uint64(0); to < 8; to++ {
			improved = s.set(i, to) || improved
		}
		for i < len(s.best) && s.best[i] > 8 && s.set(i, s.best[i]/2) {
			improved = true
		}
	}
	return improved
}

func (s *shrinker[S, M]) set(i int, v uint64) bool {
	candidate := append([]uint64(nil), s.best...)
	for len(candidate) <= i {
		candidate = append(candidate, 0)
	}
	if candidate[i] == v {
		return false
	}
	candidate[i] = v
	return s.try(candidate)
}

// trimmed returns a copy of choices without the zeros at the end, which an exhausted list answers anyway.
func trimmed(choices []uint64) []uint64 {
	n := len(choices)
	for n > 0 && choices[n-1] == 0 {
		n--
	}
	return append([]uint64(nil), choices[:n]...)
}
