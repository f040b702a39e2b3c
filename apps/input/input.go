// Package input holds the files open that the processes of a job read, and finds that they have changed: whoever runs a
// task again must read what was read before.
package input

import (
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"syscall"
)

// Files are open files, as they were when they were opened.
type Files []File

// File is one of them.
type File struct {
	*os.File
	was os.FileInfo
}

// Size is how many bytes there were.
func (f File) Size() int64 { return f.was.Size() }

// Open opens one more. What is not an ordinary file is refused: to open a pipe could take for ever.
func (s *Files) Open(path string) (f File, err error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = notFile(path)
	}
	if err != nil {
		return f, err
	}
	if f.File, err = os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0); err != nil { // by now it may be a pipe
		return f, err
	}
	if f.was, err = f.Stat(); err == nil && !f.was.Mode().IsRegular() {
		err = notFile(path)
	}
	if err != nil {
		return f, errors.Join(err, f.Close())
	}
	*s = append(*s, f)
	return f, nil
}

func notFile(path string) error { return fmt.Errorf("%s is not a file; allowed: a file", path) }

// Mark is another one if the name, the size or the time of change of any of them is another.
func (s Files) Mark() string {
	mark := fnv.New64a()
	for _, f := range s {
		fmt.Fprintf(mark, "%q %d %d\n", filepath.Base(f.Name()), f.was.Size(), f.was.ModTime().UnixNano())
	}
	return fmt.Sprintf("%016x", mark.Sum64())
}

// Unchanged fails if the size or the time of change of any of them is another one than it was. What has been read before is
// then as it was when they were opened.
func (s Files) Unchanged() error {
	for _, f := range s {
		if now, err := f.Stat(); err != nil || now.Size() != f.was.Size() || !now.ModTime().Equal(f.was.ModTime()) {
			return fmt.Errorf("%s has changed since the job began", f.Name())
		}
	}
	return nil
}

// Close closes them all.
func (s Files) Close() error {
	var all error
	for _, f := range s {
		all = errors.Join(all, f.Close())
	}
	return all
}
