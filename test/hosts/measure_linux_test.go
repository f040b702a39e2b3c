package hosts

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// memoryKept is the memory that jobs must leave to others: a job that takes more is killed.
const memoryKept = 3 << 30

// memoryAvailable returns how many bytes the kernel can still give.
func memoryAvailable() int64 { return kibibytes("/proc/meminfo", "MemAvailable:") }

// privateMemory returns how many bytes a process does not share.
func privateMemory(pid int) int64 {
	return kibibytes(fmt.Sprintf("/proc/%d/smaps_rollup", pid), "Private_Clean:", "Private_Dirty:")
}

// kibibytes returns the sum, in bytes, of the lines with these names.
func kibibytes(file string, names ...string) (sum int64) {
	content, _ := os.ReadFile(file)
	for line := range strings.Lines(string(content)) {
		words := strings.Fields(line)
		for _, name := range names {
			if len(words) > 1 && words[0] == name {
				n, _ := strconv.ParseInt(words[1], 10, 64)
				sum += n << 10
			}
		}
	}
	return sum
}

// clockTick is the unit of times in /proc, the same on all Linux systems.
const clockTick = 10 * time.Millisecond

// processorTime returns how long a process has computed.
func processorTime(pid int) time.Duration {
	content, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(content), ") ") // after the name, from the 3rd field on
	words := strings.Fields(rest)
	if len(words) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(words[11])
	system, _ := strconv.Atoi(words[12])
	return time.Duration(user+system) * clockTick
}
