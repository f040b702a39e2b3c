package posix

import (
	"os"
	"os/signal"
	"syscall"
)

// DefaultInterrupt lets an interrupt and a hangup end the programs that this process starts. A shell
// starts background jobs with interrupts ignored, nohup ignores hangups, and children inherit that: a
// test that interrupts such a program would wait forever.
func DefaultInterrupt() {
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGHUP} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s) // children do not inherit a handler
		}
	}
}
