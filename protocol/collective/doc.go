// Package collective holds collectives as pure machines: operations that every
// process of a group takes part in and that end at each of them. Its API may change.
//
// A machine is one operation of one group. It begins at a process when its user calls it there, by the notice Begin; what
// arrives before that is kept. A caller that runs several operations, one after the other or at once, numbers them and
// gives each a state of its own.
//
// The machines here mask no failure, except the reductions of corrected.go: with a dead process they wait, and report
// for which process.
package collective

import "github.com/coppice-go/coppice/protocol"

type (
	// Rank is protocol.Rank.
	Rank = protocol.Rank
	// Time is protocol.Time.
	Time = protocol.Time
)
