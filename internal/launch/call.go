package launch

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// agentCall is a connection to an agent whose notices the caller fetches one by one.
type agentCall struct {
	connection
	heard chan notice   // notices of the agent; the greeting is an empty one
	err   error         // set when left is closed: why it ended
	quit  chan struct{} // closed when the caller reads no more
}

// callAgent calls a host. If this process is killed, the call lasts until the agent notices.
func callAgent(ssh, agent []string, host string) (*agentCall, error) {
	c := &agentCall{connection: connection{host: host}, heard: make(chan notice), quit: make(chan struct{})}
	if err := c.open(ssh, agent, Detached()); err != nil {
		return nil, err
	}
	pass := func(n notice) error {
		select {
		case c.heard <- n:
			return nil
		case <-c.quit:
			return context.Canceled
		}
	}
	go func() {
		defer close(c.left)
		c.err = c.listen(func() error { return pass(notice{}) }, pass)
	}()
	return c, nil
}

// next returns the next notice. It waits for at most the given time.
func (c *agentCall) next(ctx context.Context, limit time.Duration) (n notice, err error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case n := <-c.heard:
		return n, nil
	case <-c.left:
		return n, c.err
	case <-timer.C:
		return n, fmt.Errorf("host %s does not answer within %v", c.host, limit)
	case <-ctx.Done():
		return n, context.Cause(ctx)
	}
}

// begin waits for the agent and gives it its first orders.
func (c *agentCall) begin(ctx context.Context, limit time.Duration, orders agentOrders) error {
	if _, err := c.next(ctx, limit); err != nil { // the greeting
		return err
	}
	return c.tell(ctx, orders)
}

// tell gives the agent orders. If the host does not accept them, it may have said why.
func (c *agentCall) tell(ctx context.Context, orders agentOrders) error {
	err := c.say.say(orders)
	if err == nil {
		return nil
	}
	if n, e := c.next(ctx, hangUpTime); e != nil {
		return e
	} else if n.Type == noticeRefused {
		return c.refused(n)
	}
	return errors.Join(fmt.Errorf("host %s lost", c.host), err)
}

// refused is the error of a notice that was not expected.
func (c *agentCall) refused(n notice) error {
	if n.Type == noticeRefused {
		return InputError{fmt.Errorf("host %s: %s", c.host, oneLine(n.Text))}
	}
	return fmt.Errorf("host %s says %q", c.host, n.Type)
}

// expect waits for a notice of a type.
func (c *agentCall) expect(ctx context.Context, kind string) (n notice, err error) {
	n, err = c.next(ctx, callTime)
	if err == nil && n.Type != kind {
		err = c.refused(n)
	}
	return n, err
}

// hangUp ends the call.
func (c *agentCall) hangUp() {
	close(c.quit)
	c.connection.hangUp()
}
