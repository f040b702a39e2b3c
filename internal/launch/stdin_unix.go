//go:build unix

package launch

import (
	"os"

	"golang.org/x/sys/unix"
)

// foreground reports whether a file is the controlling terminal of this process, and whether the process is in the foreground there.
func foreground(input *os.File) (is, terminal bool) {
	group, err := unix.IoctlGetInt(int(input.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp(), err == nil
}
