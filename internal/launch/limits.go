package launch

import (
	"errors"
	"runtime"
)

// The launcher checks what a job takes against what the kernel allows before it starts
// anything. A job that reaches a limit half-way would end in an error that does not name
// the limit, and would kill what has begun.

// Open files of a launcher.
const (
	filesChild = 3  // for a process here: two pipes, and its pidfd
	filesJoin  = 1  // for a process that joins the job: its session with the coordinator
	filesPeer  = 1  // for a process of this host that joins: the coordinator's own pidfd
	filesHost  = 4  // for each host: ssh's three pipes and pidfd
	filesStart = 4  // for each process that is being started: the other ends of its pipes, and the pipe that reports exec
	filesOwn   = 32 // whatever the job's size: listeners, pollers, observers
)

// threadsOwn is how many threads a launcher has, whatever the job's size.
const threadsOwn = 16

// starters is how many processes are started at once.
func starters(n int) int { return min(n, 2*runtime.GOMAXPROCS(0)) }

// files returns how many files the launcher of the plan has open at a time.
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

// crewFiles returns how many files a process that starts others here has open.
func crewFiles(n int) int { return filesOwn + filesChild*n + filesStart*starters(n) }

// CheckLimits returns an error if the kernel does not allow that many processes to be started on this host. It raises
// limits that may be raised.
func CheckLimits(n int) error { return errors.Join(checkFiles(n, crewFiles(n)), checkProcesses(n)) }

// CheckLauncher returns an error if the kernel does not allow what the launcher of a job on these hosts takes.
func CheckLauncher(hosts []Host) error {
	p := &Plan{Config: Config{N: slots(hosts), Hosts: hosts}}
	return p.checkLimits()
}

// checkLimits returns an error if the kernel does not allow what the plan takes here.
// It raises limits that may be raised.
func (p *Plan) checkLimits() error {
	n := p.N + p.Grow
	if err := checkFiles(n, p.files()); err != nil || p.Hosts != nil {
		return err
	}
	return checkProcesses(n)
}
