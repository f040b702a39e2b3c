package logp

import (
	"cmp"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/coppice-go/coppice/protocol"
)

// Runs is a set of runs of a simulation.
type Runs struct {
	Faults   Sampling
	Runs     int
	First    int // number of the first run: set it to continue where earlier runs of the seed ended
	Seed     uint64
	Workers  int       // 0: all cores
	Progress func(int) // called after every run with the number of runs done, from any goroutine; may be nil
}

// Check returns what is wrong for p processes.
func (r Runs) Check(p int) error {
	switch {
	case r.Runs < 1:
		return fmt.Errorf("%d runs; allowed: 1 or more", r.Runs)
	case r.First < 0:
		return fmt.Errorf("first run %d; allowed: 0 or more", r.First)
	case r.Workers < 0:
		return fmt.Errorf("%d workers; allowed: 1 or more, or 0 for all cores", r.Workers)
	}
	return r.Faults.Check(p)
}

// MonteCarlo simulates many runs of a protocol, each with faults of its own,
// on all cores. Run i has the seed number First+i of the stream Seed and its
// result is the i-th one, so the results do not depend on the number of cores.
func MonteCarlo[S, M any](p protocol.Protocol[S, M], net Network, runs Runs) ([]Result, error) {
	if err := cmp.Or(net.Check(), runs.Check(net.P)); err != nil {
		return nil, err
	}
	shared := newPlan(p, net, runs.Faults)
	results := make([]Result, runs.Runs)
	var taken, done atomic.Int64
	var failure atomic.Pointer[error]
	var wait sync.WaitGroup
	for range min(cmp.Or(runs.Workers, runtime.GOMAXPROCS(0)), runs.Runs) {
		wait.Go(func() {
			run, err := newRunner(p, net, shared)
			faults := newSampler(runs.Faults, net.P)
			for err == nil && failure.Load() == nil {
				i := int(taken.Add(1)) - 1
				if i >= runs.Runs {
					return
				}
				seed := runs.seed(i)
				if results[i], err = run(seed, faults.draw(seed)); err != nil {
					err = fmt.Errorf("run %d: %w", i, err)
				}
				if n := int(done.Add(1)); runs.Progress != nil {
					runs.Progress(n)
				}
			}
			if err != nil {
				failure.CompareAndSwap(nil, &err)
			}
		})
	}
	wait.Wait()
	if err := failure.Load(); err != nil {
		return nil, *err
	}
	return results, nil
}

// newRunner returns a function that makes one run after the other: by the shortcut if there is one, otherwise
// by an engine.
func newRunner[S, M any](p protocol.Protocol[S, M], net Network, shared *plan) (func(uint64, Faults) (Result, error), error) {
	if shared != nil {
		s := shared.newShortcut()
		return func(_ uint64, f Faults) (Result, error) { return s.run(f.Failed), nil }, nil
	}
	e, err := NewEngine(p, net)
	if err != nil {
		return nil, err
	}
	return func(seed uint64, f Faults) (Result, error) { return e.Run(seed, f) }, nil
}

// Nth gives the seed and the faults of run i, to repeat it alone: the worst of
// many, say, under an Observer.
func (r Runs) Nth(p, i int) (seed uint64, faults Faults) {
	seed = r.seed(i)
	return seed, newSampler(r.Faults, p).draw(seed)
}

func (r Runs) seed(i int) uint64 { return protocol.Mix(r.Seed, uint64(r.First+i)) }
