package detect

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// PeerPidfd returns a pidfd of the process at the other end of a Unix socket: the one that connected
// or, seen from there, the one that called listen. It also returns the process number, 0 if the process
// has none in this namespace. The caller closes fd, which is −1 on an error.
func PeerPidfd(c syscall.RawConn) (fd, pid int, err error) {
	fd = -1
	if e := c.Control(func(s uintptr) { fd, pid, err = peerPidfd(int(s)) }); e != nil {
		return -1, 0, e
	}
	return fd, pid, err
}

func peerPidfd(s int) (fd, pid int, err error) {
	cred, err := unix.GetsockoptUcred(s, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return -1, 0, fmt.Errorf("process of the peer: %w", err)
	}
	pid = int(cred.Pid)
	fd, err = unix.GetsockoptInt(s, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	if errors.Is(err, unix.ENOPROTOOPT) { // before Linux 6.5
		fd, err = OpenPidfd(pid)
	}
	if err != nil {
		return -1, pid, fmt.Errorf("pidfd of the peer, process %d: %w", pid, err)
	}
	return fd, pid, nil
}

// OpenPidfd returns a pidfd of the process that has this number now. It closes on exec; the caller
// closes it.
func OpenPidfd(pid int) (int, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return -1, fmt.Errorf("pidfd of process %d: %w", pid, err)
	}
	return fd, nil
}

// KillPidfd sends a signal to the process. It returns syscall.ESRCH if the process no longer exists.
func KillPidfd(fd int, sig syscall.Signal) error {
	if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil {
		return fmt.Errorf("signal %d by pidfd: %w", int(sig), err)
	}
	return nil
}

// ExitedPidfd reports, without waiting, whether the kernel says that the process has exited. An error,
// such as a closed fd, is no proof of that.
func ExitedPidfd(fd int) bool {
	polled := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(polled, 0)
		if err != unix.EINTR {
			return err == nil && n == 1 && polled[0].Revents&unix.POLLIN != 0
		}
	}
}

// StatusPidfd returns how a process that has exited ended. It reads the zombie or, if the process was
// already waited for, the pidfd (Linux 6.15 and later). False means that the status is unknown.
func StatusPidfd(fd int) (exit int, sig syscall.Signal, ok bool) {
	status, ok := zombieStatus(fd)
	if !ok {
		info := unix.PidfdInfo{Mask: unix.PIDFD_INFO_EXIT}
		err := unix.IoctlPidfdInfo(fd, &info)
		status, ok = syscall.WaitStatus(info.Exit_code), err == nil && info.Mask&unix.PIDFD_INFO_EXIT != 0
	}
	if status.Signaled() {
		return 0, status.Signal(), ok
	}
	return status.ExitStatus(), 0, ok && status.Exited()
}

// zombieStatus reads the status of a zombie, field 52 of proc(5).
func zombieStatus(fd int) (syscall.WaitStatus, bool) {
	info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	_, pid, _ := strings.Cut(string(info), "\nPid:\t")
	pid, _, _ = strings.Cut(pid, "\n")
	if err != nil || pid == "" || pid == "-1" {
		return 0, false
	}
	b, err := os.ReadFile("/proc/" + pid + "/stat")
	end := bytes.LastIndexByte(b, ')') // the name may contain spaces
	if err != nil || end < 0 {
		return 0, false
	}
	fields := strings.Fields(string(b[end+1:])) // from field 3 on
	if len(fields) < 50 || fields[0] != "Z" {
		return 0, false
	}
	n, err := strconv.Atoi(fields[49])
	return syscall.WaitStatus(n), err == nil
}
