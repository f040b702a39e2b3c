//go:build !linux

package detect

import (
	"errors"
	"syscall"
)

// PeerPidfd needs Linux.
func PeerPidfd(syscall.RawConn) (fd, pid int, err error) { return -1, 0, errors.ErrUnsupported }

// OpenPidfd needs Linux.
func OpenPidfd(int) (int, error) { return -1, errors.ErrUnsupported }

// KillPidfd needs Linux.
func KillPidfd(int, syscall.Signal) error { return errors.ErrUnsupported }

// ExitedPidfd needs Linux.
func ExitedPidfd(int) bool { return false }

// StatusPidfd needs Linux.
func StatusPidfd(int) (exit int, sig syscall.Signal, ok bool) { return 0, 0, false }
