package launch

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// threadsOfUser counts the threads of all processes of this user.
func threadsOfUser() (n uint64) {
	all, _ := os.ReadDir("/proc")
	for _, entry := range all {
		if _, err := strconv.Atoi(entry.Name()); err != nil {
			continue
		}
		info, err := entry.Info()
		if err != nil {
			continue // it has ended
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); !ok || int(stat.Uid) != os.Getuid() {
			continue
		}
		threads, err := os.ReadDir(fmt.Sprintf("/proc/%s/task", entry.Name()))
		if err == nil {
			n += uint64(len(threads))
		}
	}
	return n
}
