//go:build unix

package control_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/control"
)

// awaitFiles waits until a directory has files of these names.
func awaitFiles(t *testing.T, dir string, names ...string) {
	t.Helper()
	for until := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		missing := ""
		for _, name := range names {
			if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
				missing = name
			}
		}
		if missing == "" {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("%s is not there again", missing)
		}
	}
}

// TestJobOutlivesItsDirectory: all that was in it is made again, so that later deaths
// are certain, and who comes later finds the job.
func TestJobOutlivesItsDirectory(t *testing.T) {
	s := serve(t, control.ServerConfig{Size: 4, Grow: 1})
	dir := s.Place(0, 1).Dir
	c, notes := join(t, s.Place(0, 1))
	var asked atomic.Int32
	c.Keep(func() error { asked.Add(1); return nil })
	a := start(t, "record", append(s.Place(1, 1).Vars(), "RECORD_BYTES=100"))
	a.lines.expect(t, "recorded")
	silent := start(t, "work", s.Place(2, 1).Vars()) // it records nothing
	silent.lines.expect(t, "joined")
	for range 2 { // the second time, what was made again
		before := asked.Load()
		lose(t, dir)
		awaitFiles(t, dir, "key", "users.lock", "control.lock", "control.sock", "0.1.record", "1.1.record", "2.1.record")
		notes.await(t, "the caller's part", func() bool { return asked.Load() > before })
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	a.signal(t, syscall.SIGKILL)
	notes.expect(t, recordNote(1, 100))
	notes.expect(t, "died 1.1 true")
	silent.signal(t, syscall.SIGKILL)
	notes.expect(t, "died 2.1 true")
	late := start(t, "work", s.Place(3, 1).Vars())
	late.lines.expect(t, "joined")
	if !control.Runs(dir) {
		t.Errorf("%s is not found", dir)
	}
	if notes.has("lost") {
		t.Errorf("%q", notes.notes)
	}
}

// TestNextProcessNeedNotWaitForTheDirectory: it finds the key in it as soon as it has
// its place.
func TestNextProcessNeedNotWaitForTheDirectory(t *testing.T) {
	s := serve(t, control.ServerConfig{Size: 1})
	for range 20 {
		lose(t, s.Place(0, 1).Dir)
		if _, err := find(split(strings.Join(s.Place(0, 1).Vars(), " "))); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMissingRecordIsNotAnEmptyOne: whose record is gone with the directory may have
// promised anything.
func TestMissingRecordIsNotAnEmptyOne(t *testing.T) {
	s := serve(t, control.ServerConfig{Size: 3, Silence: time.Hour})
	dir := s.Place(0, 1).Dir
	_, notes := join(t, s.Place(0, 1))
	a := start(t, "record", append(s.Place(1, 1).Vars(), "RECORD_BYTES=100"))
	a.lines.expect(t, "recorded")
	notes.awaitPeers(t, 1)
	a.signal(t, syscall.SIGSTOP) // or it would make its record again
	lose(t, dir)
	awaitFiles(t, dir, "key", "control.sock")
	a.signal(t, syscall.SIGKILL)
	note := notes.expect(t, "died 1.1 ")
	if !strings.HasPrefix(note, "died 1.1 false ") || !strings.Contains(note, "but its record cannot be read") {
		t.Error(note)
	}
}

// TestReconnectingProcessWaitsForTheDirectory: that it is missing is no proof that the
// coordinator is gone.
func TestReconnectingProcessWaitsForTheDirectory(t *testing.T) {
	s := serve(t, control.ServerConfig{Size: 1})
	dir := s.Place(0, 1).Dir
	c, notes := join(t, s.Place(0, 1))
	lose(t, dir)
	c.Break()
	c.Returned(0, "", true)
	notes.expect(t, "finished")
}

// lose removes a directory, in which files may be made meanwhile.
func lose(t *testing.T, dir string) {
	t.Helper()
	for began := time.Now(); ; {
		err := os.RemoveAll(dir)
		if err == nil {
			return
		}
		if time.Since(began) > patience {
			t.Fatal(err)
		}
	}
}
