package crash_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/coppicetest"
	"github.com/coppice-go/coppice/internal/posix"
	"github.com/coppice-go/coppice/test/stage"
)

func init() {
	stage.Plays["context"] = ending
	stage.Plays["many"] = manyTasks
	stage.Plays["leak"] = leaking
	stage.Plays["again"] = again
}

// ending is a play in which the context of one task ends while it waits.
func ending(tell func(stage.Line), args []string) coppice.Func {
	how := args[0]
	return func(ctx context.Context, t *coppice.Task) error {
		tell := stage.Telling(tell, t)
		tell(stage.Line{What: "ready"})
		own, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		if t.Rank() == stage.Odd {
			switch how {
			case "cancel":
				time.AfterFunc(300*time.Millisecond, func() { cancel(stage.ErrEnough) })
			case "deadline":
				var done context.CancelFunc
				own, done = context.WithTimeout(ctx, 300*time.Millisecond)
				defer done()
			}
		}
		err := error(nil)
		if t.Rank() == 0 && how != "main" { // the others wait for this one, which never comes
			_, err = coppice.Recv[int](ctx, t, stage.Odd, 1)
		} else if how != "main" || t.Rank() != 0 {
			err = coppice.Barrier(own, t)
		} else {
			<-ctx.Done()
			err = context.Cause(ctx)
		}
		l := stage.Failure("error", err)
		if errors.Is(err, stage.ErrEnough) {
			l.Kind = "enough"
		}
		tell(l)
		return err
	}
}

// TestContextEndsAWait ends the context of a task that waits in a barrier: the task gets the cause, and
// the others an error once it has returned.
func TestContextEndsAWait(t *testing.T) {
	for how, kind := range map[string]string{"cancel": "enough", "deadline": "deadline"} {
		t.Run(how, func(t *testing.T) {
			s := stage.Scene{N: 4, Play: []string{"context", how}}
			x, err := s.Local(t)
			if how == "cancel" && !errors.Is(err, stage.ErrEnough) || how == "deadline" && !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			checkContext(t, "Local", x, kind)
			x, _ = s.Real(t)
			checkContext(t, "processes", x, kind)
		})
	}
}

func checkContext(t *testing.T, where string, x *stage.Script, kind string) {
	t.Helper()
	var began time.Time
	for _, l := range x.Of("ready") {
		if l.Rank == stage.Odd {
			began = l.At
		}
	}
	errs := x.Of("error")
	if len(errs) != 4 {
		t.Fatalf("%s: %v", where, errs)
	}
	for _, l := range errs {
		switch {
		case l.Rank == stage.Odd:
			t.Logf("%s: the wait ended %v after the context", where, l.At.Sub(began)-300*time.Millisecond)
			if l.Kind != kind || l.At.Sub(began) > 2*time.Second {
				t.Errorf("%s: the odd one's end after %v: %s", where, l.At.Sub(began), l.Text)
			}
		case l.Kind != "lost" || !slices.Contains(l.Tasks, stage.Odd) && l.Rank == 0:
			t.Errorf("%s: task %d: %s, tasks %v: %s", where, l.Rank, l.Kind, l.Tasks, l.Text)
		}
	}
}

// TestInterruptEndsMain sends an interrupt to processes that wait in Main.
func TestInterruptEndsMain(t *testing.T) {
	g := stage.Scene{N: 3, Play: []string{"context", "main"}}.Begin(t)
	pids := g.Pids(t, "ready")
	time.Sleep(50 * time.Millisecond)
	for _, pid := range pids {
		if err := posix.Kill(pid, syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
	}
	report := g.End(t)
	errs := g.Of("error")
	if len(errs) != 3 || report.Exit != 1 {
		t.Fatalf("%v, exit %d", errs, report.Exit)
	}
	for _, task := range report.Tasks {
		if task.Exit == nil || *task.Exit != 1 {
			t.Errorf("task %d: %v", task.Rank, task)
		}
	}
	for _, l := range errs {
		if l.Kind != "canceled" && l.Kind != "lost" { // lost: another one was faster
			t.Errorf("task %d: %s: %s", l.Rank, l.Kind, l.Text)
		}
	}
}

// TestNothingIsBegunAfterTheContext: a process whose context has ended does not run the tasks of
// crashed processes.
func TestNothingIsBegunAfterTheContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	job := coppice.Job{Local: 2}
	var again atomic.Bool
	err := job.Run(coppicetest.WithKills(ctx, "1@barrier#1"), func(ctx context.Context, task *coppice.Task) error {
		if task.Attempt() > 0 {
			again.Store(true)
		}
		if task.Rank() == 0 {
			cancel(stage.ErrEnough)
			return nil
		}
		<-ctx.Done()
		return coppice.Barrier(context.Background(), task)
	})
	if again.Load() || !errors.Is(err, stage.ErrEnough) {
		t.Errorf("run again: %v; %v", again.Load(), err)
	}
}

// TestInterruptOfTheLauncher: the launcher forwards an interrupt, and all processes end.
func TestInterruptOfTheLauncher(t *testing.T) {
	t.Parallel()
	s := stage.Scene{N: 3, Play: []string{"context", "main"}}
	g, launcher := s.Launched(t)
	g.Await(t, "ready", 3)
	time.Sleep(50 * time.Millisecond)
	if err := launcher.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	err := launcher.Wait()
	if status, ok := launcher.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() || status.Signal() != syscall.SIGINT {
		t.Errorf("ended otherwise than by the signal: %v", err)
	}
	if errs := g.Of("error"); len(errs) != 3 {
		t.Errorf("%v", errs)
	}
}

// manyTasks is a play of messages and collectives among all tasks, however many there are in a process.
func manyTasks(tell func(stage.Line), _ []string) coppice.Func {
	return func(ctx context.Context, t *coppice.Task) error {
		tell := stage.Telling(tell, t)
		err := allKinds(ctx, t)
		l := stage.Failure("result", err)
		l.Value = t.Size()
		tell(l)
		return err
	}
}

func allKinds(ctx context.Context, t *coppice.Task) error {
	n, me := t.Size(), t.Rank()
	for round := range 8 {
		for to := range n {
			size := []int{1, 1000, 100_000}[(round+to)%3]
			if err := coppice.Send(ctx, t, to, round%3, pattern(size, me, round)); err != nil {
				return err
			}
		}
		for from := range n {
			got, err := coppice.Recv[[]int32](ctx, t, from, round%3)
			if err != nil {
				return err
			}
			if size := []int{1, 1000, 100_000}[(round+me)%3]; !slices.Equal(got, pattern(size, from, round)) {
				return fmt.Errorf("round %d: bad message from %d", round, from)
			}
		}
		root := round % n
		for _, name := range []string{"checked", "plain", "gossip", "lame", "failure-proof:1"} {
			if n <= 2 && name != "checked" && name != "plain" {
				continue // distances are below the number of tasks
			}
			v, err := coppice.Broadcast(ctx, t, pattern(50_000, me, round), append(modes[name], coppice.Root(root))...)
			if err != nil {
				return err
			}
			if !slices.Equal(v, pattern(50_000, root, round)) {
				return fmt.Errorf("round %d: bad broadcast %s", round, name)
			}
			if round > 0 {
				break
			}
		}
		if err := coppice.Barrier(ctx, t); err != nil {
			return err
		}
	}
	half, err := t.Split(ctx, me%2, -me)
	if err != nil {
		return err
	}
	if want := (n - 1 - me) / 2; half.Size() != (n+1-me%2)/2 || half.Rank() != want {
		return fmt.Errorf("task %d is %d of %d in its half", me, half.Rank(), half.Size())
	}
	future := coppice.Go(t, func(t *coppice.Task) (int, error) { return coppice.Broadcast(ctx, t, 7*t.Rank(), coppice.Root(n-1)) })
	first, err := coppice.Broadcast(ctx, half, me)
	if err != nil {
		return err
	}
	if want := n - 2 + (n+me)%2; first != want && n > 1 {
		return fmt.Errorf("the first of the half of %d is %d", me, first)
	}
	if v, err := future.Wait(ctx); err != nil || v != 7*(n-1) {
		return fmt.Errorf("future: %d, %w", v, err)
	}
	return coppice.Barrier(ctx, half)
}

func pattern(size, who, round int) []int32 {
	p := make([]int32, size)
	for i := range p {
		p[i] = int32(i*7 + who*1000 + round)
	}
	return p
}

// TestMoreTasksThanProcesses runs six tasks in two processes, and others.
func TestMoreTasksThanProcesses(t *testing.T) {
	for _, of := range [][2]int{{1, 1}, {2, 2}, {2, 6}, {1, 4}, {3, 4}} {
		t.Run(fmt.Sprint(of), func(t *testing.T) {
			s := stage.Scene{N: of[0], Settings: stage.Settings{Tasks: of[1]}, Play: []string{"many"}}
			x, err := s.Local(t)
			if err != nil {
				t.Error("Local: ", err)
			}
			y, _ := s.Real(t)
			for where, x := range map[string]*stage.Script{"Local": x, "processes": y} {
				results := x.Of("result")
				if !slices.Equal(stage.Ranks(results), stage.Without(of[1])) {
					t.Errorf("%s: %v", where, results)
				}
				for _, l := range results {
					if l.Kind != "well" {
						t.Errorf("%s: task %d: %s", where, l.Rank, l.Text)
					}
				}
			}
		})
	}
}

// held counts what this process holds: goroutines, descriptors, bytes.
type held struct{ goroutines, descriptors, bytes int }

func holds() held {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	fds, _ := os.ReadDir("/proc/self/fd")
	return held{runtime.NumGoroutine(), len(fds), int(m.HeapAlloc)}
}

// leaking is a play of many operations that reports what they leave behind.
func leaking(tell func(stage.Line), args []string) coppice.Func {
	times := stage.Number(args[0])
	return func(ctx context.Context, t *coppice.Task) error {
		tell := stage.Telling(tell, t)
		var before held
		for i := range times {
			if i == times/5 {
				before = holds()
			}
			if err := someOfAll(ctx, t, i); err != nil {
				return err
			}
		}
		if err := coppice.Barrier(ctx, t); err != nil {
			return err
		}
		time.Sleep(50 * time.Millisecond)
		after := holds()
		tell(stage.Line{What: "held", Text: fmt.Sprintf("%+v, then %+v", before, after), Tasks: []int{
			after.goroutines - before.goroutines, after.descriptors - before.descriptors, after.bytes - before.bytes,
		}})
		return nil
	}
}

func someOfAll(ctx context.Context, t *coppice.Task, i int) error {
	n := t.Size()
	if err := coppice.Send(ctx, t, (t.Rank()+1)%n, i%5, make([]byte, i%2000)); err != nil {
		return err
	}
	if _, err := coppice.Recv[[]byte](ctx, t, (t.Rank()+n-1)%n, i%5); err != nil {
		return err
	}
	name := []string{"replayed", "checked", "gossip", "failure-proof:1"}[i%4]
	if _, err := coppice.Broadcast(ctx, t, i, append(modes[name], coppice.Root(i%n))...); err != nil {
		return err
	}
	if i%4 == 0 {
		f := coppice.Go(t, func(t *coppice.Task) (int, error) {
			return coppice.Broadcast(ctx, t, 1, modes["checked"]...)
		})
		if _, err := f.Wait(ctx); err != nil {
			return err
		}
	}
	return coppice.Barrier(ctx, t)
}

// TestOperationsLeaveNothing counts what a process holds after thousands of operations; with Replay it
// also holds what was sent.
func TestOperationsLeaveNothing(t *testing.T) {
	rounds := stage.Short(1500, 500)
	for name, c := range map[string]struct {
		recovery coppice.Recovery
		bytes    int
	}{
		"Report": {coppice.Report, 1 << 20},
		"Replay": {coppice.Replay, 1<<20 + logPiece + logOf(rounds) - logOf(rounds/5)},
	} {
		t.Run(name, func(t *testing.T) {
			x, report := stage.Scene{N: 3, Settings: stage.Settings{Recovery: c.recovery}, Play: []string{"leak", fmt.Sprint(rounds)}}.Real(t)
			if report.Exit != 0 {
				t.Fatal(report.Cause)
			}
			for _, l := range x.Of("held") {
				t.Logf("task %d: %s", l.Rank, l.Text)
				if l.Tasks[0] > 2 || l.Tasks[1] > 2 || l.Tasks[2] > c.bytes {
					t.Errorf("task %d holds more: goroutines, descriptors, bytes %v; allowed: %d bytes", l.Rank, l.Tasks, c.bytes)
				}
			}
		})
	}
}

// logPiece is the unit in which the log takes memory.
const logPiece = 4 << 20

// logOf bounds the memory of a process's log after this many rounds of someOfAll: the message of each,
// 1 KiB for the operations, 4 KiB for each future's group.
func logOf(rounds int) (bytes int) {
	for i := range rounds {
		if bytes += i%2000 + 1<<10; i%4 == 0 {
			bytes += 4 << 10
		}
	}
	return bytes
}

// TestLocalLeavesNothing runs Local again and again, with deaths, both with Report and with Replay,
// where all tasks end.
func TestLocalLeavesNothing(t *testing.T) {
	once := func(i int) {
		kills, replays := i%2 == 1, i/2%2 == 1
		j := &coppice.Job{Local: 4}
		ctx := stage.Patience(t)
		if kills {
			ctx = coppicetest.WithKills(ctx, "3@barrier#2")
		}
		if !replays {
			j.Recovery = coppice.Report
		}
		var ends, lost atomic.Int32
		err := j.Run(ctx, func(ctx context.Context, t *coppice.Task) error {
			for i := range 10 {
				if err := someOfAll(ctx, t, i); errors.Is(err, coppice.ErrLost) {
					lost.Add(1)
					return nil
				} else if err != nil {
					return err
				}
			}
			ends.Add(1)
			return nil
		})
		if (!kills || replays) && (err != nil || ends.Load() != 4 || lost.Load() != 0) {
			t.Fatalf("kills %t, replays %t: %d tasks ended well, %d in vain: %v", kills, replays, ends.Load(), lost.Load(), err)
		}
		if kills && !replays && (ends.Load() != 0 || lost.Load() == 0) {
			t.Fatalf("%d tasks ended without the dead one, %d in vain: %v", ends.Load(), lost.Load(), err)
		}
	}
	for i := range 20 {
		once(i)
	}
	before := holds()
	for i := range 100 {
		once(i)
	}
	var after held
	for began := time.Now(); time.Since(began) < 5*time.Second; time.Sleep(10 * time.Millisecond) {
		if after = holds(); after.goroutines <= before.goroutines && after.bytes <= before.bytes+1<<20 {
			break
		}
	}
	t.Logf("%+v, then %+v", before, after)
	if after.goroutines > before.goroutines || after.descriptors > before.descriptors || after.bytes > before.bytes+1<<20 {
		t.Errorf("%+v, then %+v", before, after)
	}
}

// TestLauncherKilled kills the launcher: no process outlives it, whatever programs are between the two,
// and its directory is removed.
func TestLauncherKilled(t *testing.T) {
	for _, wrap := range []bool{false, true} {
		t.Run(fmt.Sprint("wrapped ", wrap), func(t *testing.T) {
			s := stage.Scene{N: 4, Play: []string{"wait", "barrier", "3", "cold"}, Wrap: wrap}
			g, launcher := s.Launched(t)
			pids := g.Pids(t, "ready")
			if err := launcher.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			killed := time.Now()
			_ = launcher.Wait()
			for rank, pid := range pids {
				for stage.Alive(pid) {
					if time.Since(killed) > 10*time.Second {
						t.Fatalf("task %d outlives its launcher", rank)
					}
					time.Sleep(5 * time.Millisecond)
				}
			}
			took := time.Since(killed)
			t.Logf("all gone after %v", took)
			if took > 3*time.Second {
				t.Error("too late")
			}
			for {
				left, _ := filepath.Glob(filepath.Join(os.Getenv("COPPICE_JOBS_DIR"), "coppice-*"))
				if len(left) == 0 {
					break
				}
				if time.Since(killed) > 3*time.Second {
					t.Fatalf("left behind: %v", left)
				}
				if !wrap { // the kernel has killed them all: the next job cleans up
					stage.Scene{N: 1, Play: []string{"once", "plain", "0"}}.Real(t)
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
}

// mpirunArgs returns the arguments with which Open MPI starts n processes of this program here.
func mpirunArgs(n int, more ...string) []string {
	return append(append([]string{"--oversubscribe", "--allow-run-as-root"}, more...), "-np", fmt.Sprint(n), os.Args[0])
}

// TestMpirun starts processes with Open MPI: they find each other, and survive the crash of one.
func TestMpirun(t *testing.T) {
	mpirun := needs(t, "mpirun.openmpi", ".ci/install-openmpi installs it")
	t.Run("works", func(t *testing.T) {
		s := stage.Scene{N: 4, Play: []string{"many"}}
		g, cmd := s.Started(t, exec.Command(mpirun, mpirunArgs(4)...), nil)
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		results := g.Of("result")
		for _, l := range results {
			if l.Kind != "well" || l.Value != 4 {
				t.Errorf("%+v", l)
			}
		}
		if len(results) != 4 {
			t.Errorf("%v", results)
		}
	})
	t.Run("survives", func(t *testing.T) {
		const victim = 3
		s := stage.Scene{N: 4, Settings: reported, Play: []string{"wait", "barrier", fmt.Sprint(victim), "warm"}}
		g, cmd := s.Started(t, exec.Command(mpirun, mpirunArgs(4, "-mca", "orte_enable_recovery", "1", "-mca", "orte_abort_on_non_zero_status", "0")...), nil)
		pids := g.Pids(t, "ready")
		time.Sleep(50 * time.Millisecond)
		killed := time.Now()
		if err := posix.Kill(pids[victim], syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // its code is Open MPI's business
		errs := g.Of("error")
		if got := stage.Ranks(errs); !slices.Equal(got, stage.Without(4, victim)) {
			t.Fatalf("errors at %v", got)
		}
		for _, l := range errs {
			t.Logf("task %d after %v", l.Rank, l.At.Sub(killed))
			if l.Kind != "lost" || !slices.Equal(l.Tasks, []int{victim}) {
				t.Errorf("%+v", l)
			}
		}
		if ends := g.Of("end"); len(ends) != 3 {
			t.Errorf("ends: %v", ends)
		}
	})
}

// TestSrun starts processes as srun does: they find each other.
func TestSrun(t *testing.T) {
	const n = 4
	stages, all := srun(t, stage.Scene{N: n, Play: []string{"many"}})
	for rank, cmd := range all {
		if err := cmd.Wait(); err != nil {
			t.Errorf("task %d: %v", rank, err)
		}
		results := stages[rank].Of("result")
		if len(results) != 1 || results[0].Kind != "well" || results[0].Rank != rank || results[0].Value != n {
			t.Errorf("task %d: %+v", rank, results)
		}
	}
}

// TestSrunLosesOne kills one of the processes that srun started: an ordinary one, or the one that has
// the coordinator.
func TestSrunLosesOne(t *testing.T) {
	const n = 4
	for _, victim := range []int{0, 2} {
		t.Run(fmt.Sprint(victim), func(t *testing.T) {
			stages, all := srun(t, stage.Scene{N: n, Settings: reported, Play: []string{"wait", "barrier", fmt.Sprint(victim), "warm"}})
			for _, g := range stages {
				g.Await(t, "ready", 1)
			}
			time.Sleep(20 * time.Millisecond)
			killed := time.Now()
			if err := all[victim].Process.Kill(); err != nil {
				t.Fatal(err)
			}
			for rank, cmd := range all {
				_ = cmd.Wait()
				errs := stages[rank].Of("error")
				switch {
				case rank == victim:
				case len(errs) != 1 || errs[0].Kind != "lost":
					t.Errorf("task %d: %+v", rank, errs)
				default:
					t.Logf("task %d after %v: %s", rank, errs[0].At.Sub(killed), errs[0].Text)
				}
			}
		})
	}
}

// TestSecondRunIsRefused: a process takes part in its job once, and a second attempt fails without
// harm.
func TestSecondRunIsRefused(t *testing.T) {
	x, report := stage.Scene{N: 2, Play: []string{"again"}}.Real(t)
	if again := x.Of("again"); len(again) != 2 || again[0].Kind == "well" || again[1].Kind == "well" {
		t.Errorf("%+v", again)
	}
	if ends := x.Of("end"); len(ends) != 2 || ends[0].Kind != "well" || ends[1].Kind != "well" || report.Exit != 0 {
		t.Errorf("exit %d: %+v", report.Exit, ends)
	}
}

// again is a play that runs twice in the same process.
func again(tell func(stage.Line), _ []string) coppice.Func {
	return func(ctx context.Context, t *coppice.Task) error {
		voice := stage.Telling(tell, t)
		go func() {
			time.Sleep(100 * time.Millisecond)
			voice(stage.Failure("again", coppice.Run(context.Background(), func(context.Context, *coppice.Task) error { return nil })))
		}()
		time.Sleep(300 * time.Millisecond)
		return coppice.Barrier(ctx, t)
	}
}
