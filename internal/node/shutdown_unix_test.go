//go:build unix

package node

import "syscall"

// shutdown closes a socket for writing, or for both writing and reading.
func shutdown(fd int, both bool) {
	how := syscall.SHUT_WR
	if both {
		how = syscall.SHUT_RDWR
	}
	_ = syscall.Shutdown(fd, how)
}
