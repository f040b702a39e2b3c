package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// partPrefix begins the names of files that are not complete.
const partPrefix = ".part-"

// write puts a record into a file, in place of what was there.
func (r *record) write(path string) error {
	return r.put(path, os.Rename)
}

// create puts a record into a file that must not be there: then it is fs.ErrExist, and the
// file stays as it is.
func (r *record) create(path string) error {
	return r.put(path, func(part, path string) error {
		if err := os.Link(part, path); err != nil {
			return err
		}
		return os.Remove(part)
	})
}

// put writes a record under another name and has it moved to its own.
func (r *record) put(path string, move func(part, path string) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), partPrefix+"*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	header, sum := r.frame()
	for _, b := range [][]byte{header, r.value, sum} {
		if _, err := f.Write(b); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := move(f.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir has the names in a directory outlive the machine's crash.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// makeDir makes a directory, with those above it, that outlives the machine's crash.
func makeDir(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil
	}
	above := filepath.Dir(path)
	if above != path {
		if err := makeDir(above); err != nil {
			return err
		}
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(above)
}

// read reads the record of a file. The error names the file, if it is not of the system,
// which does so itself.
func read(path string) (r record, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}
	if r, err = parse(b); err != nil {
		return r, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// isPart tells whether a file was not completed.
func isPart(name string) bool { return strings.HasPrefix(name, partPrefix) }
