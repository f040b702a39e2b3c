//go:build unix

package input

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestOnlyFilesAreOpened: other files are refused, above all a pipe, at which a process could wait forever.
func TestOnlyFilesAreOpened(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skipf("runs where there are named pipes: %v", err)
	}
	var s Files
	for _, path := range []string{dir, pipe, os.DevNull} {
		if _, err := s.Open(path); err == nil || err.Error() != path+" is not a file; allowed: a file" {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := s.Open(filepath.Join(dir, "none")); !os.IsNotExist(err) {
		t.Error(err)
	}
	if len(s) != 0 {
		t.Errorf("%d are open", len(s))
	}
}

func TestChangesAreFound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	for name, c := range map[string]struct {
		change func() error
		found  bool // by a process that has it open
	}{
		"written over": {func() error { return rewrite(path, "HELLO") }, true},
		"longer":       {func() error { return os.WriteFile(path, []byte("hello, all"), 0o600) }, true},
		"shorter":      {func() error { return os.Truncate(path, 1) }, true},
		"another": {func() error {
			if err := os.WriteFile(path+".new", []byte("HELLO"), 0o600); err != nil {
				return err
			}
			return os.Rename(path+".new", path)
		}, false},
	} {
		if err := os.WriteFile(path, []byte("hello"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Time{}, time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
		var s, again Files
		f, err := s.Open(path)
		if err != nil || s.Unchanged() != nil || f.Size() != 5 {
			t.Fatal(err, s.Unchanged())
		}
		if err := c.change(); err != nil {
			t.Fatal(err)
		}
		if _, err := again.Open(path); err != nil || s.Mark() == again.Mark() {
			t.Errorf("%s: %v, marks %s and %s", name, err, s.Mark(), again.Mark())
		}
		if err := s.Unchanged(); (err != nil) != c.found || c.found && !strings.HasSuffix(err.Error(), "/a has changed since the job began") {
			t.Errorf("%s: %v", name, err)
		}
		var was [5]byte
		if _, err := f.ReadAt(was[:], 0); !c.found && string(was[:]) != "hello" {
			t.Errorf("%s: %q is read, %v", name, was, err)
		}
		if s.Close() != nil || again.Close() != nil {
			t.Error("not closed")
		}
	}
}

// TestOneOfManyChanges: a change of a file that is not kept open is detected when the file is read.
func TestOneOfManyChanges(t *testing.T) {
	dir := t.TempDir()
	var s Files
	for i := range heldMost + 1 {
		path := filepath.Join(dir, strconv.Itoa(i))
		if err := os.WriteFile(path, []byte("hello"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Time{}, time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Open(path); err != nil {
			t.Fatal(err)
		}
	}
	last := s[heldMost]
	read := func() (string, error) {
		var b [5]byte
		n, err := last.ReadAt(b[:], 0)
		return string(b[:n]), err
	}
	if text, err := read(); text != "hello" || err != nil || s.Unchanged() != nil {
		t.Errorf("%q, %v, %v", text, err, s.Unchanged())
	}
	for i, change := range []func() error{
		func() error { return rewrite(last.Name(), "HELLO") },
		func() error { // another file with the same size and time
			if err := os.WriteFile(last.Name()+".new", []byte("HELLO"), 0o600); err != nil {
				return err
			}
			if err := os.Rename(last.Name()+".new", last.Name()); err != nil {
				return err
			}
			return os.Chtimes(last.Name(), time.Time{}, time.Unix(1, 0))
		},
		func() error { return os.Remove(last.Name()) },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if text, err := read(); err == nil || !os.IsNotExist(err) && !strings.HasSuffix(err.Error(), " has changed since the job began") {
			t.Errorf("%d: %q, %v", i, text, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// rewrite overwrites the beginning of a file.
func rewrite(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(text)
	return err
}
