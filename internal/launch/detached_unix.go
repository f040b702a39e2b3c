//go:build unix

package launch

import "syscall"

// Detached puts a process into its own session: it has no terminal, and signals to our group do not reach it.
func Detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
