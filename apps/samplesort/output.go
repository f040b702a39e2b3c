package samplesort

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/coppice-go/coppice"
)

// Output is a directory that gets the parts of all tasks, or nothing. Parts are written to Stage, a directory in it.
type Output struct {
	Stage     string
	dir       string
	created   bool
	published []string
}

// CheckOutput returns an error unless a directory is fit for output: it is empty, or can be made.
func CheckOutput(dir string) error {
	err := onlyHas(dir, "")
	if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	_, err = os.Stat(filepath.Dir(filepath.Clean(dir)))
	return err
}

// onlyHas returns an error if a directory has another entry than the named one.
func onlyHas(dir, name string) error {
	names, err := os.ReadDir(dir)
	for _, other := range names {
		if other.Name() != name {
			return fmt.Errorf("directory %s is not empty, it has %s; allowed: an empty one, or a new one", dir, other.Name())
		}
	}
	return err
}

// NewOutput makes the directory if there is none. Of several outputs to one directory at the same time, at
// most one succeeds.
func NewOutput(dir string) (o *Output, err error) {
	if err := CheckOutput(dir); err != nil {
		return nil, err
	}
	o = &Output{dir: dir}
	if err := os.Mkdir(dir, 0o777); err == nil {
		o.created = true
	} else if !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	if o.Stage, err = os.MkdirTemp(dir, ".coppice-sort-"); err != nil {
		return nil, errors.Join(err, o.Discard())
	}
	if err := onlyHas(dir, filepath.Base(o.Stage)); err != nil { // another output may have come since the check
		return nil, errors.Join(err, o.Discard())
	}
	return o, nil
}

// WritePart writes the part of a task to a stage. A task that is run again writes it again.
func WritePart(stage string, t *coppice.Task, part []byte) error {
	path := filepath.Join(stage, partName(t.Rank()))
	attempt := fmt.Sprintf("%s.%d", path, t.Attempt())
	if err := os.WriteFile(attempt, part, 0o666); err != nil {
		return err
	}
	return os.Rename(attempt, path)
}

func partName(task int) string { return fmt.Sprintf("part-%05d", task) }

// Publish moves the parts of n tasks, with the given total size, to their final names. If it fails, none is
// there.
func (o *Output) Publish(n int, bytes int64) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, o.Discard())
		}
	}()
	for task := range n {
		info, err := os.Stat(filepath.Join(o.Stage, partName(task)))
		if err != nil {
			return err
		}
		bytes -= info.Size()
	}
	if bytes != 0 {
		return fmt.Errorf("%d bytes more than were written to %s", bytes, o.Stage)
	}
	for task := range n {
		to := filepath.Join(o.dir, partName(task))
		if err := move(filepath.Join(o.Stage, partName(task)), to); err != nil {
			return err
		}
		o.published = append(o.published, to)
	}
	return os.RemoveAll(o.Stage)
}

// move moves a file to an unused name, or links it there.
func move(from, to string) error {
	if err := os.Link(from, to); err == nil || errors.Is(err, os.ErrExist) {
		return err
	}
	if _, err := os.Lstat(to); !errors.Is(err, os.ErrNotExist) { // a file system without links
		return cmp.Or(err, error(&os.PathError{Op: "move", Path: to, Err: os.ErrExist}))
	}
	return os.Rename(from, to)
}

// Discard removes what has been written, and the directory if NewOutput made it and it has no other entries.
func (o *Output) Discard() error {
	var err error
	for _, part := range o.published {
		err = errors.Join(err, os.Remove(part))
	}
	if o.Stage != "" {
		err = errors.Join(err, os.RemoveAll(o.Stage))
	}
	if o.created {
		if wrong := os.Remove(o.dir); !errors.Is(wrong, os.ErrExist) {
			err = errors.Join(err, wrong)
		}
	}
	return err
}
