package detection

import (
	"errors"
	"fmt"
	"slices"

	"github.com/coppice-go/coppice/protocol"
)

// What must hold.
var (
	ErrHealthy = errors.New("a healthy process was evicted")
	ErrMissed  = errors.New("a process that is out of reach was not evicted in time")
	ErrHosts   = errors.New("more than one host was evicted")
)

// evicted lists the processes that the majority has evicted, or that have ended without a majority.
func (w *World) evicted() (ranks []int) {
	for r, p := range w.procs {
		out := p.out != 0
		for _, q := range w.procs {
			if _, in := q.view.Find(protocol.Rank(r)); !in && q.out == 0 {
				out = true
			}
		}
		if out {
			ranks = append(ranks, r)
		}
	}
	return ranks
}

// Nobody checks that no process was evicted.
func (w *World) Nobody() error {
	if who := w.evicted(); len(who) > 0 {
		return fmt.Errorf("%w: %v", ErrHealthy, who)
	}
	return nil
}

// Only checks that no process except these was evicted.
func (w *World) Only(ranks []int) error {
	who := w.evicted()
	for _, r := range who {
		if !slices.Contains(ranks, r) {
			return fmt.Errorf("%w: %v, of whom only %v are out of reach", ErrHealthy, who, ranks)
		}
	}
	return nil
}

// Exactly checks that these processes were evicted, and no others, and that the others opened their last view
// by the given moment.
func (w *World) Exactly(ranks []int, by protocol.Time) error {
	if err := w.Only(ranks); err != nil {
		return err
	}
	if who := w.evicted(); len(who) < len(ranks) {
		return fmt.Errorf("%w: %v of %v were", ErrMissed, who, ranks)
	}
	for r, p := range w.procs {
		if slices.Contains(ranks, r) {
			continue
		}
		if n := len(p.opened); n == 0 || p.opened[n-1] > by {
			return fmt.Errorf("%w: process %d opened views at %v, allowed: by %v", ErrMissed, r, p.opened, by)
		}
	}
	return nil
}

// OneHost checks that exactly the processes of one of two hosts were evicted, by the given moment.
func (w *World) OneHost(hosts [2]int, by protocol.Time) error {
	var of [2][]int
	for r, p := range w.procs {
		for i, host := range hosts {
			if p.host == host {
				of[i] = append(of[i], r)
			}
		}
	}
	first := w.Exactly(of[0], by)
	second := w.Exactly(of[1], by)
	if first != nil && second != nil {
		return fmt.Errorf("%w: %w; %w", ErrHosts, first, second)
	}
	return nil
}

// history returns what became of each process, a line each.
func (w *World) history() (text string) {
	for r, p := range w.procs {
		text += fmt.Sprintf("process %d on host %d: view %v, opened at %v, out %v\n", r, p.host, p.view, p.opened, p.out)
		for _, e := range p.said {
			text += "  " + e + "\n"
		}
	}
	return text
}
