package detect

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
)

// Inspect reads what the kernel reports about a process.
func Inspect(pid int) Activity {
	if pid <= 0 {
		return Activity{}
	}
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return Activity{}
	}
	state, used := parseStat(stat)
	a := Activity{Known: state != 0, Stopped: state == 'T' || state == 't', Used: used}
	// The process's own state is that of its first thread; another thread may be at work.
	tasks, _ := filepath.Glob(filepath.Join(dir, "task", "*"))
	for _, task := range tasks {
		if a.Stopped {
			a.Ran += readRan(task)
		}
		if stat, err := os.ReadFile(filepath.Join(task, "stat")); err == nil {
			switch state, _ := parseStat(stat); state {
			case 'R':
				a.Busy = true
			case 'D':
				a.Waits = true
			}
		}
	}
	return a
}

// readRan reads how many nanoseconds a thread has run, or 0 if the kernel does not report it.
func readRan(task string) (ran uint64) {
	stat, _ := os.ReadFile(filepath.Join(task, "schedstat"))
	if fields := bytes.Fields(stat); len(fields) > 0 {
		ran, _ = strconv.ParseUint(string(fields[0]), 10, 64)
	}
	return ran
}

// parseStat reads the state of a process or thread, and a number that grows as it works: the CPU time
// it used plus its major page faults.
func parseStat(stat []byte) (state byte, used uint64) {
	// The name, in parentheses, may contain anything.
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return 0, 0
	}
	fields := bytes.Fields(stat[end+1:])
	if len(fields) < 13 || len(fields[0]) != 1 {
		return 0, 0
	}
	// proc(5): field 3 is the state, 12 major faults, 14 and 15 user and system time.
	for _, i := range []int{12 - 3, 14 - 3, 15 - 3} {
		n, _ := strconv.ParseUint(string(fields[i]), 10, 64)
		used += n
	}
	return fields[0][0], used
}
