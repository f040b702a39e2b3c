package reduction

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-go/coppice/chaos"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/collective"
)

// leftOut removes the steps for which is reports true.
func leftOut(is func(collective.Step) bool) func(*reducing, protocol.Rank, *collective.Program) {
	return func(_ *reducing, _ protocol.Rank, g *collective.Program) {
		g.Steps = slices.DeleteFunc(slices.Clone(g.Steps), is)
	}
}

// every changes all steps.
func every(change func(*collective.Step)) func(*reducing, protocol.Rank, *collective.Program) {
	return func(_ *reducing, _ protocol.Rank, g *collective.Program) {
		g.Steps = slices.Clone(g.Steps)
		for i := range g.Steps {
			change(&g.Steps[i])
		}
	}
}

// atRoot makes a mistake at the root only.
func atRoot(plant func(*reducing, protocol.Rank, *collective.Program)) func(*reducing, protocol.Rank, *collective.Program) {
	return func(c *reducing, r protocol.Rank, g *collective.Program) {
		if r == c.spec.Root {
			plant(c, r, g)
		}
	}
}

var plantedInReductions = []struct {
	name  string
	op    collective.Op
	p, f  int
	want  string
	plant func(c *reducing, r protocol.Rank, g *collective.Program)
}{
	{"nobody waits for its group", collective.Reduce, 5, 1, "without the input", leftOut(func(st collective.Step) bool {
		return st.Kind == collective.RecvStep && st.May
	})},
	{"groups are too small by one", collective.Reduce, 7, 2, "for lost", func(c *reducing, r protocol.Rank, g *collective.Program) {
		smaller := c.spec
		smaller.Failures--
		schedule, _ := collective.New(smaller)
		*g = schedule.Program(r)
	}},
	{"the root hears one tree", collective.Reduce, 5, 1, "for lost", atRoot(func(_ *reducing, _ protocol.Rank, g *collective.Program) {
		g.Steps = slices.Clone(g.Steps)
		for i := range g.Steps { // of two
			if st := &g.Steps[i]; st.Kind == collective.RecvStep && st.Void {
				st.Or = false
				g.Steps = slices.Delete(g.Steps, i+1, i+3)
				break
			}
		}
	})},
	{"who lost a child sends what it has", collective.Reduce, 7, 1, "without the input", func(c *reducing, r protocol.Rank, g *collective.Program) {
		if r != c.spec.Root {
			every(func(st *collective.Step) {
				st.May = st.May || st.Kind == collective.RecvStep && st.Whole
				st.Whole = false
			})(c, r, g)
		}
	}},
	{"who lost a child says nothing", collective.Reduce, 7, 1, "did not deliver", leftOut(func(st collective.Step) bool {
		return st.Kind == collective.SendStep && st.Void
	})},
	{"what is void counts as a value", collective.Reduce, 7, 1, "without the input", every(func(st *collective.Step) {
		if st.Kind == collective.RecvStep {
			st.Void = false
		}
	})},
	{"the order of operands is forgotten", collective.Reduce, 4, 1, "canonical", every(func(st *collective.Step) { st.Before = false })},
	{"the root adds a tree twice", collective.Reduce, 5, 1, "canonical", atRoot(func(_ *reducing, _ protocol.Rank, g *collective.Program) {
		i := slices.IndexFunc(g.Steps, func(st collective.Step) bool { return st.Kind == collective.FoldStep && st.Whole })
		g.Steps = slices.Insert(slices.Clone(g.Steps), i, g.Steps[i])
	})},
	{"death excuses nobody of a group", collective.Reduce, 4, 1, "did not deliver", every(func(st *collective.Step) { st.May = false })},
	{"nobody corrects", collective.AllReduce, 7, 1, "did not deliver", leftOut(func(st collective.Step) bool { return st.Fix })},
	{"the result is waited for from the parent", collective.AllReduce, 7, 1, "did not deliver", every(func(st *collective.Step) { st.Any = false })},
	{"everybody takes its own result", collective.AllReduce, 3, 2, "", func(c *reducing, r protocol.Rank, g *collective.Program) {
		own, _ := collective.New(collective.Spec{Op: collective.Reduce, Algorithm: collective.Corrected, P: c.spec.P, Root: r, Failures: c.spec.Failures})
		*g = own.Program(r)
	}},
	{"who has the result does not pass it on", collective.AllReduce, 7, 1, "did not deliver", func(c *reducing, r protocol.Rank, g *collective.Program) {
		at := slices.IndexFunc(g.Steps, func(st collective.Step) bool { return st.Any })
		if at >= 0 {
			g.Steps = slices.DeleteFunc(slices.Clone(g.Steps), func(st collective.Step) bool {
				return st.Kind == collective.SendStep && st.Lane == g.Steps[at].Lane
			})
		}
	}},
}

func TestChaosFindsMistakesPlantedInCorrectedReductions(t *testing.T) {
	for _, m := range plantedInReductions {
		t.Run(m.name, func(t *testing.T) {
			spec := collective.Spec{Op: m.op, Algorithm: collective.Corrected, P: m.p, Root: 1, Failures: m.f}
			c, err := newReducing(spec)
			if err != nil {
				t.Fatal(err)
			}
			r := Attack{Spec: spec, Failed: m.f, Crashes: m.f + 1}
			if _, err := chaos.Random(r.of(c), 1, 5000, 0); err != nil {
				t.Fatal("before anything is planted:", err)
			}
			for r := range c.programs {
				m.plant(c, protocol.Rank(r), &c.programs[r])
			}
			_, err = chaos.Random(r.of(c), 1, 100_000, 0)
			if err == nil || !strings.Contains(err.Error(), m.want) {
				t.Errorf("found: %v; want: %q", err, m.want)
			}
		})
	}
}

// The input of a process that crashes may be in the result or not, and the runs show both.
func TestInputsOfTheDeadAreInTheResultOrNot(t *testing.T) {
	seen := map[bool]bool{}
	spec := collective.Spec{Op: collective.AllReduce, Algorithm: collective.Corrected, P: 5, Failures: 1}
	c, err := newReducing(spec)
	if err != nil {
		t.Fatal(err)
	}
	cfg := Attack{Spec: spec, Crashes: 1}.of(c)
	check := cfg.Check
	cfg.Check = func(w *reducedWorld) error {
		for r := range protocol.Rank(w.P()) {
			if got, _ := delivered(w, 0); got != nil && w.Crashed(r) {
				seen[got.ranks>>r&1 == 1] = true
			}
		}
		return check(w)
	}
	if _, err := chaos.Random(cfg, 3, 2000, 1); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(seen) != "map[false:true true:true]" {
		t.Errorf("in the result: %v", seen)
	}
}
