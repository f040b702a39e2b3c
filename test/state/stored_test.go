package state_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/coppicetest"
	"github.com/coppice-go/coppice/internal/posix"
	"github.com/coppice-go/coppice/test/stage"
)

// fell is a walk whose state is stored. Its first value comes from outside.
type fell struct {
	dir    string
	base   uint64 // 0: the first value is no longer available
	rounds int
	before func(ctx context.Context, t *coppice.Task, round int) error // called before each Save
	after  func(ctx context.Context, t *coppice.Task, round int) error
}

func (f fell) walk(ctx context.Context, t *coppice.Task) (w walk, err error) {
	at := coppice.Stored(f.dir)
	seed, err := coppice.Once(ctx, t, func(context.Context) (uint64, error) {
		if f.base == 0 {
			return 0, errors.New("asked again for what it begins with")
		}
		return f.base + uint64(t.Rank()), nil
	}, at)
	if err != nil {
		return w, err
	}
	side := t.Fork()
	odd, err := t.Split(ctx, t.Rank()%2, 0)
	if err != nil {
		return w, err
	}
	if w.Sum, err = coppice.AllReduce(ctx, t, seed, coppice.Sum); err != nil {
		return w, err
	}
	for ; w.Round < f.rounds; w.Round++ {
		if f.before != nil {
			if err := f.before(ctx, t, w.Round); err != nil {
				return w, err
			}
		}
		if err := coppice.Save(ctx, t, &w, at); err != nil {
			return w, err
		}
		if f.after != nil {
			if err := f.after(ctx, t, w.Round); err != nil {
				return w, err
			}
		}
		if err := w.step(ctx, t, side, odd); err != nil {
			return w, err
		}
	}
	return w, nil
}

// run runs the walk in a job and returns the trail, if all tasks have the same.
func (f fell) run(t *testing.T, job coppice.Job, kills ...string) ([]uint64, error) {
	t.Helper()
	if job.Local == 0 {
		job.Local = 5
	}
	var mu sync.Mutex
	var trails [][]uint64
	err := job.Run(coppicetest.WithKills(t.Context(), kills...), func(ctx context.Context, task *coppice.Task) error {
		w, err := f.walk(ctx, task)
		if err == nil {
			mu.Lock()
			trails = append(trails, w.Trail)
			mu.Unlock()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, trail := range trails {
		if !slices.Equal(trail, trails[0]) {
			t.Errorf("%v at one task, %v at another", trail, trails[0])
		}
	}
	return trails[0], nil
}

// falls ends the job in a round, by a task that goes no further. Others save once more.
func (f fell) falls(t *testing.T, round, task int) {
	t.Helper()
	f.before = func(_ context.Context, t *coppice.Task, at int) error {
		if at == round && t.Rank() == task {
			time.Sleep(20 * time.Millisecond) // others go ahead
			return stage.ErrEnough
		}
		return nil
	}
	if _, err := f.run(t, coppice.Job{}); !errors.Is(err, stage.ErrEnough) {
		t.Fatal(err)
	}
}

// again runs the walk to its end and compares the trail.
func (f fell) again(t *testing.T, job coppice.Job, want []uint64, kills ...string) {
	t.Helper()
	if got, err := f.run(t, job, kills...); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
}

// refused runs the walk and expects an error.
func (f fell) refused(t *testing.T, job coppice.Job, is error, words string) {
	t.Helper()
	_, err := f.run(t, job)
	if err == nil || is != nil && !errors.Is(err, is) || !strings.Contains(err.Error(), words) {
		t.Errorf("%v; want %v, with %q", err, is, words)
	}
}

// damage flips a bit of a file.
func damage(path string) error {
	b, err := os.ReadFile(path)
	if err == nil {
		b[len(b)/2] ^= 1
		err = os.WriteFile(path, b, 0o600)
	}
	return err
}

func stateFile(dir string, task, epoch int) string {
	return filepath.Join(dir, fmt.Sprint(task), fmt.Sprint("epoch-", epoch))
}

func TestStoredResumes(t *testing.T) {
	t.Parallel()
	want, err := fell{dir: t.TempDir(), base: 7, rounds: 6}.run(t, coppice.Job{})
	if err != nil || len(want) != 6 {
		t.Fatal(want, err)
	}
	for _, kills := range [][]string{
		{"1@save#1"},
		{"1@save#1/1"},
		{"2@save#4"},
		{"0@save#5"},
		{"3@once#1"},
		{"0@allreduce#5", "1@allreduce#11/2", "2@save#6"},
		{"0@allreduce#7", "1@allreduce#7", "2@allreduce#7", "4@allreduce#7"}, // more than there would be copies for
	} {
		t.Run(fmt.Sprint(kills), func(t *testing.T) {
			fell{dir: t.TempDir(), base: 7, rounds: 6}.again(t, coppice.Job{}, want, kills...)
		})
	}
}

// TestStoredJobIsTakenUp: a resumed job goes on as if nothing had happened, whichever processes crash
// then, and finishes once.
func TestStoredJobIsTakenUp(t *testing.T) {
	t.Parallel()
	want, err := fell{dir: t.TempDir(), base: 7, rounds: 6}.run(t, coppice.Job{})
	if err != nil {
		t.Fatal(err)
	}
	for _, round := range []int{0, 1, 3} {
		for _, kills := range [][]string{nil, {"1@allgather#1"}, {"0@allgather#1/2", "2@save#1"}, {"3@save#2", "1@once#1"}, {"4@save#1/1"}} {
			t.Run(fmt.Sprint(round, kills), func(t *testing.T) {
				first, later := fell{dir: t.TempDir(), base: 7, rounds: 6}, fell{rounds: 6}
				later.dir = first.dir
				first.falls(t, round, round%5)
				if round > 1 {
					later.refused(t, coppice.Job{}, nil, first.dir+" holds the state of an unfinished job; allowed: coppice run --resume, or another directory")
					later.refused(t, coppice.Job{Local: 4, Resume: true}, nil, "a job of 5 tasks, and this one has 4; allowed: the same number")
					later.fallsAgain(t, round+1)
				}
				job := coppice.Job{Resume: true}
				if kills == nil { // in fewer processes
					job.Local, job.Tasks = 3, 5
				}
				later.again(t, job, want)
				later.refused(t, coppice.Job{Resume: true}, nil, first.dir+" holds the state of a job that is finished")
				first.again(t, coppice.Job{}, want)
				first.again(t, coppice.Job{}, want, kills...)
			})
		}
	}
}

// fallsAgain resumes the job and ends it again.
func (f fell) fallsAgain(t *testing.T, round int) {
	t.Helper()
	f.after = func(_ context.Context, t *coppice.Task, at int) error {
		if at == round && t.Rank() == 2 {
			return stage.ErrEnough
		}
		return nil
	}
	if _, err := f.run(t, coppice.Job{Resume: true}); !errors.Is(err, stage.ErrEnough) {
		t.Fatal(err)
	}
}

// TestStoredDamaged: a task that is run again has the state that it saved last, or is lost.
func TestStoredDamaged(t *testing.T) {
	for name, harm := range map[string]func(path string) error{"damaged": damage, "no such file": os.Remove} {
		t.Run(name, func(t *testing.T) {
			f := fell{dir: t.TempDir(), base: 7, rounds: 6}
			f.after = func(ctx context.Context, task *coppice.Task, round int) error {
				if task.Rank() == 1 && round == 3 && task.Attempt() == 0 {
					if err := harm(stateFile(f.dir, 1, 4)); err != nil {
						return err
					}
				}
				if task.Attempt() > 0 {
					t.Errorf("task %d goes on in round %d", task.Rank(), round)
				}
				if round == 3 {
					return coppice.Barrier(ctx, task)
				}
				return nil
			}
			_, err := f.run(t, coppice.Job{}, "1@barrier#1")
			var failed *coppice.FailedError
			if !errors.Is(err, coppice.ErrLost) || !errors.As(err, &failed) || !slices.Equal(failed.Tasks, []int{1}) ||
				!strings.Contains(err.Error(), stateFile(f.dir, 1, 4)) || !strings.Contains(err.Error(), name) {
				t.Error(err)
			}
		})
	}
}

// TestTakenUpDamaged: all tasks go on from one epoch, or none does.
func TestTakenUpDamaged(t *testing.T) {
	t.Parallel()
	want, err := fell{dir: t.TempDir(), base: 7, rounds: 6}.run(t, coppice.Job{})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		harm  func(dir string) error
		words func(dir string) string // nil: the job goes on
	}{
		"the newest of one": {harm: func(dir string) error { return damage(stateFile(dir, 1, 4)) }},
		"the newest of all": {harm: func(dir string) (err error) {
			for task := range 5 {
				err = errors.Join(err, damage(stateFile(dir, task, 4)))
			}
			return err
		}},
		"all of one": {
			harm: func(dir string) error {
				return errors.Join(damage(stateFile(dir, 1, 4)), damage(stateFile(dir, 1, 3)))
			},
			words: func(dir string) string { return "task 1 is lost: " + stateFile(dir, 1, 4) + " is damaged" },
		},
		"one has none": {
			harm: func(dir string) error {
				return errors.Join(os.Remove(stateFile(dir, 2, 3)), os.Remove(stateFile(dir, 2, 4)))
			},
			words: func(dir string) string { return "task 2 is lost: " + filepath.Join(dir, "2") + " has no state" },
		},
		"no epoch that all have": {
			harm: func(dir string) error {
				return errors.Join(os.Remove(stateFile(dir, 1, 4)), os.Remove(stateFile(dir, 3, 3)))
			},
			words: func(dir string) string { return "task 3 is lost: " + stateFile(dir, 3, 3) + " is missing" },
		},
		"a value from outside": {
			harm: func(dir string) error {
				all, err := filepath.Glob(filepath.Join(dir, "3", "epoch-0-*"))
				if err != nil || len(all) != 1 {
					return fmt.Errorf("%v, %w", all, err)
				}
				return damage(all[0])
			},
			words: func(dir string) string { return "task 3 is lost: " + filepath.Join(dir, "3", "epoch-0-") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			first, later := fell{dir: t.TempDir(), base: 7, rounds: 6}, fell{rounds: 6}
			later.dir = first.dir
			first.after = func(ctx context.Context, t *coppice.Task, round int) error {
				if round < 3 {
					return nil
				}
				return errors.Join(coppice.Barrier(ctx, t), stage.ErrEnough) // all have saved epoch 4, and none more
			}
			if _, err := first.run(t, coppice.Job{}); !errors.Is(err, stage.ErrEnough) {
				t.Fatal(err)
			}
			if err := c.harm(first.dir); err != nil {
				t.Fatal(err)
			}
			if c.words == nil {
				later.again(t, coppice.Job{Resume: true}, want)
			} else {
				later.refused(t, coppice.Job{Resume: true}, coppice.ErrLost, c.words(first.dir))
			}
		})
	}
}

func TestStoredMisused(t *testing.T) {
	dir := t.TempDir()
	for words, opts := range map[string][]coppice.SaveOption{
		"Stored without a directory; allowed": {coppice.Stored("")},
		"allowed: one directory":              {coppice.Stored(dir), coppice.Stored(dir + "/other")},
	} {
		err := coppice.Local(t.Context(), 1, func(ctx context.Context, task *coppice.Task) error {
			_, err := coppice.Once(ctx, task, func(context.Context) (int, error) { return 1, nil }, opts...)
			if err == nil || !strings.Contains(err.Error(), words) {
				t.Error(err)
			}
			return coppice.Save(ctx, task, new(int), opts...)
		})
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Error(err)
		}
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Error(left)
	}
}

// TestStoredOfAnotherType: the program has changed since it saved.
func TestStoredOfAnotherType(t *testing.T) {
	dir := t.TempDir()
	_ = coppice.Local(t.Context(), 2, func(ctx context.Context, t *coppice.Task) error {
		return errors.Join(coppice.Save(ctx, t, new(int), coppice.Stored(dir)), stage.ErrEnough)
	})
	job := coppice.Job{Local: 2, Resume: true}
	err := job.Run(t.Context(), func(ctx context.Context, t *coppice.Task) error {
		return coppice.Save(ctx, t, new(string), coppice.Stored(dir))
	})
	if err == nil || !strings.Contains(err.Error(), "a value of another type") {
		t.Error(err)
	}
}

func init() { stage.Plays["stored"] = storing }

// storing is a fell as a play. Its arguments are the directory, the first value, the rounds, a round in
// which it waits to be killed, and a task that fails in the end.
func storing(tell func(stage.Line), args []string) coppice.Func {
	return func(ctx context.Context, t *coppice.Task) error {
		f := fell{dir: args[0], base: uint64(stage.Number(args[1])), rounds: stage.Number(args[2])}
		say := stage.Telling(tell, t)
		f.after = func(ctx context.Context, _ *coppice.Task, round int) error {
			if round != stage.Number(args[3]) {
				return nil
			}
			say(stage.Line{What: "ready"})
			<-ctx.Done()
			return ctx.Err()
		}
		w, err := f.walk(ctx, t)
		if err != nil {
			say(stage.Failure("error", err))
			return err
		}
		say(stage.Line{What: "trail", Text: fmt.Sprint(w.Trail)})
		if len(args) > 4 && t.Rank() == stage.Number(args[4]) {
			return stage.ErrEnough
		}
		return nil
	}
}

// TestLauncherKilledAndResumed: the launcher is killed, and with it the whole job. The resumed job ends
// as the first one would have.
func TestLauncherKilledAndResumed(t *testing.T) {
	t.Parallel()
	want, err := fell{dir: t.TempDir(), base: 7, rounds: 6}.run(t, coppice.Job{})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "states")
	play := func(base, hold int) stage.Scene {
		return stage.Scene{N: 5, Play: []string{"stored", dir, fmt.Sprint(base), "6", fmt.Sprint(hold)}}
	}
	for i, hold := range []int{2, 3} {
		flags := [][]string{nil, {"--resume"}}[i]
		g, launcher := play([]int{7, 0}[i], hold).Launched(t, flags...)
		pids := g.Pids(t, "ready")
		if err := launcher.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = launcher.Wait()
		for _, pid := range pids {
			for stage.Alive(pid) {
				time.Sleep(5 * time.Millisecond)
			}
		}
	}
	for _, c := range []struct {
		flags []string
		words string // of the error; "": it ends well
	}{
		{nil, "holds the state of an unfinished job"},
		{[]string{"-n", "4", "--resume"}, "a job of 5 tasks, and this one has 4"},
		{[]string{"--resume", "--kill", "3@save#2", "--kill", "0@allreduce#4"}, ""},
		{[]string{"--resume"}, "a job that is finished"},
	} {
		g, launcher := play(0, -1).Launched(t, c.flags...)
		err := launcher.Wait()
		if c.words != "" {
			if err == nil || !strings.Contains(g.Err.String(), c.words) {
				t.Errorf("%v: %v, %s", c.flags, err, g.Err.String())
			}
			continue
		}
		tasks := map[int]bool{}
		for _, l := range g.Of("trail") {
			tasks[l.Rank] = true
			if l.Text != fmt.Sprint(want) {
				t.Errorf("task %d: %s, want %v", l.Rank, l.Text, want)
			}
		}
		if err != nil || len(tasks) != 5 || strings.Contains(g.Err.String(), "nothing was taken up") {
			t.Errorf("%v: %v, %d tasks: %s", c.flags, err, len(tasks), g.Err.String())
		}
	}
}

// TestResumeOfNothingIsTold: a job that resumes but finds no earlier job's state warns once.
func TestResumeOfNothingIsTold(t *testing.T) {
	dir := t.TempDir()
	save := func(ctx context.Context, task *coppice.Task) error {
		return coppice.Save(ctx, task, new(int), coppice.Stored(dir))
	}
	for _, c := range []struct {
		name   string
		resume bool
		f      coppice.Func
		fails  bool
		want   int
	}{
		{"nothing is stored", true, stage.Barrier, false, 1},
		{"not asked for", false, stage.Barrier, false, 0},
		{"it ends badly", true, stage.Fail, true, 0},
		{"a new directory", true, save, false, 1},
		{"left unfinished", false, func(ctx context.Context, task *coppice.Task) error {
			return errors.Join(save(ctx, task), stage.ErrEnough)
		}, true, 0},
		{"taken up", true, save, false, 0},
	} {
		var told bytes.Buffer
		job := coppice.Job{Local: 3, Resume: c.resume, Logger: slog.New(slog.NewTextHandler(&told, &slog.HandlerOptions{Level: slog.LevelWarn}))}
		err := job.Run(t.Context(), c.f)
		if got := strings.Count(told.String(), "nothing was taken up again"); (err != nil) != c.fails || got != c.want {
			t.Errorf("%s: %v, told %d times, want %d: %s", c.name, err, got, c.want, told.String())
		}
	}
}

// TestStoredProcessesKilled: real processes crash, and others read their files.
func TestStoredProcessesKilled(t *testing.T) {
	s := stage.Scene{N: 4, Play: []string{"stored", t.TempDir(), "7", "200", "20"}}
	g := s.Begin(t)
	pids := g.Pids(t, "ready")
	for _, victim := range []int{1, 2, 3} {
		if err := posix.Kill(pids[victim], syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	// From their files, in the same round. A victim may have taken over tasks of one that crashed
	// before it.
	left := map[int]bool{1: true, 2: true, 3: true}
	for n := 5; len(left) > 0; n++ {
		l := g.Await(t, "ready", n)[n-1]
		switch {
		case l.Rank == 0:
			t.Errorf("%v", l)
		case l.Pid == pids[0]:
			delete(left, l.Rank)
		case n > 4+3+2:
			t.Fatalf("%v are not taken over by the process that lives", left)
		}
	}
}

// TestFailedJobIsNotFinished: one task has failed, and the processes of the others know.
func TestFailedJobIsNotFinished(t *testing.T) {
	dir := t.TempDir()
	s := stage.Scene{N: 3, Play: []string{"stored", dir, "7", "3", "-1", "2"}}
	if x, report := s.Real(t); report.Exit == 0 || len(x.Of("trail")) != 3 {
		t.Fatalf("%v: %v", report, x.Lines)
	}
	s.Play = []string{"stored", dir, "0", "3", "-1"}
	for _, resume := range []bool{false, true} {
		flags := map[bool][]string{true: {"--resume"}}[resume]
		g, launcher := s.Launched(t, flags...)
		if err := launcher.Wait(); (err == nil) != resume || !resume && !strings.Contains(g.Err.String(), "unfinished job") {
			t.Errorf("%v: %v: %s", flags, err, g.Err.String())
		}
	}
}
