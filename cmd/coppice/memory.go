package main

import (
	"bufio"
	"cmp"
	"fmt"
	"os"
	"runtime"

	"github.com/coppice-go/coppice/logp"
)

// What a simulation needs, in bytes: engines with states and messages in
// flight, results with the copies that are summed up.
const (
	processBytes = 92
	runBytes     = 110
	deathBytes   = 4 // where there is a detector: for a process and a death
)

// checkMemory refuses simulations that cannot fit.
func checkMemory(net logp.Network, runs logp.Runs) error {
	workers := max(min(cmp.Or(runs.Workers, runtime.GOMAXPROCS(0)), runs.Runs), 1)
	each := processBytes
	if net.Detect > 0 {
		each += deathBytes * (runs.Faults.Count + len(runs.Faults.Fixed.Failed) + len(runs.Faults.Fixed.Deaths))
	}
	need := float64(net.P)*float64(each)*float64(workers) + float64(runs.Runs)*runBytes
	return fits(fmt.Sprintf("%d processes, %d runs, %d workers", net.P, runs.Runs, workers), need)
}

// fits refuses what needs more bytes of memory than can be had: being killed halfway says nothing.
func fits(what string, need float64) error {
	if free, ok := freeMemory(); ok && need > free {
		const gib = 1 << 30
		return fmt.Errorf("%s need about %.0f GiB of memory; allowed here: less than %.1f GiB", what, need/gib, free/gib)
	}
	return nil
}

// freeMemory returns the bytes of memory that can be had, where the system is
// Linux and says so.
func freeMemory() (bytes float64, ok bool) {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0, false
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if n, _ := fmt.Sscanf(lines.Text(), "MemAvailable: %g kB", &bytes); n == 1 {
			return bytes * 1024, true
		}
	}
	return 0, false
}
