package coppice

import (
	"errors"
	"fmt"
	"strings"

	"github.com/coppice-go/coppice/internal/node"
)

// What ends an operation without a result. Test for them with errors.Is.
var (
	// ErrLost: a task that the operation needs is lost: its process died, or
	// it returned with an error.
	ErrLost = node.ErrLost
	// ErrMismatch: tasks called different operations, or the same one with
	// different types, roots or operators, or reduce slices of different
	// lengths; or a task returned without the operation that
	// others wait in. All later operations of the group fail, too.
	ErrMismatch = node.ErrMismatch
	// ErrUnreached: a corrected broadcast or reduction did not reach this task, and
	// will not: its root died before anybody alive had the value, or more tasks have
	// died than a reduction outlives.
	ErrUnreached = node.ErrUnreached
	// ErrDiverged: a task that was run again does not do what it did before: it
	// calls other operations, or sends other data; or memory that was lent with Shared has
	// changed. All later operations of the group fail, too.
	ErrDiverged = node.ErrDiverged
	// ErrDeadlock: this task and others wait for each other, and would for ever. With
	// Replay it is noticed after a second or more, among tasks without forks and groups
	// that wait with the context of the job. All later operations of the group fail, too.
	ErrDeadlock = node.ErrDeadlock
	// ErrExcluded: the others have decided to go on without this process,
	// which they could not reach. It may come back as a new process.
	ErrExcluded = node.ErrExcluded
	// ErrNoQuorum: this process can reach too few of the others to go on
	// without the rest; these may be going on without it.
	ErrNoQuorum = node.ErrNoQuorum
	// ErrAborted: an agreed operation, or an agreement, did not take place for
	// anybody: the context of a task had ended before it took part.
	ErrAborted = node.ErrAborted
	// ErrRevoked: a task has revoked the group.
	ErrRevoked = node.ErrRevoked
	// ErrMoved: Save has given the task to another process, which has joined: there it
	// goes on. The function returns it, and that is not an error of the job.
	ErrMoved = node.ErrMoved
	// ErrAbandoned: the job has ended under this process: whoever started it
	// is gone, or has given it up, or all who had tasks died before this one could
	// take them over. Or this task could not wait for the others to
	// decide on an agreed operation, and has given up the group.
	ErrAbandoned = node.ErrAbandoned
)

// FailedError says which operation failed, in which view, and whose failure it
// was. It unwraps to one of the errors above, or to that of a context.
type FailedError struct {
	Op    string
	View  uint64
	Tasks []int // who failed or disagrees; empty if nobody is to blame
	Err   error

	text string
}

func (e *FailedError) Error() string {
	text := e.text
	switch {
	case text != "":
	case len(e.Tasks) == 0:
		text = e.Err.Error()
	default:
		text = fmt.Sprintf("%v (%s)", e.Err, tasks(e.Tasks))
	}
	return fmt.Sprintf("%s in view %d: %s", e.Op, e.View, text)
}

// Unwrap returns Err.
func (e *FailedError) Unwrap() error { return e.Err }

func tasks(list []int) string {
	words := strings.Trim(strings.ReplaceAll(fmt.Sprint(list), " ", ", "), "[]")
	if len(list) == 1 {
		return "task " + words
	}
	return "tasks " + words
}

// failed translates an error of an operation.
func (t *Task) failed(op string, err error) error {
	if err == nil {
		return nil
	}
	return failed(op, t.m.Sight().View.Number, err)
}

// failed translates an error of the runtime.
func failed(op string, view uint64, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, node.ErrKilled) {
		exit()
	}
	if _, named := err.(*FailedError); named { // not the cause of a context
		return err
	}
	var f *node.Failure
	if !errors.As(err, &f) {
		return fmt.Errorf("%s: %w", op, err)
	}
	e := &FailedError{Op: op, View: view, Tasks: f.Tasks, Err: f.Err, text: f.Text}
	switch parting, out := f.Err.(*node.Parting); {
	case out:
		e.Err, e.text = parting.Err, parting.Text
	case f.Err == ErrDeadlock:
		e.text = fmt.Sprintf("deadlock at %s: %s", caller(), f.Text)
	case f.Err == ErrUnreached:
		e.text = fmt.Sprintf("%v: %s", ErrUnreached, f.Text)
	case f.Err == node.ErrLeft:
		e.Err = ErrMismatch
	}
	return e
}
