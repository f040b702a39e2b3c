package coppice_test

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/coppice-go/coppice"
)

// Only the root gets the result. Elsewhere it is zero.
func ExampleReduce() {
	runExample(4, func(ctx context.Context, t *coppice.Task) error {
		sum, err := coppice.Reduce(ctx, t, t.Rank()+1, coppice.Sum, coppice.Root(2))
		if err != nil {
			return err
		}
		fmt.Println("task", t.Rank(), "has", sum)
		return nil
	})
	// Unordered output:
	// task 0 has 0
	// task 1 has 0
	// task 2 has 10
	// task 3 has 0
}

// A slice is combined element by element: here a sum and a count in one operation,
// of which every task makes the mean of all.
func ExampleAllReduce() {
	temperatures := [][]float64{{18, 20}, {25}, {19, 21, 23}}
	runExample(3, func(ctx context.Context, t *coppice.Task) error {
		var mine [2]float64
		for _, degrees := range temperatures[t.Rank()] {
			mine[0] += degrees
			mine[1]++
		}
		all, err := coppice.AllReduce(ctx, t, mine[:], coppice.Sum)
		if err != nil {
			return err
		}
		fmt.Printf("task %d: mean of %.0f is %.1f\n", t.Rank(), all[1], all[0]/all[1])
		return nil
	})
	// Unordered output:
	// task 0: mean of 6 is 21.0
	// task 1: mean of 6 is 21.0
	// task 2: mean of 6 is 21.0
}

// Each task has some lines and asks for the number of its first: those of the
// tasks up to it, less its own.
func ExampleScan() {
	lines := []int{10, 3, 7}
	runExample(3, func(ctx context.Context, t *coppice.Task) error {
		mine := lines[t.Rank()]
		last, err := coppice.Scan(ctx, t, mine, coppice.Sum)
		if err != nil {
			return err
		}
		fmt.Printf("task %d has lines %d to %d\n", t.Rank(), last-mine+1, last)
		return nil
	})
	// Unordered output:
	// task 0 has lines 1 to 10
	// task 1 has lines 11 to 13
	// task 2 has lines 14 to 20
}

// Each task has some records, and writes them behind those of the tasks before it.
func ExampleExScan() {
	records := []int{10, 3, 7}
	runExample(3, func(ctx context.Context, t *coppice.Task) error {
		first, err := coppice.ExScan(ctx, t, records[t.Rank()], coppice.Sum)
		if err != nil {
			return err
		}
		fmt.Printf("task %d writes %d records from number %d on\n", t.Rank(), records[t.Rank()], first)
		return nil
	})
	// Unordered output:
	// task 0 writes 10 records from number 0 on
	// task 1 writes 3 records from number 10 on
	// task 2 writes 7 records from number 13 on
}

// Each task has counted letters, and each adds up the counts of the letters that
// are its own.
func ExampleReduceScatter() {
	words := []string{"hazel", "alder", "larch"}
	letters := []string{"ae", "lr"} // by task
	runExample(2, func(ctx context.Context, t *coppice.Task) error {
		parts := make([][]int, t.Size())
		for r := range parts {
			for _, letter := range letters[r] {
				n := 0
				for i := t.Rank(); i < len(words); i += t.Size() {
					n += strings.Count(words[i], string(letter))
				}
				parts[r] = append(parts[r], n)
			}
		}
		sums, err := coppice.ReduceScatter(ctx, t, parts, coppice.Sum)
		if err != nil {
			return err
		}
		fmt.Printf("task %d: %s %d\n", t.Rank(), letters[t.Rank()], sums)
		return nil
	})
	// Unordered output:
	// task 0: ae [3 2]
	// task 1: lr [3 2]
}

// The function gets what comes from lower ranks on the left, so it need not
// commute; it must be associative.
func ExampleReduceFunc() {
	words := []string{"cut", "and", "grown", "again"}
	join := func(a, b string) string { return a + " " + b }
	runExample(4, func(ctx context.Context, t *coppice.Task) error {
		text, err := coppice.ReduceFunc(ctx, t, words[t.Rank()], join)
		if err == nil && t.Rank() == 0 {
			fmt.Println(text)
		}
		return err
	})
	// Output: cut and grown again
}

// The values are of any type: here sorted lists, which are merged.
func ExampleAllReduceFunc() {
	merge := func(a, b []string) []string {
		all := slices.Concat(a, b)
		slices.Sort(all)
		return slices.Compact(all)
	}
	seen := [][]string{{"ash", "oak"}, {"hazel"}, {"hazel", "oak"}}
	runExample(3, func(ctx context.Context, t *coppice.Task) error {
		trees, err := coppice.AllReduceFunc(ctx, t, seen[t.Rank()], merge)
		if err != nil {
			return err
		}
		fmt.Println("task", t.Rank(), "knows", trees)
		return nil
	})
	// Unordered output:
	// task 0 knows [ash hazel oak]
	// task 1 knows [ash hazel oak]
	// task 2 knows [ash hazel oak]
}

// An account with entries of many tasks: the balance after each task's entry, if
// interest is paid before it. Steps of the kind x → f·x + d combine to one more.
func ExampleScanFunc() {
	type step struct{ Factor, Add float64 }
	then := func(a, b step) step { return step{a.Factor * b.Factor, a.Add*b.Factor + b.Add} }
	entries := []float64{100, 0, -50}
	runExample(3, func(ctx context.Context, t *coppice.Task) error {
		s, err := coppice.ScanFunc(ctx, t, step{1.5, entries[t.Rank()]}, then)
		if err != nil {
			return err
		}
		fmt.Printf("after entry %d: %.0f\n", t.Rank(), s.Factor*200+s.Add) // it began with 200
		return nil
	})
	// Unordered output:
	// after entry 0: 400
	// after entry 1: 600
	// after entry 2: 850
}

// What comes before each task's words: task 0 gets the zero value.
func ExampleExScanFunc() {
	words := []string{"cut", "and", "grown", "again"}
	join := func(a, b string) string { return a + " " + b }
	runExample(4, func(ctx context.Context, t *coppice.Task) error {
		before, err := coppice.ExScanFunc(ctx, t, words[t.Rank()], join)
		if err != nil {
			return err
		}
		fmt.Printf("%q comes after %q\n", words[t.Rank()], before)
		return nil
	})
	// Unordered output:
	// "cut" comes after ""
	// "and" comes after "cut"
	// "grown" comes after "cut and"
	// "again" comes after "cut and grown"
}

// Each task sorts what it has by who is to have it, and gets the lists of all for
// it, merged.
func ExampleReduceScatterFunc() {
	merge := func(a, b []string) []string {
		all := slices.Concat(a, b)
		slices.Sort(all)
		return slices.Compact(all)
	}
	seen := [][]string{{"ash", "oak"}, {"hazel"}, {"hazel", "oak"}}
	runExample(3, func(ctx context.Context, t *coppice.Task) error {
		parts := make([][]string, t.Size())
		for _, tree := range seen[t.Rank()] {
			to := len(tree) % t.Size()
			parts[to] = append(parts[to], tree)
		}
		trees, err := coppice.ReduceScatterFunc(ctx, t, parts, merge)
		if err != nil {
			return err
		}
		fmt.Println("task", t.Rank(), "has", trees)
		return nil
	})
	// Unordered output:
	// task 0 has [ash oak]
	// task 1 has []
	// task 2 has [hazel]
}

// atRoot prints, at task 0 alone, what the values make together.
func atRoot[T coppice.Numeric](op coppice.Op, values ...T) {
	runExample(len(values), func(ctx context.Context, t *coppice.Task) error {
		v, err := coppice.Reduce(ctx, t, values[t.Rank()], op)
		if err == nil && t.Rank() == 0 {
			fmt.Println(v)
		}
		return err
	})
}

// An Op is a value and prints as its name. One that the numbers do not have is an
// error of the operation.
func ExampleOp() {
	for _, op := range []coppice.Op{coppice.Sum, coppice.Product, coppice.Xor} {
		fmt.Print(op, " of 2, 3 and 7: ")
		atRoot(op, 2, 3, 7)
	}
	atRoot(coppice.Xor, 2.5)
	// Output:
	// sum of 2, 3 and 7: 12
	// product of 2, 3 and 7: 42
	// xor of 2, 3 and 7: 6
	// task 0: reduce: xor of float64; allowed: sum, product, min, max
}

func ExampleOp_String() {
	fmt.Println(coppice.Sum, coppice.Product, coppice.Min, coppice.Max, coppice.And, coppice.Or, coppice.Xor)
	// Output: sum product min max and or xor
}

func ExampleSum() {
	atRoot(coppice.Sum, 0.5, 0.25, 0.125)
	// Output: 0.875
}

// The chance that all parts work.
func ExampleProduct() {
	atRoot(coppice.Product, 0.5, 0.5, 0.5)
	// Output: 0.125
}

// A NaN wins, so nobody takes a failed measurement for a small one.
func ExampleMin() {
	atRoot(coppice.Min, 3.5, 2.25, 4)
	atRoot(coppice.Min, 3.5, math.NaN(), 4)
	// Output:
	// 2.25
	// NaN
}

// Of slices every element for itself. With the negatives of some, one operation
// gives largest and smallest values.
func ExampleMax() {
	atRoot(coppice.Max, []int{3, -3}, []int{8, -8}, []int{5, -5})
	// Output: [8 -3]
}

// Which features does everybody have? A set of up to 64 things is a number.
func ExampleAnd() {
	const compression, encryption, resumption = 1, 2, 4
	atRoot(coppice.And, compression|encryption, encryption|resumption, encryption)
	// Output: 2
}

// Which of the days 0 to 6 is anybody away?
func ExampleOr() {
	atRoot(coppice.Or, []uint8{0, 1, 0, 0, 0, 0, 0}, []uint8{0, 1, 1, 0, 0, 0, 0}, []uint8{0, 0, 0, 0, 0, 0, 1})
	// Output: [0 1 1 0 0 0 1]
}

// The parity of three blocks: together with it, two of them tell the third.
func ExampleXor() {
	a, b, c := []byte("ash"), []byte("elm"), []byte("oak")
	runExample(3, func(ctx context.Context, t *coppice.Task) error {
		parity, err := coppice.Reduce(ctx, t, [][]byte{a, b, c}[t.Rank()], coppice.Xor)
		if err != nil || t.Rank() > 0 {
			return err
		}
		for i := range parity {
			parity[i] ^= a[i] ^ c[i] // b is lost
		}
		fmt.Printf("%s\n", parity)
		return nil
	})
	// Output: elm
}

// Types made of numbers, and of slices of numbers, are Numeric as well.
type (
	celsius float64
	levels  []float64
)

// A function for all that can be reduced. A slice of celsius is the one thing that
// cannot: say []float64, or levels.
func ExampleNumber() {
	atRoot(coppice.Min, celsius(19), celsius(23))
	// Output: 19
}

func ExampleNumeric() {
	atRoot(coppice.Max, celsius(19), celsius(23))
	atRoot(coppice.Max, levels{19, 5}, levels{18, 7})
	atRoot(coppice.Sum, 1+2i, 3-1i)
	// Output:
	// 23
	// [19 7]
	// (4+1i)
}

// findMost tells all tasks a value and where it is, and prints it at task 0.
func findMost[T cmp.Ordered](values []T, better func(a, b coppice.At[T]) coppice.At[T]) {
	runExample(len(values), func(ctx context.Context, t *coppice.Task) error {
		mine := coppice.At[T]{Value: values[t.Rank()], Rank: t.Rank()}
		most, err := coppice.AllReduceFunc(ctx, t, mine, better)
		if err == nil && t.Rank() == 0 {
			fmt.Printf("%v at task %d\n", most.Value, most.Rank)
		}
		return err
	})
}

// The task with the least to do gives its name to all others.
func ExampleAt() {
	load := []float64{0.7, 0.2, 0.9}
	runExample(3, func(ctx context.Context, t *coppice.Task) error {
		mine := coppice.At[float64]{Value: load[t.Rank()], Rank: t.Rank()}
		idlest, err := coppice.AllReduceFunc(ctx, t, mine, coppice.MinAt[float64])
		if err != nil {
			return err
		}
		name, err := coppice.Broadcast(ctx, t, fmt.Sprint("node", t.Rank()), coppice.Root(idlest.Rank))
		if err == nil && t.Rank() == 0 {
			fmt.Println(name, "is idle but for", idlest.Value)
		}
		return err
	})
	// Output: node1 is idle but for 0.2
}

// Of equal values that of the lower rank.
func ExampleMinAt() {
	findMost([]int{7, 3, 5, 3}, coppice.MinAt)
	// Output: 3 at task 1
}

func ExampleMaxAt() {
	findMost([]string{"ash", "oak", "elm"}, coppice.MaxAt)
	// Output: oak at task 1
}
