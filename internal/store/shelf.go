package store

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Shelf is what a directory holds of one task. Attempts of the task may use it at once, in
// several processes: the states of an epoch are the same, and of the values of a key the
// first one stays.
type Shelf struct {
	dir  *Dir
	task int
}

// Shelf makes the task's, and clears it of what other jobs have left.
func (d *Dir) Shelf(task int) (*Shelf, error) {
	s := &Shelf{dir: d, task: task}
	if err := makeDir(s.path()); err != nil {
		return nil, err
	}
	return s, s.clear()
}

// clear removes sound files of other jobs, and those that were not completed.
func (s *Shelf) clear() error {
	entries, err := os.ReadDir(s.path())
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(s.path(), e.Name())
		if !isPart(e.Name()) && !s.strange(path) {
			continue
		}
		if err := remove(path); err != nil {
			return err
		}
	}
	return nil
}

// strange tells whether a file is another job's for certain.
func (s *Shelf) strange(path string) bool {
	if r, err := head(path); err != nil || r.job == s.dir.job {
		return false
	}
	r, err := read(path)
	return err == nil && r.job != s.dir.job
}

// head reads whose a file is, unchecked.
func head(path string) (r record, err error) {
	f, err := os.Open(path)
	if err != nil {
		return r, err
	}
	defer f.Close()
	var b [headerLen]byte
	if _, err := f.ReadAt(b[:], 0); err != nil {
		return r, err
	}
	if string(b[:len(magic)]) != magic {
		return r, ErrDamaged
	}
	return record{job: ID(b[16:32]), run: ID(b[32:48])}, nil
}

func (s *Shelf) path() string { return TaskDir(s.dir.path, s.task) }

// TaskDir is where a task's files are.
func TaskDir(dir string, task int) string { return filepath.Join(dir, strconv.Itoa(task)) }

// File is the file of a task's state.
func File(dir string, task int, epoch uint64) string {
	return filepath.Join(TaskDir(dir, task), name{epoch: epoch}.String())
}

// name is that of a file; key 0 is the state.
type name struct {
	epoch, key uint64
	text       string
}

const epochPrefix = "epoch-"

func (n name) String() string {
	if n.key == 0 {
		return epochPrefix + strconv.FormatUint(n.epoch, 10)
	}
	return fmt.Sprintf("%s%d-%016x", epochPrefix, n.epoch, n.key)
}

func parseName(text string) (n name, ok bool) {
	rest, ok := strings.CutPrefix(text, epochPrefix)
	if !ok {
		return n, false
	}
	epoch, key, keyed := strings.Cut(rest, "-")
	var err1, err2 error
	n.epoch, err1 = strconv.ParseUint(epoch, 10, 64)
	if keyed {
		n.key, err2 = strconv.ParseUint(key, 16, 64)
	}
	ok = err1 == nil && err2 == nil && n.String() == text
	n.text = text
	return n, ok
}

// list lists the files of states and values.
func (s *Shelf) list() (all []name, err error) {
	entries, err := os.ReadDir(s.path())
	for _, e := range entries {
		if n, ok := parseName(e.Name()); ok {
			all = append(all, n)
		}
	}
	return all, err
}

func (s *Shelf) file(epoch, key uint64) string {
	return filepath.Join(s.path(), name{epoch: epoch, key: key}.String())
}

func (s *Shelf) record(kind uint32, epoch, key, sign uint64, value []byte) *record {
	return &record{kind: kind, job: s.dir.job, run: s.dir.run.ID, tasks: uint64(s.dir.run.Tasks), task: uint64(s.task), epoch: epoch, key: key, sign: sign, value: value}
}

// Save writes the state of an epoch.
func (s *Shelf) Save(epoch, sign uint64, state []byte) error {
	if err := s.dir.current(); err != nil {
		return err
	}
	return s.record(stateKind, epoch, 0, sign, state).write(s.file(epoch, 0))
}

// State reads the state of an epoch.
func (s *Shelf) State(epoch, sign uint64) ([]byte, error) {
	return s.read(stateKind, epoch, 0, sign)
}

// Keep writes a value of an epoch, unless there is one: then it returns that.
func (s *Shelf) Keep(epoch, key, sign uint64, value []byte) (before []byte, err error) {
	if err := s.dir.current(); err != nil {
		return nil, err
	}
	err = s.record(valueKind, epoch, key, sign, value).create(s.file(epoch, key))
	if errors.Is(err, fs.ErrExist) {
		return s.Value(epoch, key, sign)
	}
	return nil, err
}

// Value reads a value of an epoch; without one it is fs.ErrNotExist.
func (s *Shelf) Value(epoch, key, sign uint64) ([]byte, error) {
	return s.read(valueKind, epoch, key, sign)
}

// read reads a file that must be what its name says.
func (s *Shelf) read(kind uint32, epoch, key, sign uint64) ([]byte, error) {
	path := s.file(epoch, key)
	r, err := read(path)
	if err != nil {
		return nil, err
	}
	want := s.record(kind, epoch, key, sign, nil)
	switch {
	case r.tasks != want.tasks:
		return nil, fmt.Errorf("%s: of a job of %d tasks, and this one has %d; allowed: the same number", path, r.tasks, want.tasks)
	case r.kind != kind || r.job != want.job || r.task != want.task || r.epoch != epoch || r.key != key:
		return nil, fmt.Errorf("%s: %w: it is another file under this name", path, ErrDamaged)
	case r.sign != sign:
		return nil, fmt.Errorf("%s: a value of another type; allowed: the type that was saved", path)
	}
	return r.value, nil
}

// Found is what a task has when its job is taken up again: epochs, 0 for none.
type Found struct {
	Newest  uint64 // whose file is sound
	Before  uint64 // the one before it
	Damaged uint64 // the newest one whose file is damaged
}

// Has tells whether it has the state of an epoch.
func (f Found) Has(epoch uint64) bool { return epoch == f.Newest || epoch == f.Before }

const foundLen = 3 * 8

// Find looks for the task's newest states. All attempts of a run find the same,
// whatever was written since.
func (s *Shelf) Find(sign uint64) (f Found, err error) {
	path := filepath.Join(s.path(), "found")
	if r, err := read(path); err == nil && r.kind == foundKind && r.run == s.dir.run.ID && len(r.value) == foundLen {
		le := binary.LittleEndian
		return Found{le.Uint64(r.value), le.Uint64(r.value[8:]), le.Uint64(r.value[16:])}, nil
	}
	if f, err = s.find(sign); err != nil {
		return f, err
	}
	var b []byte
	for _, n := range []uint64{f.Newest, f.Before, f.Damaged} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	return f, s.record(foundKind, 0, 0, 0, b).write(path)
}

func (s *Shelf) find(sign uint64) (f Found, err error) {
	names, err := s.list()
	if err != nil {
		return f, err
	}
	slices.SortFunc(names, func(a, b name) int { return cmp.Compare(b.epoch, a.epoch) })
	for _, n := range names {
		if n.key != 0 || n.epoch == 0 {
			continue
		}
		switch _, err := s.State(n.epoch, sign); {
		case errors.Is(err, ErrDamaged):
			f.Damaged = max(f.Damaged, n.epoch)
		case err != nil:
			return f, err
		case f.Newest == 0:
			f.Newest = n.epoch
		default:
			f.Before = n.epoch
			return f, nil
		}
	}
	return f, nil
}

// Prune removes what is not needed when an epoch is committed: what is of epochs from 1 on, and
// before the one before it. That one stays: if all who knew of the commit die, the
// job goes on from there.
func (s *Shelf) Prune(committed uint64) error {
	return s.removeIf(func(n name) bool { return n.epoch > 0 && n.epoch+1 < committed })
}

// Forget removes what earlier runs have of epochs after one, from which the job was taken up
// again.
func (s *Shelf) Forget(after uint64) error {
	return s.removeIf(func(n name) bool {
		if n.epoch <= after {
			return false
		}
		r, err := head(filepath.Join(s.path(), n.text))
		return err == nil && r.run != s.dir.run.ID
	})
}

func (s *Shelf) removeIf(old func(name) bool) error {
	names, err := s.list()
	for _, n := range names {
		if old(n) {
			err = errors.Join(err, remove(filepath.Join(s.path(), n.text)))
		}
	}
	return err
}

// remove removes a file that another attempt may have removed.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
