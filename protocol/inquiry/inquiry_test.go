package inquiry

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"testing"

	"github.com/coppice-go/coppice/internal/explore"
	"github.com/coppice-go/coppice/internal/extent"
)

// The tests take every schedule of a broadcast by task 0. A task that has the value may send it to any other at any time,
// a few times in all, as a tree and correction may, or a correction without it. Ranks die at any point, or are run again
// elsewhere, and tasks come to the operation late. A task that waits and knows of a death asks, at any time, and so does
// one that got a correction without the value. Others learn of a view at any time; what they send to a rank before that
// goes to its earlier process, and they send again what they have sent.

const ranksMax = 4

type kind uint8

const (
	value kind = iota
	bare       // a correction without the value
	question
	lack
)

// message is one on a link.
type message struct {
	kind    kind
	about   int
	attempt uint8 // of the sender
}

// task is one of the group.
type task struct {
	dead, entered, has, failed bool
	due                        bool           // it has waited long enough, and asks those that have promised the value
	knows                      [ranksMax]bool // the ranks that are dead
	search                     *Search
	held                       []held
	promises                   Promises[struct{}]
	promised, handed           int             // promises that came, and that the operation's machine got
	views                      [ranksMax]uint8 // by rank, the attempt that it knows of
}

// held is a question that is not answered.
type held struct{ from, about int }

// world is the group.
type world struct {
	ranks         int
	tasks         [ranksMax]task
	links         [ranksMax][ranksMax][]message
	deaths, sends int
	restarts      int
	promising     bool            // what is sent may be promises
	attempts      [ranksMax]uint8 // that run
	sent          [ranksMax][ranksMax]sending
	wrong         string
}

// sending is what attempts of a rank have sent to another, unasked: the next one sends it again.
type sending uint8

const (
	nothing sending = iota
	aValue
	aPromise
)

func (w *world) clone() *world {
	c := *w
	for i := range w.ranks {
		t := &c.tasks[i]
		t.held, t.promises.All = slices.Clone(t.held), slices.Clone(t.promises.All)
		if t.search != nil {
			s := *t.search
			s.ranks, s.dead = slices.Clone(s.ranks), slices.Clone(s.dead)
			t.search = &s
		}
		for j := range w.ranks {
			c.links[i][j] = slices.Clone(w.links[i][j])
		}
	}
	return &c
}

// key stands for the world.
func (w *world) key() [sha256.Size]byte {
	b := make([]byte, 0, 200)
	bits := func(all ...bool) {
		var n byte
		for _, on := range all {
			n <<= 1
			if on {
				n |= 1
			}
		}
		b = append(b, n)
	}
	b = append(b, byte(w.deaths), byte(w.sends), byte(w.restarts))
	for i := range w.ranks {
		t := &w.tasks[i]
		bits(t.dead, t.entered, t.has, t.failed, t.search != nil, t.due)
		bits(t.knows[:]...)
		b = append(b, byte(t.promised), byte(t.handed), byte(len(t.promises.All)), byte(t.promises.Asked), w.attempts[i])
		for _, p := range t.promises.All {
			b = append(b, byte(p.From))
		}
		b = append(b, t.views[:]...)
		b = append(b, byte(len(t.held)))
		for _, h := range t.held {
			b = append(b, byte(h.from), byte(h.about))
		}
		if s := t.search; s != nil {
			bits(s.rootAsked, s.rootLacks)
			for _, d := range s.dead {
				b = append(b, byte(d))
			}
			for _, r := range s.ranks {
				b = append(b, byte(r.asked), byte(r.answered))
			}
		}
		for j := range w.ranks {
			b = append(b, byte(len(w.links[i][j])), byte(w.sent[i][j]))
			for _, m := range w.links[i][j] {
				b = append(b, byte(m.kind), byte(m.about), m.attempt)
			}
		}
	}
	return sha256.Sum256(b)
}

func (w *world) send(from, to int, m message) {
	if m.attempt = w.attempts[from]; !w.tasks[to].dead && w.tasks[from].views[to] == w.attempts[to] {
		w.links[from][to] = append(w.links[from][to], m)
	}
}

// push lets a task send another the value, or a promise of it.
func (w *world) push(from, to int, s sending) {
	w.sent[from][to] = s
	if s == aPromise {
		w.send(from, to, message{kind: bare})
	} else {
		w.send(from, to, message{kind: value})
	}
}

// ask lets a task ask those that have promised the value.
func (w *world) ask(rank int) {
	t := &w.tasks[rank]
	if t.due = false; !t.has && !t.failed {
		for to := range t.promises.Ask {
			w.send(rank, to, message{kind: question, about: Nobody})
		}
	}
}

// got notes that the value is here.
func (w *world) got(rank int) {
	t := &w.tasks[rank]
	if !t.has && w.attempts[rank] > 0 {
		for to, s := range w.sent[rank] {
			if s != nothing {
				w.push(rank, to, s)
			}
		}
	}
	t.has = true
	t.handed += len(t.promises.Came())
	w.again(rank)
}

// inquire lets a task ask the ranks that may have the value.
func (w *world) inquire(rank int) {
	t := &w.tasks[rank]
	if t.has || t.failed || !t.entered {
		return
	}
	if t.search == nil {
		t.search = New(rank, w.ranks, 0)
	}
	for r := range w.ranks {
		if t.knows[r] {
			t.search.Died(r)
		}
	}
	for {
		to, about, ok := t.search.Next()
		if !ok {
			break
		}
		w.send(rank, to, message{kind: question, about: about})
	}
	w.conclude(rank)
}

// conclude ends a task's wait if no task has the value.
func (w *world) conclude(rank int) {
	t := &w.tasks[rank]
	if t.has || t.failed || t.search.Verdict() == Open {
		return
	}
	t.failed = true
	for r := range w.ranks {
		if o := &w.tasks[r]; !o.dead && o.has {
			w.wrong = fmt.Sprintf("task %d concludes that nobody has the value, but task %d has it", rank, r)
		}
	}
}

// answer answers a question, or holds it.
func (w *world) answer(rank, from, about int) {
	t := &w.tasks[rank]
	of := max(about, 0)
	switch (Asked{About: about, Has: t.has, Dead: t.knows[of], Never: t.failed}).Reply() {
	case Give:
		w.send(rank, from, message{kind: value})
	case Lack:
		w.send(rank, from, message{kind: lack, about: about})
	case Hold:
		t.held = append(t.held, held{from, about})
	}
}

// again looks at held questions again.
func (w *world) again(rank int) {
	all := w.tasks[rank].held
	w.tasks[rank].held = nil
	for _, h := range all {
		w.answer(rank, h.from, h.about)
	}
}

func (w *world) deliver(from, to int) {
	m := w.links[from][to][0]
	w.links[from][to] = w.links[from][to][1:]
	t := &w.tasks[to]
	switch m.kind {
	case value:
		if w.got(to); t.failed {
			w.wrong = fmt.Sprintf("task %d has concluded that nobody has the value, and gets it", to)
		}
	case bare:
		if !t.has {
			t.promises.All = append(t.promises.All, Promise[struct{}]{From: from})
			t.promised, t.due = t.promised+1, true
		}
	case question:
		if m.attempt == t.views[from] { // otherwise the asker is not the attempt that counts
			w.answer(to, from, m.about)
		}
	case lack:
		if t.search != nil {
			t.search.Lacks(from, m.about)
			w.conclude(to)
		}
	}
}

// enter lets a task come to the operation.
func (w *world) enter(rank int) {
	t := &w.tasks[rank]
	if t.entered = true; rank == 0 {
		w.got(rank)
	}
	w.again(rank)
}

func (w *world) die(rank int) {
	w.deaths--
	w.tasks[rank].dead = true
	for r := range w.ranks {
		w.links[r][rank] = nil
	}
}

// learn lets a task learn of a death, after all that the dead rank has sent.
func (w *world) learn(rank, dead int) {
	t := &w.tasks[rank]
	t.knows[dead] = true
	if t.search != nil {
		w.inquire(rank)
	}
	w.ask(rank)
	w.again(rank)
}

// restart runs a rank again elsewhere. The process that runs it has opened the view.
func (w *world) restart(rank int) {
	w.restarts--
	w.attempts[rank]++
	w.tasks[rank] = task{views: w.attempts}
	for r := range w.ranks {
		w.links[r][rank] = nil
	}
}

// open lets a task learn that another one is run again, after all that the attempt before has sent.
func (w *world) open(rank, of int) {
	t := &w.tasks[rank]
	t.views[of] = w.attempts[of]
	if t.promises.Restart(of) && !t.has {
		w.send(rank, of, message{kind: question, about: Nobody})
	}
	if w.sent[rank][of] != nothing && t.has {
		w.send(rank, of, message{kind: value})
	}
	w.ask(rank)
}

// steps lists what may happen next.
func (w *world) steps() (all []func(*world)) {
	for a := range w.ranks {
		t := &w.tasks[a]
		for b := range w.ranks {
			if len(w.links[a][b]) > 0 {
				all = append(all, func(w *world) { w.deliver(a, b) })
			}
			o := &w.tasks[b]
			if a == b || t.dead {
				continue
			}
			if t.has && !o.dead && !o.has && w.sends > 0 {
				for s := aValue; s == aValue || s == aPromise && w.promising; s++ {
					all = append(all, func(w *world) {
						w.sends--
						w.push(a, b, s)
					})
				}
			}
			if t.views[b] != w.attempts[b] && !slices.ContainsFunc(w.links[b][a], func(m message) bool { return m.attempt < w.attempts[b] }) {
				all = append(all, func(w *world) { w.open(a, b) })
			}
			if o.dead && !t.knows[b] && len(w.links[b][a]) == 0 {
				all = append(all, func(w *world) { w.learn(a, b) })
			}
		}
		if t.dead {
			continue
		}
		if !t.entered {
			all = append(all, func(w *world) { w.enter(a) })
		}
		if t.entered && !t.has && !t.failed && t.search == nil && slices.Contains(t.knows[:], true) {
			all = append(all, func(w *world) { w.inquire(a) })
		}
		if t.due {
			all = append(all, func(w *world) { w.ask(a) })
		}
		if w.deaths > 0 {
			all = append(all, func(w *world) { w.die(a) })
		}
		if w.restarts > 0 {
			all = append(all, func(w *world) { w.restart(a) })
		}
	}
	if w.sends > 0 || w.deaths > 0 || w.restarts > 0 {
		all = append(all, func(w *world) { w.sends, w.deaths, w.restarts = 0, 0, 0 })
	}
	return all
}

// ended checks a world in which nothing more happens. Without a death correction reaches all; here only tasks that were
// promised the value are sure to get something.
func (w *world) ended() string {
	dead, has := false, Nobody
	for r := range w.ranks {
		t := &w.tasks[r]
		dead = dead || t.dead
		if t.has && !t.dead {
			has = r
		}
	}
	for r := range w.ranks {
		t := &w.tasks[r]
		switch {
		case t.dead:
		case t.has && t.handed != t.promised:
			return fmt.Sprintf("the machine of task %d gets %d corrections of %d", r, t.handed, t.promised)
		case t.has:
		case !t.failed && (dead || t.promised > 0):
			return fmt.Sprintf("task %d waits for ever", r)
		case t.failed && has >= 0:
			return fmt.Sprintf("task %d has concluded that nobody has the value, but task %d has it now", r, has)
		}
	}
	return ""
}

var every = explore.World[*world, [sha256.Size]byte]{
	Steps: (*world).steps, Clone: (*world).clone, Key: (*world).key, Wrong: func(w *world, end bool) string {
		if w.wrong == "" && end {
			return w.ended()
		}
		return w.wrong
	},
	Text: func(w *world) string { return fmt.Sprintf("%+v", w) },
}

// TestEverySchedule checks that every live task gets the value or learns that no task has it, and that this is true.
func TestEverySchedule(t *testing.T) {
	for _, s := range []struct {
		name  string
		first world
		large bool
	}{
		{name: "two tasks", first: world{ranks: 2, deaths: 1, sends: 2}},
		{name: "three tasks", first: world{ranks: 3, deaths: 2, sends: 2}},
		{name: "four tasks", first: world{ranks: 4, deaths: 2, sends: 2}, large: true},
		{name: "promises and a death", first: world{ranks: 3, deaths: 1, sends: 2, promising: true}},
		{name: "promises and a restart", first: world{ranks: 3, restarts: 1, sends: 2, promising: true}},
		{name: "promises and two restarts", first: world{ranks: 3, restarts: 2, sends: 3, promising: true}, large: true},
	} {
		t.Run(s.name, func(t *testing.T) {
			if s.large && extent.Few(t, "millions of schedules") {
				t.SkipNow()
			}
			every.Every(t, &s.first)
		})
	}
}
