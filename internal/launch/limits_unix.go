//go:build unix

package launch

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// checkFiles says what is wrong if so many files may not be open for n processes.
func checkFiles(n, files int) error {
	if err := allowed(unix.RLIMIT_NOFILE, uint64(files), 0, "open files in the process that starts them", "-n"); err != nil {
		return InputError{fmt.Errorf("%d processes %w", n, err)}
	}
	return nil
}

// checkProcesses says what is wrong if the user may not have so many processes more. A
// thread counts as one, but how many threads a program has only it knows.
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

// allowed is an error if a limit is too low for what is needed beyond what is in use. If the
// user may raise it, that is done.
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
