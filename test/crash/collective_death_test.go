package crash_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/internal/posix"
	"github.com/coppice-go/coppice/test/stage"
)

func init() {
	stage.Plays["dying"] = dying
}

// mortal has one call of each collective on n numbers, which checks the result.
var mortal = map[string]func(ctx context.Context, t *coppice.Task, n, round int) error{
	"allreduce": func(ctx context.Context, t *coppice.Task, n, round int) error {
		got, err := coppice.AllReduce(ctx, t, sequence(n, t.Rank(), round), coppice.Sum)
		return checkSum(got, err, n, t.Size(), round)
	},
	"reduce": func(ctx context.Context, t *coppice.Task, n, round int) error {
		root := round % t.Size()
		got, err := coppice.Reduce(ctx, t, sequence(n, t.Rank(), round), coppice.Sum, coppice.Root(root))
		if t.Rank() != root {
			return err
		}
		return checkSum(got, err, n, t.Size(), round)
	},
	"scan": func(ctx context.Context, t *coppice.Task, n, round int) error {
		got, err := coppice.Scan(ctx, t, sequence(n, t.Rank(), round), coppice.Sum)
		return checkSum(got, err, n, t.Rank()+1, round)
	},
	"exscan": func(ctx context.Context, t *coppice.Task, n, round int) error {
		got, err := coppice.ExScan(ctx, t, sequence(n, t.Rank(), round), coppice.Sum)
		if t.Rank() == 0 {
			n = 0
		}
		return checkSum(got, err, n, t.Rank(), round)
	},
	"reducescatter": func(ctx context.Context, t *coppice.Task, n, round int) error {
		parts := stage.Fill(t.Size(), func(d int) []float64 { return sequence(n, t.Rank(), round+d) })
		got, err := coppice.ReduceScatter(ctx, t, parts, coppice.Sum)
		return checkSum(got, err, n, t.Size(), round+t.Rank())
	},
	"allgather": func(ctx context.Context, t *coppice.Task, n, round int) error {
		got, err := coppice.AllGather(ctx, t, sequence(n, t.Rank(), round))
		return checkParts(got, err, n, t.Size(), round)
	},
	"gather": func(ctx context.Context, t *coppice.Task, n, round int) error {
		root := round % t.Size()
		got, err := coppice.Gather(ctx, t, sequence(n, t.Rank(), round), coppice.Root(root))
		if t.Rank() != root {
			return err
		}
		return checkParts(got, err, n, t.Size(), round)
	},
	"alltoall": func(ctx context.Context, t *coppice.Task, n, round int) error {
		got, err := coppice.AllToAll(ctx, t, stage.Fill(t.Size(), func(int) []float64 { return sequence(n, t.Rank(), round) }))
		return checkParts(got, err, n, t.Size(), round)
	},
	"scatter": func(ctx context.Context, t *coppice.Task, n, round int) error {
		parts := stage.Fill(t.Size(), func(d int) []float64 { return sequence(n, d, round) })
		got, err := coppice.Scatter(ctx, t, parts, coppice.Root(round%t.Size()))
		return checkPart(got, err, n, t.Rank(), round)
	},
	"broadcast": func(ctx context.Context, t *coppice.Task, n, round int) error {
		root := round % t.Size()
		got, err := coppice.Broadcast(ctx, t, sequence(n, t.Rank(), round), coppice.Root(root))
		return checkPart(got, err, n, root, round)
	},
	"func": func(ctx context.Context, t *coppice.Task, n, round int) error {
		got, err := coppice.AllReduceFunc(ctx, t, sequence(n, t.Rank(), round), func(a, b []float64) []float64 {
			return stage.Fill(len(a), func(i int) float64 { return a[i] + b[i] })
		})
		return checkSum(got, err, n, t.Size(), round)
	},
}

// opOf returns the name that orders to die use for an operation of mortal.
func opOf(name string) string {
	if name == "func" {
		return "allreduce"
	}
	return name
}

var errWrong = errors.New("wrong result")

// sequence returns a task's input: whole numbers, so that sums are exact.
func sequence(n, rank, round int) []float64 {
	return stage.Fill(n, func(i int) float64 { return float64(rank*1000 + i%97 + round) })
}

func checkPart(got []float64, err error, n, rank, round int) error {
	if err == nil && !slices.Equal(got, sequence(n, rank, round)) {
		return fmt.Errorf("%w: %d numbers of task %d", errWrong, len(got), rank)
	}
	return err
}

func checkParts(got [][]float64, err error, n, p, round int) error {
	if err == nil && len(got) != p {
		return fmt.Errorf("%w: %d values", errWrong, len(got))
	}
	for r := range got {
		if err := checkPart(got[r], err, n, r, round); err != nil {
			return err
		}
	}
	return err
}

// checkSum checks the sum of the first p tasks.
func checkSum(got []float64, err error, n, p, round int) error {
	if err != nil {
		return err
	}
	for i := range got {
		if want := float64(1000*p*(p-1)/2 + p*(i%97+round)); got[i] != want {
			return fmt.Errorf("%w: sum %d is %v, not %v", errWrong, i, got[i], want)
		}
	}
	if len(got) != n {
		return fmt.Errorf("%w: %d sums", errWrong, len(got))
	}
	return nil
}

// dying is a play that repeats one collective until a process crashes. Its arguments are name, numbers
// and rounds. A task that has finished its rounds waits for the crash in a barrier.
func dying(tell func(stage.Line), args []string) coppice.Func {
	call, n, rounds := mortal[args[0]], stage.Number(args[1]), stage.Number(args[2])
	return func(ctx context.Context, t *coppice.Task) error {
		tell := stage.Telling(tell, t)
		tell(stage.Line{What: "ready"})
		var err error
		for round := 0; round < rounds && err == nil; round++ {
			err = call(ctx, t, n, round)
		}
		if err == nil {
			err = coppice.Barrier(ctx, t)
		}
		l := stage.Failure("error", err)
		if errors.Is(err, errWrong) {
			l.Kind = "wrong"
		}
		tell(l)
		return err
	}
}

// checkDying checks what the survivors reported: one error each, which names a crashed task, or a task
// that failed because of one.
func checkDying(t *testing.T, where string, x *stage.Script, n int, dead ...int) {
	t.Helper()
	errs := x.Of("error")
	if got := stage.Ranks(errs); !slices.Equal(got, stage.Without(n, dead...)) {
		t.Errorf("%s: told by %v, dead %v", where, got, dead)
	}
	direct := false
	for _, l := range errs {
		if l.Kind != "lost" || len(l.Tasks) != 1 || l.Tasks[0] == l.Rank {
			t.Errorf("%s: task %d: %s, tasks %v: %s", where, l.Rank, l.Kind, l.Tasks, l.Text)
			continue
		}
		direct = direct || slices.Contains(dead, l.Tasks[0])
	}
	if !direct {
		t.Errorf("%s: nobody names the dead: %+v", where, errs)
	}
}

// TestDeathInEveryCollective kills a process at every step of every collective, small and large, in
// Local and in processes, which have one task or several; at half of the steps, unless more are asked
// for.
func TestDeathInEveryCollective(t *testing.T) {
	for name := range mortal {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(9, uint64(len(name))))
			deaths := 0
			for _, size := range []int{1, 3000, 40_000} {
				for step := range 12 {
					if rng.IntN(stage.Short(2, 4)) > 0 && os.Getenv(deathsVariable) == "" {
						continue
					}
					s := stage.Scene{N: 5, Settings: reported, Play: []string{"dying", name, fmt.Sprint(size), "6"}}
					tasks, victim := 5, rng.IntN(5)
					dead := []int{victim}
					if step%3 == 2 {
						tasks, victim, dead = 7, 3+rng.IntN(2), []int{3, 4} // of 0–2, 3–4, 5–6
						s.N, s.Tasks = 3, tasks
					}
					kill := fmt.Sprintf("%d@%s#3", victim, opOf(name))
					if step > 0 {
						kill += fmt.Sprintf("/%d", step)
					}
					if step > 0 && step%2 == 0 {
						kill += "+half"
					}
					s.Kill = []string{kill}
					x, err := s.Local(t)
					if err == nil { // there is no such step
						continue
					}
					deaths++
					checkDying(t, fmt.Sprintf("Local, %d numbers, %s", size, kill), x, tasks, dead...)
					if rng.IntN(stage.Short(6, 18)) > 0 {
						continue
					}
					x, report := s.Real(t)
					if len(report.Killed) > 0 {
						deaths++
						checkDying(t, fmt.Sprintf("processes, %d numbers, %s", size, kill), x, tasks, dead...)
					}
				}
			}
			t.Logf("%d deaths", deaths)
		})
	}
}

// TestKilledInEveryCollective kills real processes from outside at random moments.
func TestKilledInEveryCollective(t *testing.T) {
	const n = 5
	for name := range mortal {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 9))
			for i := range stage.Sampled(deathsVariable, stage.Short(2, 1)) {
				size := []int{10, 200_000, 3000, 20_000}[(i+len(name))%4]
				victim := rng.IntN(n)
				after := time.Duration(math.Exp(rng.Float64()*11)) * time.Microsecond
				g := stage.Scene{N: n, Settings: reported, Play: []string{"dying", name, fmt.Sprint(size), "1000000"}}.Begin(t)
				pids := g.Pids(t, "ready")
				time.Sleep(after)
				if err := posix.Kill(pids[victim], syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
				g.End(t)
				checkDying(t, fmt.Sprintf("%d numbers, task %d killed after %v", size, victim, after), &g.Script, n, victim)
			}
		})
	}
}
