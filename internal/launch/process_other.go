//go:build !linux

package launch

import (
	"os"
	"syscall"
)

// child is a process, and how it ended.
type child struct {
	*os.Process
	state **os.ProcessState
}

// startChild starts a process with its files.
func startChild(o order, files []*os.File) (pid int, c child, err error) {
	p, err := os.StartProcess(o.path, o.argv, &os.ProcAttr{Dir: o.dir, Env: o.env, Files: files, Sys: attributes()})
	if err != nil {
		return 0, child{}, err
	}
	return p.Pid, child{p, new(*os.ProcessState)}, nil
}

// exited also reaps the process: there is no way to wait without reaping.
func (c child) exited(int) { *c.state, _ = c.Wait() }

func (c child) reap(int) status {
	if *c.state == nil {
		return unknownStatus
	}
	w, _ := (*c.state).Sys().(syscall.WaitStatus)
	u, _ := (*c.state).SysUsage().(*syscall.Rusage)
	return newStatus(w, u)
}

// threadID needs Linux.
func threadID() int { return 0 }

// childrenOf needs Linux.
func childrenOf(int) []int { return nil }
