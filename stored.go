package coppice

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"

	"github.com/coppice-go/coppice/internal/node"
	"github.com/coppice-go/coppice/internal/store"
	"github.com/coppice-go/coppice/protocol/collective"
)

// SaveOption changes how [Save] and [Once] keep what they are given.
type SaveOption struct{ dir string }

// Stored has what [Save] and [Once] keep go to files of a directory, instead of to
// other processes. All processes need the same directory, and all Saves of a program the
// same option. If the files of a task are missing or damaged when it is run again, the
// task is lost: [ErrLost] names the file. What another user has made in the directory, or on the way to
// it, is refused.
//
// When the whole job is gone, coppice run --resume (or Job.Resume) takes it up again, with the same
// number of tasks: functions run from the top to their first Save, which sets the
// states of all tasks to those of the last epoch that all have saved. Until then Once, if it
// is Stored, returns what it returned before. A job that Slurm has requeued is taken up without asking. In all
// other cases a directory with the states of a job that has not finished is an error.
func Stored(dir string) SaveOption { return SaveOption{dir} }

// storedIn is the directory that the options of Save or Once name; "": none.
func storedIn(opts []SaveOption) (dir string, err error) {
	for _, o := range opts {
		switch named := filepath.Clean(o.dir); {
		case o.dir == "":
			return "", errors.New("Stored without a directory; allowed: the name of one")
		case dir != "" && dir != named:
			return "", fmt.Errorf("Stored in %s and in %s; allowed: one directory", dir, named)
		default:
			dir = named
		}
	}
	return dir, nil
}

// archive is the directories that the tasks of a process keep states in.
type archive struct {
	run     store.Run // its number of tasks is that of the first who asks
	takesUp func()    // is called when a directory is of an earlier run; nil: nobody wants to know

	mu    sync.Mutex
	dirs  map[string]*store.Dir
	taken bool // one was
}

// newArchive is that of a job in this process alone.
func newArchive(run store.Run) *archive {
	a := &archive{run: run}
	rand.Read(a.run.ID[:]) // never fails
	return a
}

// open opens a directory for a job of so many tasks.
func (a *archive) open(dir string, tasks int) (*store.Dir, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if d := a.dirs[dir]; d != nil {
		return d, nil
	}
	a.run.Tasks = tasks
	d, err := store.Open(dir, a.run)
	if err != nil {
		return nil, err
	}
	if a.dirs == nil {
		a.dirs = map[string]*store.Dir{}
	}
	a.dirs[dir] = d
	if d.Job() != a.run.ID && !a.taken {
		if a.taken = true; a.takesUp != nil {
			a.takesUp()
		}
	}
	return d, nil
}

// tellNothing tells that the job was to be taken up again, if there was nothing to take up.
func (a *archive) tellNothing(log *slog.Logger) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.run.Resume && !a.taken {
		log.Warn("coppice: Resume: nothing was taken up again: the program has not used Stored with the directory of an unfinished job")
	}
}

// finish says in all directories that the job has ended well.
func (a *archive) finish() (err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, d := range a.dirs {
		err = errors.Join(err, d.Finish())
	}
	return err
}

// files is where a task keeps what it saves; nil: at other processes.
type files struct {
	*store.Shelf
	dir string
	job store.ID
}

// files are those that the options of Save or Once ask for.
func (t *Task) files(opts []SaveOption) (*files, error) {
	dir, err := storedIn(opts)
	if err != nil || dir == "" || !t.m.Replays() {
		return nil, err
	}
	k := t.trunk
	k.mu.Lock()
	defer k.mu.Unlock()
	if f := k.files[dir]; f != nil {
		return f, nil
	}
	d, err := k.archive.open(dir, k.tasks)
	if err != nil {
		return nil, err
	}
	s, err := d.Shelf(t.m.Task())
	if err != nil {
		return nil, err
	}
	if k.files == nil {
		k.files = map[string]*files{}
	}
	s.Attempt = uint64(t.attempt)
	k.files[dir] = &files{s, dir, d.Job()}
	return k.files[dir], nil
}

// elsewhere is where the options of Once have its value kept; nil: at other processes.
func (t *Task) elsewhere(opts []SaveOption) (node.Elsewhere, error) {
	f, err := t.files(opts)
	if f == nil {
		return nil, err
	}
	return f, err
}

// stateAgain is the state from which a task that is run again goes on, if no process
// has it.
func (t *Task) stateAgain(f *files, epoch, sign uint64) ([]byte, error) {
	if f == nil {
		return nil, t.m.Lose(fmt.Sprintf("no process has its state of epoch %d any more; more Copies, or Stored, would have kept it", epoch))
	}
	b, err := f.State(epoch, sign)
	if err != nil {
		return nil, t.m.Lose(err.Error())
	}
	return b, nil
}

// finding is what a task has when its job is taken up again.
type finding struct {
	Job [2]uint64
	store.Found
}

// takeUp finds the epoch from which all tasks of a job go on that an earlier run has left, and the
// task's state; 0: they begin from scratch. All tasks agree, or get the same error.
func (t *Task) takeUp(ctx context.Context, f *files, sign uint64) (epoch uint64, state []byte, err error) {
	own, err := f.Find(sign)
	if err != nil {
		return 0, nil, err
	}
	half := binary.LittleEndian.Uint64
	all, err := gathered(ctx, t, collective.AllGather, finding{[2]uint64{half(f.job[:8]), half(f.job[8:])}, own}, settings{})
	if err != nil {
		return 0, nil, err
	}
	epoch, rank, why := agreedEpoch(f.dir, all)
	if why != "" {
		return 0, nil, &node.Failure{Tasks: []int{rank}, Err: ErrLost, Text: fmt.Sprintf("task %d is lost: %s", rank, why)}
	}
	if own.Damaged > 0 {
		t.log.Warn("coppice: damaged: the job goes on from an earlier epoch", "file", store.File(f.dir, t.Rank(), own.Damaged), "epoch", epoch)
	}
	// Before anybody saves: what this run saves is never taken for one with what an earlier
	// run has left of the same epoch.
	if err := f.Forget(epoch); err != nil || epoch == 0 {
		return 0, nil, err
	}
	if state, err = f.State(epoch, sign); err != nil {
		return 0, nil, t.m.Lose(err.Error())
	}
	return epoch, state, nil
}

// agreedEpoch is the newest epoch that all tasks have; otherwise it tells which one
// keeps the job from being taken up again, and why.
func agreedEpoch(dir string, all []finding) (epoch uint64, rank int, why string) {
	byNewest := func(a, b finding) int { return cmp.Compare(a.Newest, b.Newest) }
	least, most := slices.MinFunc(all, byNewest).Newest, slices.MaxFunc(all, byNewest).Newest
	for r, f := range all {
		switch {
		case f.Newest == 0 && f.Damaged > 0:
			return 0, r, store.File(dir, r, f.Damaged) + " is damaged, and there is none before it"
		case f.Newest == 0 && most > 1: // who has saved epoch 2 knew that all had saved 1
			return 0, r, fmt.Sprintf("%s has no state, and others have epoch %d", store.TaskDir(dir, r), most)
		case least > 0 && !f.Has(least):
			return 0, r, fmt.Sprintf("%s is missing, and task %d has none after it", store.File(dir, r, least), slices.IndexFunc(all, func(f finding) bool { return f.Newest == least }))
		case least > 0 && f.Job != all[0].Job:
			return 0, r, fmt.Sprintf("%s is of another job than that of task 0", store.File(dir, r, least))
		}
	}
	return least, 0, ""
}

// tidy removes the files that are not needed any more in the epoch that the task has
// entered. It matters to nobody if one stays.
func (t *Task) tidy(f *files) {
	if f == nil {
		return
	}
	if err := f.Prune(t.m.Epoch()); err != nil {
		t.log.Warn("coppice: files of saved state stay", "error", err)
	}
}
