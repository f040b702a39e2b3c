package programs_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coppice-go/coppice/test/stage"

	"github.com/coppice-go/coppice/internal/control"
)

// The matrix of kills, as in chapter 5 of Stengler's thesis (docs/papers.md): every operation among 2
// to 5 real processes, a first victim at every step of it, then further victims while the function of
// the first runs again, until one process is left.

// killsVariable is the environment variable with the number of jobs of the matrix to run, instead of
// the usual sample.
const killsVariable = "COPPICE_KILLS"

// killsWhole is the number of jobs from which on a column is walked step by step, with all variants.
const killsWhole = 2000

// point is a column of the matrix: a victim in an operation of a program.
type point struct {
	op     string // the operation of a program's step
	in     string // its name in orders to die; "": in the function itself, before a step
	p      int    // processes, with one task each
	victim int
	root   int
	size   int
	agreed bool
	backed bool
}

// pointsOf returns the operations that a step of a program calls, under their names in orders.
func pointsOf(op string) []string {
	switch op {
	case Shift:
		return []string{"send", "recv"}
	case Split:
		return []string{"split", "scan"}
	case Fork:
		return []string{"allreduce", "send", "recv"}
	}
	return []string{op}
}

// killedOps are the operations of the matrix.
var killedOps = append(Ops(), Save, Once)

// reduces reports whether an operation computes sums.
func reduces(op string) bool {
	return slices.Contains([]string{Reduce, AllReduce, Scan, ExScan, ReduceScatter}, op)
}

// matrix lists all columns, in an order drawn at random.
func matrix(rng *rand.Rand) (all []point) {
	for _, op := range killedOps {
		for p := 2; p <= 5; p++ {
			for victim := range p {
				for _, size := range []int{3, 12_000} { // the larger waits for the receiver's grant
					for _, in := range append(pointsOf(op), "") {
						if in == "" && size > 3 {
							continue
						}
						x := point{op: op, in: in, p: p, victim: victim, root: rng.IntN(p), size: size}
						all = append(all, x)
						if x.agreed = in == op && size == 3; x.agreed {
							all = append(all, x)
						}
						x.agreed = false
						if x.backed = in == op && reduces(op); x.backed {
							all = append(all, x)
						}
					}
				}
			}
		}
	}
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// program has the operation three times: the victim crashes in the second, or before one of the steps.
func (x point) program(seed uint64) Program {
	warm := AllToAll // every task sends to every other
	if x.op == warm {
		warm = AllGather
	}
	s := Step{Op: x.op, Root: x.root, Shift: 1, Size: x.size, Float: true, Agreed: x.agreed, Backed: x.backed}
	if x.op == Split {
		s.Shift = 2
	}
	after := Step{Op: AllReduce, Size: 2, Float: true}
	if slices.Contains(pointsOf(x.op), after.Op) {
		after.Op = Gather
	}
	return Program{Tasks: x.p, Seed: seed, Steps: []Step{{Op: warm, Size: 2}, s, s, s, after}}
}

// episode lets the victim crash at a step of the operation; 0: when the task calls it.
func (x point) episode(rng *rand.Rand, step int, half bool) episode {
	e := episode{n: x.p, role: role{Program: x.program(rng.Uint64())}, own: rng.IntN(2) == 0}
	if x.in == "" {
		d := death{Task: x.victim, Step: step}
		if d.Step > len(e.role.Program.Steps) { // after its return
			d.Step, d.Late = len(e.role.Program.Steps), time.Duration(1+rng.IntN(3000))*time.Microsecond
		}
		e.role.Deaths = []death{d}
		return e
	}
	e.kill = []string{control.Kill{Task: x.victim, Op: x.in, Seq: 2, Step: step, Half: half}.String()}
	return e
}

// steps returns how many steps to try: only a few if they are not steps of the operation.
func (x point) steps() int {
	switch x.in {
	case "send", "recv":
		return 1
	case "":
		return len(x.program(0).Steps) + 2 // the last two: in the end, after it
	}
	return 60
}

// further adds crashes of the processes that run the victim's function again: as many as leave one
// process, or fewer.
func (x point) further(rng *rand.Rand, e episode) episode {
	e.role.Deaths = slices.Clone(e.role.Deaths)
	steps := len(e.role.Program.Steps)
	for range 1 + rng.IntN(x.p-2) {
		step := rng.IntN(steps + 1)
		if x.op == Save && step > 1 && step < steps-1 { // an attempt that resumes may be past it
			step = steps - 1
		}
		e.role.Deaths = append(e.role.Deaths, death{Task: x.victim, Step: step, Attempt: 1})
	}
	return e
}

// together adds an order for another task, in the same operation or the next.
func (x point) together(rng *rand.Rand, e episode) episode {
	other := (x.victim + 1 + rng.IntN(x.p-1)) % x.p
	op := x.in
	if op == "" {
		op = pointsOf(x.op)[0]
	}
	k := control.Kill{Task: other, Op: op, Seq: 1 + rng.IntN(3), Step: rng.IntN(5)}
	k.Half = k.Step > 0 && rng.IntN(2) == 0
	e.kill = append(slices.Clone(e.kill), k.String())
	return e
}

// walk goes up the steps of a column until the victim no longer reaches them, and varies each of them.
// In a sample it takes one step only.
func (x point) walk(c *crowd, rng *rand.Rand, whole bool, most int) {
	from, to := 0, x.steps()
	if !whole {
		from = rng.IntN(min(to, 7))
		to = from + 1
	}
	for step := from; step < to && !c.enough(most); step++ {
		if !c.dies(x.episode(rng, step, false)) {
			return
		}
		if step > 0 && x.in != "" && (whole || rng.IntN(2) == 0) {
			c.dies(x.episode(rng, step, true))
		}
		if x.p > 2 && !c.local && (whole || rng.IntN(2) == 0) {
			c.dies(x.further(rng, x.episode(rng, step, false)))
		}
		if x.p > 2 && (whole || rng.IntN(2) == 0) {
			c.dies(x.together(rng, x.episode(rng, step, false)))
		}
	}
}

// dies runs an episode and reports whether any process was killed. It checks that no more were killed
// than ordered, and that the program's own deaths all happened.
func (c *crowd) dies(e episode) bool {
	o := c.play(e)
	deaths := len(e.role.Deaths)
	fewest, most := deaths, deaths+len(e.kill)
	if deaths > 0 && (e.role.Deaths[0].Late > 0 || len(e.kill) > 0) {
		fewest = 0 // the job may have ended; the first order may not trigger
	}
	if n := len(o.killed); o.err == nil && (n < fewest || n > most || n < o.deaths && e.role.Deaths[0].Late == 0) {
		c.t.Errorf("%v: killed %v, of which %d by their own hand", e, o.killed, o.deaths)
	}
	return len(o.killed) > 0
}

func TestKillMatrix(t *testing.T) { killMatrix(&crowd{t: t}, stage.Short(100, 20)) }

// TestKillMatrixInLocal kills goroutines, by orders only.
func TestKillMatrixInLocal(t *testing.T) {
	killMatrix(&crowd{t: t, local: true}, stage.Short(400, 60))
}

// killMatrix runs most jobs of the matrix, or a few more.
func killMatrix(c *crowd, most int) {
	most = stage.Sampled(killsVariable, most)
	whole := most >= killsWhole
	seed, walked := stage.Drawn(killsVariable), 0
	rng := rand.New(rand.NewPCG(seed, 1))
	columns := make(chan point)
	var wg sync.WaitGroup
	for range crowdSize {
		rng := rand.New(rand.NewPCG(rng.Uint64(), 2))
		wg.Go(func() {
			for x := range columns {
				if !c.local || x.in != "" {
					x.walk(c, rng, whole, most)
				}
			}
		})
	}
	all := matrix(rng)
	for ; !c.enough(most); walked++ {
		columns <- all[walked%len(all)]
	}
	close(columns)
	wg.Wait()
	c.t.Logf("seed %d: went into %d of %d columns", seed, min(walked, len(all)), len(all))
	c.conclude()
	if c.kills < c.ran/2 {
		c.t.Error("too few came to die")
	}
}

// TestEpisodesSeeWhatIsWrong feeds digests reports of failures, each of which it must see.
func TestEpisodesSeeWhatIsWrong(t *testing.T) {
	e := episode{n: 2, role: role{Program: Random(1, 2, 5)}}
	var want []string
	for _, digests := range e.role.Program.Serial() {
		want = append(want, words(digests))
	}
	digest := func(task int, text string) stage.Line {
		return stage.Line{Rank: task, What: "digests", Kind: "well", Text: text}
	}
	for name, lines := range map[string][]stage.Line{
		"a task that does not end": {digest(0, want[0])},
		"a wrong digest":           {digest(0, want[0]), digest(1, want[0])},
		"a wrong second attempt":   {digest(0, want[0]), digest(1, want[1]), digest(0, want[1])},
		"a program cut short":      {digest(0, want[0]), digest(1, want[1][:len(want[1])-9])},
		"an error":                 {digest(0, want[0]), {Rank: 1, What: "digests", Kind: "lost", Text: want[1]}},
	} {
		if e.digests(&stage.Script{Lines: lines}) == nil {
			t.Errorf("%s is not seen", name)
		}
	}
	if err := e.digests(&stage.Script{Lines: []stage.Line{digest(0, want[0]), digest(1, want[1]), digest(0, want[0])}}); err != nil {
		t.Errorf("what is well is not: %v", err)
	}
}

// TestTheReferenceListsAllOperations: docs/running.md lists all operations in which a task can be
// ordered to die.
func TestTheReferenceListsAllOperations(t *testing.T) {
	text, err := os.ReadFile("../../docs/running.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(text), "\nOperations are ")
	list, _, _ = strings.Cut(list, "; for the first two, STEP means nothing")
	for _, op := range control.Operations {
		if !strings.Contains(list, "`"+op+"`") {
			t.Errorf("%s is not in %q", op, list)
		}
	}
}

// TestOrdersReachEveryOperation: the names that orders may use are those of operations, and the matrix
// has them all.
func TestOrdersReachEveryOperation(t *testing.T) {
	var got []string
	for _, op := range killedOps {
		got = append(got, pointsOf(op)...)
	}
	slices.Sort(got)
	if want := slices.Sorted(slices.Values(control.Operations)); !slices.Equal(slices.Compact(got), want) {
		t.Errorf("the matrix has %v, orders %v", got, want)
	}
	for _, op := range control.Operations {
		x := point{op: op, in: op, p: 2, victim: 1, size: 3}
		for _, of := range killedOps {
			if slices.Contains(pointsOf(of), op) {
				x.op = of
			}
		}
		e := x.episode(rand.New(rand.NewPCG(1, 1)), 0, false)
		if o := e.run(t); !slices.Equal(o.killed, []int{1}) {
			t.Errorf("%s: killed %v (%v)", fmt.Sprint(e.kill), o.killed, o.err)
		}
	}
}
