// Package flow keeps tasks from running ahead of the tasks that they send to: it says which messages of a stream may go,
// and which have come before. The runtime, chaos and the tests of this package run it. Its API may change.
//
// Messages of a stream are numbered from 1. The receiver reports up to which message it has taken them, and the sender
// is at most a window ahead of that. Either end may be run again elsewhere. A sender that is run again sends the same
// messages under the same numbers, except those that the receiver has reported to have; a receiver that is run again
// gets all of them again.
//
// The caller's duties:
//
//  1. Links deliver in order.
//  2. An end's report of how far it is counts only if it comes from the attempt that the other end knows, even if a
//     later attempt has replaced that one in the same process. A report of a later attempt in the same process counts
//     once the other end knows of that attempt.
//  3. A caller that learns of a view that runs an end again calls Reopen before it relies on anything from the new
//     attempt. If the new attempt is in the process of the one before, which may have dropped what was sent to the new
//     one, the caller calls Reopen once more when the new attempt says so.
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

// Last returns the number of the last message.
func (o *Out) Last() uint64 { return o.last }

// Held returns how many messages wait.
func (o *Out) Held() int { return int(o.last - o.next) }

// Taken reports whether the receiver has taken a message, as far as is known.
func (o *Out) Taken(number uint64) bool { return number <= o.consumed }

// Add adds a message. now reports that it goes, or need not go since an earlier attempt has sent it. Otherwise it is
// held.
func (o *Out) Add(window uint64) (number uint64, now bool) {
	o.last++
	if o.next == o.last-1 && o.last <= o.consumed+window {
		o.next = o.last
	}
	return o.last, o.next == o.last
}

// Skip adds a message that no task will receive, unless the receiver is run again.
func (o *Out) Skip() (number uint64) {
	o.last++
	o.next = o.last
	return o.last
}

// Drop forgets what is held: no task will receive it, unless the receiver is run again.
func (o *Out) Drop() { o.next = o.last }

// Credited notes that the receiver has taken all up to a message. again says that the sender is run again, and an
// earlier attempt may have sent more.
func (o *Out) Credited(number uint64, again bool) {
	most := o.last
	if again {
		most = 1 << 62
	}
	o.consumed = max(o.consumed, min(number, most))
}

// Release returns the first message that is held, if it may go now.
func (o *Out) Release(window uint64) (number uint64, ok bool) {
	if o.next == o.last || o.next+1 > o.consumed+window {
		return 0, false
	}
	o.next++
	return o.next, true
}

// Reopen notes that the receiver is run again: the last held messages are held once more. They are all that it can
// need. It has taken nothing. again says that the restart was known already, but the receiver may have dropped what was
// sent to it; what it has reported since is true.
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
	told  uint64   // the last that was reported to the sender as taken
	begun []uint64 // messages of which only a beginning has come
}

// Taken returns the number of the last message that was taken.
func (i *In) Taken() uint64 { return i.taken }

// Waits reports whether a message, or its beginning, has come and was not taken.
func (i *In) Waits(number uint64) bool { return number > i.taken && number <= i.last }

// Arrival says what an arriving message is.
type Arrival uint8

// The kinds of arrivals.
const (
	Next  Arrival = iota // the next one
	Copy                 // one of which only the beginning has come
	Again                // one that has come
)

// Arrive takes a message, or its beginning. A beginning that comes after another beginning of the same message is
// another copy of it: the sender of the first may be dead, long before this process knows. The copy that is complete
// first counts.
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

// Complete notes that a message that has arrived is complete. It returns false if another copy was complete before.
func (i *In) Complete(number uint64) bool {
	at := slices.Index(i.begun, number)
	if at < 0 {
		return false
	}
	i.begun = slices.Delete(i.begun, at, at+1)
	return true
}

// Take takes the next message, which is complete. tell reports that the sender needs a report.
func (i *In) Take(window uint64) (tell bool) {
	i.taken++
	return i.taken-i.told >= window/2
}

// Tell returns the number of the last message taken, for a report to the sender.
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
