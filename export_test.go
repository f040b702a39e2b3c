package coppice

// NewTask is for tests that make the processes of a job themselves.
var NewTask = newTask

// Busy reports whether an operation is under way.
func (t *Task) Busy() bool { return t.busy.Load() }
