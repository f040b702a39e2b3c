package store

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const sign = 42 // of the type of all values here

// open opens the directory for a run of 3 tasks.
func open(t *testing.T, path string, run byte, resume bool) *Dir {
	t.Helper()
	d, err := Open(path, Run{ID: ID{run}, Tasks: 3, Resume: resume})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func shelf(t *testing.T, d *Dir, task int) *Shelf {
	t.Helper()
	s, err := d.Shelf(task)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// flip damages a file.
func flip(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	b[len(b)/2] ^= 4
	must(t, os.WriteFile(path, b, 0o600))
}

func names(t *testing.T, s *Shelf) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(TaskDir(s.dir.path, s.task))
	must(t, err)
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// TestWhoMayOpen opens a directory of run 1 for the next run.
func TestWhoMayOpen(t *testing.T) {
	for name, c := range map[string]struct {
		finished, damaged bool
		next              Run
		words             string // of the error; "": none
		job               ID
	}{
		"another task of the run":        {next: Run{ID: ID{1}, Tasks: 3}, job: ID{1}},
		"a new job, unfinished":          {next: Run{ID: ID{2}, Tasks: 3}, words: "holds the state of an unfinished job; allowed: coppice run --resume, or another directory"},
		"taken up":                       {next: Run{ID: ID{2}, Tasks: 3, Resume: true}, job: ID{1}},
		"taken up with other tasks":      {next: Run{ID: ID{2}, Tasks: 4, Resume: true}, words: "a job of 3 tasks, and this one has 4; allowed: the same number"},
		"a new job, finished":            {finished: true, next: Run{ID: ID{2}, Tasks: 3}, job: ID{2}},
		"a new job of other size":        {finished: true, next: Run{ID: ID{2}, Tasks: 9}, job: ID{2}},
		"a finished one cannot be taken": {finished: true, next: Run{ID: ID{2}, Tasks: 3, Resume: true}, words: "a job that is finished"},
		"started again, unfinished":      {next: Run{ID: ID{2}, Tasks: 3, Restarted: true}, job: ID{1}},
		"started again, finished":        {finished: true, next: Run{ID: ID{2}, Tasks: 3, Restarted: true}, job: ID{2}},
		"nobody knows whose it is":       {damaged: true, next: Run{ID: ID{2}, Tasks: 3, Resume: true}, words: "job: damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a", "b")
			first := open(t, path, 1, false)
			if c.finished {
				must(t, first.Finish())
			}
			if c.damaged {
				flip(t, filepath.Join(first.path, jobFile))
			}
			d, err := Open(path, c.next)
			switch {
			case c.words != "":
				if err == nil || !strings.Contains(err.Error(), c.words) || strings.Contains(err.Error(), "\n") {
					t.Errorf("%v, want %q", err, c.words)
				}
			case err != nil || d.Job() != c.job:
				t.Errorf("%v, %v", d, err)
			}
		})
	}
}

// TestStatesWithoutAJob opens a directory without the job's file, whose states belong to an unknown
// job. They stay.
func TestStatesWithoutAJob(t *testing.T) {
	path := filepath.Join(t.TempDir(), "[a-") // is no pattern
	d := open(t, path, 1, false)
	s := shelf(t, d, 2)
	must(t, s.Save(1, sign, nil))
	must(t, os.Remove(filepath.Join(d.path, jobFile)))
	for _, resume := range []bool{false, true} {
		_, err := Open(path, Run{ID: ID{2}, Tasks: 3, Resume: resume})
		if err == nil || !strings.Contains(err.Error(), path+" holds states, such as "+File(path, 2, 1)+", but no file that says of which job they are; allowed: ") {
			t.Error(err)
		}
	}
	if got := names(t, s); !slices.Equal(got, []string{"epoch-1"}) {
		t.Error(got)
	}
}

// TestAllTasksOpenAtOnce checks that all tasks write the same job file, or find it.
func TestAllTasksOpenAtOnce(t *testing.T) {
	path := t.TempDir()
	for run := range byte(4) { // the first two are one job, as are the others
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				d, err := Open(path, Run{ID: ID{run + 1}, Tasks: 3, Resume: run%2 == 1})
				if err != nil || d.Job() != (ID{run/2*2 + 1}) {
					t.Errorf("run %d: %v, %v", run, d, err)
				}
			})
		}
		wg.Wait()
		if run == 1 {
			d := open(t, path, 2, true)
			must(t, d.Finish())
			must(t, d.Finish())
		}
	}
}

// TestEarlierRunIsOver checks that a late process of an earlier run cannot finish or change the job.
func TestEarlierRunIsOver(t *testing.T) {
	path := t.TempDir()
	late := open(t, path, 1, false)
	s := shelf(t, late, 0)
	open(t, path, 2, true)
	must(t, late.Finish())
	_, err := s.Keep(0, 1, sign, nil)
	for _, err := range []error{err, s.Save(1, sign, nil)} {
		if err == nil || !strings.Contains(err.Error(), "a later run has taken the job up") {
			t.Error(err)
		}
	}
	if _, err := Open(path, Run{ID: ID{3}, Tasks: 3}); err == nil {
		t.Error("the job counts as finished")
	}
	must(t, os.RemoveAll(path))
	must(t, late.Finish())
}

func TestReadIsExact(t *testing.T) {
	path := t.TempDir()
	s := shelf(t, open(t, path, 1, false), 2)
	must(t, s.Save(4, sign, []byte("four")))
	must(t, s.Save(5, sign, []byte("fife")))
	must(t, s.Save(5, sign, []byte("five")))
	if b, err := s.State(5, sign); err != nil || string(b) != "five" {
		t.Errorf("%q, %v", b, err)
	}
	other := shelf(t, &Dir{s.dir.folder, Run{ID: ID{1}, Tasks: 4}, ID{1}}, 2)
	for name, c := range map[string]struct {
		read  func() ([]byte, error)
		is    error
		words string
	}{
		"another epoch": {func() ([]byte, error) { return s.State(6, sign) }, fs.ErrNotExist, File(path, 2, 6)},
		"another type":  {func() ([]byte, error) { return s.State(5, sign+1) }, nil, File(path, 2, 5) + ": a value of another type"},
		"another size":  {func() ([]byte, error) { return other.State(5, sign) }, nil, "of a job of 3 tasks, and this one has 4"},
		"a flipped bit": {func() ([]byte, error) { flip(t, File(s.dir.path, s.task, 4)); return s.State(4, sign) }, ErrDamaged, File(path, 2, 4)},
		"another file under the name": {func() ([]byte, error) {
			must(t, os.Link(File(s.dir.path, s.task, 5), File(s.dir.path, s.task, 9)))
			return s.State(9, sign)
		}, ErrDamaged, File(path, 2, 9)},
		"a torn write": {func() ([]byte, error) {
			b, err := os.ReadFile(File(s.dir.path, s.task, 5))
			must(t, err)
			must(t, os.WriteFile(File(s.dir.path, s.task, 8), b[:len(b)-3], 0o600))
			return s.State(8, sign)
		}, ErrDamaged, File(path, 2, 8)},
	} {
		b, err := c.read()
		if err == nil || c.is != nil && !errors.Is(err, c.is) || c.is == nil && errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
}

// TestFirstValueStays checks that an attempt that no other process knows of cannot replace the first value.
func TestFirstValueStays(t *testing.T) {
	s := shelf(t, open(t, t.TempDir(), 1, false), 0)
	if _, err := s.Value(0, 7, sign); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if before, err := s.Keep(0, 7, sign, []byte("first")); before != nil || err != nil {
		t.Errorf("%q, %v", before, err)
	}
	if before, err := s.Keep(0, 7, sign, []byte("second")); string(before) != "first" || err != nil {
		t.Errorf("%q, %v", before, err)
	}
	if got := names(t, s); !slices.Equal(got, []string{"epoch-0-0000000000000007"}) {
		t.Error(got)
	}
}

// TestLatestAttemptCounts lets an attempt that is over save after its successor has saved.
func TestLatestAttemptCounts(t *testing.T) {
	d := open(t, t.TempDir(), 1, false)
	first, second, third := shelf(t, d, 2), shelf(t, d, 2), shelf(t, d, 2)
	second.Attempt, third.Attempt = 2, 10
	must(t, first.Save(4, sign, []byte("four")))
	must(t, third.Save(5, sign, []byte("five")))
	must(t, second.Save(5, sign, []byte("late")))
	must(t, first.Save(5, sign, []byte("later")))
	for epoch, want := range map[uint64]string{4: "four", 5: "five"} {
		for _, s := range []*Shelf{first, second, third} {
			if b, err := s.State(epoch, sign); err != nil || string(b) != want {
				t.Errorf("attempt %d reads %q of epoch %d, %v; want %q", s.Attempt, b, epoch, err, want)
			}
		}
	}
	if f, err := first.Find(sign); err != nil || f != (Found{Newest: 5, Before: 4}) {
		t.Errorf("%+v, %v", f, err)
	}
	must(t, first.Prune(7))
	if _, err := first.State(5, sign); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("pruned: %v", err)
	}
}

// TestAttemptsBeginWhileOthersSave checks that an attempt that begins, and so clears the shelf, loses
// nothing that others write meanwhile.
func TestAttemptsBeginWhileOthersSave(t *testing.T) {
	d := open(t, t.TempDir(), 1, false)
	saves := shelf(t, d, 0)
	var over atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for !over.Load() {
			if _, err := d.Shelf(0); err != nil {
				t.Error(err)
				return
			}
			time.Sleep(rand.N(time.Millisecond))
		}
	})
	for epoch := range uint64(30) {
		if err := saves.Save(epoch+1, sign, []byte("state")); err != nil {
			t.Error(err)
		}
		if before, err := saves.Keep(epoch, 1, sign, []byte("value")); err != nil || before != nil {
			t.Errorf("epoch %d: %q, %v", epoch, before, err)
		}
		if got, err := saves.Value(epoch, 1, sign); err != nil || string(got) != "value" {
			t.Errorf("epoch %d: %q, %v", epoch, got, err)
		}
	}
	over.Store(true)
	wg.Wait()
}

func TestWhatIsRemoved(t *testing.T) {
	path := t.TempDir()
	fill := func(s *Shelf, epochs ...uint64) {
		t.Helper()
		for _, e := range epochs {
			if e > 0 {
				must(t, s.Save(e, sign, nil))
			}
			_, err := s.Keep(e, 1, sign, nil)
			must(t, err)
		}
	}
	left := func(s *Shelf, want ...string) {
		t.Helper()
		if got := names(t, s); !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
	const key = "-0000000000000001"
	s := shelf(t, open(t, path, 1, false), 0)
	fill(s, 0, 1, 2, 3, 4)
	must(t, os.WriteFile(filepath.Join(TaskDir(s.dir.path, s.task), partPrefix+"1"), nil, 0o600))
	must(t, os.WriteFile(filepath.Join(TaskDir(s.dir.path, s.task), "epoch-03"), nil, 0o600)) // not ours
	must(t, s.Prune(4))
	s = shelf(t, open(t, path, 2, true), 0)
	left(s, "epoch-0"+key, "epoch-03", "epoch-3", "epoch-3"+key, "epoch-4", "epoch-4"+key)

	must(t, s.Save(5, sign, nil)) // of this run
	must(t, s.Forget(3))
	left(s, "epoch-0"+key, "epoch-03", "epoch-3", "epoch-3"+key, "epoch-5")

	must(t, s.dir.Finish())
	flip(t, File(s.dir.path, s.task, 3)) // nobody can tell whose it is
	left(shelf(t, open(t, path, 3, false), 0), "epoch-03", "epoch-3")
}

func TestNewestSoundStates(t *testing.T) {
	for name, c := range map[string]struct {
		epochs, damaged []uint64
		want            Found
	}{
		"none":              {},
		"one":               {[]uint64{1}, nil, Found{1, 0, 0}},
		"three":             {[]uint64{9, 10, 11}, nil, Found{11, 10, 0}},
		"the newest":        {[]uint64{9, 10, 11}, []uint64{11}, Found{10, 9, 11}},
		"the one before":    {[]uint64{10, 11}, []uint64{10}, Found{11, 0, 10}},
		"all that it had":   {[]uint64{10, 11}, []uint64{10, 11}, Found{0, 0, 11}},
		"the only one":      {[]uint64{1}, []uint64{1}, Found{0, 0, 1}},
		"one not looked at": {[]uint64{9, 10, 11}, []uint64{9}, Found{11, 10, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			path := t.TempDir()
			s := shelf(t, open(t, path, 1, false), 1)
			_, err := s.Keep(20, 3, sign, nil) // is no state
			must(t, err)
			for _, e := range c.epochs {
				must(t, s.Save(e, sign, []byte("state")))
			}
			for _, e := range c.damaged {
				flip(t, File(s.dir.path, s.task, e))
			}
			s = shelf(t, open(t, path, 2, true), 1)
			for range 2 { // another attempt finds the same
				if got, err := s.Find(sign); err != nil || got != c.want {
					t.Errorf("%v, %v; want %v", got, err, c.want)
				}
				must(t, s.Save(12, sign, []byte("later")))
			}
			s = shelf(t, open(t, path, 3, true), 1)
			if got, err := s.Find(sign); err != nil || got.Newest != 12 {
				t.Errorf("the run after: %v, %v", got, err)
			}
		})
	}
}

func TestNewestOfAnotherType(t *testing.T) {
	s := shelf(t, open(t, t.TempDir(), 1, false), 1)
	must(t, s.Save(1, sign, nil))
	if f, err := s.Find(sign + 1); err == nil || !strings.Contains(err.Error(), "another type") {
		t.Errorf("%v, %v", f, err)
	}
}
