package detect

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
)

// Inspect reads what the kernel says of a process.
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
	// The state is that of the first thread; another one may be at work.
	tasks, _ := filepath.Glob(filepath.Join(dir, "task", "*", "stat"))
	for _, task := range tasks {
		if stat, err := os.ReadFile(task); err == nil {
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

// parseStat reads the state of a process or thread, and a number that grows with what it
// does: the time it used and the pages it had to wait for.
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
