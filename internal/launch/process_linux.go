package launch

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/coppice-go/coppice/internal/detect"
)

// maxrssUnit is the unit of Rusage.Maxrss, in bytes.
const maxrssUnit = 1024

// attributes puts a process into its own group, and makes the kernel kill it when the
// thread that started it ends, for whatever reason.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// child is a process by its pidfd, which is in the poller of Go's runtime: waiting
// for it blocks no thread. nil: the kernel has no pidfds.
type child struct{ pidfd *os.File }

// startChild starts a process with its files.
func startChild(o order, files []*os.File) (pid int, c child, err error) {
	pidfd := -1
	attr := &syscall.ProcAttr{Dir: o.dir, Env: o.env, Sys: attributes()}
	attr.Sys.PidFD = &pidfd
	for _, f := range files {
		attr.Files = append(attr.Files, f.Fd())
	}
	if pid, _, err = syscall.StartProcess(o.path, o.argv, attr); err != nil {
		return 0, child{}, err
	}
	if pidfd >= 0 && syscall.SetNonblock(pidfd, true) == nil { // or NewFile leaves the poller out
		c.pidfd = os.NewFile(uintptr(pidfd), "pidfd")
	}
	return pid, c, nil
}

func (c child) exited(pid int) {
	if c.pidfd != nil {
		if raw, err := c.pidfd.SyscallConn(); err == nil && raw.Read(func(fd uintptr) bool { return detect.ExitedPidfd(int(fd)) }) == nil {
			return
		}
	}
	for errors.Is(unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
}

func (c child) reap(pid int) status {
	c.pidfd.Close() // of nil, too
	var (
		w   syscall.WaitStatus
		u   syscall.Rusage
		err = error(unix.EINTR)
	)
	for errors.Is(err, unix.EINTR) {
		_, err = syscall.Wait4(pid, &w, 0, &u)
	}
	if err != nil {
		return unknownStatus
	}
	return newStatus(w, &u)
}

// threadID returns the number of the thread that the caller is locked to.
func threadID() int { return unix.Gettid() }

// childrenOf returns the pids of the processes that a thread of this process has started.
func childrenOf(thread int) (pids []int) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/children", thread))
	for _, word := range strings.Fields(string(text)) {
		if pid, err := strconv.Atoi(word); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
