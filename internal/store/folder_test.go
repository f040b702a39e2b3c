package store

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// refuses checks that the error is one line that names a path, and that nothing was written behind a
// link.
func refuses(t *testing.T, name string, err error, path, words, victim string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), words) || strings.Contains(err.Error(), "\n") {
		t.Errorf("%s: %v, want %q about %s", name, err, words, path)
	}
	if entries, _ := os.ReadDir(victim); len(entries) > 0 {
		t.Errorf("%s: wrote %v where a link leads", name, entries)
	}
}

// TestLinksInTheDirectoryAreNotFollowed puts a link in place of a task's directory or of a file,
// wherever it leads.
func TestLinksInTheDirectoryAreNotFollowed(t *testing.T) {
	for name, to := range map[string]func(victim string) string{
		"out": func(victim string) string { return victim }, "inside": func(string) string { return "1" },
	} {
		path, victim := t.TempDir(), t.TempDir()
		d := open(t, path, 1, false)
		shelf(t, d, 1)
		must(t, os.Symlink(to(victim), TaskDir(path, 0)))
		_, err := d.Shelf(0)
		refuses(t, name, err, TaskDir(path, 0), "is a symbolic link; allowed: a directory", victim)

		s := shelf(t, d, 2)
		must(t, s.Save(3, sign, []byte("three")))
		must(t, os.Rename(File(path, 2, 3), filepath.Join(victim, "moved")))
		must(t, os.Symlink(filepath.Join(victim, "moved"), File(path, 2, 3)))
		_, err = s.State(3, sign)
		must(t, os.Remove(filepath.Join(victim, "moved")))
		refuses(t, name, err, File(path, 2, 3), "is a symbolic link; allowed: a file", victim)
		must(t, s.Save(3, sign, []byte("again"))) // takes the link's place
		if b, err := s.State(3, sign); err != nil || string(b) != "again" {
			t.Errorf("%s: %q, %v", name, b, err)
		}
		if entries, _ := os.ReadDir(victim); len(entries) > 0 {
			t.Errorf("%s: wrote %v where a link leads", name, entries)
		}
	}
}

// TestLinkOfOurOwnLeadsToTheDirectory opens a directory through the user's own link, as users do.
func TestLinkOfOurOwnLeadsToTheDirectory(t *testing.T) {
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(t.TempDir(), link))
	s := shelf(t, open(t, filepath.Join(link, "state"), 1, false), 0)
	must(t, s.Save(1, sign, nil))
}

// TestWhatOthersHaveMadeIsRefused has another user own the directory, a link to it or above it, a
// task's directory, the job's file or that of a state.
func TestWhatOthersHaveMadeIsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make what belongs to another user: run this test as root")
	}
	const stranger = 12345
	words := "belongs to user 12345; allowed: what user 0 or root has made"
	for name, c := range map[string]func(path, victim string) (theirs string, err error){
		"the directory": func(path, _ string) (string, error) {
			must(t, os.Mkdir(path, 0o777))
			must(t, os.Chown(path, stranger, 0))
			_, err := Open(path, Run{ID: ID{1}, Tasks: 3})
			return path, err
		},
		"a link to it": func(path, victim string) (string, error) {
			must(t, os.Symlink(victim, path))
			must(t, os.Lchown(path, stranger, 0))
			_, err := Open(path, Run{ID: ID{1}, Tasks: 3})
			return path, err
		},
		"a link above it": func(path, victim string) (string, error) {
			must(t, os.Symlink(victim, path))
			must(t, os.Lchown(path, stranger, 0))
			_, err := Open(filepath.Join(path, "below", "it"), Run{ID: ID{1}, Tasks: 3})
			return path, err
		},
		"a task's directory": func(path, _ string) (string, error) {
			d := open(t, path, 1, false)
			must(t, os.Mkdir(TaskDir(path, 0), 0o777))
			must(t, os.Chown(TaskDir(path, 0), stranger, 0))
			_, err := d.Shelf(0)
			return TaskDir(path, 0), err
		},
		"the job's file": func(path, _ string) (string, error) {
			open(t, path, 1, false)
			must(t, os.Chown(filepath.Join(path, jobFile), stranger, 0))
			_, err := Open(path, Run{ID: ID{1}, Tasks: 3})
			return filepath.Join(path, jobFile), err
		},
		"a state": func(path, _ string) (string, error) {
			s := shelf(t, open(t, path, 1, false), 0)
			must(t, s.Save(1, sign, nil))
			must(t, os.Chown(File(path, 0, 1), stranger, 0))
			_, err := s.State(1, sign)
			return File(path, 0, 1), err
		},
	} {
		victim := t.TempDir()
		theirs, err := c(filepath.Join(t.TempDir(), "state"), victim)
		refuses(t, name, err, theirs, words, victim)
	}
}
