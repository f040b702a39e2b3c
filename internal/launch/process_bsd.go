//go:build unix && !linux

package launch

import "syscall"

// maxrssUnit is that of Rusage.Maxrss, in bytes: on Darwin; elsewhere it may be more.
const maxrssUnit = 1

// attributes puts a process into a group of its own.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
