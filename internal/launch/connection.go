package launch

import (
	"bytes"
	"encoding/json"
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
	host   string
	ssh    *exec.Cmd
	say    *lineWriter
	stdin  io.WriteCloser
	stdout io.ReadCloser
	stderr tail
	left   chan struct{} // closed when everything is heard and the connection has ended; nil: the host was not called
}

// open calls the host.
func (c *connection) open(ssh, agent []string, how *syscall.SysProcAttr) (err error) {
	words := append(append(ssh[:len(ssh):len(ssh)], c.host), agent...)
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
	if err = c.ssh.Start(); err == nil {
		c.left = make(chan struct{})
	}
	return err
}

// listen calls greeted when the agent has begun, and hear for each of its notices, until one of them returns an error or the agent
// ends. It returns why the host was lost.
func (c *connection) listen(greeted func() error, hear func(notice) error) error {
	said := newLineReader(c.stdout)
	var err error
	for begun := false; err == nil && said.Scan(); {
		var n notice
		switch {
		case begun:
			if err = json.Unmarshal(said.Bytes(), &n); err == nil {
				err = hear(n)
			}
		default: // a login shell may print something before
			if begun, err = greets(said.Text()); begun {
				err = greeted()
			}
		}
	}
	c.stdin.Close()
	defer time.AfterFunc(hangUpTime, func() { // it has said everything
		c.abandon()
		_ = c.stdout.Close() // a child of the ssh command may hold the other end
	}).Stop()
	_, _ = io.Copy(io.Discard, c.stdout)
	return c.explain(errors.Join(err, said.Err(), c.ssh.Wait()))
}

// beat tells the agent at intervals that its caller is alive, until the connection ends.
func (c *connection) beat(interval time.Duration) {
	for c.say.say(command{}) == nil {
		select {
		case <-c.left:
			return
		case <-time.After(interval):
		}
	}
}

// hangUp ends the connection, by force if needed; the agent notices.
func (c *connection) hangUp() {
	c.stdin.Close()
	defer time.AfterFunc(hangUpTime, c.abandon).Stop()
	<-c.left
}

// hangUpTime is how long an agent has to end before its call is ended.
const hangUpTime = time.Second

// abandon ends the connection by force.
func (c *connection) abandon() { _ = c.ssh.Process.Kill() }

// explain returns why the host was lost.
func (c *connection) explain(err error) error {
	if refused := (InputError{}); errors.As(err, &refused) {
		return InputError{fmt.Errorf("host %s: %w", c.host, refused)}
	}
	text := fmt.Sprintf("host %s lost", c.host)
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
