package launch

import (
	"errors"
	"runtime"
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

// CheckLimits says what is wrong if the kernel does not allow so many processes to be started on this host. Limits
// that may be raised are.
func CheckLimits(n int) error { return errors.Join(checkFiles(n, crewFiles(n)), checkProcesses(n)) }

// CheckLauncher says what is wrong if the kernel does not allow the launcher of a job on these hosts what it takes.
func CheckLauncher(hosts []Host) error {
	p := &Plan{Config: Config{N: slots(hosts), Hosts: hosts}}
	return p.checkLimits()
}

// checkLimits says what is wrong if the kernel does not allow what the plan takes here.
// Limits that may be raised are.
func (p *Plan) checkLimits() error {
	n := p.N + p.Grow
	if err := checkFiles(n, p.files()); err != nil || p.Hosts != nil {
		return err
	}
	return checkProcesses(n)
}
