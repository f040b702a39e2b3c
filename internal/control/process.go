package control

import (
	"errors"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/coppice-go/coppice/internal/detect"
	"github.com/coppice-go/coppice/internal/posix"
)

// process is a process on this host, by its pidfd.
type process struct {
	pid  int
	file *os.File // the pidfd, in the poller of the runtime: waiting for it blocks no thread
	raw  syscall.RawConn
}

// takeProcess takes the pidfd of the process at the other end of a connection.
// It returns nil, and no error, where there is none: on another host, and on a
// system without pidfds. It is an error if the process has gone.
func takeProcess(conn net.Conn) (*process, error) {
	local, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, nil
	}
	c, err := local.SyscallConn()
	if err != nil {
		return nil, err
	}
	fd, pid, err := detect.PeerPidfd(c)
	if errors.Is(err, syscall.ESRCH) {
		return nil, err
	} else if err != nil {
		return nil, nil
	}
	if err := posix.SetNonblock(fd, true); err != nil { // or NewFile leaves the poller out
		posix.Close(fd)
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	raw, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, err
	}
	return &process{pid, f, raw}, nil
}

// wait returns true when the process has exited, false when it was closed.
func (p *process) wait() bool {
	return p.raw.Read(func(fd uintptr) bool { return detect.ExitedPidfd(int(fd)) }) == nil
}

// waitFor waits for the exit of the process for a while, and returns how it ended; "": unknown.
func (p *process) waitFor(d time.Duration) string {
	done := make(chan struct{})
	go func() {
		p.wait()
		close(done)
	}()
	await(done, d)
	return p.ending()
}

// exited reports whether the process has exited.
func (p *process) exited() (yes bool) {
	err := p.raw.Control(func(fd uintptr) { yes = detect.ExitedPidfd(int(fd)) })
	return yes && err == nil
}

// statusOf is replaced in tests by the function of a system without it.
var statusOf = detect.StatusPidfd

// ending returns how the process, which has exited, ended; "": unknown.
func (p *process) ending() (how string) {
	_ = p.raw.Control(func(fd uintptr) {
		if exit, sig, ok := statusOf(int(fd)); ok {
			how = Ending(exit, sig)
		}
	})
	return how
}

// kill sends SIGKILL.
func (p *process) kill() (err error) {
	if e := p.raw.Control(func(fd uintptr) { err = detect.KillPidfd(int(fd), syscall.SIGKILL) }); e != nil {
		return e
	}
	return err
}

// own reports whether this is the current process.
func (p *process) own() bool { return p.pid == os.Getpid() }

func (p *process) close() {
	if p != nil {
		p.file.Close()
	}
}
