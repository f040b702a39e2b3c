package calls

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Run runs a command to its end and returns the added-up sections of the command and all processes that
// it starts.
func Run(ctx context.Context, words []string) ([]Section, error) {
	runtime.LockOSThread() // the kernel knows a thread as the tracer
	defer runtime.UnlockOSThread()
	said, err := os.CreateTemp("", "calls-")
	if err != nil {
		return nil, err
	}
	defer os.Remove(said.Name())
	defer said.Close()
	cmd := exec.Command(words[0], words[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	defer cmd.Process.Release() // run waits for it
	t := &tracer{root: cmd.Process.Pid, threads: map[int]*thread{}, processes: map[int]*process{}}
	stop := context.AfterFunc(ctx, func() { _ = syscall.Kill(t.root, syscall.SIGTERM) })
	defer stop()
	if err := t.run(); err != nil {
		_ = syscall.Kill(t.root, syscall.SIGKILL)
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if t.status != 0 {
		out, _ := os.ReadFile(said.Name())
		return nil, fmt.Errorf("exit %d: %s", t.status, bytes.TrimSpace(out))
	}
	return t.sections, nil
}

// tracer follows a command and all threads and processes that it starts.
type tracer struct {
	root      int
	status    int // the exit status of root
	threads   map[int]*thread
	processes map[int]*process
	sections  []Section
}

type process struct {
	begun int  // number of sections
	open  bool // the last of them has not ended
}

type thread struct {
	process *process
	begun   bool   // it has stopped once
	call    uint64 // the system call that it is in
}

const traced = unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_EXITKILL | unix.PTRACE_O_TRACEEXEC |
	unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACEFORK | unix.PTRACE_O_TRACEVFORK

// run resumes all of them after each stop until none is left.
func (t *tracer) run() error {
	t.thread(t.root)
	for len(t.threads) > 0 { // this thread may have other children, which are not traced
		var ws syscall.WaitStatus
		tid, err := syscall.Wait4(-1, &ws, unix.WALL|unix.WNOTHREAD, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.ECHILD):
			return nil
		case err != nil:
			return os.NewSyscallError("wait4", err)
		case ws.Stopped():
			signal, err := t.stopped(tid, ws)
			if err == nil {
				err = syscall.PtraceSyscall(tid, signal)
			}
			if err != nil && !errors.Is(err, syscall.ESRCH) { // it was killed meanwhile
				return os.NewSyscallError("ptrace", err)
			}
			continue
		case tid == t.root:
			t.status = ws.ExitStatus() // −1 after a signal
		}
		delete(t.threads, tid)
	}
	return nil
}

// stopped handles a stop of a thread and returns the signal to deliver to it.
func (t *tracer) stopped(tid int, ws syscall.WaitStatus) (deliver int, err error) {
	k := t.thread(tid)
	first := !k.begun
	k.begun = true
	switch signal := ws.StopSignal(); {
	case signal == syscall.SIGTRAP|0x80:
		return 0, t.called(tid, k)
	case first && tid == t.root:
		return 0, syscall.PtraceSetOptions(tid, traced)
	case ws.TrapCause() > 0 && ws.TrapCause() != unix.PTRACE_EVENT_EXEC: // it has made another
		made, err := syscall.PtraceGetEventMsg(tid)
		if _, gone := os.Stat(fmt.Sprintf("/proc/%d", made)); err == nil && gone == nil {
			t.thread(int(made)) // from now on run waits for it
		}
		return 0, err
	case signal == syscall.SIGTRAP, first && signal == syscall.SIGSTOP: // ptrace's own
		return 0, nil
	default:
		return int(signal), nil
	}
}

// thread returns the thread with a number.
func (t *tracer) thread(tid int) *thread {
	k := t.threads[tid]
	if k == nil {
		k = &thread{process: t.processOf(tid)}
		t.threads[tid] = k
	}
	return k
}

// processOf returns the process of a thread.
func (t *tracer) processOf(tid int) *process {
	pid := tid
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", tid))
	if _, rest, ok := strings.Cut(string(status), "\nTgid:"); ok {
		line, _, _ := strings.Cut(rest, "\n")
		pid, _ = strconv.Atoi(strings.TrimSpace(line))
	}
	p := t.processes[pid]
	if p == nil {
		p = &process{}
		t.processes[pid] = p
	}
	return p
}

// stopInfo is struct ptrace_syscall_info of linux/ptrace.h.
type stopInfo struct {
	op    uint8
	_     [3]uint8
	_     uint32
	_     [2]uint64
	value uint64 // of an entry the call's number, of an exit its result
	_     [8]uint64
}

const (
	entry = 1
	exit  = 2
)

// scheduling are the system calls of Go's runtime. How often it makes them depends on the load of the
// machine. Those that matter wake a thread, so they show as context switches.
var scheduling = map[uint64]bool{
	unix.SYS_FUTEX: true, unix.SYS_NANOSLEEP: true, unix.SYS_EPOLL_PWAIT: true, unix.SYS_SCHED_YIELD: true,
	unix.SYS_TGKILL: true, unix.SYS_GETPID: true, unix.SYS_RT_SIGRETURN: true, unix.SYS_RT_SIGPROCMASK: true,
	unix.SYS_SIGALTSTACK: true, unix.SYS_GETTID: true, unix.SYS_CLONE: true, unix.SYS_MMAP: true,
	unix.SYS_MUNMAP: true, unix.SYS_MADVISE: true, unix.SYS_RESTART_SYSCALL: true,
}

// called handles the entry to a system call, or the exit from it.
func (t *tracer) called(tid int, k *thread) error {
	var i stopInfo
	_, _, e := syscall.RawSyscall6(
		syscall.SYS_PTRACE, unix.PTRACE_GET_SYSCALL_INFO, uintptr(tid), unsafe.Sizeof(i), uintptr(unsafe.Pointer(&i)), 0, 0,
	)
	if e != 0 {
		return e
	}
	p := k.process
	if i.op == entry {
		k.call = i.value
	}
	switch {
	case i.op == entry && k.call == unix.SYS_GETRUSAGE:
		t.mark(p)
	case !p.open:
	case i.op == entry:
		s := &t.sections[p.begun-1]
		s.All++
		if !scheduling[k.call] {
			s.Library++
		}
	case i.op == exit && (k.call == unix.SYS_SENDTO || k.call == unix.SYS_SENDMSG) && int64(i.value) > 0:
		s := &t.sections[p.begun-1]
		s.Sends++
		s.Bytes += int(i.value)
	}
	return nil
}

// mark begins a section of a process, or ends it.
func (t *tracer) mark(p *process) {
	if p.open = !p.open; !p.open {
		return
	}
	if p.begun == len(t.sections) {
		t.sections = append(t.sections, Section{})
	}
	t.sections[p.begun].Processes++
	p.begun++
}
