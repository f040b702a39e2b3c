// Package flow keeps tasks from running ahead of those they send to: it says which messages of a
// stream may go, and which have come before. The runtime, chaos and the tests of this package run it.
//
// Messages of a stream are numbered from 1. The receiver tells how far it has taken them, and the
// sender is at most a window ahead of that. Either end may be run again elsewhere. A sender that
// is sends the same messages under the same numbers, but for those that the receiver has told it
// to have; a receiver that is gets all of them again.
//
// The caller's duties:
//
//  1. Links deliver in order.
//  2. What an end tells of how far it is counts only if the attempt that the other end knows of says so, be
//     the one before in the same process; what one tells there that is news to come counts when it is known.
//  3. Whoever learns of a view that has an end run again calls Reopen before anything of the new attempt is
//     taken for true; and once more if that attempt is where the one before was, which may have dropped
//     what was sent to this one, when it says so.
package flow

import (
	"slices"

	"github.com/coppice-go/coppice/protocol"
)

// Out is the sending end of a stream.
type Out struct {
	last     uint64 // the last message
	next     uint64 // the first that has not gone, less one
	consumed uint64 // the receiver has taken all up to this one
}

// Last is the number of the last message.
func (o *Out) Last() uint64 { return o.last }

// Held is how many messages wait.
func (o *Out) Held() int { return int(o.last - o.next) }

// Taken reports whether the receiver has taken a message, as far as is known.
func (o *Out) Taken(number uint64) bool { return number <= o.consumed }

// Add adds a message; now: it goes, or need not go since an earlier attempt has sent it.
// Otherwise it is held.
func (o *Out) Add(window uint64) (number uint64, now bool) {
	o.last++
	if o.next == o.last-1 && o.last <= o.consumed+window {
		o.next = o.last
	}
	return o.last, o.next == o.last
}

// Skip adds a message that nobody will receive, unless the receiver is run again.
func (o *Out) Skip() (number uint64) {
	o.last++
	o.next = o.last
	return o.last
}

// Drop forgets what is held: nobody will receive it, unless the receiver is run again.
func (o *Out) Drop() { o.next = o.last }

// Credited learns that the receiver has taken all up to a message. again: the sender is run again,
// and an earlier attempt may have sent more.
func (o *Out) Credited(number uint64, again bool) {
	most := o.last
	if again {
		most = 1 << 62
	}
	o.consumed = max(o.consumed, min(number, most))
}

// Release says which is the first message that is held, if it may go now.
func (o *Out) Release(window uint64) (number uint64, ok bool) {
	if o.next == o.last || o.next+1 > o.consumed+window {
		return 0, false
	}
	o.next++
	return o.next, true
}

// Reopen says that the receiver is run again: the last messages, so many, are held anew. They are all that it can
// need. It has taken nothing; again: that was known, and it may have dropped what it was sent. What it has told since is true.
func (o *Out) Reopen(held int, again bool) {
	if o.next = o.last - uint64(held); !again {
		o.consumed = 0
	}
}

// Fingerprint stands for the state.
func (o *Out) Fingerprint() [2]uint64 { return [2]uint64{o.last<<32 | o.next, o.consumed} }

// In is the receiving end of a stream.
type In struct {
	last  uint64   // the last message that came
	taken uint64   // the last that was taken
	told  uint64   // the sender knows that this one was
	begun []uint64 // of those that came: only a beginning has
}

// Taken is the number of the last message that was taken.
func (i *In) Taken() uint64 { return i.taken }

// Waits reports whether a message, or its beginning, has come and was not taken.
func (i *In) Waits(number uint64) bool { return number > i.taken && number <= i.last }

// Arrival is what a message is that comes.
type Arrival uint8

// What it may be.
const (
	Next  Arrival = iota // the next one
	Copy                 // one of which only the beginning has come
	Again                // one that has come
)

// Arrive takes a message, or its beginning. That of a message whose beginning has come is another
// copy of it: the sender of the first may be dead, long before anybody here knows. Whichever is
// complete first counts.
func (i *In) Arrive(number uint64) Arrival {
	switch {
	case number == i.last+1:
		i.last++
		i.begun = append(i.begun, number)
		return Next
	case slices.Contains(i.begun, number):
		return Copy
	}
	return Again
}

// Complete says that a message that has arrived is all here. It returns false if another copy was
// before.
func (i *In) Complete(number uint64) bool {
	at := slices.Index(i.begun, number)
	if at < 0 {
		return false
	}
	i.begun = slices.Delete(i.begun, at, at+1)
	return true
}

// Take takes the next message, which is complete; tell: the sender is to be told.
func (i *In) Take(window uint64) (tell bool) {
	i.taken++
	return i.taken-i.told >= window/2
}

// Tell says up to which message the sender is told that all are taken.
func (i *In) Tell() uint64 {
	i.told = i.taken
	return i.told
}

// Fingerprint stands for the state.
func (i *In) Fingerprint() [2]uint64 {
	f := [2]uint64{i.last<<32 | i.taken, i.told}
	for _, number := range i.begun {
		f[1] = protocol.Mix(f[1], number)
	}
	return f
}

// Clone returns a copy that shares nothing.
func (i *In) Clone() In {
	c := *i
	c.begun = slices.Clone(i.begun)
	return c
}
