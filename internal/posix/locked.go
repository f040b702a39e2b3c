package posix

import (
	"errors"
	"os"
	"syscall"
)

// Locked reports whether a process has a lock on a file.
func Locked(path string) bool {
	f, err := os.OpenFile(path, os.O_RDONLY|O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(Flock(f, LOCK_SH|LOCK_NB), syscall.EWOULDBLOCK)
}
