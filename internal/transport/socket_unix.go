//go:build unix

package transport

import (
	"io"
	"os"
	"syscall"
)

// receive reads what is there.
func receive(fd int, b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	for {
		n, e := readSome(fd, b)
		switch {
		case e == syscall.EINTR:
		case e != 0:
			return 0, failure("recv", e)
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
		n, e := writeSome(fd, b)
		switch e {
		case 0:
			return n, nil
		case syscall.EINTR:
		default:
			return 0, failure("send", e)
		}
	}
}

func failure(call string, e syscall.Errno) error {
	if e == syscall.EAGAIN {
		return ErrAgain
	}
	return os.NewSyscallError(call, e)
}
