//go:build unix

package node

import "syscall"

// shutdown ends what can be written to a socket, or also what can be read.
func shutdown(fd int, both bool) {
	how := syscall.SHUT_WR
	if both {
		how = syscall.SHUT_RDWR
	}
	_ = syscall.Shutdown(fd, how)
}
