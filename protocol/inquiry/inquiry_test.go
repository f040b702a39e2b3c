package inquiry

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"testing"

	"github.com/coppice-go/coppice/internal/explore"
	"github.com/coppice-go/coppice/internal/extent"
)

// The tests take every schedule of a broadcast by task 0. Whoever has the value may send it to anybody
// at any time, a few times in all, as a tree and correction may. Ranks die at any point, and tasks come
// to the operation late. A task that waits and knows of a death asks, at any time.

const ranksMax = 4

type kind uint8

const (
	value kind = iota
	question
	lack
)

// message is one on a link.
type message struct {
	kind  kind
	about int
}

// task is one of the group.
type task struct {
	dead, entered, has, failed bool
	knows                      [ranksMax]bool // who is dead
	search                     *Search
	held                       []held
}

// held is a question that is not answered.
type held struct{ from, about int }

// world is the group.
type world struct {
	ranks         int
	tasks         [ranksMax]task
	links         [ranksMax][ranksMax][]message
	deaths, sends int
	wrong         string
}

func (w *world) clone() *world {
	c := *w
	for i := range w.ranks {
		t := &c.tasks[i]
		t.held = slices.Clone(t.held)
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
	b = append(b, byte(w.deaths), byte(w.sends))
	for i := range w.ranks {
		t := &w.tasks[i]
		bits(t.dead, t.entered, t.has, t.failed, t.search != nil)
		bits(t.knows[:]...)
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
			b = append(b, byte(len(w.links[i][j])))
			for _, m := range w.links[i][j] {
				b = append(b, byte(m.kind), byte(m.about))
			}
		}
	}
	return sha256.Sum256(b)
}

func (w *world) send(from, to int, m message) {
	if !w.tasks[to].dead {
		w.links[from][to] = append(w.links[from][to], m)
	}
}

// inquire has a task ask whoever may have the value.
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
		w.send(rank, to, message{question, about})
	}
	w.conclude(rank)
}

// conclude ends a task's wait if nobody has the value.
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
		w.send(rank, from, message{lack, about})
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
		if t.has = true; t.failed {
			w.wrong = fmt.Sprintf("task %d has concluded that nobody has the value, and gets it", to)
		}
	case question:
		w.answer(to, from, m.about)
	case lack:
		if t.search != nil {
			t.search.Lacks(from, m.about)
			w.conclude(to)
		}
	}
}

// enter has a task come to the operation.
func (w *world) enter(rank int) {
	t := &w.tasks[rank]
	t.entered = true
	t.has = t.has || rank == 0
	w.again(rank)
}

func (w *world) die(rank int) {
	w.deaths--
	w.tasks[rank].dead = true
	for r := range w.ranks {
		w.links[r][rank] = nil
	}
}

// learn has a task learn of a death, after all that the dead has sent.
func (w *world) learn(rank, dead int) {
	t := &w.tasks[rank]
	t.knows[dead] = true
	if t.search != nil {
		w.inquire(rank)
	}
	w.again(rank)
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
				all = append(all, func(w *world) {
					w.sends--
					w.send(a, b, message{kind: value})
				})
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
		if w.deaths > 0 {
			all = append(all, func(w *world) { w.die(a) })
		}
	}
	if w.sends > 0 || w.deaths > 0 {
		all = append(all, func(w *world) { w.sends, w.deaths = 0, 0 })
	}
	return all
}

// ended checks a world in which nothing more happens. Without a death correction reaches all.
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
		case t.dead || t.has:
		case !t.failed && dead:
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

// TestEverySchedule checks that every task that lives gets the value or learns that nobody has it, and
// that this is true.
func TestEverySchedule(t *testing.T) {
	for _, s := range []struct {
		name  string
		first world
		large bool
	}{
		{name: "two tasks", first: world{ranks: 2, deaths: 1, sends: 2}},
		{name: "three tasks", first: world{ranks: 3, deaths: 2, sends: 2}},
		{name: "four tasks", first: world{ranks: 4, deaths: 2, sends: 2}, large: true},
	} {
		t.Run(s.name, func(t *testing.T) {
			if s.large && extent.Few(t, "millions of schedules") {
				t.SkipNow()
			}
			every.Every(t, &s.first)
		})
	}
}
