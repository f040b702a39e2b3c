package samplesort

import (
	"encoding/binary"
	"sort"
	"sync"
)

// Keys is the form of 64-bit keys.
type Keys struct{}

// Parallel sorts keys in this process, on the given number of processors, as a baseline for a job of several
// processes.
func Parallel(all []uint64, workers int) []uint64 {
	sorted, _ := Keys{}.sort(all, make([]uint64, len(all)), max(1, workers))
	return sorted
}

func (Keys) width() int { return 1 }

func (Keys) key(element []uint64) []byte { return binary.BigEndian.AppendUint64(nil, element[0]) }

func (Keys) disorder(part []uint64) int {
	for i := 1; i < len(part); i++ {
		if part[i] < part[i-1] {
			return i
		}
	}
	return 0
}

func (Keys) sum(all []uint64) (sum uint64) {
	for _, key := range all {
		sum += mix(key + golden)
	}
	return sum
}

// sort sorts a piece for each worker and merges the pieces.
func (Keys) sort(run, room []uint64, workers int) (sorted, left []uint64) {
	pieces := make([][]uint64, workers)
	each(workers, func(i int) {
		lo, hi := stretch(i-1, workers, len(run)), stretch(i, workers, len(run))
		pieces[i] = run[lo:hi]
		radix(pieces[i], room[lo:hi], false)
	})
	sorted = merged(pieces, room, run, mergeTwo(workers))
	if len(sorted) > 0 && &sorted[0] == &room[0] {
		return sorted, run
	}
	return run, room
}

func (Keys) merge(runs [][]uint64, room []uint64, workers int) []uint64 {
	return merged(runs, room, nil, mergeTwo(workers))
}

// mergeTwo merges two runs, a piece for each worker.
func mergeTwo(workers int) func(dst, a, b []uint64) {
	return func(dst, a, b []uint64) {
		each(workers, func(i int) {
			lo, hi := stretch(i-1, workers, len(dst)), stretch(i, workers, len(dst))
			fromA, toA := share(a, b, lo), share(a, b, hi)
			mergeKeys(dst[lo:hi], a[fromA:toA], b[lo-fromA:hi-toA])
		})
	}
}

// each calls a function for each worker.
func each(workers int, do func(i int)) {
	if workers == 1 {
		do(0)
		return
	}
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() { do(i) })
	}
	wg.Wait()
}

// share returns how many of the n smallest keys of two runs are in the first. Of equal keys the first run's
// come first.
func share(a, b []uint64, n int) int {
	least := max(0, n-len(b))
	return least + sort.Search(min(n, len(a))-least, func(i int) bool { return b[n-least-i-1] < a[least+i] })
}

// mergeKeys merges two runs. It has no branch on which run the next key comes from, since that is
// unpredictable.
func mergeKeys(dst, a, b []uint64) {
	for len(a) > 0 && len(b) > 0 {
		n := min(len(a), len(b)) // keys before a run can end
		i, j := 0, 0
		for k := range dst[:n] {
			x, y := a[i], b[j]
			fromB := 0
			if y < x {
				fromB = 1
			}
			dst[k] = min(x, y)
			i, j = i+1-fromB, j+fromB
		}
		dst, a, b = dst[n:], a[i:], b[j:]
	}
	copy(dst, a)
	copy(dst[len(a):], b)
}
