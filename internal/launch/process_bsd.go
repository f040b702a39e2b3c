//go:build unix && !linux

package launch

import "syscall"

// maxrssUnit is the unit of Rusage.Maxrss, in bytes: on Darwin; elsewhere it may be more.
const maxrssUnit = 1

// attributes puts a process into its own group.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
