package transport

import (
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The system calls of the hot path. They never block, so the scheduler is not
// told of them (RawSyscall), which saves as much again as the call of a small
// message costs. MSG_NOSIGNAL: a peer that is gone is an error, not a signal.

func readSome(fd int, b []byte) (int, syscall.Errno) {
	n, _, e := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), unix.MSG_DONTWAIT, 0, 0)
	return int(n), e
}

func writeSome(fd int, b []byte) (int, syscall.Errno) {
	n, _, e := syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	return int(n), e
}

// stallAfter breaks a connection of TCP when nothing was acknowledged for so long.
func stallAfter(fd int, d time.Duration) {
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds()))
}

// vectorLen is how many pieces go into one system call.
const vectorLen = 64

type vector struct {
	pieces [vectorLen]unix.Iovec
	head   unix.Msghdr
}

// send writes as much of bufs as there is room for.
func (v *vector) send(fd int, bufs [][]byte) (total int, err error) {
	for len(bufs) > 0 {
		pieces, bytes := 0, 0
		for len(bufs) > 0 && pieces < vectorLen {
			if b := bufs[0]; len(b) > 0 {
				v.pieces[pieces].Base = unsafe.SliceData(b)
				v.pieces[pieces].SetLen(len(b))
				pieces++
				bytes += len(b)
			}
			bufs = bufs[1:]
		}
		if pieces == 0 {
			return total, nil
		}
		n, e := v.sendPieces(fd, pieces)
		total += n
		if e != 0 {
			if err = failure("send", e); err == ErrAgain && total > 0 {
				err = nil
			}
			return total, err
		}
		if n < bytes {
			return total, nil
		}
	}
	return total, nil
}

func (v *vector) sendPieces(fd, pieces int) (int, syscall.Errno) {
	v.head.Iov = &v.pieces[0]
	v.head.SetIovlen(pieces)
	defer clear(v.pieces[:pieces]) // nothing of the caller's is kept alive
	for {
		n, _, e := syscall.RawSyscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(&v.head)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		switch e {
		case 0:
			return int(n), 0
		case unix.EINTR:
		default:
			return 0, e
		}
	}
}
