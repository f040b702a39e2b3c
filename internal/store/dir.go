package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
)

// Run describes one start of a job's processes, as far as a directory needs to know.
type Run struct {
	ID        ID // the same in all processes of the run, and unique to it
	Tasks     int
	Resume    bool // the run resumes an unfinished job
	Restarted bool // a scheduler started the same job again: the run resumes an unfinished job, or begins one
}

// Dir is a directory in which a run keeps states.
type Dir struct {
	*folder
	run Run
	job ID
}

// jobFile is the name of the job's file.
const jobFile = "job"

// The values of the job's file.
const (
	unfinished = "unfinished"
	finished   = "finished"
)

// Open makes a directory the run's. It creates a missing directory, takes over that of a finished job
// and, with Resume or Restarted, that of an earlier run of an unfinished job. All processes of the run
// may call Open at once: they write the same. Open refuses another user's directory.
func Open(path string, run Run) (*Dir, error) {
	f, err := openFolder(path)
	if err != nil {
		return nil, err
	}
	d := &Dir{folder: f, run: run, job: run.ID}
	states, err := fs.Glob(f.root.FS(), "[0-9]*/"+epochPrefix+"*")
	if err != nil {
		return nil, err
	}
	old, err := d.readJob()
	if errors.Is(err, fs.ErrNotExist) {
		if len(states) > 0 { // no process writes a state before the job's file exists
			return nil, fmt.Errorf("%s holds states, such as %s, but no file that says of which job they are; allowed: a directory with both, or with none", path, filepath.Join(path, states[0]))
		}
		if err = d.create(jobFile, d.record(unfinished)); err == nil {
			return d, nil
		}
		if errors.Is(err, fs.ErrExist) { // another process was faster
			old, err = d.readJob()
		}
	}
	if err != nil {
		return nil, err
	}
	over := string(old.value) == finished
	switch {
	case old.Run == run.ID && !over: // another task of this run was here
		d.job = old.Job
		return d, nil
	case run.Resume && over:
		return nil, fmt.Errorf("%s holds the state of a job that is finished; allowed: to begin anew, without resume", path)
	case over:
		return d, d.write(jobFile, d.record(unfinished))
	case !run.Resume && !run.Restarted:
		return nil, fmt.Errorf("%s holds the state of an unfinished job; allowed: coppice run --resume, or another directory", path)
	case old.Tasks != uint64(run.Tasks):
		return nil, fmt.Errorf("%s holds the state of a job of %d tasks, and this one has %d; allowed: the same number", path, old.Tasks, run.Tasks)
	}
	d.job = old.Job
	return d, d.write(jobFile, d.record(unfinished))
}

// readJob reads the job's file.
func (d *Dir) readJob() (record, error) {
	r, err := d.read(jobFile)
	if err == nil && (r.Kind != jobKind || string(r.value) != finished && string(r.value) != unfinished) {
		err = fmt.Errorf("%s: %w: it is not about a job", filepath.Join(d.path, jobFile), ErrDamaged)
	}
	return r, err
}

// record returns the record of the job's file.
func (d *Dir) record(value string) *record {
	return &record{header{Kind: jobKind, Job: d.job, Run: d.run.ID, Tasks: uint64(d.run.Tasks)}, []byte(value)}
}

// Finish records that all tasks of the job ended well. If the program removed the directory, no record
// is needed.
func (d *Dir) Finish() error {
	r, err := d.readJob()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || r.Run != d.run.ID || string(r.value) == finished {
		return err
	}
	return d.write(jobFile, d.record(finished))
}

// current returns an error if a later run has taken over the directory: processes of an earlier run may
// not know yet that they are not needed.
func (d *Dir) current() error {
	r, err := d.readJob()
	if err == nil && r.Run != d.run.ID {
		err = fmt.Errorf("%s: a later run has taken the job up; allowed: one run at a time", d.path)
	}
	return err
}

// Job returns the ID of the job whose states the directory holds.
func (d *Dir) Job() ID { return d.job }
