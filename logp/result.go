package logp

import "github.com/coppice-go/coppice/protocol"

// Result is the result of one run.
type Result struct {
	// Coloring is when the last live process got its first message; the run
	// starts at 0.
	Coloring protocol.Time
	// Delivery is when the last Deliver happened.
	Delivery protocol.Time
	// Completion is when the last process was Done: it has sent its last
	// message, which others may not have received.
	Completion protocol.Time
	// Quiescence is when nothing happens anymore: the end of the last send or receive, or the arrival of
	// a message at a process that was dead when it was sent.
	Quiescence protocol.Time
	// Correction is the time from the first correction send to quiescence.
	Correction protocol.Time
	// Disseminations and Corrections count the messages sent, including those to dead processes.
	Disseminations, Corrections int64
	// GapMax is the longest run of ranks on the ring, dead ones included, that
	// dissemination did not reach.
	GapMax int
	// Uncolored counts the live processes that no message reached and that
	// delivered nothing by themselves.
	Uncolored int
	// Undelivered counts the live processes without a Deliver.
	Undelivered int
}

// Sent returns the number of all messages.
func (r *Result) Sent() int64 { return r.Disseminations + r.Corrections }
