package launch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// connection is a connection to an agent on another host, at the other end of ssh.
type connection struct {
	ssh    *exec.Cmd
	say    *lineWriter
	stdin  io.WriteCloser
	stdout io.ReadCloser
	stderr tail
}

// open calls the host.
func (c *connection) open(ssh []string, host string, agent []string, how *syscall.SysProcAttr) (err error) {
	words := append(append(ssh[:len(ssh):len(ssh)], host), agent...)
	c.ssh = exec.Command(words[0], words[1:]...)
	c.ssh.SysProcAttr = how
	c.ssh.Stderr = &c.stderr
	c.ssh.WaitDelay = time.Second
	if c.stdin, err = c.ssh.StdinPipe(); err != nil {
		return err
	}
	if c.stdout, err = c.ssh.StdoutPipe(); err != nil {
		return err
	}
	c.say = &lineWriter{w: c.stdin}
	return c.ssh.Start()
}

// explain returns why a host was lost.
func (c *connection) explain(host string, err error) error {
	if refused := (InputError{}); errors.As(err, &refused) {
		return InputError{fmt.Errorf("host %s: %w", host, refused)}
	}
	text := fmt.Sprintf("host %s lost", host)
	if err != nil {
		text += ": " + oneLine(err.Error())
	}
	if last := c.stderr.last(); last != "" {
		text += ": " + last
	}
	return errors.New(text)
}

// tail keeps the end of what ssh says.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, b...)
	t.kept = t.kept[max(0, len(t.kept)-4096):]
	return len(b), nil
}

// last returns the last line of it.
func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := bytes.Split(bytes.TrimSpace(t.kept), []byte("\n"))
	return oneLine(string(all[len(all)-1]))
}
