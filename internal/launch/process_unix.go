//go:build unix

package launch

import "syscall"

// peak is the most memory that a process has had, in bytes.
func peak(u *syscall.Rusage) int64 { return u.Maxrss * maxrssUnit }
