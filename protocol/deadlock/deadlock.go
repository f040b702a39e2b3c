// Package deadlock finds tasks that wait for each other, and would for ever. Its API may change.
//
// A task that has waited for long follows what it waits for: it sends a chase to the task that it needs. If that one waits, too, and
// has not done what is needed, it adds itself and sends the chase on to the task that it needs. A chase that comes back to the task where
// it began has gone round a cycle.
//
// It never says so of tasks that could go on:
//
//   - A task waits only if it does nothing else: the caller knows.
//   - What a task needs does not depend on how an operation is carried out. A receiver needs the sender to send the message; a barrier
//     needs all tasks to enter it. Once they have entered, processes do the rest without the tasks.
//   - Each task of the cycle looks whether it has done what the one before needs, while it waits. The first one looks last. It still
//     waits for the same then, so the last one still does, and so on, back to the first: none has gone on in between.
//
// A chase that has found a cycle follows it a second time and collects the line of the program at which each task waits. Then it tells all of them.
package deadlock

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Kind is what a task waits for.
type Kind uint8

// The kinds.
const (
	Message Kind = 1 + iota // that Peer sends the message Seq with Tag
	All                     // that all enter the operation Seq
	Root                    // that its root does
	Before                  // that all of lower ranks do
)

// Wait is a task that waits.
type Wait struct {
	Task  int
	Group uint64
	Epoch uint32
	Kind  Kind
	Op    uint8 // which operation it is, as the caller numbers them
	Seq   uint64
	Rank  int    // of the task in the group
	Peer  int    // rank of the sender, or of the root
	Tag   uint64 // of the message
}

// needs reports whether the wait can only end when a rank has sent the message, or entered the operation.
func (w *Wait) needs(rank int) bool {
	switch w.Kind {
	case Message, Root:
		return rank == w.Peer
	case All:
		return true
	case Before:
		return rank < w.Rank
	}
	return false
}

// Chase follows what tasks wait for. Path has those that it has come through.
type Chase struct {
	Number uint64 // of those that the first task's process has begun
	Path   []Wait
	Hops   int  // within the operation that the last one waits in
	Found  bool // the path is a cycle

	// Places are the lines at which the first tasks of Path wait. They are collected when Path is known to be a cycle.
	Places []string
}

// PlaceMax is how many bytes a place has at most.
const PlaceMax = 100

// Place adds where a task waits: the first that has none. What cannot be shown in a line is left out.
func (c *Chase) Place(text string) {
	text = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, text)
	for len(text) > PlaceMax {
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}
	c.Places = append(c.Places, text)
}

// Next is whose place is wanted; nil: there are all.
func (c *Chase) Next() *Wait {
	if len(c.Places) == len(c.Path) {
		return nil
	}
	return &c.Path[len(c.Places)]
}

// PathMax is of how many tasks a cycle is that is found: where many wait in a row, each begins a chase, and its length grows with every
// task.
const PathMax = 128

// Last is the task that needs something of those that the chase goes to.
func (c *Chase) Last() *Wait { return &c.Path[len(c.Path)-1] }

// Turn is how a chase goes on.
type Turn uint8

// The turns.
const (
	Drop   Turn = iota
	Pass        // to those for whom the operation waits here: this task has entered it
	Follow      // to those that this task needs, which is the last of the path now
	Cycle       // the path is one
)

// Arrive handles a chase at a rank of the last one's group. done reports whether the task of that rank has sent the message, or entered
// the operation; own is what the task waits for, or nil if it may do something else.
func (c *Chase) Arrive(rank int, done bool, own *Wait) Turn {
	last, first := c.Last(), &c.Path[0]
	switch {
	case done && (last.Kind == All || last.Kind == Before):
		return Pass
	case done || !last.needs(rank) || own == nil:
		return Drop
	case own.Task == first.Task:
		if *own == *first {
			c.Found = true
			return Cycle
		}
		return Drop
	case own.Task < first.Task: // whoever is first finds the cycle
		return Drop
	case slices.ContainsFunc(c.Path, func(w Wait) bool { return w.Task == own.Task }): // a cycle without the first
		return Drop
	case len(c.Path) == PathMax:
		return Drop
	}
	c.Path, c.Hops = append(c.Path, *own), 0
	return Follow
}
