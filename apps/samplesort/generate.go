package samplesort

import (
	"context"
	"fmt"
	"math"
	"strings"
)

// Source generates pseudo-random keys: all tasks together have Count of them, and any range of them can be
// generated again.
type Source struct {
	Count        int
	Seed         uint64
	Distribution string // one of Distributions
}

// Distributions are the ways in which keys may be distributed:
//
//	uniform  all 64 bits at random
//	zipf     up to 2^20, key k about 1/k as often as key 1
//	few      ten different ones
//	equal    all the same
//	sorted   the numbers from 0 on
//	reverse  the same, from the last one down
var Distributions = []string{"uniform", "zipf", "few", "equal", "sorted", "reverse"}

// zipfMax is the greatest key of that distribution.
const zipfMax = 1 << 20

// key returns a function that returns the i-th key.
func (s Source) key() (func(i int) uint64, error) {
	random := func(i int) uint64 { return mix(s.Seed + uint64(i)*golden) }
	switch s.Distribution {
	case "uniform":
		return random, nil
	case "zipf":
		return func(i int) uint64 { return uint64(math.Exp(float64(random(i)>>11) / (1 << 53) * math.Log(zipfMax))) }, nil
	case "few":
		return func(i int) uint64 { return random(i) % 10 }, nil
	case "equal":
		return func(int) uint64 { return s.Seed }, nil
	case "sorted":
		return func(i int) uint64 { return uint64(i) }, nil
	case "reverse":
		return func(i int) uint64 { return uint64(s.Count - 1 - i) }, nil
	}
	return nil, fmt.Errorf("distribution %q; allowed: %s", s.Distribution, strings.Join(Distributions, ", "))
}

// Check returns what is wrong with a source.
func (s Source) Check() error {
	if s.Count < 0 {
		return fmt.Errorf("%d keys; allowed: 0 or more", s.Count)
	}
	_, err := s.key()
	return err
}

// Load returns the keys of task i of n.
func (s Source) Load(ctx context.Context, i, n int) ([]uint64, error) {
	key, err := s.key()
	if err != nil {
		return nil, err
	}
	lo, hi := stretch(i-1, n, s.Count), stretch(i, n, s.Count)
	all := make([]uint64, hi-lo)
	for k := range all {
		if k%(1<<20) == 0 && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		all[k] = key(lo + k)
	}
	return all, nil
}

// golden is 2^64 divided by the golden ratio: its multiples are spread evenly.
const golden = 0x9e3779b97f4a7c15

// mix is the finalizer of splitmix64: each bit of the result depends on all of x.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
