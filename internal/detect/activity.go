package detect

// Activity is what the kernel says of a process. It tells one that is at work, but
// cannot say so, from one that is stopped: a copy of gigabytes, a garbage collection or
// a busy machine may keep a healthy process from beating.
type Activity struct {
	Known   bool
	Stopped bool   // by a signal or a debugger
	Busy    bool   // a thread runs, or waits for a processor
	Waits   bool   // a thread waits for a disk
	Used    uint64 // grows with what the process does
	Ran     uint64 // changes with every moment that a thread runs
}

// Working reports whether a process is at work, given what was known of it a while ago. One
// that was stopped then, and is now, has worked if it ran in between: it is stopped again
// and again, each time for less long.
func (a Activity) Working(before Activity) bool {
	if a.Stopped && before.Stopped {
		return a.Ran != before.Ran
	}
	return a.Known && !a.Stopped && (a.Busy || a.Waits || before.Known && a.Used != before.Used)
}
