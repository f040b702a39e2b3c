package posix

import (
	"os"
	"os/signal"
	"syscall"
)

// DefaultInterrupt lets an interrupt and a hangup end the programs that this process starts. A shell
// starts what runs in the background with interrupts ignored, nohup with hangups, and children inherit that:
// tests that interrupt programs would wait for them in vain.
func DefaultInterrupt() {
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGHUP} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s) // children do not inherit a handler
		}
	}
}
