package engine

import (
	"errors"
	"time"
)

// poller needs Unix: nobody here has processes that are connected by sockets.
type poller struct{}

type events []Ready

func newPoller() (*poller, error)                   { return nil, errors.ErrUnsupported }
func (*poller) add(int, int32) error                { return errors.ErrUnsupported }
func (*poller) output(int, int32, bool) error       { return errors.ErrUnsupported }
func (*poller) remove(int)                          {}
func (*poller) wait(*events, time.Duration) []Ready { return nil }
func (*poller) rest(time.Duration) []Ready          { return nil }
func (*poller) arm(bool) bool                       { return true }
func (*poller) wake()                               {}
func (*poller) woken()                              {}
func (*poller) close()                              {}
