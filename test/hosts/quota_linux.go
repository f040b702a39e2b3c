package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// quota is a control group whose processes get a tenth of one processor's time: a slow
// host. To stop and continue its processes instead would show in their states.
type quota struct{ dir string }

func newQuota(name string) (*quota, error) {
	var all error
	for _, version := range []struct {
		mount string
		files map[string]string
	}{
		{"/sys/fs/cgroup/cpu", map[string]string{"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "10000"}},
		{"/sys/fs/cgroup", map[string]string{"cpu.max": "10000 100000"}},
	} {
		q := &quota{filepath.Join(version.mount, name)}
		err := os.Mkdir(q.dir, 0o755)
		if err != nil {
			all = errors.Join(all, err)
			continue
		}
		for file, text := range version.files {
			err = errors.Join(err, os.WriteFile(filepath.Join(q.dir, file), []byte(text), 0o644))
		}
		if err == nil {
			return q, nil
		}
		os.Remove(q.dir)
		all = errors.Join(all, err)
	}
	return nil, fmt.Errorf("no control group for the processor's time: %w", all)
}

// limit puts processes into the group; what they start is in it, too.
func (q *quota) limit(pids []int) error {
	for _, pid := range pids {
		if err := os.WriteFile(filepath.Join(q.dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// remove removes the group, once its processes are gone.
func (q *quota) remove() {
	for range 100 {
		if os.Remove(q.dir) == nil {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}
