package posix

import (
	"os"
	"os/signal"
)

// DefaultInterrupt lets an interrupt end the programs that this process starts. A shell
// starts what runs in the background with interrupts ignored, and children inherit that:
// tests that interrupt programs would wait for them in vain.
func DefaultInterrupt() {
	if signal.Ignored(os.Interrupt) {
		signal.Notify(make(chan os.Signal, 1), os.Interrupt) // children do not inherit a handler
	}
}
