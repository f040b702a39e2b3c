package detect

// Activity is what the kernel reports about a process. It distinguishes a stopped process from one that
// works but cannot beat: a copy of gigabytes, a garbage collection or a busy machine may keep a healthy
// process from beating.
type Activity struct {
	Known   bool
	Stopped bool   // by a signal or a debugger
	Busy    bool   // a thread runs, or waits for a processor
	Waits   bool   // a thread waits for a disk
	Used    uint64 // grows as the process works
	Ran     uint64 // changes whenever one of its threads runs
}

// Working reports whether a process has worked since Inspect returned before. A process stopped both
// then and now has worked if it ran in between: something stops and continues it repeatedly.
func (a Activity) Working(before Activity) bool {
	if a.Stopped && before.Stopped {
		return a.Ran != before.Ran
	}
	return a.Known && !a.Stopped && (a.Busy || a.Waits || before.Known && a.Used != before.Used)
}
