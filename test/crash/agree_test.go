package crash_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/coppicetest"
	"github.com/coppice-go/coppice/test/stage"
)

func init() {
	stage.Plays["agreeing"] = agreeing
}

// outcomes holds the outcomes of operations by number and task, as of the last attempt.
type outcomes struct {
	mu  sync.Mutex
	all []map[int]string
}

// add records the outcome of the task's i-th operation.
func (o *outcomes) add(i, task int, text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.all) <= i {
		o.all = append(o.all, map[int]string{})
	}
	o.all[i][task] = text
}

// forget removes crashed tasks.
func (o *outcomes) forget(tasks []int) {
	for _, m := range o.all {
		for _, t := range tasks {
			delete(m, t)
		}
	}
}

// check fails the test if two tasks had different outcomes of the same operation.
func (o *outcomes) check(t *testing.T) {
	t.Helper()
	for i, m := range o.all {
		first := ""
		for task, text := range m {
			if first == "" {
				first = text
			}
			if text != first {
				t.Errorf("operation %d: task %d has %q, another %q", i, task, text, first)
			}
		}
	}
}

// ended returns a context that has ended.
func ended(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx
}

func plus(a, b int) int { return a + b }

// agreedOperations are all agreed operations, each with a result that is the same at all tasks or ""
// where only the root has one.
var agreedOperations = []struct {
	name string
	run  func(ctx context.Context, t *coppice.Task) (string, error)
}{
	{"agree", func(ctx context.Context, t *coppice.Task) (string, error) {
		v, failed, err := coppice.Agree(ctx, t, 1<<t.Rank(), plus)
		return fmt.Sprint(v, failed), err
	}},
	{"barrier", func(ctx context.Context, t *coppice.Task) (string, error) {
		return "", coppice.Barrier(ctx, t, coppice.Agreed())
	}},
	{"broadcast", func(ctx context.Context, t *coppice.Task) (string, error) {
		v, err := coppice.Broadcast(ctx, t, 7*t.Rank()+3, coppice.Agreed(), coppice.Root(t.Size()-1))
		return fmt.Sprint(v), err
	}},
	{"scatter", func(ctx context.Context, t *coppice.Task) (string, error) {
		v, err := coppice.Scatter(ctx, t, make([]int, t.Size()), coppice.Agreed())
		return fmt.Sprint(v), err
	}},
	{"gather", func(ctx context.Context, t *coppice.Task) (string, error) {
		_, err := coppice.Gather(ctx, t, t.Rank(), coppice.Agreed())
		return "", err
	}},
	{"allgather", func(ctx context.Context, t *coppice.Task) (string, error) {
		v, err := coppice.AllGather(ctx, t, make([]byte, 100*t.Rank()), coppice.Agreed())
		return fmt.Sprint(len(v)), err
	}},
	{"alltoall", func(ctx context.Context, t *coppice.Task) (string, error) {
		parts := make([][]byte, t.Size())
		for r := range parts {
			parts[r] = make([]byte, 3000)
		}
		v, err := coppice.AllToAll(ctx, t, parts, coppice.Agreed())
		return fmt.Sprint(len(v)), err
	}},
	{"reduce", func(ctx context.Context, t *coppice.Task) (string, error) {
		_, err := coppice.Reduce(ctx, t, t.Rank(), coppice.Sum, coppice.Agreed(), coppice.Root(1%t.Size()))
		return "", err
	}},
	{"allreduce", func(ctx context.Context, t *coppice.Task) (string, error) {
		v, err := coppice.AllReduce(ctx, t, []int{t.Rank(), 2}, coppice.Sum, coppice.Agreed())
		return fmt.Sprint(v), err
	}},
	{"scan", func(ctx context.Context, t *coppice.Task) (string, error) {
		_, err := coppice.Scan(ctx, t, t.Rank(), coppice.Sum, coppice.Agreed())
		return "", err
	}},
	{"exscan", func(ctx context.Context, t *coppice.Task) (string, error) {
		_, err := coppice.ExScan(ctx, t, t.Rank(), coppice.Sum, coppice.Agreed())
		return "", err
	}},
	{"reducescatter", func(ctx context.Context, t *coppice.Task) (string, error) {
		v, err := coppice.ReduceScatter(ctx, t, make([]int, t.Size()), coppice.Sum, coppice.Agreed())
		return fmt.Sprint(v), err
	}},
}

// inWords describes an outcome in words that are the same at all tasks.
func inWords(text string, err error) string {
	for _, sentinel := range []error{coppice.ErrAborted, coppice.ErrLost, coppice.ErrRevoked, coppice.ErrMismatch, coppice.ErrAbandoned} {
		if errors.Is(err, sentinel) {
			return sentinel.Error()
		}
	}
	if err != nil {
		return err.Error()
	}
	return text
}

func TestAgreedOperationsWithoutFailures(t *testing.T) {
	for _, recovery := range []coppice.Recovery{coppice.Replay, coppice.Report} {
		for _, n := range []int{1, 2, 3, 5, 8} {
			var o outcomes
			job := coppice.Job{Local: n, Recovery: recovery}
			err := job.Run(t.Context(), func(ctx context.Context, task *coppice.Task) error {
				for round := range 3 {
					for i, op := range agreedOperations {
						text, err := op.run(ctx, task)
						if err != nil {
							return fmt.Errorf("%s: %w", op.name, err)
						}
						o.add(round*len(agreedOperations)+i, task.Rank(), text)
					}
				}
				return nil
			})
			if err != nil {
				t.Fatalf("%d tasks, recovery %d: %v", n, recovery, err)
			}
			o.check(t)
			if want := fmt.Sprint(1<<n-1, []int(nil)); o.all[0][0] != want {
				t.Errorf("agreed on %s; want %s", o.all[0][0], want)
			}
		}
	}
}

// A task whose context has ended aborts an agreed operation for all, and the group goes on.
func TestAbortIsForAll(t *testing.T) {
	for _, recovery := range []coppice.Recovery{coppice.Replay, coppice.Report} {
		for i, op := range agreedOperations {
			for _, n := range []int{1, 2, 5} {
				var o outcomes
				job := coppice.Job{Local: n, Recovery: recovery}
				err := job.Run(t.Context(), func(ctx context.Context, task *coppice.Task) error {
					for round := range 4 {
						c := ctx
						if task.Rank() == (i+round)%n && round%2 == 0 {
							c = ended(ctx)
						}
						text, err := op.run(c, task)
						if round%2 == 0 && !errors.Is(err, coppice.ErrAborted) || round%2 == 1 && err != nil {
							return fmt.Errorf("round %d: %v", round, err)
						}
						o.add(round, task.Rank(), inWords(text, err))
						if _, err := coppice.AllReduce(ctx, task, 1, coppice.Sum); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil {
					t.Fatalf("%s, %d tasks, recovery %d: %v", op.name, n, recovery, err)
				}
				o.check(t)
			}
		}
	}
}

// An operation aborted by a context's end stays aborted when the task is run again with a context that
// does not end.
func TestAbortOutlivesWhoAborted(t *testing.T) {
	for i, op := range agreedOperations {
		for _, kill := range []string{"1@allreduce#1", "1@allreduce#2/1", "1@broadcast#9"} {
			var o outcomes
			job := coppice.Job{Local: 4}
			err := job.Run(coppicetest.WithKills(t.Context(), kill), func(ctx context.Context, task *coppice.Task) error {
				c := ctx
				if task.Rank() == 1 && task.Attempt() == 0 {
					c = ended(ctx)
				}
				text, err := op.run(c, task)
				o.add(0, task.Rank(), inWords(text, err))
				for k := range 3 {
					v, err := coppice.AllReduce(ctx, task, len(inWords(text, err)), coppice.Sum)
					if err != nil {
						return err
					}
					o.add(k+1, task.Rank(), fmt.Sprint(v))
				}
				return nil
			})
			if err != nil {
				t.Fatalf("%s, kill %s: %v", op.name, kill, err)
			}
			o.check(t)
			if got := o.all[0][1]; got != coppice.ErrAborted.Error() {
				t.Errorf("%d %s, kill %s: task 1 has %q at last", i, op.name, kill, got)
			}
		}
	}
}

// agreeing is a play of agreed operations in random order, with contexts that end before and in them.
// It reports the outcome of each operation.
func agreeing(tell func(stage.Line), args []string) coppice.Func {
	seed := uint64(stage.Number(args[0]))
	return func(ctx context.Context, t *coppice.Task) error {
		tell := stage.Telling(tell, t)
		mine := rand.New(rand.NewPCG(seed, uint64(t.Rank())))
		order := rand.New(rand.NewPCG(seed, 1<<32)).Perm(2 * len(agreedOperations))
		for i, k := range order {
			c, cancel := ctx, context.CancelFunc(func() {})
			switch mine.IntN(12) {
			case 0:
				c = ended(ctx)
			case 1:
				c, cancel = context.WithTimeout(ctx, time.Duration(mine.IntN(200))*time.Microsecond)
			}
			text, err := agreedOperations[k/2].run(c, t)
			cancel()
			tell(stage.Line{What: "outcome", Value: i, Text: inWords(text, err)})
		}
		tell(stage.Line{What: "finished"})
		return nil
	}
}

// agreeingScene returns a scene of that play with deaths at any step.
func agreeingScene(recovery coppice.Recovery, seed uint64) (s stage.Scene) {
	rng := rand.New(rand.NewPCG(seed, 7))
	s.N = 2 + rng.IntN(5)
	s.Settings = stage.Settings{Recovery: recovery, Silence: 30 * time.Second}
	s.Play = []string{"agreeing", fmt.Sprint(seed)}
	for task := range s.N - 1 {
		if rng.IntN(2) == 0 {
			op := agreedOperations[rng.IntN(len(agreedOperations))].name
			s.Kill = append(s.Kill, fmt.Sprintf("%d@%s#%d/%d", (task+int(seed))%s.N, op, 1+rng.IntN(2), 1+rng.IntN(6)))
		}
	}
	return s
}

// uniform fails the test if two tasks that lived to the end had different outcomes of one operation.
func uniform(t *testing.T, s stage.Scene, x *stage.Script) {
	t.Helper()
	finished := map[int]bool{}
	for _, l := range x.Of("finished") {
		finished[l.Rank] = true
	}
	if len(finished) == 0 || s.Recovery == coppice.Replay && len(finished) < s.N {
		t.Errorf("%v, kills %v: only %v have finished", s.Play, s.Kill, finished)
	}
	last := map[[2]int]string{} // of several attempts
	for _, l := range x.Of("outcome") {
		if finished[l.Rank] {
			last[[2]int{l.Value, l.Rank}] = l.Text
		}
	}
	for at, text := range last {
		for rank := range s.N {
			if other, ok := last[[2]int{at[0], rank}]; ok && other != text {
				t.Errorf("%v, recovery %d, kills %v: operation %d: task %d has %q, task %d %q", s.Play, s.Recovery, s.Kill, at[0], at[1], text, rank, other)
				return
			}
		}
	}
}

// Tasks die at any step and contexts end at any moment; the survivors agree on every outcome.
func TestAgreedOutcomesAreUniform(t *testing.T) {
	for seed := range uint64(stage.Sampled(agreeingsVariable, stage.Short(60, 10))) {
		for _, recovery := range []coppice.Recovery{coppice.Replay, coppice.Report} {
			s := agreeingScene(recovery, seed)
			x, err := s.Local(t)
			if err != nil {
				t.Errorf("%v, recovery %d, kills %v: %v", s.Play, recovery, s.Kill, err)
			}
			uniform(t, s, x)
		}
	}
}

func TestAgreedOutcomesAreUniformInProcesses(t *testing.T) {
	for seed := range uint64(stage.Sampled(agreeingsVariable, stage.Short(10, 4))) {
		for _, recovery := range []coppice.Recovery{coppice.Replay, coppice.Report} {
			s := agreeingScene(recovery, seed)
			x, _ := s.Real(t)
			uniform(t, s, x)
		}
	}
}

// agreeingsVariable is the environment variable with the number of jobs of agreed operations to run,
// instead of few.
const agreeingsVariable = "COPPICE_AGREEINGS"

// This is the loop of ULFM programs: try, revoke, shrink, try again.
func TestReportRevokeShrink(t *testing.T) {
	job := coppice.Job{Local: 6, Recovery: coppice.Report}
	var o outcomes
	err := job.Run(coppicetest.WithKills(t.Context(), "2@allreduce#2/1", "5@allreduce#3"), func(ctx context.Context, task *coppice.Task) error {
		world := task.Rank()
		for round := 0; round < 4; {
			sum, err := coppice.AllReduce(ctx, task, 1<<world, coppice.Sum)
			if err != nil {
				task.Revoke()
			}
			ok, _, err := coppice.Agree(ctx, task, err == nil, func(a, b bool) bool { return a && b })
			if err != nil {
				return err
			}
			if ok {
				o.add(round, world, fmt.Sprint(sum, task.Size()))
				round++
				continue
			}
			before := task.Size()
			if task, err = task.Shrink(ctx); err != nil {
				return err
			}
			if task.Size() >= before {
				return fmt.Errorf("%d tasks of %d are left", task.Size(), before)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	o.forget([]int{2, 5})
	o.check(t)
	if got, want := o.all[3][0], fmt.Sprint(1+2+8+16, 4); got != want {
		t.Errorf("the last sum and size are %s; want %s", got, want)
	}
}

// A revocation ends the wait for a task that lives but takes part no more.
func TestRevokeEndsWaits(t *testing.T) {
	job := coppice.Job{Local: 5, Recovery: coppice.Report}
	err := job.Run(t.Context(), func(ctx context.Context, task *coppice.Task) error {
		if task.Rank() == 3 {
			task.Revoke()
		} else if _, err := coppice.Recv[int](ctx, task, 3, 0); !errors.Is(err, coppice.ErrRevoked) {
			return fmt.Errorf("recv: %v", err)
		}
		if err := coppice.Barrier(ctx, task); !errors.Is(err, coppice.ErrRevoked) {
			return fmt.Errorf("barrier: %v", err)
		}
		if len(task.FailedAck()) != 0 {
			return fmt.Errorf("failed: %v", task.FailedAck())
		}
		next, err := task.Shrink(ctx)
		if err != nil {
			return err
		}
		return coppice.Barrier(ctx, next)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A context that ended long ago leaves as much time as any other.
func TestContextThatEndedLongAgo(t *testing.T) {
	t.Parallel()                // it waits
	const silence = time.Second // on a busy machine others may come that much later
	for _, recovery := range []coppice.Recovery{coppice.Replay, coppice.Report} {
		job := coppice.Job{Local: 3, Recovery: recovery, Silence: silence}
		err := job.Run(t.Context(), func(ctx context.Context, task *coppice.Task) error {
			mine := ctx
			if task.Rank() == 1 {
				mine = ended(ctx)
			}
			for range 2 {
				if _, _, err := coppice.Agree(mine, task, 1, plus); !errors.Is(err, coppice.ErrAborted) {
					return fmt.Errorf("agree: %v", err)
				}
				if err := coppice.Barrier(mine, task, coppice.Agreed()); !errors.Is(err, coppice.ErrAborted) {
					return fmt.Errorf("barrier: %v", err)
				}
				time.Sleep(silence)
			}
			return nil
		})
		if err != nil {
			t.Errorf("recovery %d: %v", recovery, err)
		}
	}
}

// If a task has returned, an agreement that waits for it ends for all with the same error: ErrLost if
// the task failed, ErrMismatch if it did not.
func TestAgreementWithoutWhoHasReturned(t *testing.T) {
	for name, c := range map[string]struct{ returns, want error }{
		"fails": {errors.New("no"), coppice.ErrLost},
		"well":  {nil, coppice.ErrMismatch},
	} {
		for _, op := range []int{0, 1} { // agree, barrier
			got := make(chan error, 4)
			job := coppice.Job{Local: 5, Recovery: coppice.Report}
			_ = job.Run(t.Context(), func(ctx context.Context, task *coppice.Task) error {
				if task.Rank() == 3 {
					return c.returns
				}
				_, err := agreedOperations[op].run(ctx, task)
				got <- err
				return nil
			})
			for range 4 {
				if err := <-got; !errors.Is(err, c.want) {
					t.Errorf("%s, %s: %v; want %v", name, agreedOperations[op].name, err, c.want)
				}
			}
		}
	}
}

// Tasks that wait for each other, one in an agreement and the others in an operation, get ErrMismatch.
func TestAgreementAgainstOperation(t *testing.T) {
	job := coppice.Job{Local: 3, Recovery: coppice.Report}
	err := job.Run(t.Context(), func(ctx context.Context, task *coppice.Task) error {
		var err error
		if task.Rank() == 1 {
			_, _, err = coppice.Agree(ctx, task, 1, plus)
		} else {
			err = coppice.Barrier(ctx, task)
		}
		if !errors.Is(err, coppice.ErrMismatch) {
			return fmt.Errorf("task %d: %v", task.Rank(), err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// An agreed operation on a revoked group is ErrRevoked for all, also for tasks that could have
// completed it.
func TestRevokedAgreedOperation(t *testing.T) {
	var o outcomes
	job := coppice.Job{Local: 4, Recovery: coppice.Report}
	err := job.Run(t.Context(), func(ctx context.Context, task *coppice.Task) error {
		if task.Rank() == 3 {
			task.Revoke()
		}
		_, err := coppice.Broadcast(ctx, task, 1, coppice.Agreed())
		o.add(0, task.Rank(), inWords("", err))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	o.check(t)
	if o.all[0][0] != coppice.ErrRevoked.Error() {
		t.Error(o.all[0])
	}
}
