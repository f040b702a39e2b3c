package store

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Shelf is what a directory holds of one task. Attempts of the task may use it at once, in several
// processes. An attempt in a process that a view has removed may save what follows from an abort that
// no other process knows of: of the states of an epoch, that of the latest attempt counts. Of the
// values of a key the first one stays.
type Shelf struct {
	Attempt uint64 // the attempt that saves
	dir     *Dir
	task    int
}

// Shelf makes the shelf of a task and removes what other jobs left in it.
func (d *Dir) Shelf(task int) (*Shelf, error) {
	s := &Shelf{dir: d, task: task}
	if err := d.makeDir(s.name()); err != nil {
		return nil, err
	}
	return s, s.clear()
}

// clear removes sound files of other jobs, and incomplete files.
func (s *Shelf) clear() error {
	entries, err := s.dir.list(s.name())
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := filepath.Join(s.name(), e.Name())
		if !strings.HasPrefix(e.Name(), partPrefix) && !s.strange(name) {
			continue
		}
		if err := s.dir.remove(name); err != nil {
			return err
		}
	}
	return nil
}

// strange reports whether a file certainly belongs to another job.
func (s *Shelf) strange(name string) bool {
	if r, err := s.dir.head(name); err != nil || r.Job == s.dir.job {
		return false
	}
	r, err := s.dir.read(name)
	return err == nil && r.Job != s.dir.job
}

// name returns the shelf's name in its directory.
func (s *Shelf) name() string { return strconv.Itoa(s.task) }

// TaskDir returns the directory of a task's files.
func TaskDir(dir string, task int) string { return filepath.Join(dir, strconv.Itoa(task)) }

// File returns the path of a task's state.
func File(dir string, task int, epoch uint64) string {
	return filepath.Join(TaskDir(dir, task), name{epoch: epoch}.String())
}

// name is the parsed name of a file; key 0 is the state.
type name struct {
	epoch, key uint64
	attempt    uint64 // of a state
	text       string
}

const epochPrefix = "epoch-"

func (n name) String() string {
	switch {
	case n.attempt > 0:
		return fmt.Sprintf("%s%d.%d", epochPrefix, n.epoch, n.attempt)
	case n.key == 0:
		return epochPrefix + strconv.FormatUint(n.epoch, 10)
	}
	return fmt.Sprintf("%s%d-%016x", epochPrefix, n.epoch, n.key)
}

func parseName(text string) (n name, ok bool) {
	rest, ok := strings.CutPrefix(text, epochPrefix)
	if !ok {
		return n, false
	}
	rest, key, keyed := strings.Cut(rest, "-")
	epoch, attempt, again := strings.Cut(rest, ".")
	var err1, err2, err3 error
	n.epoch, err1 = strconv.ParseUint(epoch, 10, 64)
	if keyed {
		n.key, err2 = strconv.ParseUint(key, 16, 64)
	}
	if again {
		n.attempt, err3 = strconv.ParseUint(attempt, 10, 64)
	}
	ok = errors.Join(err1, err2, err3) == nil && n.String() == text
	n.text = text
	return n, ok
}

// list lists the files of states and values.
func (s *Shelf) list() (all []name, err error) {
	entries, err := s.dir.list(s.name())
	for _, e := range entries {
		if n, ok := parseName(e.Name()); ok {
			all = append(all, n)
		}
	}
	return all, err
}

func (s *Shelf) file(n name) string { return filepath.Join(s.name(), n.String()) }

// states lists the files of states, the latest attempt's for each epoch, from the last epoch down.
func (s *Shelf) states() ([]name, error) {
	all, err := s.list()
	all = slices.DeleteFunc(all, func(n name) bool { return n.key != 0 })
	slices.SortFunc(all, func(a, b name) int { return cmp.Or(cmp.Compare(b.epoch, a.epoch), cmp.Compare(b.attempt, a.attempt)) })
	return slices.CompactFunc(all, func(a, b name) bool { return a.epoch == b.epoch }), err
}

func (s *Shelf) record(kind uint32, epoch, key, sign uint64, value []byte) *record {
	return &record{header{
		Kind: kind, Job: s.dir.job, Run: s.dir.run.ID, Tasks: uint64(s.dir.run.Tasks), Task: uint64(s.task), Epoch: epoch, Key: key, Signature: sign,
	}, value}
}

// Save writes the state of an epoch.
func (s *Shelf) Save(epoch, sign uint64, state []byte) error {
	if err := s.dir.current(); err != nil {
		return err
	}
	return s.dir.write(s.file(name{epoch: epoch, attempt: s.Attempt}), s.record(stateKind, epoch, 0, sign, state))
}

// State reads the state of an epoch.
func (s *Shelf) State(epoch, sign uint64) ([]byte, error) {
	all, err := s.states()
	if err != nil {
		return nil, err
	}
	n := name{epoch: epoch}
	if i := slices.IndexFunc(all, func(n name) bool { return n.epoch == epoch }); i >= 0 {
		n = all[i]
	}
	return s.read(stateKind, n, sign)
}

// Keep writes a value of an epoch. If the value is already there, Keep returns that one instead.
func (s *Shelf) Keep(epoch, key, sign uint64, value []byte) (before []byte, err error) {
	if err := s.dir.current(); err != nil {
		return nil, err
	}
	err = s.dir.create(s.file(name{epoch: epoch, key: key}), s.record(valueKind, epoch, key, sign, value))
	if errors.Is(err, fs.ErrExist) {
		return s.Value(epoch, key, sign)
	}
	return nil, err
}

// Value reads a value of an epoch; a missing one is fs.ErrNotExist.
func (s *Shelf) Value(epoch, key, sign uint64) ([]byte, error) {
	return s.read(valueKind, name{epoch: epoch, key: key}, sign)
}

// read reads a file and checks that it is what its name says.
func (s *Shelf) read(kind uint32, n name, sign uint64) ([]byte, error) {
	path := filepath.Join(s.dir.path, s.file(n))
	r, err := s.dir.read(s.file(n))
	if err != nil {
		return nil, err
	}
	want := s.record(kind, n.epoch, n.key, sign, nil)
	switch {
	case r.Tasks != want.Tasks:
		return nil, fmt.Errorf("%s: of a job of %d tasks, and this one has %d; allowed: the same number", path, r.Tasks, want.Tasks)
	case r.Kind != kind || r.Job != want.Job || r.Task != want.Task || r.Epoch != n.epoch || r.Key != n.key:
		return nil, fmt.Errorf("%s: %w: it is another file under this name", path, ErrDamaged)
	case r.Signature != sign:
		return nil, fmt.Errorf("%s: a value of another type; allowed: the type that was saved", path)
	}
	return r.value, nil
}

// Found is what a task has when a run resumes its job: epochs, 0 for none.
type Found struct {
	Newest  uint64 // the newest epoch whose file is sound
	Before  uint64 // the next older epoch whose file is sound
	Damaged uint64 // the newest epoch whose file is damaged
}

// Has reports whether the task has the state of an epoch.
func (f Found) Has(epoch uint64) bool { return epoch == f.Newest || epoch == f.Before }

// Find looks for the task's newest states. All attempts of a run find the same ones, whatever they have
// written since.
func (s *Shelf) Find(sign uint64) (f Found, err error) {
	found := filepath.Join(s.name(), "found")
	if r, err := s.dir.read(found); err == nil && r.Kind == foundKind && r.Run == s.dir.run.ID && len(r.value) == binary.Size(f) {
		_, err = binary.Decode(r.value, binary.LittleEndian, &f)
		return f, err
	}
	if f, err = s.find(sign); err != nil {
		return f, err
	}
	b, _ := binary.Append(nil, binary.LittleEndian, f) // all of fixed size
	return f, s.dir.write(found, s.record(foundKind, 0, 0, 0, b))
}

func (s *Shelf) find(sign uint64) (f Found, err error) {
	names, err := s.states()
	if err != nil {
		return f, err
	}
	for _, n := range names {
		if n.epoch == 0 {
			continue
		}
		switch _, err := s.read(stateKind, n, sign); {
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

// Prune removes what a committed epoch makes obsolete: the epochs from 1 on, up to but not including
// the one before committed. That one stays: if all processes that know of the commit crash, the job
// resumes from there.
func (s *Shelf) Prune(committed uint64) error {
	return s.removeIf(func(n name) bool { return n.epoch > 0 && n.epoch+1 < committed })
}

// Forget removes what earlier runs wrote for epochs after the one from which this run resumed.
func (s *Shelf) Forget(after uint64) error {
	return s.removeIf(func(n name) bool {
		if n.epoch <= after {
			return false
		}
		r, err := s.dir.head(filepath.Join(s.name(), n.text))
		return err == nil && r.Run != s.dir.run.ID
	})
}

func (s *Shelf) removeIf(old func(name) bool) error {
	names, err := s.list()
	for _, n := range names {
		if old(n) {
			err = errors.Join(err, s.dir.remove(filepath.Join(s.name(), n.text)))
		}
	}
	return err
}
