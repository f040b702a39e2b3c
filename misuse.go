package coppice

import (
	"context"
	"fmt"
	"path/filepath"
	"reflect"
	"runtime"
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
	switch differs := t.trunk.differs(); {
	case differs != nil:
		return differs
	case t.trunk.returned.Load():
		return t.refuse(op, "its function has returned")
	case !t.fork && t.trunk.futures.Load() > 0 && besides():
		return t.refuse(op, "a function of Go uses it; allowed there: the task that Go gives it")
	}
	return nil
}

// refuse is the error of an operation that cannot be, with the line that calls it.
func (t *Task) refuse(op, why string) error {
	return fmt.Errorf("%s at %s: task %d: %s", op, caller(), t.m.Task(), why)
}

// beside runs what Go was given. It is not generic, so that besides finds it.
//
//go:noinline
func beside(f func()) { f() }

// besides reports whether the calling goroutine is one of Go's.
func besides() bool {
	var pcs [128]uintptr
	n := runtime.Callers(2, pcs[:])
	if n == len(pcs) { // the stack is too deep to see where it begins
		return false
	}
	entry := reflect.ValueOf(beside).Pointer()
	for _, pc := range pcs[max(0, n-4):n] { // goexit, and wrappers of the compiler
		if f := runtime.FuncForPC(pc - 1); f != nil && f.Entry() == entry {
			return true
		}
	}
	return false
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
