package samplesort

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coppice-go/coppice"
)

// write makes files in a new directory.
func write(t *testing.T, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFilesAreOneSequence(t *testing.T) {
	all := gensort(rand.New(rand.NewPCG(1, 1)), 1000, 50)
	dir := write(t, map[string][]byte{"a": all[:100], "b": nil, "c": all[100:70000], "d": all[70000:]})
	f, err := OpenFiles(dir, Layout{100, 10})
	if err != nil || f.Count != 1000 {
		t.Fatal(f, err)
	}
	for _, n := range []int{1, 2, 7, 1500} {
		var got []byte
		for i := range n {
			some, err := f.Load(t.Context(), i, n)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, some...)
		}
		if !bytes.Equal(got, all) {
			t.Errorf("%d tasks read something else", n)
		}
	}
}

func TestWrongFilesAreRefused(t *testing.T) {
	l := Layout{100, 10}
	withDir := t.TempDir()
	if err := os.Mkdir(filepath.Join(withDir, "more"), 0o777); err != nil {
		t.Fatal(err)
	}
	for want, dir := range map[string]string{
		"no such file":    filepath.Join(t.TempDir(), "nosuch"),
		"is empty":        t.TempDir(),
		"is not a file":   withDir,
		"has 101 bytes":   write(t, map[string][]byte{"a": make([]byte, 200), "b": make([]byte, 101)}),
		"not a directory": filepath.Join(write(t, map[string][]byte{"a": nil}), "a"),
	} {
		if _, err := OpenFiles(dir, l); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is wanted, got %v", want, err)
		}
	}
	for _, l := range []Layout{{0, 0}, {100, 0}, {100, 101}, {sizeMax + 1, 1}} {
		if l.Check() == nil {
			t.Errorf("%+v", l)
		}
	}
}

// TestFilesThatChangeAreRefused: no task gets other records than there were when the files were opened, nor
// another mark.
func TestFilesThatChangeAreRefused(t *testing.T) {
	l := Layout{100, 10}
	was, other := bytes.Repeat([]byte("a"), 300), bytes.Repeat([]byte("b"), 300)
	for name, change := range map[string]func(path string) error{
		"written over": func(path string) error { return os.WriteFile(path, other, 0o666) },
		"truncated":    func(path string) error { return os.Truncate(path, 100) },
		"longer":       func(path string) error { return os.WriteFile(path, append(was, was...), 0o666) },
		"gone":         os.Remove,
		"replaced": func(path string) error {
			if err := os.Remove(path); err != nil {
				return err
			}
			return os.WriteFile(path, other, 0o666)
		},
		"renamed": func(path string) error { return os.Rename(path, path+"c") },
	} {
		dir := write(t, map[string][]byte{"a": was, "b": was})
		path := filepath.Join(dir, "b")
		if err := os.Chtimes(path, time.Time{}, time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
		f, err := OpenFiles(dir, l)
		if err != nil {
			t.Fatal(err)
		}
		if err := change(path); err != nil {
			t.Fatal(err)
		}
		for i := range 2 { // task 0 reads the other file
			got, err := f.Load(t.Context(), i, 2)
			if err == nil && !bytes.Equal(got, was) || err != nil && err.Error() != path+" has changed since the job began" {
				t.Errorf("%s, task %d: %.9q, %v", name, i, got, err)
			}
			if held := name == "gone" || name == "replaced" || name == "renamed"; held != (err == nil) {
				t.Errorf("%s, task %d: %v", name, i, err)
			}
		}
		again, err := OpenFiles(dir, l)
		if err != nil || again.Mark == f.Mark {
			t.Errorf("%s: the mark is what it was, or %v", name, err)
		}
		if err := errors.Join(f.Close(), again.Close()); err != nil {
			t.Error(err)
		}
	}
}

// names lists the names in a directory and in its subdirectories.
func names(t *testing.T, dir string) string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if path != dir {
			all = append(all, filepath.Base(path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(all, " ")
}

func TestOutputIsWholeOrNothing(t *testing.T) {
	dir := t.TempDir()
	write := func(o *Output) {
		t.Helper()
		err := coppice.Local(t.Context(), 2, func(_ context.Context, task *coppice.Task) error {
			return WritePart(o.Stage, task, make([]byte, 10+task.Rank()))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name     string
		parts    int
		bytes    int64
		obstacle string
		want     string
	}{
		{"a part is missing", 3, 21, "", ""},
		{"a part is too long", 2, 20, "", ""},
		{"a name is taken", 2, 21, "part-00001", "part-00001"},
		{"good", 2, 21, "", "part-00000 part-00001"},
	} {
		o, err := NewOutput(dir)
		if err != nil {
			t.Fatal(err)
		}
		write(o)
		if c.obstacle != "" {
			if err := os.WriteFile(filepath.Join(dir, c.obstacle), []byte("mine"), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		if err := o.Publish(c.parts, c.bytes); (err == nil) != (c.name == "good") {
			t.Errorf("%s: %v", c.name, err)
		}
		if got := names(t, dir); got != c.want {
			t.Errorf("%s: left are %q", c.name, got)
		}
		if c.obstacle != "" {
			if got, err := os.ReadFile(filepath.Join(dir, c.obstacle)); string(got) != "mine" || os.Remove(filepath.Join(dir, c.obstacle)) != nil {
				t.Fatalf("%s: %q, %v", c.name, got, err)
			}
		}
	}
	if _, err := NewOutput(dir); err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("output to a directory that has some: %v", err)
	}
	fresh := filepath.Join(t.TempDir(), "fresh")
	o, err := NewOutput(fresh)
	if err != nil {
		t.Fatal(err)
	}
	write(o)
	if err := o.Discard(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(fresh); !os.IsNotExist(err) {
		t.Errorf("the new directory is left: %v", err)
	}
	if CheckOutput(filepath.Join(fresh, "below")) == nil {
		t.Error("a directory in one that is not there")
	}
}

// TestOneOutputAtATime: of several outputs made at the same time at most one succeeds, and nothing is lost.
func TestOneOutputAtATime(t *testing.T) {
	for range 50 {
		dir := filepath.Join(t.TempDir(), "new")
		made := make(chan *Output, 3)
		var all sync.WaitGroup
		for range cap(made) {
			all.Go(func() {
				o, err := NewOutput(dir)
				if err == nil {
					made <- o
				} else if text := err.Error(); strings.Contains(text, "\n") || !strings.Contains(text, "is not empty") && !errors.Is(err, os.ErrNotExist) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		close(made)
		for o := range made {
			if got := names(t, dir); got != filepath.Base(o.Stage) {
				t.Fatalf("%s was made, and there are %q", filepath.Base(o.Stage), got)
			}
			if err := o.Discard(); err != nil {
				t.Error(err)
			}
		}
	}
}
