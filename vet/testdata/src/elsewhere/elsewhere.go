// Package elsewhere has functions of which other packages know facts.
package elsewhere

import (
	"context"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"time"

	"github.com/coppice-go/coppice"
)

// Timer has fields that depend on the clock, and one that does not.
type Timer struct {
	Began time.Time
	Count int
}

// Stamp depends on the clock.
func Stamp() int64 { return time.Now().UnixNano() }

// Start sets what depends on the clock, in a field.
func (t *Timer) Start() { t.Began = time.Now() }

// Shuffled depends on the global generator.
func Shuffled(n int) []int { return rand.Perm(n) }

// Keys has the order of a map.
func Keys(m map[string]int) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	return keys
}

// Any has the order of a map of a type parameter, or of a channel.
func Any[M ~map[K]V, C ~chan K, K comparable, V any](m M, c C) (keys []K) {
	for k := range m {
		keys = append(keys, k)
	}
	return append(keys, <-c)
}

// Twice depends on its argument alone.
func Twice(n int) int {
	fmt.Fprintln(os.Stderr, time.Now())
	return 2 * n
}

// Must ends the process.
func Must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// Share passes its argument to an operation.
func Share(ctx context.Context, t *coppice.Task, v int64) error {
	_, err := coppice.Broadcast(ctx, t, v)
	return err
}

// Maybe calls an operation only sometimes.
func Maybe(ctx context.Context, t *coppice.Task, yes bool) error {
	if yes {
		return coppice.Barrier(ctx, t)
	}
	return nil
}

// Checkpoint saves.
func Checkpoint(ctx context.Context, t *coppice.Task, round *int) error {
	return coppice.Save(ctx, t, round)
}
