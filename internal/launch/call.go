package launch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// agentCall is a connection to an agent whose notices the caller fetches one by one.
type agentCall struct {
	connection
	host  string
	heard chan notice   // notices of the agent; closed at its end
	err   error         // set when heard is closed: why it ended
	quit  chan struct{} // closed when the caller reads no more
}

// callAgent calls a host. If this process is killed, the call lasts until the agent notices.
func callAgent(ssh, agent []string, host string) (*agentCall, error) {
	c := &agentCall{host: host, heard: make(chan notice), quit: make(chan struct{})}
	if err := c.open(ssh, host, agent, Detached()); err != nil {
		return nil, err
	}
	go c.listen()
	return c, nil
}

// listen reads the agent's notices to the end. The greeting is an empty notice.
func (c *agentCall) listen() {
	defer close(c.heard)
	said := newLineReader(c.stdout)
	var err error
	for greeted := false; err == nil && said.Scan(); {
		var n notice
		if greeted {
			err = json.Unmarshal(said.Bytes(), &n)
		} else if greeted, err = greets(said.Text()); err == nil && !greeted { // printed by a login shell
			continue
		}
		if err == nil {
			select {
			case c.heard <- n:
			case <-c.quit:
				err = context.Canceled
			}
		}
	}
	defer time.AfterFunc(hangUpTime, func() { _ = c.ssh.Process.Kill() }).Stop() // it has said everything
	c.err = c.explain(c.host, errors.Join(err, said.Err(), c.ssh.Wait()))
}

// next returns the next notice. It waits for at most the given time.
func (c *agentCall) next(ctx context.Context, limit time.Duration) (n notice, err error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case n, ok := <-c.heard:
		if !ok {
			return n, c.err
		}
		return n, nil
	case <-timer.C:
		return n, fmt.Errorf("host %s does not answer within %v", c.host, limit)
	case <-ctx.Done():
		return n, context.Cause(ctx)
	}
}

// hangUp ends the call.
func (c *agentCall) hangUp() {
	c.stdin.Close()
	select {
	case <-c.quit:
	default:
		close(c.quit)
	}
	time.AfterFunc(hangUpTime, func() { _ = c.ssh.Process.Kill() })
	for range c.heard {
	}
}

// beat tells the agent that the caller is alive, until the call ends.
func (c *agentCall) beat() {
	for c.say.say(command{}) == nil {
		select {
		case <-c.quit:
			return
		case <-time.After(patienceMin / 6):
		}
	}
}
