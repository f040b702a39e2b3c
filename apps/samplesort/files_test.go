package samplesort

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
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

// TestFilesThatChangeAreNoticed: those that are gone or shorter when they are read, and others by their mark.
func TestFilesThatChangeAreNoticed(t *testing.T) {
	l := Layout{100, 10}
	dir := write(t, map[string][]byte{"a": make([]byte, 300), "b": make([]byte, 300)})
	path := filepath.Join(dir, "b")
	f, err := OpenFiles(dir, l)
	if err != nil {
		t.Fatal(err)
	}
	marks := map[string]bool{f.Mark: true}
	for want, change := range map[string]func() error{
		"EOF":          func() error { return os.Truncate(path, 100) },
		"no such file": func() error { return os.Remove(path) },
	} {
		if err := os.WriteFile(path, make([]byte, 300), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Load(t.Context(), 1, 2); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is wanted, got %v", want, err)
		}
	}
	for _, change := range []func() error{
		func() error { return os.WriteFile(path, make([]byte, 100), 0o666) },
		func() error { return os.WriteFile(path, make([]byte, 200), 0o666) },
		func() error { return os.Chtimes(path, time.Time{}, time.Unix(1, 0)) },
		func() error { return os.Rename(path, filepath.Join(dir, "c")) },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		again, err := OpenFiles(dir, l)
		if err != nil || marks[again.Mark] {
			t.Errorf("the mark is what it was, or %v", err)
		}
		marks[again.Mark] = true
	}
}

// names are those in a directory, and of what lies in its directories.
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
		{"a name is taken", 2, 21, "part-00001", "part-00001 x"}, // by a directory that is not empty
		{"good", 2, 21, "", "part-00000 part-00001"},
	} {
		o, err := NewOutput(dir)
		if err != nil {
			t.Fatal(err)
		}
		write(o)
		if c.obstacle != "" {
			if err := os.MkdirAll(filepath.Join(dir, c.obstacle, "x"), 0o777); err != nil {
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
			if err := os.RemoveAll(filepath.Join(dir, c.obstacle)); err != nil {
				t.Fatal(err)
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
