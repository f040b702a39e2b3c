package coppice

// NewTask is for tests that make the processes of a job themselves.
var NewTask = newTask
