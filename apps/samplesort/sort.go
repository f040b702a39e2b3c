// Package samplesort sorts keys and records that are spread over the tasks of a job, by sample sort as in
// section 3.7 of Stengler's thesis. It uses only the public API of package coppice, and has no code for
// failures: a task that is run again generates or reads its input again. Its API may change.
//
// No two elements are equal: elements of equal keys are ordered by the task that had them, then by their
// place there. So many equal keys are divided between tasks like any others, and records of equal keys stay
// in their order. Each task sorts what it has and sends every n/s-th element of it to task 0, s = [Samples];
// task 0 finds the greatest element of each part among these. With N elements in all, at most m of them at
// one task, no part has more than
//
//	⌈N/p⌉ + ⌊(N+m)/s⌋
//
// whatever the keys are ([Bound]).
package samplesort

import (
	"bytes"
	"cmp"
	"context"
	"runtime"
	"slices"
	"sort"

	"github.com/coppice-go/coppice"
)

// Form is the layout of elements in slices of E, and their order: [Keys] or a [Layout].
type Form[E any] interface {
	// width returns the number of E per element.
	width() int
	// sort sorts a run. It may use room, which is at least as long. It returns the sorted run and the
	// other memory.
	sort(run, room []E, workers int) (sorted, left []E)
	// merge merges sorted runs, which stay as they are, into room if that is enough. Of equal keys the
	// first run's come first.
	merge(runs [][]E, room []E, workers int) []E
	// key returns the key of an element, as bytes in the order of keys.
	key(element []E) []byte
	// disorder returns the first element whose key is less than the one before it, or 0 if there is none.
	disorder(part []E) int
	// sum adds up a hash of each element, which does not depend on their order.
	sum(all []E) uint64
}

// samples is what a task tells task 0 of its elements: the last one of each of several stretches of equal
// length.
type samples struct {
	Count int // of all elements
	Keys  [][]byte
}

// splitter identifies the last element of a part.
type splitter struct {
	Key   []byte
	Task  int // the task that had it; -1: the part and those before it are empty
	Index int // its place there, when sorted
}

// Samples returns how many elements a task samples, in a job of p tasks.
func Samples(p int) int { return max(256, 8*p) }

// Bound returns the greatest number of elements that a part can have, of n in all, if no task had more than
// m.
func Bound(n, m, p int) int { return (n+p-1)/p + (n+m)/Samples(p) }

// Sort sorts the elements of all tasks, and returns those of the task's part. mine and the result belong to
// the job from now on: the caller may only read the result.
func Sort[E any](ctx context.Context, t *coppice.Task, f Form[E], mine []E) ([]E, error) {
	workers := max(1, runtime.GOMAXPROCS(0)/t.Size()) // as if all tasks were on this host
	n := len(mine)/f.width() + 1
	most := Bound(t.Size()*n, n, t.Size()) // the largest part, if all tasks have as many elements
	mine, room := f.sort(mine, make([]E, len(mine), most*f.width()), workers)
	told, err := coppice.Gather(ctx, t, sample(f, mine, Samples(t.Size())))
	if err != nil {
		return nil, err
	}
	ends, err := coppice.Broadcast(ctx, t, choose(told))
	if err != nil {
		return nil, err
	}
	parts := divide(f, mine, ends, t.Rank())
	own := parts[t.Rank()] // is not sent
	parts[t.Rank()] = nil
	runs, err := coppice.AllToAll(ctx, t, parts, coppice.Shared())
	if err != nil {
		return nil, err
	}
	runs[t.Rank()] = own
	return f.merge(runs, room, workers), nil
}

// stretch returns where the i-th of s stretches of n elements ends.
func stretch(i, s, n int) int { return (i + 1) * n / s }

// sample takes s elements, or all if there are fewer.
func sample[E any](f Form[E], sorted []E, s int) samples {
	w := f.width()
	told := samples{Count: len(sorted) / w}
	s = min(s, told.Count)
	for i := range s {
		last := stretch(i, s, told.Count) - 1
		told.Keys = append(told.Keys, f.key(sorted[last*w:][:w]))
	}
	return told
}

// choose finds the last elements of all parts but the last. Each sample stands for its stretch, so the number
// of elements up to it is known, except for less than one stretch of each task.
func choose(told []samples) []splitter {
	type weighted struct {
		splitter
		count int
	}
	var all []weighted
	total := 0
	for task, s := range told {
		total += s.Count
		before := 0
		for i, key := range s.Keys {
			end := stretch(i, len(s.Keys), s.Count)
			all = append(all, weighted{splitter{key, task, end - 1}, end - before})
			before = end
		}
	}
	slices.SortFunc(all, func(a, b weighted) int {
		return cmp.Or(bytes.Compare(a.Key, b.Key), cmp.Compare(a.Task, b.Task), cmp.Compare(a.Index, b.Index))
	})
	ends := make([]splitter, max(len(told), 1)-1)
	last, sum := splitter{Task: -1}, 0
	for part := range ends {
		for len(all) > 0 && sum+all[0].count <= stretch(part, len(told), total) {
			last, sum = all[0].splitter, sum+all[0].count
			all = all[1:]
		}
		ends[part] = last
	}
	return ends
}

// divide cuts a sorted run of a task into parts.
func divide[E any](f Form[E], sorted []E, ends []splitter, task int) [][]E {
	parts := make([][]E, 0, len(ends)+1)
	at := 0
	for _, end := range ends {
		next := place(f, sorted, end, task) * f.width()
		parts = append(parts, sorted[at:next:next])
		at = next
	}
	return append(parts, sorted[at:])
}

// place returns how many elements of a task's sorted run do not come after a splitter.
func place[E any](f Form[E], sorted []E, end splitter, task int) int {
	switch {
	case end.Task < 0:
		return 0
	case end.Task == task:
		return end.Index + 1
	}
	w := f.width()
	return sort.Search(len(sorted)/w, func(i int) bool {
		c := bytes.Compare(f.key(sorted[i*w:][:w]), end.Key)
		return c > 0 || c == 0 && task > end.Task
	})
}
