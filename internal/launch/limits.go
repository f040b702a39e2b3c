package launch

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// What a job takes of what the kernel allows the launcher is checked before anything is
// started: a job that runs out of it half-way would end in an error that says nothing of
// the limit, and on the way kill what has begun.

// Open files of a launcher.
const (
	filesChild = 3  // for a process here: two pipes, and its pidfd
	filesJoin  = 1  // for a process that joins the job: its session with the coordinator
	filesPeer  = 1  // for one of this host that does: the coordinator's own pidfd
	filesHost  = 4  // for each host: ssh's three pipes and pidfd
	filesStart = 4  // for each process that is being started: the other ends of its pipes, and the pipe that tells of exec
	filesOwn   = 32 // whatever the job's size: listeners, pollers, observers
)

// threadsOwn is how many threads a launcher has, whatever the job's size.
const threadsOwn = 16

// starters is how many processes are started at once.
func starters(n int) int { return min(n, 2*runtime.GOMAXPROCS(0)) }

// files is how many files the launcher of the plan has open at a time.
func (p *Plan) files() int {
	n, each, more := p.N+p.Grow, filesJoin, 0
	if p.Hosts == nil {
		each += filesPeer
		more = crewFiles(n)
	} else {
		more = filesOwn + (filesHost+filesStart)*len(p.Hosts)
	}
	if p.Output.LogDir != "" {
		each += streams
	}
	return n*each + more
}

// crewFiles is how many files somebody has open who starts processes here.
func crewFiles(n int) int { return filesOwn + filesChild*n + filesStart*starters(n) }

// checkLimits says what is wrong if the kernel does not allow what the plan takes here.
// Limits that may be raised are.
func (p *Plan) checkLimits() error {
	n := p.N + p.Grow
	if err := checkFiles(n, p.files()); err != nil || p.Hosts != nil {
		return err
	}
	return checkProcesses(n)
}

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
