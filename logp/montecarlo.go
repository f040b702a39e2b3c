package logp

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/coppice-go/coppice/protocol"
)

// Runs says how to repeat a simulation.
type Runs struct {
	Faults   Sampling
	Runs     int
	Seed     uint64
	Workers  int       // 0: all cores
	Progress func(int) // told after every run how many are done, from any goroutine; may be nil
}

// Check says what is wrong for p processes.
func (r Runs) Check(p int) error {
	if r.Runs < 1 {
		return fmt.Errorf("%d runs; allowed: 1 or more", r.Runs)
	}
	if r.Workers < 0 {
		return fmt.Errorf("%d workers; allowed: 1 or more, or 0 for all cores", r.Workers)
	}
	return r.Faults.Check(p)
}

// MonteCarlo simulates many runs of a protocol, each with faults of its own,
// on all cores. Run i has the i-th seed of the stream Seed and its result is
// the i-th one, so the results do not depend on the number of cores.
func MonteCarlo[S, M any](p protocol.Protocol[S, M], net Network, runs Runs) ([]Result, error) {
	if err := net.Check(); err != nil {
		return nil, err
	}
	if err := runs.Check(net.P); err != nil {
		return nil, err
	}
	workers := runs.Workers
	if workers == 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	workers = min(workers, runs.Runs)

	results := make([]Result, runs.Runs)
	failures := make([]error, workers)
	var taken, done atomic.Int64
	var wait sync.WaitGroup
	for w := range workers {
		wait.Go(func() {
			engine, err := NewEngine(p, net)
			faults := newSampler(runs.Faults, net.P)
			for err == nil {
				i := int(taken.Add(1)) - 1
				if i >= runs.Runs {
					return
				}
				seed := protocol.Mix(runs.Seed, uint64(i))
				results[i], err = engine.Run(seed, faults.draw(protocol.Mix(seed, faultStream)))
				if n := int(done.Add(1)); runs.Progress != nil {
					runs.Progress(n)
				}
			}
			failures[w] = err
		})
	}
	wait.Wait()
	for _, err := range failures {
		if err != nil {
			return nil, err
		}
	}
	return results, nil
}

// faultStream names a run's stream of random faults, apart from those of its
// processes.
const faultStream = 1 << 40
