// Package watch lets tests see what the tasks of a job of goroutines do, and kill processes of a job.
package watch

import "context"

// Watcher has the functions that a job calls when something happens. Several goroutines may call them at once.
type Watcher struct {
	Entered func(task int, op string) // a task's first attempt begins an operation; it is called under a lock
	Killed  func()                    // an order to die was carried out
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
