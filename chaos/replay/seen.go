package replay

import (
	"slices"

	"github.com/coppice-go/coppice/protocol"
)

// Seen is a set of situations that a process has been in, for observers.
type Seen uint16

// The situations.
const (
	AbortedInParts Seen = 1 << iota // a task leaves an agreed operation after it has completed a part of it
	PassedOnEarly                   // a broadcast is passed on for a task that has not come to it
	HeldBack                        // a task waits for others that are far behind
	NotSentAgain                    // a task that is run again does not send what an earlier attempt has sent
	Refused                         // a receiver does not want the rest of a message
	NoRoom                          // there is no room for a message that no task has asked for
	RepeatsWait                     // a message to resend waits until its receiver has come far enough
	AskedInVain                     // a task that is run again is asked for a value that it had promised before
	ToldByOther                     // the new coordinator learns from another process that the job is over
	Disbanded                       // all processes of a view leave
	EndsAlone                       // a process that knows that the job is over loses the quorum, and ends successfully
)

// Seen returns the situations that the process has been in.
func (s *State) Seen() Seen {
	seen := s.seen
	for _, t := range s.tasks {
		seen |= t.seen
	}
	return seen
}

// Correcting reports whether the process runs a task that has the result of a broadcast, and still corrects.
func (s *State) Correcting(task protocol.Rank) bool {
	t := s.find(task)
	return t != nil && slices.ContainsFunc(t.casts, func(c *cast) bool { return c.over && !c.done && c.at < t.op })
}
