package coppice

import (
	"context"
	"fmt"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
)

// Only one goroutine at a time may use a task, and only until the task's function returns. A program that breaks this rule would get
// results that differ from run to run.

// begin begins an operation on the task, or says why there can be none now. It is over when busy is false again.
func (t *Task) begin(ctx context.Context, op string) error {
	if err := t.usable(ctx, op); err != nil {
		return err
	}
	if !t.busy.CompareAndSwap(false, true) {
		return t.refuse(op, "an operation of it is under way; allowed: one at a time; other goroutines with a Fork each, or with Go")
	}
	return nil
}

// usable says why there can be no operation on the task.
func (t *Task) usable(ctx context.Context, op string) error {
	if err := t.given(ctx, op); err != nil {
		return err
	}
	if w := t.trunk.watcher; w != nil && w.Before != nil {
		w.Before()
	}
	switch differs := t.trunk.differs(); {
	case differs != nil:
		return differs
	case t.trunk.returned.Load():
		return t.refuse(op, "its function has returned")
	case t.trunk.futures.Load() > 0 && t.foreignTo(goDepth()):
		return t.refuse(op, "a function of Go uses it; allowed there: the task that Go gives it")
	case t.trunk.asking.Load() > 0 && asks():
		return t.failed(op, t.m.WithinOnce(op))
	}
	return nil
}

// foreignTo reports whether the task was given to a function of another depth than that of this goroutine, if this is one of Go's. Forks and
// groups may be used by any goroutine.
func (t *Task) foreignTo(depth int) bool { return depth > 0 && t.depth != anyDepth && t.depth != depth }

// anyDepth is the depth of forks and groups.
const anyDepth = -1

// refuse is the error of an operation that cannot be, with the line that calls it.
func (t *Task) refuse(op, why string) error {
	return fmt.Errorf("%s at %s: task %d: %s", op, caller(), t.m.Task(), why)
}

// Functions of Go run below one of these: the first for those that the task's function begins, the next for those that these begin, and so
// on. They are not generic, so that goDepth finds them.
//
//go:noinline
func beside1(f func()) { f() }

//go:noinline
func beside2(f func()) { f() }

//go:noinline
func beside3(f func()) { f() }

var besides = [...]func(func()){beside1, beside2, beside3}

// ask calls the function of a Once, so that asks finds it.
//
//go:noinline
func ask[T any](f func() (T, error)) (v T, err error) {
	asked(func() { v, err = f() })
	return v, err
}

//go:noinline
func asked(f func()) { f() }

// entryOf is where a function begins.
func entryOf(f func(func())) uintptr { return reflect.ValueOf(f).Pointer() }

// stack is the calls of this goroutine, the last one first, in room if they fit.
func stack(room []uintptr) []uintptr {
	for {
		if n := runtime.Callers(3, room); n < len(room) {
			return room[:n]
		}
		room = make([]uintptr, 4*len(room))
	}
}

// goDepth is how deep the functions of Go are nested of which this goroutine runs one; 0: it runs none.
func goDepth() int {
	var room [128]uintptr
	pcs := stack(room[:])
	for _, pc := range pcs[max(0, len(pcs)-4):] { // below are goexit, and wrappers of the compiler
		f := runtime.FuncForPC(pc - 1)
		for i, beside := range besides {
			if f != nil && f.Entry() == entryOf(beside) {
				return i + 1
			}
		}
	}
	return 0
}

// asks reports whether this goroutine runs the function of a Once.
func asks() bool {
	var room [128]uintptr
	entry := entryOf(asked)
	return slices.ContainsFunc(stack(room[:]), func(pc uintptr) bool {
		f := runtime.FuncForPC(pc - 1)
		return f != nil && f.Entry() == entry
	})
}

// caller is the file and line that calls this package.
func caller() string {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		if !strings.HasPrefix(f.Function, "github.com/coppice-go/coppice.") || !more {
			return fmt.Sprintf("%s:%d", filepath.Base(f.File), f.Line)
		}
	}
}
