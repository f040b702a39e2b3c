package samplesort

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// FuzzRadixAndMerge compares with slices.Sort: keys of few bits and of many, in pieces and merged.
func FuzzRadixAndMerge(f *testing.F) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, n := range []int{0, 1, 2, few, few + 1, 300, 3000} {
		for _, mask := range []uint64{0, 1, 0xff, 0xff00000000000f, 1 << 63, ^uint64(0)} {
			var b []byte
			for range n {
				b = binary.LittleEndian.AppendUint64(b, rng.Uint64()&mask)
			}
			f.Add(b, uint8(n))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, pieces uint8) {
		var all []uint64
		for ; len(b) >= 8; b = b[8:] {
			all = append(all, binary.LittleEndian.Uint64(b))
		}
		want := slices.Sorted(slices.Values(all))
		if got := Parallel(slices.Clone(all), int(pieces%9)); !slices.Equal(got, want) {
			t.Errorf("%v sorted by %d: %v", all, pieces%9, got)
		}
		var runs [][]uint64
		for i := range int(pieces) {
			run := slices.Clone(all[stretch(i-1, int(pieces), len(all)):stretch(i, int(pieces), len(all))])
			radix(run, make([]uint64, len(run)), false)
			runs = append(runs, run)
		}
		if pieces > 0 {
			if got := (Keys{}).merge(runs, make([]uint64, len(all)/2), 1+int(pieces%3)); !slices.Equal(got, want) {
				t.Errorf("%v in %d pieces: %v", all, pieces, got)
			}
		}
		entries := make([]entry, len(all))
		for i, k := range all {
			entries[i] = entry{k, uint64(i)}
		}
		radix(entries, make([]entry, len(all)), false)
		for i := 1; i < len(entries); i++ {
			if a, b := entries[i-1], entries[i]; a.prefix > b.prefix || a.prefix == b.prefix && a.at > b.at {
				t.Fatalf("%v before %v", a, b)
			}
		}
	})
}

// BenchmarkSort measures Parallel on one processor and on two, beside slices.Sort, slices.Sort on two
// processors, and a radix sort that first divides the keys between processors and needs no merging.
func BenchmarkSort(b *testing.B) {
	const n = 1 << 22
	all, err := Source{n, 1, "uniform"}.Load(b.Context(), 0, 1)
	if err != nil {
		b.Fatal(err)
	}
	bench := func(name string, sort func(keys []uint64) []uint64) {
		b.Run(name, func(b *testing.B) {
			spent := time.Duration(0)
			for b.Loop() {
				keys := slices.Clone(all)
				began := time.Now()
				sorted := sort(keys)
				if spent += time.Since(began); !slices.IsSorted(sorted) {
					b.Fatal("not sorted")
				}
			}
			b.ReportMetric(float64(spent.Nanoseconds())/float64(b.N)/n, "ns/key")
		})
	}
	bench("parallel-1", func(keys []uint64) []uint64 { return Parallel(keys, 1) })
	bench("parallel-2", func(keys []uint64) []uint64 { return Parallel(keys, 2) })
	bench("slices-1", func(keys []uint64) []uint64 { slices.Sort(keys); return keys })
	bench("slices-2", func(keys []uint64) []uint64 {
		halves := [][]uint64{keys[:n/2], keys[n/2:]}
		each(2, func(i int) { slices.Sort(halves[i]) })
		return merged(halves, nil, nil, mergeTwo(2))
	})
	bench("unmerged-2", func(keys []uint64) []uint64 { return unmerged(keys, 2) })
}

// unmerged sorts keys whose highest bits are evenly distributed.
func unmerged(a []uint64, workers int) []uint64 {
	const shift = 64 - digitBits
	room := make([]uint64, len(a))
	ends := make([][1 << digitBits]int, workers)
	piece := func(i int) []uint64 { return a[stretch(i-1, workers, len(a)):stretch(i, workers, len(a))] }
	each(workers, func(i int) {
		for _, k := range piece(i) {
			ends[i][k>>shift]++
		}
	})
	at := 0
	for d := range ends[0] {
		for i := range ends {
			at, ends[i][d] = at+ends[i][d], at
		}
	}
	each(workers, func(i int) {
		for _, k := range piece(i) {
			room[ends[i][k>>shift]] = k
			ends[i][k>>shift]++
		}
	})
	var next atomic.Int64
	each(workers, func(int) {
		for d := next.Add(1) - 1; d < 1<<digitBits; d = next.Add(1) - 1 {
			lo, hi := 0, ends[workers-1][d]
			if d > 0 {
				lo = ends[workers-1][d-1]
			}
			radix(room[lo:hi], a[lo:hi], true)
		}
	})
	return a
}
