package samplesort

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
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

// BenchmarkSort is the sort of one process on one processor and on two, beside slices.Sort.
func BenchmarkSort(b *testing.B) {
	const n = 1 << 21
	all, err := Source{n, 1, "uniform"}.Load(b.Context(), 0, 1)
	if err != nil {
		b.Fatal(err)
	}
	bench := func(name string, sort func(keys []uint64)) {
		b.Run(name, func(b *testing.B) {
			spent := time.Duration(0)
			for b.Loop() {
				keys := slices.Clone(all)
				began := time.Now()
				sort(keys)
				spent += time.Since(began)
			}
			b.ReportMetric(float64(spent.Nanoseconds())/float64(b.N)/n, "ns/key")
		})
	}
	for _, workers := range []int{1, 2} {
		bench(fmt.Sprintf("radix-%d", workers), func(keys []uint64) { Parallel(keys, workers) })
	}
	bench("slices", slices.Sort[[]uint64])
}
