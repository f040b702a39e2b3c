package collective

import (
	"fmt"
	"slices"
	"testing"

	"github.com/coppice-go/coppice/internal/plant"
)

// trial carries out a program with terms instead of values: what is received is named after its sender. A step that is
// spared combines nothing; without backups none is spared.
type trial struct {
	terms map[int]string // by step: what it combines
	sent  []string
	out   string
	folds int // that were carried out
}

func (g *Program) try(backed func(step int) bool, terms map[int]string) trial {
	slots := make([]string, g.Slots)
	for _, in := range g.In {
		slots[in] = "mine"
	}
	t := trial{terms: map[int]string{}}
	for i, st := range g.Steps {
		switch st.Kind {
		case SendStep:
			t.sent = append(t.sent, slots[st.Slots[0]])
		case RecvStep:
			slots[st.Slots[0]] = fmt.Sprintf("%d/%d", st.Peer, st.Lane)
		case FoldStep:
			at := st.Slots[0]
			switch {
			case backed != nil && g.Spared(i, backed):
				if slots[at] = "nothing"; backed(i) {
					slots[at] = terms[i]
				}
			case st.Before:
				slots[at] = "(" + slots[st.With[0]] + slots[at] + ")"
				t.folds++
			default:
				slots[at] = "(" + slots[at] + slots[st.With[0]] + ")"
				t.folds++
			}
			t.terms[i] = slots[at]
		}
	}
	for _, out := range g.Out {
		t.out += slots[out]
	}
	return t
}

// TestBackupsSpareOnlyWhatNobodyNeeds tries every set of backups, in all programs that have some: what
// is sent and what results is the same as without.
func TestBackupsSpareOnlyWhatNobodyNeeds(t *testing.T) {
	programs, trials, spared := 0, 0, 0
	for _, op := range []Op{Reduce, AllReduce, Scan, ExScan} {
		for p := 2; p <= 9; p++ {
			for _, a := range Algorithms(Spec{Op: op, P: p, AnyOrder: true}) {
				c, err := New(Spec{Op: op, Algorithm: a, P: p, AnyOrder: true})
				if err != nil {
					t.Fatal(err)
				}
				for r := range p {
					g := c.Program(Rank(r))
					if g.Segments != 1 {
						continue
					}
					programs++
					n, s := g.trySets(t, fmt.Sprintf("%v by %v among %d, task %d", op, a, p, r))
					trials += n
					spared += s
				}
			}
		}
	}
	again := Program{ // what the first Fold makes is needed after the second
		In: []int32{0}, Slots: 3, Segments: 1,
		Steps: []Step{
			{Kind: RecvStep, Slots: []int32{1}, Peer: 1},
			{Kind: FoldStep, Slots: []int32{1}, With: []int32{0}, Keep: true},
			{Kind: RecvStep, Slots: []int32{2}, Peer: 2},
			{Kind: FoldStep, Slots: []int32{2}, With: []int32{1}, Keep: true},
			{Kind: SendStep, Slots: []int32{2}},
			{Kind: SendStep, Slots: []int32{1}},
		},
	}
	again.trySets(t, "one that needs an operand again")
	if spared == 0 {
		t.Error("no backup ever spares a step that has none itself")
	}
	t.Logf("%d programs, %d sets of backups", programs, trials)
}

// trySets tries all sets of backups of a program, and counts steps that are spared without one.
func (g *Program) trySets(t *testing.T, name string) (trials, spared int) {
	t.Helper()
	want := g.try(nil, nil)
	var folds []int
	for i := range g.Steps {
		if g.Steps[i].Kind == FoldStep {
			folds = append(folds, i)
		}
	}
	for set := range 1 << len(folds) {
		backups := 0
		backed := func(step int) bool { return set>>slices.Index(folds, step)&1 == 1 }
		for _, f := range folds {
			if backed(f) {
				backups++
			}
		}
		got := g.try(backed, want.terms)
		if got.out != want.out || !slices.Equal(got.sent, want.sent) {
			t.Fatalf("=> %s, with backups of %b: sends %q and results in %q; want %q and %q", name, set, got.sent, got.out, want.sent, want.out)
		}
		trials++
		spared += want.folds - got.folds - backups
	}
	return trials, spared
}

// TestKeeperIsDone: what a task combines is kept by the one whose value it has received last.
func TestKeeperIsDone(t *testing.T) {
	c, err := New(Spec{Op: Reduce, Algorithm: Flat, P: 3})
	if err != nil {
		t.Fatal(err)
	}
	g := c.Program(0)
	for i := range g.Steps {
		last, any := Rank(0), false
		for _, st := range g.Steps[:i] {
			if st.Kind == RecvStep {
				last, any = st.Peer, true
			}
		}
		if r, ok := g.Keeper(i); ok != any || r != last {
			t.Errorf("step %d: task %d, %v; want %d, %v", i, r, ok, last, any)
		}
	}
}

// TestMistakesInBackupsAreFound plants mistakes in what is spared.
func TestMistakesInBackupsAreFound(t *testing.T) {
	const test = "^TestBackupsSpareOnlyWhatNobodyNeeds$"
	(&plant.Garden{Machine: ".", Package: "collective", Healthy: test, Tests: []string{"backup_test.go"}, Mistakes: []plant.Mistake{
		{
			Name: "what is sent is spared", File: "backup.go",
			Old: `slices.Contains(st.With, at):
			return false`,
			New: `slices.Contains(st.With, at):
			return wrong("what is sent is spared")`,
			Test: test, By: []string{"=> "},
		},
		{
			Name: "what is needed again is spared", File: "backup.go",
			Old:  `== at && !st.Keep:`,
			New:  `== at && (!st.Keep || wrong("what is needed again is spared")):`,
			Test: test, By: []string{"=> "},
		},
		{
			Name: "the result is spared", File: "backup.go",
			Old: `	}
	return false
}`,
			New: `	}
	return wrong("the result is spared")
}`,
			Test: test, By: []string{"=> "},
		},
	}}).Find(t)
}
