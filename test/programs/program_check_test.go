package programs_test

import (
	"math"
	"reflect"
	"slices"
	"testing"
)

func TestRandomProgramsHaveEverything(t *testing.T) {
	p := Random(1, 5, 2000)
	ops, large, empty := map[string]int{}, 0, 0
	for _, s := range p.Steps {
		ops[s.Op]++
		if s.Size*8 > 64<<10 {
			large++
		}
		if s.Size == 0 {
			empty++
		}
		if s.Root < 0 || s.Root >= p.Tasks || s.Size > largeSize {
			t.Errorf("%+v", s)
		}
	}
	for _, op := range Ops() {
		if ops[op] < 100 {
			t.Errorf("%s: %d times", op, ops[op])
		}
	}
	if large == 0 || empty == 0 {
		t.Errorf("%d large sizes, %d empty ones", large, empty)
	}
	if q := Random(1, 5, 2000); !reflect.DeepEqual(p, q) {
		t.Error("the same seed gives another program")
	}
	if q := Random(2, 5, 2000); reflect.DeepEqual(p.Steps, q.Steps) {
		t.Error("another seed gives the same program")
	}
}

// TestLengths: they differ, some are 0, and in reductions they are the same.
func TestLengths(t *testing.T) {
	p := Program{Tasks: 40, Seed: 3, Steps: []Step{{Op: AllToAll, Size: 9}, {Op: Gather, Size: 9}, {Op: Scan, Size: 9}, {Op: Gather}}}
	lengths := func(values [][]float64) []int {
		var all []int
		for _, v := range values {
			all = append(all, len(v))
		}
		slices.Sort(all)
		return slices.Compact(all)
	}
	value := func(step int) [][]float64 {
		return values(p.Tasks, func(task int) []float64 { return p.Value(step, task, 7) })
	}
	for name, got := range map[string][]int{"blocks": lengths(p.Blocks(0, 0, 7)), "values": lengths(value(1))} {
		if len(got) < 4 || got[0] != 0 || got[len(got)-1] != 9 {
			t.Errorf("%s of lengths %v", name, got)
		}
	}
	if got := lengths(value(2)); !slices.Equal(got, []int{9}) {
		t.Errorf("reductions of lengths %v", got)
	}
	if got := lengths(value(3)); !slices.Equal(got, []int{0}) {
		t.Errorf("size 0 gives lengths %v", got)
	}
}

// TestResults compares what tasks get with what they gave, operation by operation.
func TestResults(t *testing.T) {
	const n = 3
	digests := []uint64{10, 11, 12}
	p := Program{Tasks: n, Seed: 5}
	type result = [][]float64
	var v func(task int) []float64
	var b func(task int) result
	add := func(a, b []float64) []float64 { return sum(result{a, b}) }
	total := func() []float64 { return add(add(v(0), v(1)), v(2)) }
	cases := []struct {
		Step
		want func() []result
	}{
		{Step{Op: Barrier}, func() []result { return []result{nil, nil, nil} }},
		{Step{Op: Broadcast, Root: 1, Size: 2}, func() []result { return []result{{v(1)}, {v(1)}, {v(1)}} }},
		{Step{Op: Scatter, Root: 2, Size: 2}, func() []result { return []result{{b(2)[0]}, {b(2)[1]}, {b(2)[2]}} }},
		{Step{Op: Gather, Root: 1, Size: 2}, func() []result { return []result{nil, {v(0), v(1), v(2)}, nil} }},
		{Step{Op: AllGather, Size: 2}, func() []result { return slices.Repeat([]result{{v(0), v(1), v(2)}}, n) }},
		{Step{Op: AllToAll, Size: 2}, func() []result {
			return []result{{b(0)[0], b(1)[0], b(2)[0]}, {b(0)[1], b(1)[1], b(2)[1]}, {b(0)[2], b(1)[2], b(2)[2]}}
		}},
		{Step{Op: Reduce, Root: 2, Size: 2}, func() []result { return []result{{nil}, {nil}, {total()}} }},
		{Step{Op: AllReduce, Size: 2}, func() []result { return []result{{total()}, {total()}, {total()}} }},
		{Step{Op: Scan, Size: 2}, func() []result { return []result{{v(0)}, {add(v(0), v(1))}, {total()}} }},
		{Step{Op: ExScan, Size: 2}, func() []result { return []result{{nil}, {v(0)}, {add(v(0), v(1))}} }},
		{Step{Op: ReduceScatter, Size: 2}, func() []result {
			return []result{{add(add(b(0)[0], b(1)[0]), b(2)[0])}, {add(add(b(0)[1], b(1)[1]), b(2)[1])}, {add(add(b(0)[2], b(1)[2]), b(2)[2])}}
		}},
		{Step{Op: Shift, Shift: 1, Size: 2}, func() []result { return []result{{v(2)}, {v(0)}, {v(1)}} }},
		{Step{Op: Shift, Shift: 3, Size: 2}, func() []result { return []result{{v(0)}, {v(1)}, {v(2)}} }},
		{Step{Op: Save}, func() []result { return []result{nil, nil, nil} }},
		{Step{Op: Once, Size: 2}, func() []result { return []result{{v(0)}, {v(1)}, {v(2)}} }},
		{Step{Op: Split, Shift: 2, Size: 2}, func() []result { return []result{{add(v(2), v(0))}, {v(1)}, {v(2)}} }},
	}
	for _, c := range cases {
		p.Steps = append(p.Steps, c.Step)
	}
	for i, c := range cases {
		v = func(task int) []float64 { return p.Value(i, task, digests[task]) }
		b = func(task int) result { return p.Blocks(i, task, digests[task]) }
		if got, want := p.results(i, c.Step, digests), c.want(); !reflect.DeepEqual(got, want) {
			t.Errorf("%+v: got %v, want %v", c.Step, got, want)
		}
	}
}

// TestSumsTellTheAssociation: with Float, adding in another order gives other bits.
func TestSumsTellTheAssociation(t *testing.T) {
	for n := 4; n <= 9; n++ {
		p := Program{Tasks: n, Seed: uint64(n), Steps: []Step{{Op: AllReduce, Size: 30, Float: true}, {Op: AllReduce, Size: 30}}}
		for step, s := range p.Steps {
			v := values(n, func(task int) []float64 { return p.Value(step, task, 1) })
			chain := v[0]
			for _, w := range v[1:] {
				chain = sum([][]float64{chain, w})
			}
			if got := slices.Equal(sum(v), chain); got == s.Float {
				t.Errorf("%d tasks, %+v: a chain gives the same: %v", n, s, got)
			}
		}
	}
}

func TestCanonicalAssociation(t *testing.T) {
	big := math.Ldexp(1, 60)
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{3}, 3},
		{[]float64{1, big, -big}, 0},          // (0 1) 2
		{[]float64{1, 1, big, -big}, 2},       // (0 1) (2 3)
		{[]float64{1, big, 1, -big}, 0},       // both ones are lost
		{[]float64{1, 1, big, -big, 5}, 7},    // (0 1 2 3) 4
		{[]float64{big, 0, 0, 1, 5, -6}, big}, // ((0 1) (2 3)) (4 5)
	} {
		got := sum(values(len(c.values), func(task int) []float64 { return c.values[task : task+1] }))
		if got[0] != c.want {
			t.Errorf("%v: %v, want %v", c.values, got, c.want)
		}
	}
}

func TestDigestTellsResultsApart(t *testing.T) {
	seen := map[uint64]int{}
	for i, result := range [][][]float64{
		nil, {nil}, {nil, nil}, {{0}}, {{math.Copysign(0, -1)}}, {{0}, nil}, {nil, {0}}, {{0, 0}}, {{0}, {0}}, {{1}}, {{math.NaN()}},
	} {
		d := Digest(9, result...)
		if j, ok := seen[d]; ok {
			t.Errorf("results %d and %d have the same digest", i, j)
		}
		seen[d] = i
	}
	if Digest(9, []float64{}) != Digest(9, nil) {
		t.Error("an empty block is not as nil")
	}
}

// TestMistakesSpread: a wrong digest at one task after a step soon makes the digests of all tasks
// wrong.
func TestMistakesSpread(t *testing.T) {
	p := Random(8, 4, 60)
	right := p.Serial()
	q := p
	q.Steps = slices.Clone(p.Steps)
	q.Steps[20] = Step{Op: Shift, Shift: 1, Size: 1}
	wrong := q.Serial()
	for task := range right {
		if len(right[task]) != len(p.Steps) || right[task][19] != wrong[task][19] {
			t.Errorf("task %d differs before the step", task)
		}
		if right[task][59] == wrong[task][59] {
			t.Errorf("task %d is the same in the end", task)
		}
	}
}

func TestForksAreAwaitedOnce(t *testing.T) {
	p := Random(4, 3, 300)
	var awaited []int
	for i := range p.Steps {
		for _, f := range p.Due(i) {
			if f > i || i < len(p.Steps)-1 && i != f+p.Steps[f].Shift {
				t.Errorf("fork %d is awaited after step %d", f, i)
			}
			awaited = append(awaited, f)
		}
	}
	var forks []int
	for i, s := range p.Steps {
		if s.Op == Fork {
			forks = append(forks, i)
		}
	}
	if slices.Sort(awaited); !slices.Equal(awaited, forks) {
		t.Errorf("awaited %v, forks %v", awaited, forks)
	}
}

func TestSavedProgramsHaveTheirSaves(t *testing.T) {
	p := Random(4, 3, 300)
	before := slices.Clone(p.Steps)
	for _, saves := range []int{0, 1, 7, 400} {
		q := p.Saved(saves)
		if !slices.Equal(p.Steps, before) {
			t.Fatal("the program itself has changed")
		}
		counts := map[string]int{}
		for _, s := range q.Steps {
			counts[s.Op]++
		}
		if counts[Save] != saves || counts[Once] < 30 || len(q.Steps) != len(p.Steps)+saves+counts[Once] {
			t.Errorf("%d saves: %v in %d steps", saves, counts, len(q.Steps))
		}
		if again := p.Saved(saves); !reflect.DeepEqual(q, again) {
			t.Error("the same program has its saves elsewhere")
		}
		q.Serial()
	}
}

// A fork that is awaited after a Save would be in no epoch.
func TestForksEndBeforeTheNextSave(t *testing.T) {
	p := Random(4, 3, 300).Saved(40)
	cut := 0
	for i := range p.Steps {
		for _, f := range p.Due(i) {
			if slices.ContainsFunc(p.Steps[f:i+1], func(s Step) bool { return s.Op == Save }) {
				t.Errorf("fork %d is awaited after step %d, and there is a Save between", f, i)
			}
			if i+1 < len(p.Steps) && p.Steps[i+1].Op == Save {
				cut++
			}
		}
	}
	if cut == 0 {
		t.Error("no fork meets a Save")
	}
}

func TestTasksResumeAfterTheSave(t *testing.T) {
	p := Program{Steps: []Step{{Op: Barrier}, {Op: Save}, {Op: Save}, {Op: Scan}, {Op: Save}}}
	for epoch, want := range []int{0, 2, 3, 5, 5} {
		if got := p.Resumes(epoch); got != want {
			t.Errorf("epoch %d: step %d, want %d", epoch, got, want)
		}
	}
}

func BenchmarkSerial(b *testing.B) {
	for range b.N {
		p := Random(1, 5, 300)
		p.Serial()
	}
}
