package hosts

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// host is a set of namespaces. The kernel ends its processes with the first of them, which does
// nothing; one of our threads is also on the host, and starts the others.
type host struct {
	Name  string
	init  *exec.Cmd
	input io.Closer // of init, which ends with it
	pids  string    // /proc's name of its namespace of processes
	todo  chan func()
	over  sync.Once
}

// initScript is the first process of a host. It leaves no zombies, since it ignores the ends of its
// children.
const initScript = `trap '' CHLD
set -e
mount --make-rprivate /
if [ $$ = 1 ]; then mount -t proc proc /proc; fi
echo "$1" >/proc/sys/kernel/hostname
shift
for dir; do mount -t tmpfs -o mode=1777 tmpfs "$dir"; done
echo up
exec cat >/dev/null`

// The namespaces of the router, which names hosts by the ids of their processes, and of a host.
const (
	routerNamespaces = syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS
	hostNamespaces   = routerNamespaces | syscall.CLONE_NEWPID
)

func newHost(name string, namespaces uintptr, private []string) (*host, error) {
	h := &host{Name: name, todo: make(chan func())}
	h.init = exec.Command("sh", append([]string{"-c", initScript, "sh", name}, private...)...)
	var said bytes.Buffer
	h.init.Stderr = &said
	input, err := h.init.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := h.init.StdoutPipe()
	if err != nil {
		return nil, err
	}
	h.init.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces, Pdeathsig: syscall.SIGKILL}
	onLastingThread(func() { err = h.init.Start() })
	if errors.Is(err, syscall.EPERM) {
		return nil, errNoRight
	} else if err != nil {
		return nil, err
	}
	h.input = input
	if line, _ := bufio.NewReader(output).ReadString('\n'); line != "up\n" {
		input.Close()
		err := h.init.Wait()
		return nil, fmt.Errorf("%s does not come up: %w: %s", name, err, strings.TrimSpace(said.String()))
	}
	if h.pids, err = os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", h.init.Process.Pid)); err == nil {
		err = h.enter()
	}
	if err != nil {
		h.close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return h, nil
}

// enter moves a thread to the host. The thread lasts as long as the host.
func (h *host) enter() error {
	entered := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with this function
		err := joinNamespaces(h.init.Process.Pid)
		entered <- err
		if err != nil {
			return
		}
		for f := range h.todo {
			f()
		}
	}()
	return <-entered
}

// joinNamespaces moves the calling thread to the namespaces of a process. What the thread starts is in
// its namespace of processes, too.
func joinNamespaces(pid int) error {
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	var files []*os.File
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	for _, name := range []string{"net", "uts", "pid", "mnt"} {
		path := fmt.Sprintf("/proc/%d/ns/%s", pid, name)
		here, err1 := os.Readlink("/proc/self/ns/" + name)
		there, err2 := os.Readlink(path)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		if here == there {
			continue
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	for _, f := range files {
		if err := unix.Setns(int(f.Fd()), 0); err != nil {
			return fmt.Errorf("setns %s: %w", f.Name(), err)
		}
	}
	return nil
}

// Do runs f on the host: sockets that f opens are in the host's network.
func (h *host) Do(f func()) {
	done := make(chan struct{})
	h.todo <- func() {
		defer close(done)
		f()
	}
	<-done
}

// Start starts a command on the host, in a process group of its own. The command ends
// with the host.
func (h *host) Start(cmd *exec.Cmd) (err error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	h.Do(func() { err = cmd.Start() })
	return err
}

// Run runs a command on the host to its end.
func (h *host) Run(cmd *exec.Cmd) error {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := h.Start(cmd)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		return fmt.Errorf("%s: %s: %w: %s", h.Name, strings.Join(cmd.Args, " "), err, strings.TrimSpace(out.String()))
	}
	return nil
}

// ip runs commands of ip on the host, one a line.
func (h *host) ip(lines string) error {
	if lines == "" {
		return nil
	}
	cmd := exec.Command("ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(lines)
	if err := h.Run(cmd); err != nil {
		return fmt.Errorf("%w\n%s", err, lines)
	}
	return nil
}

// Processes returns the ids, as seen by this process, of the processes on the host, except its first.
func (h *host) Processes() (pids []int) {
	entries, _ := filepath.Glob("/proc/[0-9]*/ns/pid")
	for _, e := range entries {
		if in, err := os.Readlink(e); err != nil || in != h.pids {
			continue // of another host, or gone
		}
		if pid, err := strconv.Atoi(strings.Split(e, "/")[2]); err == nil && pid != h.init.Process.Pid {
			pids = append(pids, pid)
		}
	}
	return pids
}

// PowerOff ends all processes of the host at once. To keep them from sending anything more, cut the
// host off first.
func (h *host) PowerOff() { _ = h.init.Process.Kill() }

func (h *host) close() {
	h.over.Do(func() {
		close(h.todo)
		h.input.Close()
		h.PowerOff()
		_ = h.init.Wait()
	})
}

// onLastingThread runs f on a thread that lasts as long as this process, so that the end of a thread
// does not kill what f starts.
func onLastingThread(f func()) {
	done := make(chan struct{})
	lastingThread() <- func() {
		defer close(done)
		f()
	}
	<-done
}

var lastingThread = sync.OnceValue(func() chan<- func() {
	todo := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range todo {
			f()
		}
	}()
	return todo
})
