package main

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// onTwoProcessors makes this process, and all that it starts, run on two of its processors: how a
// process waits depends on their number.
func onTwoProcessors() error {
	var may, two unix.CPUSet
	if err := unix.SchedGetaffinity(0, &may); err != nil {
		return err
	}
	for cpu := 0; cpu < 8*len(may)*8 && two.Count() < 2; cpu++ {
		if may.IsSet(cpu) {
			two.Set(cpu)
		}
	}
	threads, err := os.ReadDir("/proc/self/task") // a new thread inherits from the one that makes it
	if err != nil {
		return err
	}
	for _, thread := range threads {
		tid, err := strconv.Atoi(thread.Name())
		if err != nil {
			return err
		}
		if err := unix.SchedSetaffinity(tid, &two); err != nil && err != unix.ESRCH {
			return err
		}
	}
	return nil
}
