package chaos

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// chunk is how many runs a worker takes at a time.
const chunk = 256

// Random makes runs schedules drawn from seed, on workers goroutines (0: one per core). The same seed gives
// the same report, except for the time, whatever the number of workers. The error is either a mistake in cfg
// or Report.First.
func Random[S, M any](cfg Config[S, M], seed uint64, runs, workers int) (Report, error) {
	if err := cfg.validate(); err != nil {
		return Report{}, err
	}
	if runs < 1 {
		return Report{}, fmt.Errorf("chaos: %d runs, allowed are 1 and more", runs)
	}
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	begin := time.Now()
	d := drawing[S, M]{cfg: &cfg, seed: seed, runs: int64(runs), horizon: horizon(&cfg)}
	d.first.Store(int64(runs))
	var wg sync.WaitGroup
	for range min(workers, (runs-1)/chunk+1) {
		wg.Go(d.work)
	}
	wg.Wait()
	return d.report(begin)
}

// drawing is what the workers of one Random share.
type drawing[S, M any] struct {
	cfg        *Config[S, M]
	seed       uint64
	runs       int64
	horizon    horizons
	taken      atomic.Int64 // runs handed out
	first      atomic.Int64 // lowest run with a violation
	violations atomic.Int64
	made       atomic.Int64 // runs made
}

// horizons is how many effects a run usually has: those of the busiest process, and those of all.
type horizons struct{ one, all int }

// horizon measures the horizons in the most ordinary run. With other faults than crashes, that may be a run
// in which nothing happens: then horizon averages over some other runs.
func horizon[S, M any](cfg *Config[S, M]) horizons {
	bare := *cfg
	bare.Check, bare.Step, bare.Witness, bare.Claim = nil, nil, nil, nil
	w := newWorld(&bare)
	w.choices.fromScript(nil)
	_ = w.play() // if this violates something, so will a run
	h := w.busy()
	if !cfg.eventful() {
		return h
	}
	const samples = 64
	sum, n := h, 1
	for i := range uint64(samples) {
		w.horizon = horizons{sum.one / n, sum.all / n}
		if w.draw(mix(i), false) != nil {
			continue
		}
		if b := w.busy(); b.all > 0 {
			sum, n = horizons{sum.one + b.one, sum.all + b.all}, n+1
		}
	}
	return horizons{sum.one / n, sum.all / n}
}

// busy counts the effects of the run just made.
func (w *World[S, M]) busy() (h horizons) {
	for r := range w.procs {
		n := int(w.procs[r].effects())
		h.one, h.all = max(h.one, n), h.all+n
	}
	return h
}

// work makes runs until all are taken, or until a run that was made is a violation and all runs before it are
// taken.
func (d *drawing[S, M]) work() {
	w := newWorld(d.cfg)
	w.horizon = d.horizon
	for {
		from := d.taken.Add(chunk) - chunk
		if from >= d.runs || !d.cfg.KeepGoing && from > d.first.Load() {
			return
		}
		for i := from; i < min(from+chunk, d.runs); i++ {
			err := w.draw(runSeed(d.seed, int(i)), false)
			if made := d.made.Add(1); d.cfg.Progress != nil {
				d.cfg.Progress(int(made))
			}
			if err == nil {
				continue
			}
			d.violations.Add(1)
			for {
				first := d.first.Load()
				if i >= first || d.first.CompareAndSwap(first, i) {
					break
				}
			}
			if !d.cfg.KeepGoing {
				return
			}
		}
	}
}

// draw makes one run.
func (w *World[S, M]) draw(seed uint64, record bool) error {
	w.choices.fromSeed(seed, record)
	w.strategy.start(&w.choices)
	return w.play()
}

func (d *drawing[S, M]) report(begin time.Time) (Report, error) {
	r := Report{Schedules: uint64(d.runs), Violations: uint64(d.violations.Load())}
	first := d.first.Load()
	if first == d.runs {
		r.Seconds = time.Since(begin).Seconds()
		return r, nil
	}
	if !d.cfg.KeepGoing {
		r.Schedules, r.Violations = uint64(first)+1, 1
	}
	seed := runSeed(d.seed, int(first))
	w := newWorld(d.cfg)
	w.horizon = d.horizon
	if err := w.draw(seed, true); errors.Is(err, errSetup) {
		return Report{}, err
	}
	shorten := w.shrink
	if d.cfg.AsFound {
		shorten = w.replay
	}
	v := shorten(trimmed(w.choices.made))
	r.Seconds = time.Since(begin).Seconds()
	if v == nil {
		return r, fmt.Errorf("chaos: the violation of seed %d does not replay: the protocol or a check is not deterministic", seed)
	}
	v.Seed, v.Run, v.random = seed, int(first), true
	r.First = v
	return r, v
}
