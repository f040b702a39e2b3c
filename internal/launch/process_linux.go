package launch

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxrssUnit is that of Rusage.Maxrss, in bytes.
const maxrssUnit = 1024

// attributes puts a process into a group of its own, and has it killed when the
// thread that started it ends, however that happens.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// exited waits until the process has exited, and leaves it to be reaped: until
// then its id and that of its group are nobody else's.
func (p *process) exited() {
	for {
		err := unix.Waitid(unix.P_PID, p.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
