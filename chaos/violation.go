package chaos

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Violation is a run in which something did not hold.
type Violation struct {
	// Err is what was violated: what Check or Step returned, or an error that wraps ErrLivelock,
	// ErrContract or ErrPanic.
	Err error

	// Seed makes Random find this violation in its first run. A violation that Exhaustive found has none.
	Seed uint64

	// Run is the index of Random's run.
	Run int

	// Choices make Replay repeat the run, after shortening.
	Choices []uint64

	// Steps describes the run, after shortening, one line each.
	Steps []string

	random bool
}

// Error says what was violated and how to repeat the run.
func (v *Violation) Error() string {
	if v.random {
		return fmt.Sprintf("chaos: %v (replay: runs 1, seed %d)\n%s", v.Err, v.Seed, v.Script())
	}
	return fmt.Sprintf("chaos: %v\n%s", v.Err, v.Script())
}

// Unwrap returns what was violated.
func (v *Violation) Unwrap() error { return v.Err }

// Script returns the run as text: its steps, and the verdict last.
func (v *Violation) Script() string {
	return strings.Join(append(slices.Clip(v.Steps), fmt.Sprintf("=> %v\n", v.Err)), "\n")
}

// Replay repeats the run of these choices, which come from a Violation of the same configuration, and returns
// what it violates, or nil.
func Replay[S, M any](cfg Config[S, M], choices []uint64) (*Violation, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	w := newWorld(&cfg)
	v := w.replay(choices)
	if v != nil && errors.Is(v.Err, errSetup) {
		return nil, v.Err
	}
	return v, nil
}

// replay makes the run of the given choices and records its script.
func (w *World[S, M]) replay(choices []uint64) *Violation {
	w.script = &script[M]{}
	defer func() { w.script = nil }()
	w.choices.fromScript(choices)
	err := w.play()
	if err == nil {
		return nil
	}
	return &Violation{Err: err, Choices: trimmed(w.choices.made), Steps: w.script.shortened(err)}
}

// play makes the run whose choices have been started. A panic of the protocol
// or of a check is a violation like any other.
func (w *World[S, M]) play() (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%w: %v", ErrPanic, v)
		}
	}()
	if err := w.reset(); err != nil {
		return err
	}
	return w.run()
}

// nature distinguishes unrelated violations. Shortening keeps it: a lost message must not become a livelock
// on the way.
func nature(err error) error {
	for _, kind := range []error{ErrLivelock, ErrContract, ErrPanic, ErrClaims, ErrStalled, errSetup} {
		if errors.Is(err, kind) {
			return kind
		}
	}
	return nil
}
