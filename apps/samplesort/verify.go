package samplesort

import (
	"bytes"
	"context"
	"fmt"

	"github.com/coppice-go/coppice"
)

// Tally is the number of elements and the sum of their hashes, which do not depend on their order.
type Tally struct {
	Count int
	Sum   uint64
}

// Sorted is what task 0 knows about the parts after they have been verified.
type Sorted struct {
	Tally
	Largest, Smallest int // number of elements of a part
}

// Count returns the tally of elements.
func Count[E any](f Form[E], all []E) Tally {
	return Tally{len(all) / f.width(), f.sum(all)}
}

// summary describes a part to task 0.
type summary struct {
	Before, After Tally
	First, Last   []byte // keys
	Disorder      int    // the first element whose key is less than the one before; 0: none
}

// Verify checks at task 0 whether the parts of all tasks are in order and have the same elements as before,
// by their tally. before is the tally of this task's elements before sorting. Verify returns an error at task
// 0 if the check fails.
func Verify[E any](ctx context.Context, t *coppice.Task, f Form[E], before Tally, part []E) (Sorted, error) {
	all, err := coppice.Gather(ctx, t, summarize(f, before, part))
	if err != nil || t.Rank() != 0 {
		return Sorted{}, err
	}
	return check(all)
}

func summarize[E any](f Form[E], before Tally, part []E) summary {
	s := summary{Before: before, After: Count(f, part)}
	if len(part) == 0 {
		return s
	}
	w := f.width()
	s.First, s.Last = f.key(part[:w]), f.key(part[len(part)-w:])
	s.Disorder = f.disorder(part)
	return s
}

// check finds what is wrong with parts, by their summaries.
func check(all []summary) (sorted Sorted, err error) {
	var before Tally
	var last []byte
	sorted.Smallest = all[0].After.Count
	for task, s := range all {
		before.add(s.Before)
		sorted.add(s.After)
		sorted.Largest, sorted.Smallest = max(sorted.Largest, s.After.Count), min(sorted.Smallest, s.After.Count)
		if s.After.Count == 0 {
			continue
		}
		if s.Disorder != 0 {
			return sorted, fmt.Errorf("part %d is not in order, at element %d", task, s.Disorder)
		}
		if bytes.Compare(s.First, last) < 0 {
			return sorted, fmt.Errorf("part %d begins with a key below the last one before it", task)
		}
		last = s.Last
	}
	if sorted.Tally != before {
		return sorted, fmt.Errorf("%d elements with checksum %016x have become %d with %016x", before.Count, before.Sum, sorted.Count, sorted.Sum)
	}
	return sorted, nil
}

func (t *Tally) add(more Tally) {
	t.Count += more.Count
	t.Sum += more.Sum
}
