//go:build unix

package launch

import "syscall"

// Detached puts a process into a session of its own: it has no terminal, and no signal that is meant for our group reaches it.
func Detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
