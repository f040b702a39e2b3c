package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// usage is processor time since the machine or this process began.
type usage struct {
	all   time.Duration // of all processors, idle or not
	used  time.Duration // by processes
	taken time.Duration // by other virtual machines on the same hardware
	own   time.Duration // by this process and those it started and waited for, with theirs
}

// disturbance is how busy others kept the machine, in parts of all processor time. A peer that polls
// suffers from other work far more than one that blocks, so ratios of a busy machine flatter Coppice.
type disturbance struct {
	Others float64 `json:"others"`
	Taken  float64 `json:"taken"`
}

// quietMax is the disturbance above which figures are not trustworthy.
const quietMax = 0.05

func (d disturbance) String() string {
	return fmt.Sprintf("others used %.0f%% of the processors, other machines took %.0f%%", 100*d.Others, 100*d.Taken)
}

func (d disturbance) loud() bool { return d.Others > quietMax || d.Taken > quietMax }

// between returns the disturbance from one reading to a later one.
func between(a, b usage) disturbance {
	all := b.all - a.all
	if all <= 0 {
		return disturbance{}
	}
	others := max(0, (b.used-a.used)-(b.own-a.own))
	return disturbance{
		Others: float64(others) / float64(all),
		Taken:  float64(b.taken-a.taken) / float64(all),
	}
}

// readUsage reads the current usage where the system reports it as Linux does.
func readUsage() (usage, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return usage{}, err
	}
	u, err := parseUsage(string(text))
	if err != nil {
		return usage{}, err
	}
	u.own, err = ownTime()
	return u, err
}

// parseUsage reads the first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq and
// steal, in hundredths of a second (proc_stat(5)). Interrupts count for no process: the kernel does not
// say which they were for.
func parseUsage(text string) (u usage, err error) {
	first, _, _ := strings.Cut(text, "\n")
	fields := strings.Fields(first)
	if len(fields) < 9 || fields[0] != "cpu" {
		return usage{}, errors.New("/proc/stat does not begin with the sum of all processors")
	}
	for i, field := range fields[1:9] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return usage{}, fmt.Errorf("/proc/stat: %w", err)
		}
		spent := time.Duration(ticks) * (time.Second / 100)
		u.all += spent
		switch i {
		case 0, 1, 2:
			u.used += spent
		case 7:
			u.taken += spent
		}
	}
	return u, nil
}
