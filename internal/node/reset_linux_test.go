package node

import "syscall"

// reset replaces the socket under a connection with one at its end: the kernel forgets what it had to
// send, and notifies the peer.
func reset(p *Process, q *peer) {
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		q.broken(err)
		return
	}
	fd := q.conn.Fd()
	_ = syscall.SetsockoptLinger(fd, syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1})
	_ = syscall.Dup3(ends[0], fd, syscall.O_CLOEXEC)
	_, _ = syscall.Close(ends[0]), syscall.Close(ends[1])
	_ = p.engine.Watch(fd, int32(q.rank)<<1)
}
