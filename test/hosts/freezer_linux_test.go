package hosts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// freezer is a control group whose processes can be halted, as a hypervisor halts those of a machine:
// they do not notice, and only the group shows it. SIGSTOP would show in their states. A limit of their
// processor share would slow down only processes that need more.
type freezer struct{ dir string }

func newFreezer(name string) (*freezer, error) {
	var all error
	for _, mount := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		if _, err := os.Stat(filepath.Join(mount, "cgroup.controllers")); err != nil {
			all = errors.Join(all, err) // not of version 2
			continue
		}
		f := &freezer{filepath.Join(mount, name)}
		if err := os.Mkdir(f.dir, 0o755); err != nil {
			all = errors.Join(all, err)
			continue
		}
		return f, nil
	}
	return nil, fmt.Errorf("no control group to slow a host down with: %w", all)
}

func (f *freezer) write(file, text string) error {
	return os.WriteFile(filepath.Join(f.dir, file), []byte(text), 0o644)
}

// take moves processes into the group; what they start is in it, too.
func (f *freezer) take(pids []int) error {
	for _, pid := range pids {
		if err := f.write("cgroup.procs", strconv.Itoa(pid)); err != nil {
			return err
		}
	}
	return nil
}

// slow lets the processes run for a tenth of the time.
func (f *freezer) slow(ctx context.Context, d time.Duration) error {
	const frozen, running = 90 * time.Millisecond, 10 * time.Millisecond
	for end := time.Now().Add(d); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(running) {
		if err := f.write("cgroup.freeze", "1"); err != nil {
			return err
		}
		time.Sleep(frozen)
		if err := f.write("cgroup.freeze", "0"); err != nil {
			return err
		}
	}
	return nil
}

// remove removes the group, once its processes are gone.
func (f *freezer) remove() {
	for range 250 {
		if os.Remove(f.dir) == nil {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}
