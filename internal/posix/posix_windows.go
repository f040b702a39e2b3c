package posix

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// Flags of Flock and of os.OpenFile.
const (
	LOCK_SH    = 1
	LOCK_EX    = 2
	LOCK_NB    = 4
	O_NOFOLLOW = 0
)

// Signals that Windows does not have.
const (
	SIGSTOP = syscall.Signal(19)
	SIGCONT = syscall.Signal(18)
	SIGUSR1 = syscall.Signal(10)
)

// Close needs Unix.
func Close(int) error { return errors.ErrUnsupported }

// Read needs Unix.
func Read(int, []byte) (int, error) { return 0, errors.ErrUnsupported }

// Write needs Unix.
func Write(int, []byte) (int, error) { return 0, errors.ErrUnsupported }

// SetNonblock needs Unix.
func SetNonblock(int, bool) error { return errors.ErrUnsupported }

// Flock needs Unix.
func Flock(*os.File, int) error { return errors.ErrUnsupported }

// Usable needs Unix: here a process only finds out by trying.
func Usable(string) bool { return true }

// Owner needs Unix.
func Owner(fs.FileInfo) (uid int, ok bool) { return 0, false }

// MapShared needs Unix.
func MapShared(*os.File, int) ([]byte, error) { return nil, errors.ErrUnsupported }

// Unmap needs Unix.
func Unmap([]byte) error { return errors.ErrUnsupported }

// Duplicate needs Unix.
func Duplicate(uintptr) (int, error) { return -1, errors.ErrUnsupported }

// Peek needs Unix.
func Peek(uintptr, []byte) (n int) { return 0 }

// SetSendBuffer needs Unix.
func SetSendBuffer(int, int) {}

// SignalName returns SIGINT for the signal that Windows makes of Ctrl-C.
func SignalName(s syscall.Signal) string {
	switch s {
	case syscall.SIGINT:
		return "SIGINT"
	case syscall.SIGTERM:
		return "SIGTERM"
	case syscall.SIGKILL:
		return "SIGKILL"
	}
	return strings.ToUpper(s.String())
}

// Kill needs Unix.
func Kill(int, syscall.Signal) error { return errors.ErrUnsupported }
