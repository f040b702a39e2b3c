//go:build unix

package input

import "syscall"

// nonblock opens a pipe without waiting for who writes into it.
const nonblock = syscall.O_NONBLOCK
