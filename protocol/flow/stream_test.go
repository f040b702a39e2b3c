package flow

import (
	"fmt"
	"slices"
	"testing"

	"github.com/coppice-go/coppice/internal/explore"
)

// The tests take every schedule of a stream of a few messages, in which both ends are run again at any moment. Ends learn
// of that when their process opens a view, which may be long after the new attempt has begun. Until then, messages of a
// dead process may still come. When both ends are done with the stream, either may be run again where it was.

const (
	window      = 2
	messages    = 3
	deaths      = 2
	attemptsMax = deaths + 1
)

// part is a message on a link, or one of two parts of it.
type part struct {
	number uint64
	begins bool // the rest of it follows
	rest   bool
}

// world is a stream: one task that sends, and one that receives.
type world struct {
	out      Out
	in       In
	attempts [2]int              // of the sender, and of the receiver
	latest   [2]int              // the attempt that the latest view has
	process  [2][attemptsMax]int // of an attempt
	knows    [2]int              // by end: the attempt of the other end that it knows of
	left     int                 // deaths that may come
	backs    int                 // views that may give ends back to their processes
	apart    bool                // only the sender dies, and only the receiver is given back
	news     uint64              // a report of a later attempt of the receiver in its process, not yet known to the sender
	again    [2]int              // the attempt of which the end is to hear that it runs where one before was

	data   [attemptsMax][attemptsMax][]part // by the attempts of sender and receiver
	credit [attemptsMax][attemptsMax][]uint64
	here   [messages + 1]bool              // by message: it is complete
	begun  [messages + 1][attemptsMax]bool // by message and sender: its beginning is here
	got    []uint64
}

func (w *world) clone() *world {
	c := *w
	c.in.begun, c.got = slices.Clone(w.in.begun), slices.Clone(w.got)
	for i := range c.data {
		for j := range c.data[i] {
			c.data[i][j], c.credit[i][j] = slices.Clone(w.data[i][j]), slices.Clone(w.credit[i][j])
		}
	}
	return &c
}

// key stands for the world.
func (w *world) key() string {
	b := []byte{byte(w.out.last), byte(w.out.next), byte(w.out.consumed), byte(w.in.last), byte(w.in.taken), byte(w.in.told), byte(w.left), byte(w.backs), byte(w.news)}
	bit := func(on bool) {
		b = append(b, 0)
		if on {
			b[len(b)-1] = 1
		}
	}
	for i := range 2 {
		b = append(b, byte(w.attempts[i]), byte(w.knows[i]), byte(w.latest[i]), byte(w.again[i]))
		for _, p := range w.process[i] {
			b = append(b, byte(p))
		}
	}
	for i := range w.here {
		bit(w.here[i])
		bit(slices.Contains(w.in.begun, uint64(i)))
		for _, on := range w.begun[i] {
			bit(on)
		}
	}
	for i := range w.data {
		for j := range w.data[i] {
			for _, p := range w.data[i][j] {
				b = append(b, byte(p.number))
				bit(p.rest)
			}
			b = append(b, 255)
			for _, n := range w.credit[i][j] {
				b = append(b, byte(n))
			}
			b = append(b, 255)
		}
	}
	return string(b)
}

// send puts a message on the link; messages of odd numbers are large.
func (w *world) send(number uint64) {
	if w.out.Taken(number) {
		return
	}
	link := &w.data[w.attempts[0]][w.knows[0]]
	if number%2 == 0 {
		*link = append(*link, part{number: number})
		return
	}
	*link = append(*link, part{number: number, begins: true}, part{number: number, rest: true})
}

func (w *world) release() {
	for {
		number, ok := w.out.Release(window)
		if !ok {
			return
		}
		w.send(number)
	}
}

func (w *world) tell() {
	link := &w.credit[w.attempts[1]][w.knows[1]]
	*link = append(*link, w.in.Tell())
}

// steps lists what may happen next.
func (w *world) steps() (all []func(*world)) {
	if w.out.Last() < messages {
		all = append(all, func(w *world) {
			if number, now := w.out.Add(window); now {
				w.send(number)
			}
		})
	}
	if next := w.in.Taken() + 1; next <= messages && w.here[next] {
		all = append(all, func(w *world) {
			w.got = append(w.got, next)
			if w.in.Take(window) {
				w.tell()
			}
		})
	}
	for from := range attemptsMax {
		for to := range attemptsMax {
			if len(w.data[from][to]) > 0 && w.reaches(1, to) {
				all = append(all, func(w *world) { w.arrive(from, to) })
			}
			if len(w.credit[from][to]) > 0 && w.reaches(0, to) {
				all = append(all, func(w *world) { w.credited(from, to) })
			}
		}
	}
	for end := range 2 {
		all = append(all, w.views(end)...)
	}
	if w.backs > 0 && w.done() {
		which := [][]int{{1}, {0}, {0, 1}}
		if w.apart {
			which = which[:1]
		}
		for _, ends := range which {
			all = append(all, func(w *world) {
				w.backs--
				for _, end := range ends {
					w.give(end, w.process[end][w.latest[end]])
				}
			})
		}
	}
	return all
}

// views lists what an end may learn of views, or what views may do to it.
func (w *world) views(end int) (all []func(*world)) {
	other := 1 - end
	if w.knows[end] < w.latest[other] {
		all = append(all, func(w *world) { // it learns that the other is run again
			w.knows[end] = w.latest[other]
			w.reopen(end, false)
			if end == 0 && w.news > 0 {
				w.out.Credited(w.news, w.attempts[0] > 0)
				w.news = 0
				w.release()
			}
		})
	}
	if w.attempts[end] < w.latest[end] {
		all = append(all, func(w *world) { // it runs again where it is; the other may know before
			w.begin(end)
			w.again[other] = w.latest[end]
		})
	}
	if n := w.again[end]; n > 0 {
		all = append(all, func(w *world) {
			if w.again[end] = 0; w.knows[end] == n {
				w.reopen(end, true)
			}
		})
	}
	if w.left > 0 && w.attempts[end] == w.latest[end] && !(w.apart && end == 1) {
		all = append(all, func(w *world) { // it dies, and runs again from the top
			w.left--
			w.give(end, w.process[end][w.latest[end]]+1)
			w.begin(end)
		})
	}
	return all
}

// reopen restarts an end's link to the other, or sends it once more what was sent to it.
func (w *world) reopen(end int, again bool) {
	if end == 1 {
		w.tell()
		return
	}
	w.out.Reopen(int(w.out.Last()), again)
	w.release()
}

// give assigns an end to a process in the next view.
func (w *world) give(end, process int) {
	w.latest[end]++
	w.process[end][w.latest[end]] = process
}

// begin runs an end from the top.
func (w *world) begin(end int) {
	w.attempts[end], w.knows[end] = w.latest[end], w.latest[1-end]
	if end == 0 {
		w.out, w.news = Out{}, 0
		return
	}
	w.in, w.got = In{}, nil
	w.here, w.begun = [messages + 1]bool{}, [messages + 1][attemptsMax]bool{}
}

// done reports whether both ends are done with the stream, in one view: only then do tasks of live processes move.
func (w *world) done() bool {
	return w.out.Last() == messages && len(w.got) == messages && w.attempts == w.latest && w.knows == [2]int{w.latest[1], w.latest[0]}
}

// reaches reports whether what is sent to an attempt of an end gets to the present one.
func (w *world) reaches(end, attempt int) bool {
	return w.process[end][attempt] == w.process[end][w.attempts[end]]
}

// credited delivers the next report of an attempt of the receiver to one of the sender.
func (w *world) credited(from, to int) {
	link := &w.credit[from][to]
	number := (*link)[0]
	*link = (*link)[1:]
	switch known := w.process[1][from] == w.process[1][w.knows[0]]; {
	case from == w.knows[0]: // not of an attempt that is over, or of another process
		w.out.Credited(number, w.attempts[0] > 0)
		w.release()
	case from > w.knows[0] && known:
		w.news = number
	}
}

// arrive delivers the next part that an attempt of the sender has sent to one of the receiver.
func (w *world) arrive(from, to int) {
	link := &w.data[from][to]
	p := (*link)[0]
	*link = (*link)[1:]
	switch {
	case w.process[0][from] < w.process[0][w.knows[1]]: // a view has removed that process
	case p.rest && w.begun[p.number][from]:
		w.begun[p.number][from] = false
		w.complete(p.number)
	case p.rest || w.in.Arrive(p.number) == Again:
	case p.begins:
		w.begun[p.number][from] = true
	default:
		w.complete(p.number)
	}
}

func (w *world) complete(number uint64) {
	if w.in.Complete(number) {
		w.here[number] = true
	}
}

// wrong returns what is wrong with a state.
func (w *world) wrong(end bool) string {
	for i, number := range w.got {
		if number != uint64(i+1) {
			return fmt.Sprintf("messages come as %v", w.got)
		}
	}
	allowed := uint64(window)
	if w.attempts[1] > 0 && w.process[1][w.attempts[1]] == w.process[1][w.attempts[1]-1] {
		allowed *= 2 // what was sent to the attempt before arrives, too
	}
	switch {
	case end && len(w.got) != messages:
		return fmt.Sprintf("the receiver waits for ever after %v", w.got)
	case w.in.last > w.in.taken+allowed:
		return fmt.Sprintf("%d messages wait at the receiver; allowed: %d", w.in.last-w.in.taken, allowed)
	}
	return ""
}

var every = explore.World[*world, string]{
	Steps: (*world).steps, Clone: (*world).clone, Key: (*world).key, Wrong: (*world).wrong,
	Text: func(w *world) string { return fmt.Sprintf("%+v", w) },
}

// TestEverySchedule checks that the receiver gets all messages, in order, whatever happens.
func TestEverySchedule(t *testing.T) {
	every.Every(t, &world{left: deaths})
}

// TestEveryScheduleAfterTheEnd checks the same if an end is run again where it was.
func TestEveryScheduleAfterTheEnd(t *testing.T) {
	every.Every(t, &world{backs: 1})
	every.Every(t, &world{backs: 1, left: 1, apart: true})
}
