// Package grant says when the rest of a large value may come. The runtime and the tests of this package run it.
// Its API may change.
//
// The beginning of a large value goes at once. The sender keeps the rest until the receiver has answered: it grants the
// rest when its task asks for the value, or before, as long as there is room for values that no task has asked for; or it
// refuses the rest, and does without the value. So memory is bounded at both ends, and readers never stop reading.
// Several attempts of a task may send the same value: each of these copies is answered by itself, and the first that is
// complete counts. It costs one message for each copy.
//
// The caller's duties:
//
//  1. Links deliver in order, and an answer goes to the process that the copy comes from.
//  2. All copies of a value that a task asks for are wanted, those that come later, too.
//  3. When a copy is complete, the others of the value are dropped, those that come later, too; all copies are dropped
//     when no task will ask for the value.
//  4. A copy is freed when its task has it, and when the process that it comes from is dead.
//  5. A process that learns that the receiver is dead forgets its Out.
package grant

import (
	"iter"
	"maps"
)

// Room is the space for values that no task has asked for, at one process.
type Room struct {
	Max  int64
	used int64
}

// Used is how many bytes of it are in use.
func (r *Room) Used() int64 { return r.used }

// In is a copy of a value of which at least the beginning has come. The rest of a zero In waits for an answer.
type In struct {
	state state
	early int64 // bytes that it uses of the Room
}

type state uint8

const (
	begun state = iota
	granted
	complete
	refused
	void // the rest was granted, and is done without
)

// Answered reports whether the rest is granted or refused, or is here.
func (in *In) Answered() bool { return in.state != begun }

// Complete reports whether the receiver waits for nothing more of it: it is here, or is done without.
func (in *In) Complete() bool { return in.state >= complete }

// Void reports whether what comes of it has no place.
func (in *In) Void() bool { return in.state == void }

// Want notes that the task has asked for the value. grant reports that the sender must get a grant.
func (in *In) Want() (grant bool) {
	grant = in.state == begun
	if grant {
		in.state = granted
	}
	return grant
}

// WantEarly notes that no task has asked for the value, of size bytes. grant reports that there is room for it, and that
// the sender must get a grant.
func (in *In) WantEarly(r *Room, size int64) (grant bool) {
	if in.state != begun || r.used+size > r.Max {
		return false
	}
	in.early = size
	r.used += size
	return in.Want()
}

// Came notes that all of it is here.
func (in *In) Came() {
	if in.state != void {
		in.state = complete
	}
}

// Drop does without the value. refuse reports that the sender must get a refusal. What still comes of it has no place.
func (in *In) Drop(r *Room) (refuse bool) {
	in.Free(r)
	switch in.state {
	case begun:
		in.state = refused
		return true
	case granted:
		in.state = void
	}
	return false
}

// Free gives back the room of a copy that a task has asked for, or of which no more will come.
func (in *In) Free(r *Room) {
	r.used -= in.early
	in.early = 0
}

// Out holds the values whose rest waits for an answer of a process.
type Out[V any] struct {
	last  uint32
	waits map[uint32]V
}

// Ask adds a value. It returns the number of its copy, which is not 0, for the answer.
func (o *Out[V]) Ask(v V) (number uint32) {
	if o.last++; o.last == 0 {
		o.last++
	}
	if o.waits == nil {
		o.waits = map[uint32]V{}
	}
	o.waits[o.last] = v
	return o.last
}

// Answered takes the value that an answer is about. It returns false if there is none: it was answered before.
func (o *Out[V]) Answered(number uint32) (v V, ok bool) {
	v, ok = o.waits[number]
	delete(o.waits, number)
	return v, ok
}

// Reset makes o empty, in the memory that there is.
func (o *Out[V]) Reset() {
	clear(o.waits)
	o.last = 0
}

// Clone returns a copy that shares nothing that changes.
func (o *Out[V]) Clone() Out[V] { return Out[V]{last: o.last, waits: maps.Clone(o.waits)} }

// Len is the number of values that wait.
func (o *Out[V]) Len() int { return len(o.waits) }

// All lists those that wait.
func (o *Out[V]) All() iter.Seq[V] { return maps.Values(o.waits) }
