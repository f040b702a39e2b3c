package hosts

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// coordinator returns the process that has the coordinator: it holds the lock of the job's directory on
// its host.
func (j *job) coordinator() (process, error) {
	for _, p := range j.processes() {
		if p.rank < 0 {
			continue
		}
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", p.pid))
		for _, f := range files {
			if name, err := os.Readlink(f); err == nil && strings.HasSuffix(name, "/control.lock") {
				return p, nil
			}
		}
	}
	return process{}, errors.New("no process has the coordinator")
}

// killCoordinator kills the process that has the coordinator, this many times, each time after the job
// has gone on.
func killCoordinator(times int) func(*job, int) error {
	return func(j *job, _ int) error {
		var dead []int
		for len(dead) < times {
			var p process
			err := j.await("coordinator", time.Minute, func() bool {
				var err error
				p, err = j.coordinator()
				return err == nil && !slices.Contains(dead, p.rank)
			})
			if err == nil {
				err = signalAll([]int{p.pid}, syscall.SIGKILL)
			}
			if err == nil {
				dead = append(dead, p.rank)
				err = j.awaitSteps(len(j.times()) + 15)
			}
			if err != nil {
				return fmt.Errorf("coordinators killed: ranks %v: %w", dead, err)
			}
		}
		return nil
	}
}
