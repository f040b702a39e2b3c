// Package protocol defines what a protocol is in Coppice: a pure state machine
// that says what one process does. Its API may change.
//
// A machine has no clock, no network, no goroutine and no randomness of its
// own. It is pulled: a driver hands it what arrived and asks it what to do
// each time it may act. Three drivers run the same machines: the LogP
// simulator (package logp), the adversarial scheduler (package chaos) and the
// runtime on real sockets. What is simulated is what runs.
//
// The configuration (group size, root, tree, options) is the receiver of the
// methods; one process's state S is a plain value. A simulator therefore holds
// a million processes in one slice, and a model checker copies and compares
// them.
//
// # The contract
//
// What a driver owes a machine:
//
//  1. Init is called once per process, before everything else.
//  2. At time t everything that ends at t is handed over by Receive, then Next is called.
//  3. Every process gets one Next at the start, before anything arrives.
//  4. After Send, Correct, Deliver and Work, Next is called again as soon as the process may act; after Idle, when
//     something arrived; after Wait, when something arrived or the time has come, whichever is first.
//  5. Time never runs backwards.
//  6. What a live process sends to a live process arrives, once, and in the order sent. What a dead process sent may be
//     lost. Nothing is handed to a process that is Done.
//
// What a machine owes a driver:
//
//  1. Extra calls of Next are harmless: one that has nothing to do changes
//     nothing.
//  2. A returned Send or Correct is committed: the machine has already counted it as sent.
//  3. Done is final and means "I will never act again, drop my input". It does not mean "the result is ready": that is
//     Deliver. A machine that may be asked later stays Idle.
//  4. The same calls give the same answers, always.
//
// Machines compose as machines: one that carries another calls its methods and
// wraps its messages.
package protocol

import (
	"fmt"
	"math"
)

// Rank names a process of a group: 0 … P−1.
type Rank int32

// Time is a moment, in the driver's unit: steps in the simulator, nanoseconds
// on sockets.
type Time int64

// Never is a moment that does not come.
const Never Time = math.MaxInt64

// Protocol is one protocol, configured. S is one process's state, M what
// processes send each other. Implementations are pure: they read only their
// arguments and their (constant) receiver and write only *s, so one value
// serves any number of processes, also concurrently.
type Protocol[S, M any] interface {
	// Init makes *s the initial state of process self. The seed is the only
	// source of randomness; equal seeds give equal behaviour. It is the same
	// at all processes of a run: one that draws for itself mixes in its rank.
	Init(s *S, self Rank, seed uint64)

	// Receive hands over a message that arrived.
	Receive(s *S, now Time, from Rank, m M)

	// Notify reports something other than a message; see Notice.
	Notify(s *S, now Time, n Notice)

	// Next says what the process does now.
	Next(s *S, now Time) Action[M]
}

// Kind is the kind of an Action.
type Kind uint8

// What a process may do next.
const (
	Idle    Kind = iota // nothing until something arrives
	Send                // send Msg to To
	Correct             // the same in every respect, but counted apart: a repair of what a first wave may have missed
	Wait                // nothing until At, unless something arrives before
	Deliver             // hand the result to the user; Msg says which, where there are several
	Work                // run user code, outside the step; Notify with WorkDone follows, in the order of the Works
	Done                // never act again
)

var kindNames = [...]string{"idle", "send", "correct", "wait", "deliver", "work", "done"}

func (k Kind) String() string { return Name(k, "Kind", kindNames[:]) }

// Name returns the name of a value of a type that has names for some of its values, from 0 on.
func Name[K ~uint8](value K, of string, names []string) string {
	if int(value) < len(names) {
		return names[value]
	}
	return fmt.Sprintf("%s(%d)", of, uint8(value))
}

// Sends reports whether the action sends a message.
func (k Kind) Sends() bool { return k == Correct || k == Send }

// Action is a machine's answer to Next.
//
// It has four fields and M should have no more: the compiler keeps such
// structs in registers, and a simulator's speed depends on it.
type Action[M any] struct {
	At   Time // Wait: until when
	To   Rank // Send, Correct: the receiver
	Kind Kind
	Msg  M // Send, Correct: what; Deliver: which result
}

// NoticeKind is the kind of a Notice.
type NoticeKind uint8

// What a process can learn besides messages.
const (
	Begin    NoticeKind = iota // the user starts an operation; Value is the machine's to define
	Cancel                     // the user abandons the operation Value
	WorkDone                   // user code asked for by the oldest open Work has finished
	Death                      // Rank has certainly failed, in its incarnation Value
	Suspect                    // Rank may have failed, in its incarnation Value
	NewView                    // view Value is installed
	Heard                      // Rank has begun, in its incarnation Value
)

// Notice reports something other than a message to a machine.
type Notice struct {
	Value uint64
	Rank  Rank
	Kind  NoticeKind
}
