package samplesort

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/coppicetest"
)

// origin loads a task's elements.
type origin[E any] interface {
	Load(ctx context.Context, i, n int) ([]E, error)
}

// uneven is elements that a test assigns to tasks.
type uneven[E any] [][]E

func (u uneven[E]) Load(_ context.Context, i, _ int) ([]E, error) { return slices.Clone(u[i]), nil }

// counted counts how often tasks ran.
type counted struct {
	Source
	loads atomic.Int32
}

func (c *counted) Load(ctx context.Context, i, n int) ([]uint64, error) {
	c.loads.Add(1)
	return c.Source.Load(ctx, i, n)
}

// parts sorts in a job, and returns the parts and what task 0 found in them.
func parts[E any](t *testing.T, job coppice.Job, f Form[E], from origin[E], kills ...string) ([][]E, Sorted) {
	t.Helper()
	var mu sync.Mutex
	var all [][]E
	var sorted Sorted
	err := job.Run(coppicetest.WithKills(t.Context(), kills...), func(ctx context.Context, task *coppice.Task) error {
		mine, err := from.Load(ctx, task.Rank(), task.Size())
		if err != nil {
			return err
		}
		before := Count(f, mine)
		part, err := Sort(ctx, task, f, mine)
		if err != nil {
			return err
		}
		found, err := Verify(ctx, task, f, before, part)
		mu.Lock()
		defer mu.Unlock()
		if all == nil {
			all = make([][]E, task.Size())
		}
		all[task.Rank()] = slices.Clone(part)
		if task.Rank() == 0 {
			sorted = found
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all, sorted
}

// wantKeys compares parts with the input sorted by slices.Sort, and with the bound.
func wantKeys(t *testing.T, name string, got [][]uint64, sorted Sorted, from origin[uint64], p int) {
	t.Helper()
	var want []uint64
	m := 0
	for i := range p {
		some, _ := from.Load(t.Context(), i, p)
		want = append(want, some...)
		m = max(m, len(some))
	}
	slices.Sort(want)
	if !slices.Equal(slices.Concat(got...), want) {
		t.Errorf("%s, %d tasks: not sorted", name, p)
	}
	largest, smallest := 0, len(want)
	for _, part := range got {
		largest, smallest = max(largest, len(part)), min(smallest, len(part))
	}
	if (sorted != Sorted{Count(Keys{}, want), largest, smallest}) {
		t.Errorf("%s, %d tasks: %+v is told of parts of %d to %d", name, p, sorted, smallest, largest)
	}
	if bound := Bound(len(want), m, p); largest > bound {
		t.Errorf("%s, %d tasks: a part of %d; the bound is %d", name, p, largest, bound)
	}
}

func TestAllDistributionsAreSortedAndBalanced(t *testing.T) {
	for _, distribution := range Distributions {
		for _, c := range []struct{ count, p int }{{20000, 1}, {20000, 2}, {19999, 3}, {20001, 8}, {1000, 5}, {3, 5}, {0, 3}} {
			s := Source{c.count, 7, distribution}
			got, sorted := parts(t, coppice.Job{Local: c.p}, Keys{}, s)
			wantKeys(t, distribution, got, sorted, s, c.p)
		}
	}
}

// TestTasksMayHaveAnyNumberOfKeys: none, a few, or all of them.
func TestTasksMayHaveAnyNumberOfKeys(t *testing.T) {
	many, _ := Source{10000, 3, "zipf"}.Load(t.Context(), 0, 1)
	for name, u := range map[string]uneven[uint64]{
		"all at the first": {many, nil, nil},
		"all at the last":  {nil, nil, nil, many},
		"one else":         {many, {5}, nil, many[:300]},
		"one":              {nil, {5}, nil},
	} {
		got, sorted := parts(t, coppice.Job{Local: len(u)}, Keys{}, u)
		wantKeys(t, name, got, sorted, u, len(u))
	}
}

// TestEqualKeysAreDivided: parts of equal keys are of nearly equal size, which splitters by keys alone cannot
// achieve.
func TestEqualKeysAreDivided(t *testing.T) {
	got, sorted := parts(t, coppice.Job{Local: 4}, Keys{}, Source{40000, 1, "equal"})
	if sorted.Smallest < 9000 || len(got[0]) < 9000 {
		t.Errorf("parts of %d to %d", sorted.Smallest, sorted.Largest)
	}
}

// gensort returns records of 100 bytes: a key of 10, then the record's number.
func gensort(rng *rand.Rand, n, different int) []byte {
	var all []byte
	for i := range n {
		k := rng.IntN(different)
		all = fmt.Appendf(all, "%10d%090d", k*k, i)
	}
	return all
}

// TestRecordsOfEqualKeysStayInOrder compares with a stable sort.
func TestRecordsOfEqualKeysStayInOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, l := range []Layout{{100, 10}, {100, 3}, {20, 20}, {5, 1}, {8, 8}} {
		for _, p := range []int{1, 2, 3, 6} {
			var u uneven[byte]
			for i := range p {
				all := gensort(rng, 200*i, 300)
				u = append(u, all[:len(all)/l.Size*l.Size])
			}
			got, _ := parts(t, coppice.Job{Local: p}, l, u)
			want := slices.Collect(slices.Chunk(slices.Concat(u...), l.Size))
			slices.SortStableFunc(want, func(a, b []byte) int { return slices.Compare(a[:l.Key], b[:l.Key]) })
			if !slices.Equal(slices.Concat(got...), slices.Concat(want...)) {
				t.Errorf("%+v, %d tasks: not sorted", l, p)
			}
		}
	}
}

// phases are the operations of a verified sort, in order.
var phases = []string{"gather#1", "broadcast#1", "alltoall#1", "gather#2"}

// TestEveryDeathIsSurvived crashes each process in turn, in every phase.
func TestEveryDeathIsSurvived(t *testing.T) {
	s := Source{2000, 5, "zipf"}
	for p := 2; p <= 5; p++ {
		for victim := range p {
			for _, phase := range phases {
				for _, step := range []string{"", "/1", "/2"} {
					kill := fmt.Sprintf("%d@%s%s", victim, phase, step)
					from := &counted{Source: s}
					got, sorted := parts(t, coppice.Job{Local: p}, Keys{}, from, kill)
					if step == "" && from.loads.Load() <= int32(p) {
						t.Errorf("%d tasks, %s: %d loads; nobody was run again", p, kill, from.loads.Load())
					}
					wantKeys(t, kill, got, sorted, s, p)
				}
			}
		}
	}
}

// TestMostDeathsAreSurvived crashes two processes, and all but one, in random phases; some parts are large
// enough to be lent.
func TestMostDeathsAreSurvived(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, p := range []int{3, 4, 8, 8} {
		for _, victims := range []int{2, p - 1} {
			s := Source{rng.IntN(400_000), seed, Distributions[rng.IntN(len(Distributions))]}
			var kill []string
			for _, v := range rng.Perm(p)[:victims] {
				kill = append(kill, fmt.Sprintf("%d@%s/%d", v, phases[rng.IntN(len(phases))], 1+rng.IntN(3)))
			}
			got, sorted := parts(t, coppice.Job{Local: p}, Keys{}, s, kill...)
			wantKeys(t, fmt.Sprintf("seed %d: %+v, %v", seed, s, kill), got, sorted, s, p)
		}
	}
}

func TestRecordsSurviveDeaths(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	u := uneven[byte]{gensort(rng, 500, 90), gensort(rng, 300, 90), nil, gensort(rng, 900, 90)}
	l := Layout{100, 10}
	want, _ := parts(t, coppice.Job{Local: 4}, l, u)
	for _, kill := range [][]string{{"0@alltoall#1"}, {"0@gather#2", "3@broadcast#1"}, {"1@gather#1", "2@alltoall#1/2", "3@gather#2"}} {
		if got, _ := parts(t, coppice.Job{Local: 4}, l, u, kill...); !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("%v: other parts", kill)
		}
	}
}

func TestWrongPartsAreFound(t *testing.T) {
	key := func(k uint64) []byte { return binary.BigEndian.AppendUint64(nil, k) }
	good := []summary{
		{Before: Tally{3, 30}, After: Tally{2, 10}, First: key(1), Last: key(4)},
		{Before: Tally{0, 0}, After: Tally{0, 0}},
		{Before: Tally{1, 5}, After: Tally{2, 25}, First: key(4), Last: key(9)},
	}
	if got, err := check(good); err != nil || got != (Sorted{Tally{4, 35}, 2, 0}) {
		t.Fatal(got, err)
	}
	for want, change := range map[string]func(all []summary){
		"part 0 is not in order": func(all []summary) { all[0].Disorder = 1 },
		"part 2 begins with":     func(all []summary) { all[2].First = key(3) },
		"have become 5":          func(all []summary) { all[2].After.Count++ },
		"0000000000000024":       func(all []summary) { all[0].After.Sum++ },
	} {
		bad := slices.Clone(good)
		change(bad)
		if _, err := check(bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is wanted, got %v", want, err)
		}
	}
	if s := summarize(Keys{}, Tally{}, []uint64{1, 5, 4}); s.Disorder != 2 {
		t.Error("keys that are not in order:", s.Disorder)
	}
}

func TestWrongSourcesAreRefused(t *testing.T) {
	for _, s := range []Source{{-1, 0, "uniform"}, {1, 0, "normal"}} {
		if s.Check() == nil {
			t.Errorf("%+v", s)
		}
	}
}
