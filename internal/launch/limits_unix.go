//go:build unix

package launch

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// checkFiles returns an error if that many files may not be open for n processes.
func checkFiles(n, files int) error {
	if err := allowed(unix.RLIMIT_NOFILE, uint64(files), 0, "open files in the process that starts them", "-n"); err != nil {
		return InputError{fmt.Errorf("%d processes %w", n, err)}
	}
	return nil
}

// checkProcesses returns an error if the user may not have that many more processes. A
// thread counts as one, but only a program knows how many threads it has.
func checkProcesses(n int) error {
	if unix.Getuid() == 0 { // may have any number
		return nil
	}
	need := uint64(n + threadsOwn + starters(n))
	if err := allowed(unix.RLIMIT_NPROC, need, threadsOfUser(), "processes and threads or more", "-u"); err != nil {
		return InputError{fmt.Errorf("%d processes %w", n, err)}
	}
	return nil
}

// allowed returns an error if a limit is too low for what is needed beyond what is in use. It raises
// the limit if the user may.
func allowed(limit int, need, used uint64, what, ulimit string) error {
	var is unix.Rlimit
	if unix.Getrlimit(limit, &is) != nil || need+used <= is.Cur {
		return nil
	}
	if need+used <= is.Max {
		is.Cur = is.Max
		if unix.Setrlimit(limit, &is) == nil {
			return nil
		}
	}
	in := ""
	if used > 0 {
		in = fmt.Sprintf(", of which %d are in use", used)
	}
	return fmt.Errorf("need %d %s; allowed: %d%s (see ulimit %s)", need, what, is.Max, in, ulimit)
}
