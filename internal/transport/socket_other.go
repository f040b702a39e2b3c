//go:build unix && !linux

package transport

import (
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// stallAfter needs Linux.
func stallAfter(int, time.Duration) {}

// receive reads what is there.
func receive(fd int, b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	for {
		n, err := unix.Read(fd, b)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, failure("read", err)
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// send writes as much of b as there is room for.
func send(fd int, b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	for {
		n, err := unix.Write(fd, b)
		switch err {
		case nil:
			return n, nil
		case unix.EINTR:
		default:
			return 0, failure("write", err)
		}
	}
}

type vector struct{}

// send writes as much of bufs as there is room for.
func (*vector) send(fd int, bufs [][]byte) (total int, err error) {
	for _, b := range bufs {
		n, err := send(fd, b)
		total += n
		if err == ErrAgain && total > 0 {
			return total, nil
		}
		if err != nil || n < len(b) {
			return total, err
		}
	}
	return total, nil
}

func failure(call string, err error) error {
	if err == unix.EAGAIN {
		return ErrAgain
	}
	return os.NewSyscallError(call, err)
}
