package loop

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
)

// Usage is what a process has used since it began or, after Sub, in the recorded iterations of a job.
// It covers the whole process, including the library's own goroutines and Go's runtime.
type Usage struct {
	CPU         int64 `json:"cpu_ns"`      // processor time, in nanoseconds
	Voluntary   int64 `json:"voluntary"`   // context switches because a thread waited: each such thread is woken once
	Involuntary int64 `json:"involuntary"` // context switches because another thread had to run: the machine's load
	Allocations int64 `json:"allocations"` // objects on the heap
}

// Sub returns what was used after an earlier usage.
func (u Usage) Sub(earlier Usage) Usage {
	return Usage{
		u.CPU - earlier.CPU, u.Voluntary - earlier.Voluntary, u.Involuntary - earlier.Involuntary,
		u.Allocations - earlier.Allocations,
	}
}

// usageBefore returns the usage when the recorded iterations begin, usageAfter when they have ended.
// They ask the kernel last and first: reading the allocations is no part of the iterations, and
// getrusage shows package calls where the iterations are.
func usageBefore() Usage {
	u := Usage{Allocations: allocations()}
	u.askKernel()
	return u
}

func usageAfter() (u Usage) {
	u.askKernel()
	u.Allocations = allocations()
	return u
}

// allocations returns exactly how many objects were allocated on the heap since the process began,
// which needs ReadMemStats: package runtime/metrics counts the objects of a processor's span only when
// the span is full.
func allocations() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.Mallocs)
}

// usageFile names the file with the usage of one rank.
func usageFile(out string, rank int) string { return File(out, rank) + ".usage" }

func (u Usage) write(out string, rank int) error {
	text, err := json.Marshal(u)
	if err != nil {
		return err
	}
	return os.WriteFile(usageFile(out, rank), text, 0o600)
}

// ReadUsage returns what the p ranks of a job used in its recorded iterations, all together.
func (j Job) ReadUsage(p int) (sum Usage, err error) {
	for r := range p {
		text, err := os.ReadFile(usageFile(j.Out, r))
		if err != nil {
			return sum, fmt.Errorf("rank %d wrote no usage: %w", r, err)
		}
		var u Usage
		if err := json.Unmarshal(text, &u); err != nil {
			return sum, fmt.Errorf("usage of rank %d: %w", r, err)
		}
		sum = sum.Sub(Usage{}.Sub(u))
	}
	return sum, nil
}
