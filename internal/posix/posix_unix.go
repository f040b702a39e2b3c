//go:build unix

package posix

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Flags of Flock and of os.OpenFile.
const (
	LOCK_SH    = unix.LOCK_SH
	LOCK_EX    = unix.LOCK_EX
	LOCK_NB    = unix.LOCK_NB
	O_NOFOLLOW = unix.O_NOFOLLOW
)

// Signals that Windows does not have.
const (
	SIGSTOP = syscall.SIGSTOP
	SIGCONT = syscall.SIGCONT
	SIGUSR1 = syscall.SIGUSR1
)

// Close closes a descriptor.
func Close(fd int) error { return unix.Close(fd) }

// Read reads from a descriptor.
func Read(fd int, b []byte) (int, error) { return syscall.Read(fd, b) }

// Write writes to a descriptor.
func Write(fd int, b []byte) (int, error) { return syscall.Write(fd, b) }

// SetNonblock changes whether calls on a descriptor block.
func SetNonblock(fd int, on bool) error { return syscall.SetNonblock(fd, on) }

// Flock locks or unlocks an open file.
func Flock(f *os.File, how int) error {
	for {
		if err := syscall.Flock(int(f.Fd()), how); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// Usable reports whether this process may list, change and enter a directory.
func Usable(dir string) bool { return syscall.Access(dir, 7) == nil }

// Owner returns the user that a file belongs to, if that is known.
func Owner(info fs.FileInfo) (uid int, ok bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(stat.Uid), true
}

// MapShared maps the beginning of a file into memory that is shared by all processes that map it.
func MapShared(f *os.File, size int) ([]byte, error) {
	return syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
}

// Unmap unmaps memory that MapShared returned.
func Unmap(memory []byte) error { return syscall.Munmap(memory) }

// Duplicate returns another descriptor of the same file.
func Duplicate(fd uintptr) (int, error) { return unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) }

// Peek reads what has arrived at a socket and leaves it there. It does not block.
func Peek(fd uintptr, b []byte) (n int) {
	n, _, _ = unix.Recvfrom(int(fd), b, unix.MSG_PEEK|unix.MSG_DONTWAIT)
	return n
}

// SetSendBuffer asks for a socket send buffer of this many bytes.
func SetSendBuffer(fd, bytes int) { _ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, bytes) }

// SignalName returns "SIGKILL" for 9, and "" for a number that is no signal.
func SignalName(s syscall.Signal) string { return unix.SignalName(s) }

// Kill sends a signal to a process, or to a group whose number is negative.
func Kill(pid int, s syscall.Signal) error { return syscall.Kill(pid, s) }
