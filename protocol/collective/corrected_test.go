package collective

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// everyForest calls f for the layouts of many groups.
func everyForest(f func(c forest)) {
	for p := 1; p <= 40; p++ {
		for failures := range 6 {
			for root := range Rank(p) {
				for _, flat := range []bool{false, true} {
					f(newForest(p, failures, root, flat))
				}
			}
		}
	}
}

// Groups are as large as the paper says, and each task is in one of them, at a place that it shares with no other.
func TestTasksOfCorrectedReductionsAreInOneGroup(t *testing.T) {
	everyForest(func(c forest) {
		in := make([]int, c.p)
		for place := -1; place < c.places(); place++ {
			group := c.group(place)
			if want := c.size; place >= 0 && len(group) != want || place < 0 && len(group) != 1+(c.p-1)%c.size {
				t.Fatalf("%+v: group %d is %v", c, place, group)
			}
			if !slices.IsSorted(group) {
				t.Fatalf("%+v: group %d is %v", c, place, group)
			}
			for tree, r := range group {
				in[r]++
				k, j := c.at(r)
				if k != place || place >= 0 && (j != tree || c.task(k, j) != r) {
					t.Fatalf("%+v: task %d is in place %d of tree %d, not in group %d", c, r, k, j, place)
				}
			}
		}
		if place, _ := c.at(c.root); place >= 0 || slices.ContainsFunc(in, func(n int) bool { return n != 1 }) {
			t.Fatalf("%+v: the root is in group %d, tasks are in %v groups", c, place, in)
		}
	})
}

// Every place is below the root on one way, and what is under one is what its children
// have under them.
func TestTreesOfCorrectedReductionsHaveAllPlaces(t *testing.T) {
	everyForest(func(c forest) {
		sum := 0
		for _, k := range c.children(-1) {
			sum += c.under(k)
		}
		if sum != c.places() {
			t.Fatalf("%+v: %d places below the root, want %d", c, sum, c.places())
		}
		for k := range c.places() {
			sum, next := 1, k+1
			for _, below := range c.children(k) {
				if c.parent(below) != k || below != next {
					t.Fatalf("%+v: place %d below %d has the parent %d", c, below, k, c.parent(below))
				}
				sum, next = sum+c.under(below), below+c.under(below)
			}
			if sum != c.under(k) {
				t.Fatalf("%+v: %d places under %d, want %d", c, c.under(k), k, sum)
			}
		}
	})
}

// What a tree sends is few values, though the groups in it are no blocks.
func TestTreesOfCorrectedReductionsSendFewBlocks(t *testing.T) {
	for p := 2; p <= 2000; p += 37 {
		for failures := 1; failures < 4; failures++ {
			c := newForest(p, failures, Rank(p/2), false)
			most := 2
			for n := 1; n < p; n *= 2 {
				most += 2
			}
			if got := len(c.blocks(0, 0)); c.places() > 0 && got > most {
				t.Errorf("%+v: %d blocks, want %d at most", c, got, most)
			}
		}
	}
}

// corrections are the corrected reductions among p tasks.
func corrections(p int) (all []Spec) {
	for _, op := range []Op{Reduce, AllReduce} {
		for _, a := range []Algorithm{Corrected, CorrectedFlat} {
			for failures := range 4 {
				for _, root := range []int{0, p / 3, p - 1} {
					all = append(all, Spec{Op: op, Algorithm: a, P: p, Root: Rank(root), Failures: failures})
				}
			}
		}
	}
	return all
}

func TestCorrectedReductionsHaveTheCanonicalAssociation(t *testing.T) {
	for p := 1; p <= 34; p++ {
		for i, spec := range corrections(p) {
			c, err := newCarrier(spec, []int{0, 8, 200}[i%3])
			if err != nil {
				t.Fatal(err)
			}
			c.byRef, c.late = i%2 == 0, i%3 == 0
			for _, c.keeps = range []bool{false, true} {
				if err := inOrder(c); err != nil {
					t.Errorf("%+v: %v", spec, err)
				}
			}
		}
	}
}

// Memory is lent and given back in any schedule, without deaths; chaos/reduction has
// those.
func TestCorrectedReductionsDeliverTheSerialResultInRandomSchedules(t *testing.T) {
	for p := 2; p <= 9; p++ {
		t.Run(fmt.Sprint(p), func(t *testing.T) {
			var all []*carrier
			for i, spec := range corrections(p) {
				c, err := newCarrier(spec, []int{0, 8, 24}[i%3])
				if err != nil {
					t.Fatal(err)
				}
				c.byRef, c.late = i%2 == 0, i%5 < 2
				all = append(all, c)
			}
			cfg := carriedBy(all, 0)
			drawn(t, cfg, uint64(p), runsOf(20*len(all)))
			cfg.Reorder = true
			drawn(t, cfg, uint64(p)+100, runsOf(20*len(all)))
		})
	}
}

func TestCorrectedReductionsRefuse(t *testing.T) {
	for want, spec := range map[string]Spec{
		"scan by corrected; allowed: reduce, allreduce":           {Op: Scan, Algorithm: Corrected, P: 3},
		"corrected-flat against 65 failures; allowed: 0 to 64":    {Op: Reduce, Algorithm: CorrectedFlat, P: 3, Failures: 65},
		"corrected against -1 failures; allowed: 0 to 64":         {Op: Reduce, Algorithm: Corrected, P: 3, Failures: -1},
		"allreduce by corrected in 2 pieces; allowed: in one":     {Op: AllReduce, Algorithm: Corrected, P: 3, Spans: 2},
		"root 3; allowed: 0 to 2":                                 {Op: AllReduce, Algorithm: Corrected, P: 3, Root: 3},
		"allreduce among 0 tasks; allowed: 1 to 32768":            {Op: AllReduce, Algorithm: Corrected},
		"broadcast by corrected-flat; allowed: reduce, allreduce": {Op: Broadcast, Algorithm: CorrectedFlat, P: 3},
	} {
		if _, err := New(spec); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if all := fmt.Sprint(Algorithms(Spec{Op: Reduce, P: 8, AnyOrder: true}), Algorithms(Spec{Op: AllReduce, P: 8, AnyOrder: true})); strings.Contains(all, "corrected") {
		t.Errorf("%s: who does not ask for it gets a corrected one", all)
	}
}
