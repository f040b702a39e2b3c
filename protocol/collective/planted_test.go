package collective

import (
	"cmp"
	"slices"
	"testing"

	"github.com/coppice-go/coppice/chaos"
)

// nth is the i-th step of a kind in a program, counted from 0; from the end if
// negative.
func (g *Program) nth(kind StepKind, i int) int {
	var at []int
	for j := range g.Steps {
		if g.Steps[j].Kind == kind {
			at = append(at, j)
		}
	}
	if i < 0 {
		i += len(at)
	}
	return at[i]
}

// move takes a step from one place to another.
func (g *Program) move(from, to int) {
	st := g.Steps[from]
	g.Steps = slices.Insert(slices.Delete(g.Steps, from, from+1), to, st)
}

// at makes the mistake of one task.
func at(r Rank, change func(g *Program)) func(int, Rank, *Program) {
	return func(_ int, self Rank, g *Program) {
		if self == r {
			change(g)
		}
	}
}

// reused makes programs receive into the slots they last sent.
func reused(_ int, _ Rank, g *Program) {
	rename := map[int32]int32{}
	name := func(slots []int32) {
		for i, s := range slots {
			for rename[s] != 0 {
				s = rename[s]
			}
			slots[i] = s
		}
	}
	var sent []int32
	for i := range g.Steps {
		st := &g.Steps[i]
		name(st.Slots)
		if st.Kind == SendStep {
			sent = st.Slots
		}
		if st.Kind == RecvStep {
			for j, s := range st.Slots {
				rename[s] = sent[j]
			}
			name(st.Slots)
		}
	}
	name(g.Out)
}

// oneLane lets all messages have the same lane.
func oneLane(_ int, _ Rank, g *Program) {
	for i := range g.Steps {
		g.Steps[i].Lane = 0
	}
}

var plantedMistakes = []struct {
	name    string
	spec    Spec
	want    string
	byRef   bool
	mistake mistake
}{
	{"task 2 sends up on the lane for down", Spec{Op: AllReduce, Algorithm: Binomial}, "does not wait for lane", false, mistake{
		program: at(2, func(g *Program) { g.Steps[g.nth(SendStep, 0)].Lane = laneDown }),
	}},
	{"task 0 folds in the wrong order", Spec{Op: Reduce, Algorithm: Binomial}, "value 0 is", false, mistake{
		program: at(0, func(g *Program) { g.Steps[g.nth(FoldStep, -1)].Before = true }),
	}},
	{"the root folds one after the other", Spec{Op: Reduce, Algorithm: Flat}, "value 0 is", false, mistake{
		program: at(0, func(g *Program) {
			steps := slices.DeleteFunc(g.Steps, func(st Step) bool { return st.Kind == FoldStep })
			for v := int32(1); int(v) < g.Slots; v++ {
				steps = slices.Insert(steps, len(steps)-1, Step{Kind: FoldStep, Slots: []int32{0}, With: []int32{v}})
			}
			g.Steps = steps
		}),
	}},
	{"a fold is written to what was sent", Spec{Op: AllReduce, Algorithm: Doubling}, "value 0 is", true, mistake{unlends: true}},
	{"a result that others still read is the user's", Spec{Op: AllGather, Algorithm: Ring}, "was written", true, mistake{unlends: true}},
	{"what came by reference is written", Spec{Op: Reduce, Algorithm: Binomial}, "was written", true, mistake{owns: true}},
	{"memory that was sent is used again", Spec{Op: AllReduce, Algorithm: Doubling, P: 3}, "changed on its way", true, mistake{reuses: true}},
	{"the root sends a Down before the last Up", Spec{Op: AllReduce, Algorithm: Hub}, "value 0 is", false, mistake{
		program: at(0, func(g *Program) { g.move(g.nth(SendStep, -1), g.nth(RecvStep, -1)) }),
	}},
	{"Bruck with reused slots", Spec{Op: AllToAll, Algorithm: Bruck}, "value", false, mistake{program: reused}},
	{"task 1 delivers before its last receive", Spec{Op: AllGather, Algorithm: Bruck}, "value", false, mistake{
		program: at(1, func(g *Program) { g.move(g.nth(DeliverStep, 0), g.nth(RecvStep, -1)) }),
	}},
	{"who has all delivers and sends no more", Spec{Op: AllReduce, Algorithm: Binomial}, "delivered 0 times", false, mistake{quits: true}},
	{"what comes early is dropped", Spec{Op: AllReduce, Algorithm: Rabenseifner}, "delivered 0 times", false, mistake{forgets: true}},
	{"a round is taken for another", Spec{Op: AllGather, Algorithm: Ring}, "value", false, mistake{program: oneLane}},
	{"a message goes to the first step of its sender", Spec{Op: AllReduce, Algorithm: Rabenseifner}, "", false, mistake{mislays: true}},
	{"tasks do not wait for their users", Spec{Op: AllGather, Algorithm: Direct}, "value", false, mistake{uninvited: true}},
	{"tasks do not wait for their work", Spec{Op: Reduce, Algorithm: Binomial}, "", false, mistake{hasty: true}},
	{"a scan writes the operand it needs again", Spec{Op: Scan, Algorithm: Doubling}, "value 0 is", false, mistake{
		program: func(_ int, _ Rank, g *Program) {
			for i := range g.Steps {
				g.Steps[i].Keep = false
			}
		},
	}},
	{"an exclusive scan writes its result", Spec{Op: ExScan, Algorithm: Doubling}, "value 0 is", false, mistake{
		program: func(_ int, _ Rank, g *Program) {
			for i := range g.Steps {
				g.Steps[i].Keep = false
			}
		},
	}},
	{"a reduce-scatter combines before its last receive", Spec{Op: ReduceScatter, Algorithm: Direct}, "value 0 is", false, mistake{
		program: at(2, func(g *Program) { g.move(g.nth(FoldStep, -1), g.nth(RecvStep, -1)) }),
	}},
	{"the hub combines what is for another", Spec{Op: ReduceScatter, Algorithm: Hub}, "value 0 is", false, mistake{
		program: at(0, func(g *Program) { g.Steps[g.nth(FoldStep, 0)].With[0]++ }),
	}},
	{"the root takes a segment for another", Spec{Op: Reduce, Algorithm: Rabenseifner}, "value 0 is", false, mistake{
		program: at(0, func(g *Program) {
			a, b := g.nth(RecvStep, -1), g.nth(RecvStep, -2)
			g.Steps[a].Slots, g.Steps[b].Slots = g.Steps[b].Slots, g.Steps[a].Slots
		}),
	}},
	{"task 1 passes a segment on that it does not have", Spec{Op: Broadcast, Algorithm: ScatterAllGather}, "", false, mistake{
		program: at(1, func(g *Program) { g.move(g.nth(SendStep, 1), g.nth(RecvStep, 1)) }),
	}},
	{"tasks that wait name themselves", Spec{Op: Gather, Algorithm: Flat}, "who is not the reason", false, mistake{misleads: true}},
}

func TestChaosFindsMistakesPlantedInSchedules(t *testing.T) {
	for _, m := range plantedMistakes {
		t.Run(m.name, func(t *testing.T) {
			m.spec.P = cmp.Or(m.spec.P, 4)
			var all []*carrier
			for _, rooms := range []bool{false, true} {
				k, err := newCarrier(m.spec, 32)
				if err != nil {
					t.Fatal(err)
				}
				if m.mistake.program != nil {
					for r := range k.programs {
						m.mistake.program(k.P, Rank(r), &k.programs[r])
					}
				}
				k.mistake, k.byRef, k.late, k.rooms = m.mistake, m.byRef, m.mistake.hasty, rooms
				all = append(all, k)
			}
			cfg := carriedBy(all, 1)
			cfg.Reorder = true
			_, err := chaos.Random(cfg, 1, 10_000, 0)
			found(t, "Random", err, m.want)
			if !m.byRef { // copies of states have no references to each other
				_, err = chaos.Exhaustive(cfg)
				found(t, "Exhaustive", err, m.want)
			}
		})
	}
}
