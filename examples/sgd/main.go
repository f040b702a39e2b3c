// Command sgd learns to tell two kinds of samples apart: logistic regression by stochastic
// gradient descent. In each step every task draws a few of its own samples with Task.Rand,
// and AllReduce adds up their gradients; so all tasks always have the same weights.
//
//	go run ./cmd/coppice run -n 4 -- go run ./examples/sgd
//	go run ./examples/sgd
//
// Every epoch of learning begins with Save, so it is also an epoch of the job, in which Task.Rand
// starts afresh, with numbers of its own. So a task whose process crashed draws the same samples when
// another process runs it again, and the weights are the same to the last bit. The line about the epoch
// in which the process of task 0 crashed may appear twice.
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
	"time"

	"github.com/coppice-go/coppice"
)

// settings determine the result, except for tell.
type settings struct {
	samples, dims, batch, epochs, tasks int

	rate float64
	tell func(epoch int, loss float64) // called by task 0 in each epoch
}

func main() {
	var s settings
	flag.IntVar(&s.samples, "samples", 20_000, "number of samples of all tasks")
	flag.IntVar(&s.dims, "dims", 8, "number of features of a sample")
	flag.IntVar(&s.batch, "batch", 32, "samples that each task draws in a step")
	flag.IntVar(&s.epochs, "epochs", 10, "number of epochs")
	flag.IntVar(&s.tasks, "tasks", 8, "number of tasks, at least one for each process at the start")
	flag.Float64Var(&s.rate, "rate", 0.5, "how far a step goes")
	pause := flag.Duration("pause", 0, "wait so long in each epoch")
	flag.Parse()
	if err := s.check(); err != nil {
		fmt.Fprintln(os.Stderr, "sgd:", err)
		os.Exit(2)
	}
	s.tell = func(epoch int, loss float64) {
		fmt.Printf("epoch %d: loss %.6f\n", epoch, loss)
		time.Sleep(*pause)
	}
	job := coppice.Job{Tasks: s.tasks}
	job.Main(s.program)
}

func (s *settings) check() error {
	switch {
	case s.tasks < 1:
		return fmt.Errorf("-tasks %d; allowed: 1 or more", s.tasks)
	case s.samples < s.tasks:
		return fmt.Errorf("-samples %d; allowed: %d or more, one for each task", s.samples, s.tasks)
	case s.dims < 1:
		return fmt.Errorf("-dims %d; allowed: 1 or more", s.dims)
	case s.batch < 1:
		return fmt.Errorf("-batch %d; allowed: 1 or more", s.batch)
	case s.epochs < 0:
		return fmt.Errorf("-epochs %d; allowed: 0 or more", s.epochs)
	case !(s.rate > 0) || math.IsInf(s.rate, 0):
		return fmt.Errorf("-rate %v; allowed: more than 0", s.rate)
	}
	return nil
}

func (s *settings) program(ctx context.Context, t *coppice.Task) error {
	learned, err := s.learn(ctx, t)
	if err != nil {
		return err
	}
	if t.Rank() == 0 {
		fmt.Printf("digest of the weights after %d epochs: %016x\n", learned.Epoch, digest(learned.Weights))
	}
	return nil
}

// state is all that changes from epoch to epoch.
type state struct {
	Epoch   int
	Weights []float64 // the last is that of a feature which is always 1
}

// learn returns, at all tasks, the weights that fit the samples of all of them.
func (s *settings) learn(ctx context.Context, t *coppice.Task) (now state, err error) {
	mine, err := coppice.Once(ctx, t, func(context.Context) (samples, error) {
		return s.part(t.Rank(), t.Size()), nil
	})
	if err != nil {
		return now, err
	}
	now.Weights = make([]float64, s.dims+1)
	steps := max(s.samples/(s.batch*t.Size()), 1)
	for ; now.Epoch < s.epochs; now.Epoch++ {
		if err := coppice.Save(ctx, t, &now); err != nil {
			return now, err // also ErrMoved: the task goes on elsewhere
		}
		for range steps {
			if err := s.step(ctx, t, mine, now.Weights); err != nil {
				return now, err
			}
		}
		sum, err := coppice.AllReduce(ctx, t, mine.loss(now.Weights), coppice.Sum)
		if err != nil {
			return now, err
		}
		if t.Rank() == 0 && s.tell != nil {
			s.tell(now.Epoch+1, sum/float64(s.samples))
		}
	}
	return now, nil
}

// step moves the weights against the gradient of the loss of some samples of each task.
func (s *settings) step(ctx context.Context, t *coppice.Task, mine samples, weights []float64) error {
	gradient := make([]float64, len(weights))
	for range s.batch {
		mine.gradient(t.Rand().IntN(len(mine.Kinds)), weights, gradient)
	}
	all, err := coppice.AllReduce(ctx, t, gradient, coppice.Sum)
	if err != nil {
		return err
	}
	for d, g := range all {
		weights[d] -= s.rate * g / float64(s.batch*t.Size())
	}
	return nil
}

// samples are the samples of one task: features, one sample after the other, and the kind of each, 0 or
// 1.
type samples struct {
	Features []float64
	Kinds    []float64
}

// seed makes the samples.
const seed = 11

// part returns one task's share of the samples. The set of all samples does not depend on the number of
// tasks.
func (s *settings) part(task, tasks int) (own samples) {
	for i := task * s.samples / tasks; i < (task+1)*s.samples/tasks; i++ {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		sum := 0.5 * random.NormFloat64() // which no weights can predict
		for d := range s.dims {
			x := random.NormFloat64()
			sum += x * float64(d%3-1)
			own.Features = append(own.Features, x)
		}
		kind := 0.0
		if sum > 0 {
			kind = 1
		}
		own.Kinds = append(own.Kinds, kind)
	}
	return own
}

// margin returns how strongly the weights take sample i for kind 1.
func (own samples) margin(i int, weights []float64) float64 {
	dims := len(weights) - 1
	sum := weights[dims]
	for d, x := range own.Features[i*dims : (i+1)*dims] {
		sum += x * weights[d]
	}
	return sum
}

// gradient adds the gradient of the loss of sample i to sum.
func (own samples) gradient(i int, weights, sum []float64) {
	dims := len(weights) - 1
	by := 1/(1+math.Exp(-own.margin(i, weights))) - own.Kinds[i]
	for d, x := range own.Features[i*dims : (i+1)*dims] {
		sum[d] += by * x
	}
	sum[dims] += by
}

// loss returns the sum of the losses of all samples: how improbable the weights make their kinds.
func (own samples) loss(weights []float64) (sum float64) {
	for i, kind := range own.Kinds {
		m := own.margin(i, weights)
		sum += math.Log1p(math.Exp(-math.Abs(m))) + max(m, 0) - kind*m
	}
	return sum
}

// digest distinguishes weights that differ in a single bit.
func digest(weights []float64) uint64 {
	h := fnv.New64a()
	_ = binary.Write(h, binary.LittleEndian, weights) // a hash takes anything
	return h.Sum64()
}
