//go:build unix

package main

import (
	"syscall"
	"time"
)

// ownTime returns the processor time used by this process and by those that it has waited for.
func ownTime() (d time.Duration, err error) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var r syscall.Rusage
		if err := syscall.Getrusage(who, &r); err != nil {
			return 0, err
		}
		d += time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	return d, nil
}
