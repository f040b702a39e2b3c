// Package watch lets package coppicetest see what the tasks of a job of goroutines do, and do something to its processes.
package watch

import "context"

// Watcher has the functions that a job calls when something happens, where they are not nil. Several goroutines may call them at once.
type Watcher struct {
	Began   func(j Job)               // the job begins
	Before  func()                    // a task is about to begin an operation; it may wait there
	Entered func(task int, op string) // a task's first attempt begins an operation; it is called under a lock
	Killed  func()                    // an order to die was carried out
	Moved   func(task any)            // the function of a *coppice.Task has returned, and the task goes on in another process

	Unrehearsed bool // on a test's context: coppicetest does not rehearse its programs

	Moves  bool     // processes may join and leave
	Pauses []string // points, written as kill points, at which a process stands still
	Still  func()   // as long as this takes
}

// Job is what can be done to a job. The functions return when all processes know of it, or the job is over.
type Job struct {
	Join  func()         // another process joins
	Leave func(task int) // the process that has the task leaves, and hands over what it has
}

type (
	key      struct{}
	killsKey struct{}
)

// With is a context for a job that has the watcher.
func With(ctx context.Context, w *Watcher) context.Context {
	return context.WithValue(ctx, key{}, w)
}

// From is the watcher of a context, or nil.
func From(ctx context.Context) *Watcher {
	w, _ := ctx.Value(key{}).(*Watcher)
	return w
}

// WithKills is a context for a job whose processes are killed at these kill points, as coppice run --kill has them, without durations.
func WithKills(ctx context.Context, at ...string) context.Context {
	return context.WithValue(ctx, killsKey{}, at)
}

// Kills are the kill points of a context.
func Kills(ctx context.Context) []string {
	at, _ := ctx.Value(killsKey{}).([]string)
	return at
}
