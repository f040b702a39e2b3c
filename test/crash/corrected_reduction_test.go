package crash_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/internal/extent"
	"github.com/coppice-go/coppice/internal/posix"
	"github.com/coppice-go/coppice/test/stage"
)

func init() { stage.Plays["correcting"] = correcting }

// correctedReductions are reductions of n numbers in which a task's input is the bit of its rank; the
// result is the set of tasks whose input is in it.
var correctedReductions = map[string]func(ctx context.Context, t *coppice.Task, n int, opts ...coppice.Option) (int, error){
	"allreduce": func(ctx context.Context, t *coppice.Task, n int, opts ...coppice.Option) (int, error) {
		return bitsOf(n)(coppice.AllReduce(ctx, t, bitOf(t, n), coppice.Sum, opts...))
	},
	"reduce": func(ctx context.Context, t *coppice.Task, n int, opts ...coppice.Option) (int, error) {
		return bitsOf(n)(coppice.Reduce(ctx, t, bitOf(t, n), coppice.Sum, opts...))
	},
	"func": func(ctx context.Context, t *coppice.Task, n int, opts ...coppice.Option) (int, error) {
		return bitsOf(n)(coppice.AllReduceFunc(ctx, t, bitOf(t, n), func(a, b []float64) []float64 {
			return stage.Fill(len(a), func(i int) float64 { return a[i] + b[i] })
		}, opts...))
	},
}

func bitOf(t *coppice.Task, n int) []float64 {
	return stage.Fill(n, func(int) float64 { return float64(int(1) << t.Rank()) })
}

// bitsOf reads a result; −1 means none.
func bitsOf(n int) func([]float64, error) (int, error) {
	return func(got []float64, err error) (int, error) {
		switch {
		case err != nil || got == nil:
			return -1, err
		case len(got) != n || slices.ContainsFunc(got, func(x float64) bool { return x != got[0] }):
			return -1, fmt.Errorf("%w: %d numbers", errWrong, len(got))
		}
		return int(got[0]), nil
	}
}

// correcting is a play of corrected reductions. Its arguments are name, numbers, mode, root and rounds.
// It reports each outcome.
func correcting(tell func(stage.Line), args []string) coppice.Func {
	call, n, rounds := correctedReductions[args[0]], stage.Number(args[1]), stage.Number(args[4])
	correction, err := coppice.ParseCorrection(args[2])
	if err != nil {
		panic(err)
	}
	opts := []coppice.Option{coppice.Corrected(correction), coppice.Root(stage.Number(args[3]))}
	return func(ctx context.Context, t *coppice.Task) error {
		tell := stage.Telling(tell, t)
		tell(stage.Line{What: "ready"})
		for round := range rounds {
			got, err := call(ctx, t, n, opts...)
			l := stage.Failure(fmt.Sprint("round ", round), err)
			l.Value = got
			tell(l)
			if errors.Is(err, errWrong) {
				return err
			}
		}
		tell(stage.Line{What: "done"})
		return nil
	}
}

// correctedScene is a scene of that play.
type correctedScene struct {
	stage.Scene
	op              string
	failures, root  int
	tasks, rounds   int
	dead            []int
	where           string
	unreachedRounds int // seen
}

func newCorrected(op string, n, failures, root, size, rounds int) *correctedScene {
	c := &correctedScene{op: op, failures: failures, root: root, tasks: n, rounds: rounds}
	c.Scene = stage.Scene{N: n, Settings: reported, Play: []string{"correcting", op, fmt.Sprint(size), fmt.Sprint("failure-proof:", failures), fmt.Sprint(root), fmt.Sprint(rounds)}}
	return c
}

// check checks what the survivors reported. The inputs of live tasks are in every result; all tasks
// with a result have the same; and while the root lives and no more than failures tasks have crashed,
// all survivors have a result.
func (c *correctedScene) check(t *testing.T, x *stage.Script) {
	t.Helper()
	alive := stage.Without(c.tasks, c.dead...)
	done := func(r int) bool { return slices.Contains(stage.Ranks(x.Of("done")), r) }
	if got := stage.Ranks(x.Of("done")); slices.ContainsFunc(alive, func(r int) bool { return !done(r) }) { // a crashed task may have been done
		t.Errorf("%s: %v came to their end, dead %v", c.where, got, c.dead)
	}
	outlived := len(c.dead) <= c.failures && !slices.Contains(c.dead, c.root)
	for round := range c.rounds {
		var result []stage.Line
		for _, l := range x.Of(fmt.Sprint("round ", round)) {
			switch {
			case l.Kind == "well" && l.Value >= 0:
				result = append(result, l)
			case l.Kind == "well" && c.op == "reduce" && l.Rank != c.root:
			case l.Kind == "unreached" && !outlived:
				c.unreachedRounds++
			case slices.Contains(alive, l.Rank):
				t.Errorf("%s: round %d at task %d: %s, tasks %v: %s", c.where, round, l.Rank, l.Kind, l.Tasks, l.Text)
			}
		}
		for _, l := range result {
			if l.Value != result[0].Value {
				t.Errorf("%s: round %d: %b at task %d and %b at task %d", c.where, round, l.Value, l.Rank, result[0].Value, result[0].Rank)
			}
			for _, r := range alive {
				if l.Value>>r&1 == 0 {
					t.Errorf("%s: round %d at task %d: %b, without task %d, which lives", c.where, round, l.Rank, l.Value, r)
				}
			}
		}
	}
}

// TestCorrectedReductionsOutliveDeathAtEveryStep kills a process at every step of the second of four
// reductions, small and large, in Local and some in processes.
func TestCorrectedReductionsOutliveDeathAtEveryStep(t *testing.T) {
	const n, root, rounds = 5, 1, 4
	for op := range correctedReductions {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			points := 0
			for i, size := range []int{1, 3000, 40_000} {
				for k := range min(n, stage.Sampled(deathsVariable, stage.Short(2, 1))) {
					victim := (i + 3*k) % n
					for step := 0; ; step++ {
						c := newCorrected(op, n, 1, root, size, rounds)
						c.dead = []int{victim}
						if !c.killAt(t, victim, step, (step+victim+i)%stage.Short(7, 21) == 1) {
							break
						}
						points++
					}
				}
			}
			if t.Logf("%d points", points); points < 3*n {
				t.Error("too few")
			}
		})
	}
}

// killAt runs the scene with a death at a step, and reports whether the victim reaches it.
func (c *correctedScene) killAt(t *testing.T, victim, step int, real bool) bool {
	t.Helper()
	kill := fmt.Sprintf("%d@%s#2", victim, opOf(c.op))
	if step > 0 {
		kill += fmt.Sprintf("/%d", step)
	}
	if step%2 == 1 {
		kill += "+half"
	}
	c.Kill = []string{kill}
	c.where = fmt.Sprint("Local ", kill, c.Play)
	x, err := c.Local(t)
	if err != nil {
		t.Errorf("%s: %v", c.where, err)
	}
	if slices.Contains(stage.Ranks(x.Of("done")), victim) {
		return false
	}
	c.check(t, x)
	if real {
		c.where = fmt.Sprint("processes ", kill, c.Play)
		y, report := c.Real(t)
		if len(report.Killed) > 0 {
			c.check(t, y)
		}
	}
	return true
}

// TestCorrectedReductionsOutliveKills kills real processes from outside at random moments, as many as a
// reduction outlives, or more; none of them is the root, or one is.
func TestCorrectedReductionsOutliveKills(t *testing.T) {
	const n = 7
	for op := range correctedReductions {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 5))
			for i := range stage.Sampled(deathsVariable, stage.Short(3, 1)) {
				size, rounds := []int{1, 3000, 40_000}[i%3], []int{150, 80, 20}[i%3]
				c := newCorrected(op, n, 2, 3, size, rounds)
				g := c.Begin(t)
				pids := g.Pids(t, "ready")
				for range 2 + i%2 {
					victim := rng.IntN(n)
					if slices.Contains(c.dead, victim) || victim == c.root && i%3 < 2 {
						continue
					}
					time.Sleep(time.Duration(rng.IntN(20_000)) * time.Microsecond)
					if err := posix.Kill(pids[victim], syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) { // it may be over
						t.Fatal(err)
					}
					c.dead = append(c.dead, victim)
				}
				g.End(t)
				for _, r := range stage.Ranks(g.Of("done")) { // a kill may come too late
					c.dead = slices.DeleteFunc(c.dead, func(d int) bool { return d == r })
				}
				c.where = fmt.Sprintf("%v, killed %v", c.Play, c.dead)
				c.check(t, &g.Script)
			}
		})
	}
}

// TestCorrectedReductionsWithTheDead: no task waits for one that crashed before the operation, and too
// many crashes are ErrUnreached for all who need the result.
func TestCorrectedReductionsWithTheDead(t *testing.T) {
	for op := range correctedReductions {
		for _, dead := range [][]int{{4}, {0, 4}, {0, 4, 5}, {2}, {2, 3}} {
			c := newCorrected(op, 6, 2, 2, 10, 3)
			c.dead, c.where = dead, fmt.Sprint("Local ", op, " without ", dead)
			for _, r := range dead {
				c.Kill = append(c.Kill, fmt.Sprintf("%d@%s#1", r, opOf(op)))
			}
			x, err := c.Local(t)
			if err != nil {
				t.Errorf("%s: %v", c.where, err)
			}
			c.check(t, x)
			if slices.Contains(dead, c.root) && op != "reduce" && c.unreachedRounds != c.rounds*(c.N-len(dead)) {
				t.Errorf("%s: unreached %d times", c.where, c.unreachedRounds)
			}
		}
	}
}

// With Replay a task whose process crashes is run again, and its input is in the result.
func TestCorrectedReductionsAreReplayed(t *testing.T) {
	const n, all = 5, 1<<5 - 1
	for op := range correctedReductions {
		for victim := range n {
			for step := range stage.Short(3, 2) {
				c := newCorrected(op, n, 1, 1, []int{1, 3000, 40_000}[(victim+step)%3], 4)
				c.Settings = stage.Settings{Kill: []string{fmt.Sprintf("%d@%s#2/%d", victim, opOf(op), step+1)}}
				c.where = fmt.Sprint("Local ", c.Kill, c.Play)
				x, err := c.Local(t)
				if err != nil {
					t.Errorf("%s: %v", c.where, err)
				}
				c.check(t, x)
				if step == victim && extent.Full() {
					c.where = fmt.Sprint("processes ", c.Kill, c.Play)
					x, _ = c.Real(t)
					c.check(t, x)
				}
				for round := range c.rounds {
					for _, l := range x.Of(fmt.Sprint("round ", round)) {
						if l.Value >= 0 && l.Value != all {
							t.Errorf("%s: round %d at task %d: %b", c.where, round, l.Rank, l.Value)
						}
					}
				}
			}
		}
	}
}

// The bits are those of a plain reduction, with any number of tasks and whichever crashes the reduction
// outlives.
func TestCorrectedReductionsGiveTheSameBits(t *testing.T) {
	third := func(t *coppice.Task, i int) float64 { return float64(i+t.Rank()) / 3 }
	pair := func(a, b string) string { return "(" + a + " " + b + ")" }
	for n := 1; n <= stage.Short(9, 5); n++ {
		for _, mode := range []coppice.Correction{coppice.Checked(), coppice.FailureProof(1), coppice.FailureProof(2), coppice.FailureProof(5)} {
			err := coppice.Local(context.Background(), n, func(ctx context.Context, t *coppice.Task) error {
				for i := range 12 {
					with := coppice.Corrected(mode)
					v := stage.Fill(1+i*i*i*5, func(k int) float64 { return third(t, k) })
					got, err1 := coppice.AllReduce(ctx, t, v, coppice.Sum, with, coppice.Root(i%n))
					want, err2 := coppice.AllReduce(ctx, t, v, coppice.Sum)
					text, err3 := coppice.ReduceFunc(ctx, t, fmt.Sprint(t.Rank()), pair, with, coppice.Root(i%n))
					plain, err4 := coppice.ReduceFunc(ctx, t, fmt.Sprint(t.Rank()), pair, coppice.Root(i%n))
					if err := errors.Join(err1, err2, err3, err4); err != nil {
						return err
					}
					if !slices.Equal(got, want) || text != plain {
						return fmt.Errorf("%w: %q is not %q, or sums differ", errWrong, text, plain)
					}
				}
				return nil
			})
			if err != nil {
				t.Errorf("%d tasks, %s: %v", n, mode, err)
			}
		}
	}
}

// Tasks that call different reductions, reduce slices of different lengths, or return without taking
// part do not count as crashed: all live tasks get an error, and none hangs.
func TestCorrectedReductionsAreNotMisused(t *testing.T) {
	const n, odd = 5, 3
	with := func(f int) coppice.Option { return coppice.Corrected(coppice.FailureProof(f)) }
	for name, c := range map[string]struct {
		want error
		call func(ctx context.Context, t *coppice.Task) error
	}{
		"another number of failures": {coppice.ErrMismatch, func(ctx context.Context, t *coppice.Task) error {
			_, err := coppice.AllReduce(ctx, t, 1, coppice.Sum, with(1+t.Rank()/odd%2))
			return err
		}},
		"another length": {coppice.ErrMismatch, func(ctx context.Context, t *coppice.Task) error {
			_, err := coppice.AllReduce(ctx, t, make([]int, 1+t.Rank()/odd%2), coppice.Sum, with(1))
			return err
		}},
		"one returns": {coppice.ErrMismatch, func(ctx context.Context, t *coppice.Task) error {
			if t.Rank() == odd {
				return nil
			}
			_, err := coppice.AllReduce(ctx, t, 1, coppice.Sum, with(1))
			return err
		}},
		"one fails": {coppice.ErrLost, func(ctx context.Context, t *coppice.Task) error {
			if t.Rank() == odd {
				return errors.New("on purpose")
			}
			_, err := coppice.AllReduce(ctx, t, 1, coppice.Sum, with(1))
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), stage.PatienceTime)
			defer cancel()
			job := coppice.Job{Local: n, Recovery: coppice.Report}
			_ = job.Run(ctx, func(ctx context.Context, task *coppice.Task) error {
				err := c.call(ctx, task)
				if !errors.Is(err, c.want) && (err != nil || task.Rank() != odd) && !(task.Rank() == odd && name == "one fails") {
					t.Errorf("task %d: %v, want %v", task.Rank(), err, c.want)
				}
				if task.Rank() != odd { // a task that goes on does not keep the others waiting
					_, _ = coppice.Recv[int](ctx, task, (task.Rank()+1)%n, 9)
				}
				return err
			})
		})
	}
}

// A process that crashes takes all of its several tasks with it.
func TestCorrectedReductionsOutliveProcessesOfSeveralTasks(t *testing.T) {
	for op := range correctedReductions {
		for step := range 4 {
			c := newCorrected(op, 7, 2, 1, 100, 3)
			c.N, c.Tasks, c.dead = 3, 7, []int{3, 4} // of 0–2, 3–4, 5–6
			c.Kill = []string{fmt.Sprintf("%d@%s#2/%d", 3+step%2, opOf(op), 1+step)}
			c.where = fmt.Sprint("Local ", c.Kill, c.Play)
			x, err := c.Local(t)
			if err != nil {
				t.Errorf("%s: %v", c.where, err)
			}
			c.check(t, x)
			if step == 1 {
				c.where = fmt.Sprint("processes ", c.Kill, c.Play)
				y, _ := c.Real(t)
				c.check(t, y)
			}
		}
	}
}

func TestCorrectedReductionsRefuse(t *testing.T) {
	err := coppice.Local(context.Background(), 1, func(ctx context.Context, t *coppice.Task) error {
		for want, option := range map[string]coppice.Option{
			`reduce: correction "optimized:1" of a reduction; allowed: checked, failure-proof:F with F up to 64`:      coppice.Corrected(coppice.Optimized(1)),
			`reduce: correction "failure-proof:65" of a reduction; allowed: checked, failure-proof:F with F up to 64`: coppice.Corrected(coppice.FailureProof(65)),
			`reduce: correction "failure-proof:0"; allowed: failure-proof:F with F from 1 to 32767`:                   coppice.Corrected(coppice.FailureProof(0)),
			"reduce: option Along; allowed with: Broadcast":                                                           coppice.Along(coppice.Lame(2)),
		} {
			if _, err := coppice.Reduce(ctx, t, 1, coppice.Sum, option); err == nil || err.Error() != want {
				return fmt.Errorf("%v, want %s", err, want)
			}
		}
		_, err := coppice.Scan(ctx, t, 1, coppice.Sum, coppice.Corrected(coppice.Checked()))
		if err == nil || !strings.Contains(err.Error(), "allowed: Replayed, Plain, Agreed") {
			return fmt.Errorf("a corrected scan: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
