//go:build unix

// Command rawloop is the lower bound that messages between two processes are compared with: a ping-pong
// of two Go processes on a Unix stream socket, by raw system calls on locked threads, with no poller,
// no frames and no other connection.
//
//	rawloop pingpong BYTES WARMUP ITERATIONS OUT
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"

	"github.com/coppice-go/coppice/bench/loop"
)

// answering is the environment variable of the process of rank 1, set to the number of its end of the
// socket.
const answering = "RAWLOOP_SOCKET"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "rawloop:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	jobs, err := loop.Parse(args)
	if err != nil {
		return err
	}
	job := jobs[0]
	if len(jobs) > 1 || job.Op != loop.PingPong {
		return fmt.Errorf("%d jobs, the first of %q, allowed: one of %s", len(jobs), job.Op, loop.PingPong)
	}
	if text := os.Getenv(answering); text != "" {
		socket, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("%s is %q, want a number", answering, text)
		}
		return answer(socket, job)
	}
	return ask(job)
}

// ask is rank 0: it starts rank 1 on the other end of a socket.
func ask(job loop.Job) (err error) {
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	syscall.CloseOnExec(ends[0])
	syscall.CloseOnExec(ends[1])
	theirs := os.NewFile(uintptr(ends[1]), "socket")
	defer theirs.Close() // also keeps it from being closed by the collector before Start

	self, err := os.Executable()
	if err != nil {
		return err
	}
	child := exec.Command(self, job.Args()...)
	child.Env = append(os.Environ(), answering+"=3") // where the first of ExtraFiles goes
	child.ExtraFiles = []*os.File{theirs}
	child.Stderr = os.Stderr
	if err := child.Start(); err != nil {
		return err
	}
	theirs.Close() // so that each end sees the end of the other
	defer func() {
		syscall.Close(ends[0])
		err = errors.Join(err, child.Wait())
	}()

	runtime.LockOSThread()
	data, got := loop.Block(job.Bytes), loop.Block(job.Bytes)
	return job.Run(0, loop.Steps{
		Mark: func(i int) { loop.Mark(data, i, 0, 0) },
		Timed: func() error {
			if err := writeAll(ends[0], data); err != nil {
				return err
			}
			return readAll(ends[0], got)
		},
		Intact: func(i int) bool { return loop.Marked(got, job.Bytes, i, 0, 0) },
	})
}

// answer is rank 1.
func answer(socket int, job loop.Job) error {
	runtime.LockOSThread()
	got := loop.Block(job.Bytes)
	return job.Run(1, loop.Steps{
		Timed: func() error {
			if err := readAll(socket, got); err != nil {
				return err
			}
			return writeAll(socket, got)
		},
		Intact: func(i int) bool { return loop.Marked(got, job.Bytes, i, 0, 0) },
	})
}

func writeAll(fd int, data []byte) error { return transfer(syscall.SYS_WRITE, fd, data) }
func readAll(fd int, data []byte) error  { return transfer(syscall.SYS_READ, fd, data) }

// transfer repeats a system call until it has moved all data. It bypasses the scheduler: the thread
// blocks in the kernel with all it holds, as a thread of a C program would.
func transfer(call uintptr, fd int, data []byte) error {
	for len(data) > 0 {
		n, _, errno := syscall.RawSyscall(call, uintptr(fd), uintptr(unsafe.Pointer(&data[0])), uintptr(len(data)))
		switch {
		case errno == syscall.EINTR:
		case errno != 0:
			return errno
		case n == 0:
			return io.ErrUnexpectedEOF
		default:
			data = data[n:]
		}
	}
	return nil
}
