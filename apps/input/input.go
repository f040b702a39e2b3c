// Package input opens the files that the processes of a job read, and detects changes: a process that runs a
// task again must read what was read before. Its API may change.
package input

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
)

// Files is a set of files as they were when they were opened.
type Files []File

// File is a file of Files.
type File struct {
	*os.File
	was  os.FileInfo
	held bool // kept open
}

// heldMost is how many files are kept open. More could leave a process too few descriptors for its
// connections.
const heldMost = 64

// Size returns the file's size when it was opened.
func (f File) Size() int64 { return f.was.Size() }

// Open adds a file. It refuses anything but a regular file, since opening a pipe could block forever.
func (s *Files) Open(path string) (File, error) {
	f, err := open(path)
	if err != nil {
		return f, err
	}
	if f.held = len(*s) < heldMost; !f.held {
		err = f.Close()
	}
	*s = append(*s, f)
	return f, err
}

func open(path string) (f File, err error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = notFile(path)
	}
	if err != nil {
		return f, err
	}
	if f.File, err = os.OpenFile(path, os.O_RDONLY|nonblock, 0); err != nil { // by now it may be a pipe
		return f, err
	}
	if f.was, err = f.Stat(); err == nil && !f.was.Mode().IsRegular() {
		err = notFile(path)
	}
	if err != nil {
		return f, errors.Join(err, f.Close())
	}
	return f, nil
}

func notFile(path string) error { return fmt.Errorf("%s is not a file; allowed: a file", path) }

// ReadAt implements io.ReaderAt. It reopens a file that is not kept open, which must be the same file.
func (f File) ReadAt(b []byte, at int64) (int, error) {
	if f.held {
		return f.File.ReadAt(b, at)
	}
	again, err := open(f.Name())
	if err != nil {
		return 0, err
	}
	defer again.Close()
	n, err := again.File.ReadAt(b, at)
	if !os.SameFile(f.was, again.was) {
		return 0, f.changed()
	}
	again.was = f.was
	return n, cmp.Or(again.unchanged(), err)
}

// unchanged returns an error if the size or the modification time of an open file has changed.
func (f File) unchanged() error {
	if now, err := f.Stat(); err != nil || now.Size() != f.was.Size() || !now.ModTime().Equal(f.was.ModTime()) {
		return f.changed()
	}
	return nil
}

func (f File) changed() error { return fmt.Errorf("%s has changed since the job began", f.Name()) }

// Mark returns a string that changes if the name, the size or the modification time of any file changes.
func (s Files) Mark() string {
	mark := fnv.New64a()
	for _, f := range s {
		fmt.Fprintf(mark, "%q %d %d\n", filepath.Base(f.Name()), f.was.Size(), f.was.ModTime().UnixNano())
	}
	return fmt.Sprintf("%016x", mark.Sum64())
}

// Unchanged returns an error if any file that is kept open has changed; ReadAt checks the others. Without an
// error, all that was read is as it was when the files were opened.
func (s Files) Unchanged() error {
	for _, f := range s {
		if !f.held { // ReadAt checks it
			continue
		}
		if err := f.unchanged(); err != nil {
			return err
		}
	}
	return nil
}

// Close closes all files.
func (s Files) Close() error {
	var all error
	for _, f := range s {
		if f.held {
			all = errors.Join(all, f.Close())
		}
	}
	return all
}
