package grant

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/coppice-go/coppice/internal/explore"
	"github.com/coppice-go/coppice/internal/extent"
)

// The tests take every schedule of a few large values from one task to another. Either task is run again, in another
// process since its own has died, or where it is; the receiver may give up. A task that is run again sends all values
// again, and gets them again. Others learn of that at any time, and until then take what dead processes have sent.

const (
	values = 2 // that are sent
	parts  = 2 // that the rest of a value comes in
	room   = 1 // values that no task has asked for
)

// frame is a message on a link: the beginning of a value, or a part of the rest; or an answer.
type frame struct {
	number uint32 // of the copy
	value  int
	begins bool
	grants bool
}

// sender is a process that sends.
type sender struct {
	out   Out[int]
	sent  int // the values of which it has sent the beginning, to the receiver that it knows
	knows int // the receiver
	held  int // values that it holds in memory
}

// piece is a copy at the receiver.
type piece struct {
	In
	from   int // the sender
	number uint32
	value  int
	came   int  // parts of the rest
	wrote  int  // those that had a place
	early  bool // it came early, and counts
	tried  bool
}

// receiver is a process that receives.
type receiver struct {
	room   Room
	pieces []*piece
	knows  int // the sender
	asked  int // values that the task has asked for
	took   int // values that it has got
	here   [values]bool
	left   bool // the task gives up
}

// world is all processes; the last of each kind is the live one.
type world struct {
	senders                []*sender
	receivers              []*receiver
	data                   map[[2]int][]frame // from a sender to a receiver
	answers                map[[2]int][]frame // from a receiver to a sender
	deaths, reruns, leaves int
	fault                  string
}

func (w *world) clone() *world {
	c := *w
	c.senders, c.receivers = slices.Clone(w.senders), slices.Clone(w.receivers)
	for i, s := range w.senders {
		n := *s
		n.out.waits = maps.Clone(s.out.waits)
		c.senders[i] = &n
	}
	for i, r := range w.receivers {
		n := *r
		n.pieces = slices.Clone(r.pieces)
		for j, p := range r.pieces {
			q := *p
			n.pieces[j] = &q
		}
		c.receivers[i] = &n
	}
	clone := func(links map[[2]int][]frame) map[[2]int][]frame {
		links = maps.Clone(links)
		for k := range links {
			links[k] = slices.Clone(links[k])
		}
		return links
	}
	c.data, c.answers = clone(w.data), clone(w.answers)
	return &c
}

func (w *world) String() string {
	text := fmt.Sprintf("%d %d %d %v %v", w.deaths, w.reruns, w.leaves, w.data, w.answers)
	for _, s := range w.senders {
		text += fmt.Sprintf("\nsender %+v", *s)
	}
	for _, r := range w.receivers {
		text += fmt.Sprintf("\nreceiver %d knows %d asked %d took %d %v %v", r.room.used, r.knows, r.asked, r.took, r.here, r.left)
		for _, p := range r.pieces {
			text += fmt.Sprintf(" %+v", *p)
		}
	}
	return text
}

func (w *world) last() (s, r int) { return len(w.senders) - 1, len(w.receivers) - 1 }

func put(links map[[2]int][]frame, from, to int, f frame) {
	links[[2]int{from, to}] = append(links[[2]int{from, to}], f)
}

func take(links map[[2]int][]frame, from, to int) frame {
	k := [2]int{from, to}
	f := links[k][0]
	if links[k] = links[k][1:]; len(links[k]) == 0 {
		delete(links, k)
	}
	return f
}

// steps lists what may happen next.
func (w *world) steps() (all []func(*world)) {
	si, ri := w.last()
	s, r := w.senders[si], w.receivers[ri]
	if s.sent < values {
		all = append(all, func(w *world) { w.begin() })
	}
	if s.knows < ri {
		all = append(all, func(w *world) { // the sender learns that the receiver is dead, and which process runs its task again
			s := w.senders[si]
			s.held -= s.out.Len()
			s.out, s.sent, s.knows = Out[int]{}, 0, ri
		})
	}
	for from := range w.senders {
		if len(w.data[[2]int{from, ri}]) > 0 {
			all = append(all, func(w *world) { w.arrive(from, ri) })
		}
	}
	if len(w.answers[[2]int{ri, si}]) > 0 {
		all = append(all, func(w *world) { w.answered(ri, si) })
	}
	if r.knows < si {
		all = append(all, func(w *world) { w.buries(ri, si) })
	}
	all = append(all, w.stepsOf(ri)...)
	if w.deaths > 0 {
		all = append(all, func(w *world) {
			w.deaths--
			w.senders = append(w.senders, &sender{knows: ri})
		}, func(w *world) {
			w.deaths--
			w.receivers = append(w.receivers, &receiver{room: Room{Max: room}, knows: si})
		})
	}
	if w.reruns > 0 {
		all = append(all, func(w *world) { // the sending task is run again where it is
			w.reruns--
			w.senders[si].sent = 0
		}, func(w *world) { // the receiving task is, and has itself sent all values once more
			w.reruns--
			r := w.receivers[ri]
			w.dropAll(ri)
			r.asked, r.took, r.here, r.left = 0, 0, [values]bool{}, false
			w.senders[si].sent = 0
		})
	}
	return all
}

// stepsOf lists what the receiver may do next.
func (w *world) stepsOf(ri int) (all []func(*world)) {
	r := w.receivers[ri]
	for i, p := range r.pieces {
		if !p.Answered() && !p.tried {
			all = append(all, func(w *world) { // a timer
				r := w.receivers[ri]
				p := r.pieces[i]
				p.tried = true
				if p.early = p.WantEarly(&r.room, 1); p.early {
					w.answer(ri, p, true)
				}
			})
		}
	}
	switch {
	case r.left:
	case r.asked == r.took && r.asked < values:
		all = append(all, func(w *world) { w.ask(ri) })
	case r.asked > r.took && r.here[r.took]:
		all = append(all, func(w *world) {
			r := w.receivers[ri]
			for _, p := range r.pieces {
				if p.value == r.took && p.Complete() {
					w.free(ri, p)
				}
			}
			r.took++
		})
	}
	if w.leaves > 0 && !r.left {
		all = append(all, func(w *world) {
			w.leaves--
			w.receivers[ri].left = true
			w.dropAll(ri)
		})
	}
	return all
}

// begin sends the beginning of the next value.
func (w *world) begin() {
	si, _ := w.last()
	s := w.senders[si]
	s.held++
	put(w.data, si, s.knows, frame{number: s.out.Ask(s.sent), value: s.sent, begins: true})
	s.sent++
}

func (w *world) answer(ri int, p *piece, grants bool) {
	put(w.answers, ri, p.from, frame{number: p.number, grants: grants})
}

// answered takes an answer.
func (w *world) answered(ri, si int) {
	s, f := w.senders[si], take(w.answers, ri, si)
	value, ok := s.out.Answered(f.number)
	if !ok || ri != s.knows {
		return
	}
	s.held--
	for range parts {
		if f.grants {
			put(w.data, si, ri, frame{number: f.number, value: value})
		}
	}
}

// ask lets the task ask for the next value.
func (w *world) ask(ri int) {
	r := w.receivers[ri]
	for _, p := range r.pieces {
		if p.value == r.asked && p.Want() {
			w.answer(ri, p, true)
		}
	}
	r.asked++
}

// arrive takes what a sender has sent.
func (w *world) arrive(si, ri int) {
	r, f := w.receivers[ri], take(w.data, si, ri)
	at := slices.IndexFunc(r.pieces, func(p *piece) bool { return p.from == si && p.number == f.number })
	switch {
	case si < r.knows: // nothing comes from a dead process
	case f.begins:
		w.begun(ri, &piece{from: si, number: f.number, value: f.value})
	case at < 0 || !r.pieces[at].Answered() || r.pieces[at].state == refused:
		w.fault = fmt.Sprintf("a part of value %d comes that was not granted", f.value)
	default:
		w.part(ri, r.pieces[at])
	}
}

// begun takes the beginning of a value.
func (w *world) begun(ri int, p *piece) {
	r := w.receivers[ri]
	r.pieces = append(r.pieces, p)
	switch {
	case r.left || r.here[p.value] || p.value < r.took:
		w.drop(ri, p)
	case p.value < r.asked && p.Want():
		w.answer(ri, p, true)
	}
}

// part takes a part of the rest of a value.
func (w *world) part(ri int, p *piece) {
	r := w.receivers[ri]
	if !p.Void() {
		p.wrote++
		if r.here[p.value] {
			w.fault = fmt.Sprintf("value %d is written to after it was complete", p.value)
		}
	}
	if p.came++; p.came < parts {
		return
	}
	p.Came()
	if p.Void() {
		return
	}
	if p.wrote < parts {
		w.fault = fmt.Sprintf("value %d is complete, and %d parts of it went nowhere", p.value, parts-p.wrote)
	}
	r.here[p.value] = true
	for _, o := range r.pieces {
		if o != p && o.value == p.value {
			w.drop(ri, o)
		}
	}
	if p.value < r.asked { // the task has waited for it
		w.free(ri, p)
	}
}

func (w *world) drop(ri int, p *piece) {
	r := w.receivers[ri]
	p.early = false
	if p.Drop(&r.room) {
		w.answer(ri, p, false)
	}
}

func (w *world) free(ri int, p *piece) {
	p.early = false
	p.Free(&w.receivers[ri].room)
}

// dropAll does without all values.
func (w *world) dropAll(ri int) {
	for _, p := range w.receivers[ri].pieces {
		w.drop(ri, p)
	}
}

// buries lets the receiver learn that senders are dead: no more of what they sent comes.
func (w *world) buries(ri, si int) {
	r := w.receivers[ri]
	r.knows = si
	r.pieces = slices.DeleteFunc(r.pieces, func(p *piece) bool {
		if p.from == si || p.Complete() && !p.Void() {
			return false
		}
		w.free(ri, p)
		return true
	})
}

// wrong returns what is wrong with a state.
func (w *world) wrong(end bool) string {
	si, ri := w.last()
	s, r := w.senders[si], w.receivers[ri]
	early := int64(0)
	for _, p := range r.pieces {
		if p.early {
			early++
		}
	}
	switch {
	case w.fault != "":
		return w.fault
	case early > room:
		return fmt.Sprintf("%d values come early; allowed: %d", early, room)
	case r.room.Used() != early:
		return fmt.Sprintf("%d values count as early; want %d", r.room.Used(), early)
	case end && !r.left && r.took < values:
		return fmt.Sprintf("the receiver waits for ever for value %d", r.took)
	case end && s.held != 0:
		return fmt.Sprintf("the sender holds %d values for ever", s.held)
	}
	return ""
}

var every = explore.World[*world, string]{
	Steps: (*world).steps, Clone: (*world).clone, Key: (*world).String, Wrong: (*world).wrong, Text: (*world).String,
}

// TestEverySchedule checks that a task gets the values that it asks for, that no more come early than there is
// room for, that nothing is written to a value that is complete, and that no sender holds a value for ever.
func TestEverySchedule(t *testing.T) {
	for _, s := range []struct {
		name                   string
		deaths, reruns, leaves int
		large                  bool
	}{
		{name: "nothing"},
		{name: "a death", deaths: 1},
		{name: "run again", reruns: 1},
		{name: "giving up", leaves: 1},
		{name: "a death and giving up", deaths: 1, leaves: 1, large: true},
	} {
		t.Run(s.name, func(t *testing.T) {
			if s.large && extent.Few(t, "hundreds of thousands of states") {
				t.SkipNow()
			}
			every.Every(t, &world{
				senders: []*sender{{}}, receivers: []*receiver{{room: Room{Max: room}}},
				data: map[[2]int][]frame{}, answers: map[[2]int][]frame{},
				deaths: s.deaths, reruns: s.reruns, leaves: s.leaves,
			})
		})
	}
}
