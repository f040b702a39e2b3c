package chaos

import "slices"

// What can happen next is a list of events. Choices number them by age, oldest first: then always answering 0
// is a fair schedule, and a shortened run does not livelock only because some process is never served.
// Keeping the list sorted would dominate the cost of a run, so events carry their age instead; age matters
// only in runs that are recorded or replayed.

// event is something that can happen at a process. Its fields, from the highest bits: number, kind, from, at.
type event uint64

type eventKind uint8

const (
	receive   eventKind = iota // at receives from the channel from→at
	next                       // at is asked Next
	input                      // at is handed its next input
	workDone                   // at is notified that its Work is done
	death                      // at is notified that from crashed
	crash                      // at crashes
	fenced                     // at is killed by its agent, for from
	restart                    // at comes back
	cut                        // the processes are cut in two sides
	heal                       // the cut ends
	suspect                    // at is notified to suspect from, on the other side of a cut
	suspicion                  // at is notified to suspect from, for no reason
	freeze                     // all faults end, and some processes freeze
	begin                      // at, which is late, begins
	heard                      // at hears that from has begun
	pass                       // time passes, or the run ends; never on the agenda
)

const (
	rankBits = 12
	ranksMax = 1 << rankBits
	kindBits = 8
	ageShift = 2*rankBits + kindBits
)

func happening(kind eventKind, at, from int) event {
	return event(kind)<<(2*rankBits) | event(from)<<rankBits | event(at)
}

func (e event) kind() eventKind { return eventKind(e >> (2 * rankBits)) }

func (e event) at() int { return int(e & (ranksMax - 1)) }

func (e event) from() int { return int(e >> rankBits & (ranksMax - 1)) }

// ageless is the event without its number.
func (e event) ageless() event { return e & (1<<ageShift - 1) }

// agenda is what can happen.
type agenda struct {
	events []event
	made   event // events so far; the next one's number
}

func (a *agenda) len() int { return len(a.events) }

func (a *agenda) add(e event) {
	a.made += 1 << ageShift
	a.events = append(a.events, a.made|e)
}

// remove takes the i-th event off the agenda.
func (a *agenda) remove(i int) {
	last := len(a.events) - 1
	a.events[i] = a.events[last]
	a.events = a.events[:last]
}

// arrives reports whether the event hands something to a process.
func (e event) arrives() bool {
	return (1<<receive|1<<input|1<<workDone|1<<death|1<<suspect|1<<suspicion|1<<heard)>>(e.kind()&63)&1 == 1
}

// without drops the events at r, except those that concern every process or concern r whatever it does.
func without(events []event, r int) []event {
	return slices.DeleteFunc(events, func(e event) bool {
		k := e.kind()
		return e.at() == r && k != cut && k != heal && k != freeze && k != fenced
	})
}

// index returns the place of an event, whatever its number; −1 if it cannot happen.
func (a *agenda) index(e event) int {
	for i, f := range a.events {
		if f.ageless() == e {
			return i
		}
	}
	return -1
}

// older counts the events older than the i-th. An i past the last event counts them all.
func (a *agenda) older(i int) (n int) {
	if i == len(a.events) {
		return i
	}
	for _, e := range a.events {
		if e < a.events[i] {
			n++
		}
	}
	return n
}

// aged returns the index of the event that has n older ones: the inverse of older.
func (a *agenda) aged(n int) int {
	for i := range a.events {
		if a.older(i) == n {
			return i
		}
	}
	return len(a.events)
}

// oldest returns the index of the oldest event.
func (a *agenda) oldest() int {
	at, first := 0, ^event(0)
	for i, e := range a.events {
		if e < first {
			at, first = i, e
		}
	}
	return at
}
