//go:build unix && !linux

package transport

import (
	"syscall"
	"time"
)

// stallAfter needs Linux.
func stallAfter(int, time.Duration) {}

func readSome(fd int, b []byte) (int, syscall.Errno) {
	n, err := syscall.Read(fd, b)
	e, _ := err.(syscall.Errno) // no other kind of error comes
	return n, e
}

func writeSome(fd int, b []byte) (int, syscall.Errno) {
	n, err := syscall.Write(fd, b)
	e, _ := err.(syscall.Errno)
	return n, e
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
