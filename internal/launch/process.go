package launch

import (
	"os"
	"runtime"
	"sync"
	"syscall"

	"github.com/coppice-go/coppice/internal/control"
	"github.com/coppice-go/coppice/internal/posix"
)

// status is how a process ended.
type status struct {
	Exit   int            `json:"exit"`             // its exit code, if no signal ended it
	Signal syscall.Signal `json:"signal,omitempty"` // 0: none
	Core   bool           `json:"core,omitempty"`   // it left a core dump
	Peak   int64          `json:"peak,omitempty"`   // its peak memory, in bytes
}

func (s status) String() string { return control.Ending(s.Exit, s.Signal) }

// process is a started process, the leader of its own group.
type process struct {
	pid   int
	child child // what to wait for
	pipes [streams]*pipe

	mu     sync.Mutex
	reaped bool // its id, and with it the group's, may belong to another process by now
}

// order is what to start: one process.
type order struct {
	rank  int
	life  uint64 // the incarnation
	path  string // of the program
	argv  []string
	env   []string
	dir   string
	stdin *os.File
	take  [streams]func([]byte) error // called with its output
	end   [streams]func() error       // called after the last of it
}

// start starts a process. It must be called on a thread that outlives it; see
// threads.
func start(o order) (*process, error) {
	p := &process{}
	files := []*os.File{o.stdin}
	for i := range p.pipes {
		pipe, to, err := newPipe(o.take[i], o.end[i])
		if err != nil {
			p.closePipes(files[1:])
			return nil, err
		}
		p.pipes[i] = pipe
		files = append(files, to)
	}
	var err error
	if p.pid, p.child, err = startChild(o, files); err != nil {
		p.closePipes(files[1:])
		return nil, err
	}
	for _, f := range files[1:] {
		f.Close()
	}
	return p, nil
}

// closePipes closes the pipes of a process that was not started.
func (p *process) closePipes(writers []*os.File) {
	for i, f := range writers {
		f.Close()
		<-p.pipes[i].done
	}
}

// signal sends a signal to the process and everything that it started in its group.
func (p *process) signal(s syscall.Signal) { p.send(-p.pid, s) }

// kill kills the process alone.
func (p *process) kill() { p.send(p.pid, syscall.SIGKILL) }

func (p *process) send(to int, s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		_ = posix.Kill(to, s) // a process that is gone needs none
	}
}

// gone reports whether the process has ended and was reaped.
func (p *process) gone() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reaped
}

// exited waits until the process has exited. Where possible it leaves the process to be
// reaped, so that no other process gets its id or that of its group.
func (p *process) exited() { p.child.exited(p.pid) }

// reap kills what is left of the group of a process that has exited, and returns
// how it ended.
func (p *process) reap() status {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = posix.Kill(-p.pid, syscall.SIGKILL)
	p.reaped = true
	return p.child.reap(p.pid)
}

// newStatus returns what the kernel says about a process that has ended.
func newStatus(w syscall.WaitStatus, u *syscall.Rusage) status {
	s := status{Exit: w.ExitStatus(), Peak: peak(u)}
	if w.Signaled() {
		s.Signal, s.Core = w.Signal(), w.CoreDump()
	}
	return s
}

// unknownStatus is the status of a process that another process has waited for.
var unknownStatus = status{Exit: -1}

// drained waits until all output of the process was read.
func (p *process) drained() {
	for _, pipe := range p.pipes {
		pipe.ended()
	}
	for _, pipe := range p.pipes {
		<-pipe.done
	}
}

// threads start processes. The kernel kills a process with the thread that
// started it (attributes), so these threads live until close. There are several, since
// each waits until the process that it started runs its program.
type threads struct {
	work  chan func()
	end   chan struct{}
	ended sync.WaitGroup

	mu  sync.Mutex
	ids []int // as the kernel numbers them
}

func newThreads(n int) *threads {
	t := &threads{work: make(chan func()), end: make(chan struct{})}
	for range starters(n) {
		t.ended.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			t.mu.Lock()
			t.ids = append(t.ids, threadID())
			t.mu.Unlock()
			for f := range t.work {
				f()
			}
			<-t.end
		})
	}
	return t
}

// each calls f for 0 to n−1 on the threads, and waits. It is called once.
func (t *threads) each(n int, f func(int)) {
	var done sync.WaitGroup
	done.Add(n)
	for i := range n {
		t.work <- func() {
			defer done.Done()
			f(i)
		}
	}
	close(t.work)
	done.Wait()
}

// children returns the processes that the threads have started, or are about to, and that
// have not been waited for; none if the kernel does not list them.
func (t *threads) children() (pids []int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range t.ids {
		pids = append(pids, childrenOf(id)...)
	}
	return pids
}

// close releases the threads. The processes that they started must have ended. What the threads start from now on belongs to
// others.
func (t *threads) close() {
	t.mu.Lock()
	t.ids = nil
	t.mu.Unlock()
	close(t.end)
	t.ended.Wait()
}
