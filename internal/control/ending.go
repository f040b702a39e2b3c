package control

import (
	"fmt"
	"syscall"

	"github.com/coppice-go/coppice/internal/posix"
)

// Ending returns in words how a process ended: by a signal, unless that is 0, or with
// an exit code.
func Ending(exit int, sig syscall.Signal) string {
	if sig != 0 {
		return "killed by " + SignalName(sig)
	}
	return fmt.Sprintf("exited with %d", exit)
}

// SignalName returns the name of a signal, SIGKILL for 9.
func SignalName(s syscall.Signal) string {
	if name := posix.SignalName(s); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", int(s))
}
