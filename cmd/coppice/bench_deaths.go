package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/coppice-go/coppice/model"
)

// What the benchmarks share that kill processes: what a job tells, and how deaths are
// summed up.

// deathLine is what a process or a task writes about a death.
type deathLine interface {
	about() (rank, death int) // death: which, from 0
}

// deathSink takes the lines of all processes of a job.
type deathSink[L deathLine] struct {
	n     int             // processes
	ready []chan struct{} // by death: closed when all are ready for it
	who   string          // writes the lines
	heed  func(L)         // with mu held

	mu    sync.Mutex
	lines lineWriter
	pids  map[int]int
	seen  []map[int]L // by death and rank
}

// begin is for a job of n processes and so many deaths.
func (s *deathSink[L]) begin(n, deaths int, who string, heed func(L)) {
	s.n, s.who, s.heed, s.pids = n, who, heed, map[int]int{}
	for range deaths {
		s.ready = append(s.ready, make(chan struct{}))
		s.seen = append(s.seen, map[int]L{})
	}
}

func (s *deathSink[L]) pid(rank int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pids[rank]
}

func (s *deathSink[L]) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lines.each(text, s.take)
}

// take reads a JSON document.
func (s *deathSink[L]) take(line []byte) error {
	var l L
	err := json.Unmarshal(line, &l)
	if rank, death := l.about(); err != nil || rank < 0 || rank >= s.n || death < 0 || death >= len(s.seen) {
		return fmt.Errorf("line %q of a %s; want what it saw", line, s.who)
	}
	s.heed(l)
	return nil
}

// medianOf is the median of a figure of some deaths.
func medianOf[D any](deaths []D, figure func(D) float64) float64 {
	return model.Median(each(deaths, figure))
}

// p99Of is what 99 of 100 deaths do not exceed.
func p99Of[D any](deaths []D, figure func(D) float64) float64 {
	sorted := slices.Sorted(slices.Values(each(deaths, figure)))
	return sorted[(len(sorted)*99+99)/100-1]
}

func each[D any](deaths []D, figure func(D) float64) (all []float64) {
	for _, d := range deaths {
		all = append(all, figure(d))
	}
	return all
}
