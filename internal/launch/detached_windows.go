package launch

import "syscall"

// Detached needs Unix.
func Detached() *syscall.SysProcAttr { return nil }
