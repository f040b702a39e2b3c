// Command kmeans finds the centers of clouds of points that are spread over all tasks: it repeatedly
// assigns every point to its nearest center, and moves every center to the middle of its points. A
// round is one AllReduce, of the sums of all tasks.
//
//	go run ./cmd/coppice run -n 4 -- go run ./examples/kmeans
//	go run ./examples/kmeans
//
// Every round begins with Save: if the process of a task crashes, another process continues the task in
// the same round, and processes that join take tasks over. With -pause there is time to try it:
//
//	coppice run -n 2 --grow 6 -- ./kmeans -rounds 200 -pause 50ms
//	coppice join -n 6
//
// The number of tasks does not depend on the number of processes, so the result is the same to the last
// bit however many processes there are, join and leave.
package main

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"github.com/coppice-go/coppice"
)

// settings determine the result, except for rest.
type settings struct {
	points, k, dims, rounds, tasks int

	rest func(s *state) // called by task 0 in each round
}

func main() {
	var s settings
	flag.IntVar(&s.points, "points", 20_000, "number of points of all tasks")
	flag.IntVar(&s.k, "k", 5, "number of centers")
	flag.IntVar(&s.dims, "dims", 2, "number of coordinates of a point")
	flag.IntVar(&s.rounds, "rounds", 20, "number of rounds")
	flag.IntVar(&s.tasks, "tasks", 8, "number of tasks, at least one for each process at the start")
	pause := flag.Duration("pause", 0, "wait so long in each round, and tell of it")
	flag.Parse()
	if err := s.check(); err != nil {
		fmt.Fprintln(os.Stderr, "kmeans:", err)
		os.Exit(2)
	}
	s.rest = func(now *state) {
		if *pause > 0 {
			fmt.Printf("rounds: %d, inertia: %.3f\n", now.Round, now.Inertia)
			time.Sleep(*pause)
		}
	}
	job := coppice.Job{Tasks: s.tasks}
	job.Main(s.program)
}

func (s *settings) check() error {
	switch {
	case s.tasks < 1:
		return fmt.Errorf("-tasks %d; allowed: 1 or more", s.tasks)
	case s.dims < 1:
		return fmt.Errorf("-dims %d; allowed: 1 or more", s.dims)
	case s.rounds < 0:
		return fmt.Errorf("-rounds %d; allowed: 0 or more", s.rounds)
	case s.k < 1 || s.k > s.points/s.tasks:
		return fmt.Errorf("-k %d; allowed: 1 to %d, the points of a task", s.k, s.points/s.tasks)
	}
	return nil
}

func (s *settings) program(ctx context.Context, t *coppice.Task) error {
	found, err := s.cluster(ctx, t)
	if err != nil {
		return err
	}
	if t.Rank() == 0 {
		fmt.Print(found.show(s.dims))
	}
	return nil
}

// state is all that changes from round to round.
type state struct {
	Round   int
	Centers []float64 // one after the other
	Inertia float64   // the sum of the squares of all distances, before the centers last moved
}

// cluster returns, at all tasks, the centers of the points of all of them.
func (s *settings) cluster(ctx context.Context, t *coppice.Task) (now state, err error) {
	// The points stand for data that is read from outside, once: if the task is run again, it gets them
	// from a process that has a copy.
	points, err := coppice.Once(ctx, t, func(context.Context) ([]float64, error) {
		return s.part(t.Rank(), t.Size()), nil
	})
	if err != nil {
		return now, err
	}
	first := points[:s.k*s.dims] // task 0's count
	if now.Centers, err = coppice.Broadcast(ctx, t, first); err != nil {
		return now, err
	}
	for ; now.Round < s.rounds; now.Round++ {
		if err := coppice.Save(ctx, t, &now); err != nil {
			return now, err // also ErrMoved: the task goes on elsewhere
		}
		if t.Rank() == 0 && s.rest != nil {
			s.rest(&now)
		}
		sums, err := coppice.AllReduce(ctx, t, s.assign(points, now.Centers), coppice.Sum)
		if err != nil {
			return now, err
		}
		s.move(&now, sums)
	}
	return now, nil
}

// seed makes the points.
const seed = 7

// part returns one task's share of the points. The set of all points does not depend on the number of
// tasks.
func (s *settings) part(task, tasks int) (points []float64) {
	for i := task * s.points / tasks; i < (task+1)*s.points/tasks; i++ {
		points = append(points, s.point(i)...)
	}
	return points
}

// point returns one of the points: near one of k places.
func (s *settings) point(i int) []float64 {
	own := rand.New(rand.NewPCG(seed, 1+uint64(i)))
	place := rand.New(rand.NewPCG(seed<<32, own.Uint64N(uint64(s.k))))
	at := make([]float64, s.dims)
	for d := range at {
		at[d] = 100*place.Float64() + 5*own.NormFloat64()
	}
	return at
}

// assign gives every point to the nearest center. It returns for each center the sum of its
// points and how many there are, and at the end the inertia.
func (s *settings) assign(points, centers []float64) []float64 {
	sums := make([]float64, s.k*(s.dims+1)+1)
	for ; len(points) > 0; points = points[s.dims:] {
		c, square := nearest(points[:s.dims], centers)
		of := sums[c*(s.dims+1):]
		for d, x := range points[:s.dims] {
			of[d] += x
		}
		of[s.dims]++
		sums[len(sums)-1] += square
	}
	return sums
}

// nearest returns the center nearest to a point, and the square of its distance. Of several the first
// counts.
func nearest(point, centers []float64) (c int, least float64) {
	least = math.Inf(1)
	for i := range len(centers) / len(point) {
		square := 0.0
		for d, x := range point {
			by := x - centers[i*len(point)+d]
			square += by * by
		}
		if square < least {
			c, least = i, square
		}
	}
	return c, least
}

// move puts every center that has points into the middle of them. The centers get new memory: at first
// they are in that of task 0's points, since a root gets what it passed.
func (s *settings) move(now *state, sums []float64) {
	now.Centers = slices.Clone(now.Centers)
	for c := range s.k {
		of := sums[c*(s.dims+1) : (c+1)*(s.dims+1)]
		if of[s.dims] == 0 {
			continue
		}
		for d := range s.dims {
			now.Centers[c*s.dims+d] = of[d] / of[s.dims]
		}
	}
	now.Inertia = sums[len(sums)-1]
}

// show formats the result.
func (now state) show(dims int) string {
	text := ""
	for c := 0; c < len(now.Centers); c += dims {
		text += fmt.Sprintf("center %.3f\n", now.Centers[c:c+dims])
	}
	return text + fmt.Sprintf("inertia %.3f after %d rounds; digest %016x\n", now.Inertia, now.Round, now.digest())
}

// digest distinguishes results that differ in a single bit.
func (now state) digest() uint64 {
	h := fnv.New64a()
	_ = binary.Write(h, binary.LittleEndian, now.Centers) // a hash takes anything
	_ = binary.Write(h, binary.LittleEndian, now.Inertia)
	return h.Sum64()
}
