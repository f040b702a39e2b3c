package agreement

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-go/coppice/protocol"
)

// room holds participants whose messages arrive in the order sent.
type room struct {
	states []State
	queue  []letter
	out    [][]Message // delivered, by participant
	sent   int
}

type letter struct {
	from, to Rank
	msg      Message
}

func newRoom(p int) *room {
	r := &room{states: make([]State, p), out: make([][]Message, p)}
	for i := range r.states {
		r.states[i].Init(Rank(i), ranks(p))
	}
	return r
}

func ranks(p int) (list []Rank) {
	for i := range p {
		list = append(list, Rank(i))
	}
	return list
}

func value(i int) []byte { return fmt.Appendf(nil, "%d", i) }

func bracket(left, right []byte) []byte { return fmt.Appendf(nil, "(%s %s)", left, right) }

// view opens a view at its members.
func (r *room) view(number uint64, members ...Rank) {
	for _, m := range members {
		r.states[m].NewView(number, members)
	}
}

func (r *room) begin(who ...Rank) {
	for _, i := range who {
		r.states[i].Begin(value(int(i)))
	}
}

// settle runs some participants until nothing happens any more; what is sent to others waits.
func (r *room) settle(live ...Rank) {
	for busy := true; busy; {
		busy = false
		for _, i := range live {
			for r.act(i) {
				busy = true
			}
		}
		for _, i := range live {
			busy = r.fetch(i) || busy
		}
	}
}

// fetch delivers to a participant what was sent to it; false: there is nothing.
func (r *room) fetch(to Rank) bool {
	n := len(r.queue)
	r.queue = slices.DeleteFunc(r.queue, func(m letter) bool {
		if m.to == to {
			r.states[to].Receive(m.from, m.msg)
		}
		return m.to == to
	})
	return len(r.queue) < n
}

// act lets a participant do one thing; false: there is none.
func (r *room) act(i Rank) bool {
	switch a := r.states[i].Next(); a.Kind {
	case protocol.Send:
		r.sent++
		r.queue = append(r.queue, letter{i, a.To, a.Msg})
	case protocol.Deliver:
		r.out[i] = append(r.out[i], a.Msg)
	case protocol.Work:
		r.states[i].Fold(bracket)
	default:
		return false
	}
	return true
}

// returned is what a participant returned, in words.
func (r *room) returned(i Rank) string {
	var all []string
	for _, m := range r.out[i] {
		what := string(m.Value)
		if m.Abort {
			what = "abort"
		}
		all = append(all, fmt.Sprintf("%s of view %d without %v", what, m.Decided, m.Failed))
	}
	return strings.Join(all, ", ")
}

func TestAllReturnTheCanonicalCombination(t *testing.T) {
	for p, want := range map[int]string{
		1: "0",
		2: "(0 1)",
		3: "((0 1) 2)",
		4: "((0 1) (2 3))",
		5: "(((0 1) (2 3)) 4)",
		6: "(((0 1) (2 3)) (4 5))",
		7: "(((0 1) (2 3)) ((4 5) 6))",
		8: "(((0 1) (2 3)) ((4 5) (6 7)))",
	} {
		r := newRoom(p)
		r.view(1, ranks(p)...)
		r.begin(ranks(p)...)
		r.settle(ranks(p)...)
		for i := range Rank(p) {
			if got := r.returned(i); got != want+" of view 1 without []" {
				t.Errorf("%d of %d returns %q, want %q", i, p, got, want)
			}
		}
		if r.sent != 2*(p-1) {
			t.Errorf("%d participants: %d messages, want %d", p, r.sent, 2*(p-1))
		}
	}
}

// TestWhatBecomesOfAnInstance goes through the stages at which a participant can be missing.
func TestWhatBecomesOfAnInstance(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(r *room) // with four participants in view 1
		want [4]string
	}{
		{
			"one has not called: all wait",
			func(r *room) { r.begin(0, 1, 2); r.settle(0, 1, 2, 3) },
			[4]string{},
		},
		{
			"it calls later",
			func(r *room) { r.begin(0, 1, 2); r.settle(0, 1, 2, 3); r.begin(3); r.settle(0, 1, 2, 3) },
			[4]string{"((0 1) (2 3)) of view 1 without []", "((0 1) (2 3)) of view 1 without []", "((0 1) (2 3)) of view 1 without []", "((0 1) (2 3)) of view 1 without []"},
		},
		{
			"one dies before it calls",
			func(r *room) { r.begin(0, 1, 2); r.settle(0, 1, 2); r.view(2, 0, 1, 2); r.settle(0, 1, 2) },
			[4]string{"((0 1) 2) of view 2 without [3]", "((0 1) 2) of view 2 without [3]", "((0 1) 2) of view 2 without [3]", ""},
		},
		{
			"the root dies with the decision: there is another",
			func(r *room) {
				r.begin(0, 1, 2, 3)
				r.settle(1, 2, 3)
				r.give(0)
				r.view(2, 1, 2, 3)
				r.settle(1, 2, 3)
			},
			[4]string{"((0 1) (2 3)) of view 1 without []", "((1 2) 3) of view 2 without [0]", "((1 2) 3) of view 2 without [0]", "((1 2) 3) of view 2 without [0]"},
		},
		{
			"the root dies after it has told one: it binds",
			func(r *room) {
				r.begin(0, 1, 2, 3)
				r.settle(1, 2, 3)
				r.give(0)
				r.act(0) // sends to 2
				r.settle(2)
				r.view(2, 1, 2, 3)
				r.settle(1, 2, 3)
			},
			[4]string{"((0 1) (2 3)) of view 1 without []", "((0 1) (2 3)) of view 1 without []", "((0 1) (2 3)) of view 1 without []", "((0 1) (2 3)) of view 1 without []"},
		},
		{
			"one gives up before it calls",
			func(r *room) { r.begin(0, 1, 2); r.states[3].Cancel(); r.settle(0, 1, 2, 3) },
			[4]string{"abort of view 1 without []", "abort of view 1 without []", "abort of view 1 without []", "abort of view 1 without []"},
		},
		{
			"one gives up too late",
			func(r *room) {
				r.begin(0, 1, 2, 3)
				r.settle(1, 2, 3)
				r.states[1].Cancel()
				r.settle(0, 1, 2, 3)
			},
			[4]string{"((0 1) (2 3)) of view 1 without []", "((0 1) (2 3)) of view 1 without []", "((0 1) (2 3)) of view 1 without []", "((0 1) (2 3)) of view 1 without []"},
		},
		{
			"its vote counts in the next view",
			func(r *room) {
				r.begin(0, 1, 2, 3)
				r.settle(1, 2)
				r.states[1].Cancel()
				r.view(2, 0, 1, 2)
				r.settle(0, 1, 2)
			},
			[4]string{"abort of view 2 without [3]", "abort of view 2 without [3]", "abort of view 2 without [3]", ""},
		},
		{
			"the vote of one who died does not",
			func(r *room) {
				r.begin(0, 1, 2)
				r.states[3].Cancel()
				r.settle(3, 2, 1)
				r.view(2, 0, 1, 2)
				r.settle(0, 1, 2)
			},
			[4]string{"((0 1) 2) of view 2 without [3]", "((0 1) 2) of view 2 without [3]", "((0 1) 2) of view 2 without [3]", ""},
		},
		{
			"one is left",
			func(r *room) { r.begin(3); r.settle(3); r.view(5, 3); r.settle(3) },
			[4]string{"", "", "", "3 of view 5 without [0 1 2]"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRoom(4)
			r.view(1, 0, 1, 2, 3)
			c.do(r)
			for i := range Rank(4) {
				if got := r.returned(i); got != c.want[i] {
					t.Errorf("%d returns %q, want %q", i, got, c.want[i])
				}
			}
		})
	}
}

// give delivers to a participant what was sent to it, and lets it act until it returns.
func (r *room) give(to Rank) {
	r.fetch(to)
	for len(r.out[to]) == 0 && r.act(to) {
	}
}

func TestOthersInAViewTakeNoPart(t *testing.T) {
	var s State
	s.Init(4, []Rank{9, 4, 7})
	s.Begin(value(4))
	s.NewView(3, []Rank{1, 4, 9, 100})
	a := s.Next()
	if want := (Action{Kind: protocol.Send, To: 9, Msg: Message{Kind: Up, View: 3, Value: value(4)}}); !reflect.DeepEqual(a, want) {
		t.Fatalf("%+v, want %+v", a, want)
	}
	s.Receive(1, Message{Kind: Down, View: 3, Decided: 3})
	if _, known := s.Decision(); known {
		t.Error("it takes the word of one who takes no part")
	}
	s.Receive(9, Message{Kind: Down, View: 3, Decided: 3, Failed: []Rank{7}})
	if m, known := s.Decision(); !known || !slices.Equal(m.Failed, []Rank{7}) {
		t.Errorf("%v %v", m, known)
	}
}

func TestMessagesAreTakenInTheirView(t *testing.T) {
	up := func(view uint64) Message { return Message{Kind: Up, View: view, Value: value(1)} }
	for _, c := range []struct {
		name  string
		views []uint64 // before it comes
		view  uint64   // in which it was sent
		later []uint64
		taken bool
	}{
		{"in its view", []uint64{3}, 3, nil, true},
		{"before any", nil, 3, []uint64{3}, true},
		{"before its view", []uint64{2}, 3, []uint64{3}, true},
		{"after its view", []uint64{3}, 2, nil, false},
		{"its view is left out", []uint64{2}, 3, []uint64{4}, false},
		{"its view is open already", []uint64{3}, 3, []uint64{3, 2}, true},
	} {
		var s State
		s.Init(0, ranks(2))
		s.Begin(value(0))
		for _, v := range c.views {
			s.NewView(v, ranks(2))
		}
		s.Receive(1, up(c.view))
		for _, v := range c.later {
			s.NewView(v, ranks(2))
		}
		if got := s.Next().Kind == protocol.Work; got != c.taken {
			t.Errorf("%s: taken is %v", c.name, got)
		}
	}
}

func TestOfEverySenderOneMessageIsHeld(t *testing.T) {
	var s State
	s.Init(0, ranks(3))
	for view := range uint64(100) {
		s.Receive(1, Message{Kind: Up, View: view + 1, Value: value(int(view))})
		s.Receive(1, Message{Kind: Up, View: 1, Value: value(int(view))})
	}
	if len(s.held) != 1 || s.held[0].msg.View != 100 {
		t.Errorf("%v", s.held)
	}
}

func TestWorkOfAnEarlierViewIsOfNoUse(t *testing.T) {
	var s State
	s.Init(0, ranks(2))
	s.Begin([]byte("a"))
	up := func(view uint64, v string) {
		s.NewView(view, ranks(2))
		s.Receive(1, Message{Kind: Up, View: view, Value: []byte(v)})
		if a := s.Next(); a.Kind != protocol.Work {
			t.Fatalf("%v", a)
		}
	}
	up(1, "b")
	first := bracket(s.Operands())
	up(2, "c")
	second := bracket(s.Operands())
	s.Folded(first)
	if a := s.Next(); a.Kind != protocol.Idle {
		t.Fatalf("%v before its work is done", a)
	}
	s.Folded(second)
	if a := s.Next(); a.Kind != protocol.Deliver || string(a.Msg.Value) != "(a c)" {
		t.Fatalf("%v", a)
	}
	s.Folded(first) // none is open
	if a := s.Next(); a.Kind != protocol.Send || string(a.Msg.Value) != "(a c)" {
		t.Fatalf("%v", a)
	}
}

func TestSeriesForgetsWhenALaterOneIsDecided(t *testing.T) {
	var s Series[int]
	s.Init(1, ranks(2), 3)
	s.NewView(1, ranks(2))
	open := func() (all []uint64) {
		for _, i := range s.Open() {
			all = append(all, i.Number)
		}
		return all
	}
	decide := func(i *Instance[int]) {
		i.Begin(value(1))
		s.Next(i)
		i.Receive(0, Message{Kind: Down, View: 1, Decided: 1})
		if a := s.Next(i); a.Kind != protocol.Deliver {
			t.Fatalf("instance %d: %v", i.Number, a)
		}
	}
	decide(s.Call())
	if third := s.Hear(3); third == nil || s.Hear(5) != nil {
		t.Error("heard of 3 and of 5 after 1, want 3 alone")
	}
	if got := open(); !slices.Equal(got, []uint64{1, 3}) {
		t.Fatalf("%v are open, want 1 and 3", got)
	}
	second := s.Call()
	if s.Find(1) == nil {
		t.Fatal("the first is forgotten before the second is decided")
	}
	decide(second)
	if got := open(); !slices.Equal(got, []uint64{2, 3}) || s.Hear(1) != nil {
		t.Errorf("%v are open, want 2 and 3", got)
	}
	if third := s.Find(3); s.Call() != third {
		t.Error("the third begins again as it is called")
	}
}

func TestAwaits(t *testing.T) {
	r := newRoom(6)
	expect := func(when string, want ...[]Rank) {
		t.Helper()
		for i := range r.states {
			if got := r.states[i].Awaits(); !slices.Equal(got, want[i]) {
				t.Errorf("%s: %d awaits %v, want %v", when, i, got, want[i])
			}
		}
	}
	r.view(1, ranks(6)...)
	expect("before all", nil, nil, nil, nil, nil, nil)
	r.begin(0, 2, 3, 4)
	r.settle(ranks(6)...)
	expect("two have not called", []Rank{1, 4}, nil, []Rank{0}, []Rank{2}, []Rank{5}, nil)
	r.begin(1, 5)
	r.settle(ranks(6)...)
	expect("at the end", nil, nil, nil, nil, nil, nil)
}

func TestStatesAreToldApartAndCopied(t *testing.T) {
	seen := map[[2]uint64]int{}
	r := newRoom(4)
	s := &r.states[2]
	steps := []func(){
		func() {},
		func() { s.Receive(3, Message{Kind: Up, View: 1, Value: value(3)}) },
		func() { s.NewView(1, ranks(4)) },
		func() { s.Begin(value(2)) },
		func() { s.Next() },
		func() { s.Fold(bracket) },
		func() { s.Next() },
		func() { s.Cancel() },
		func() { s.Receive(0, Message{Kind: Down, View: 1, Decided: 1, Abort: true}) },
		func() { s.Next() },
		func() { s.Next() },
		func() { s.NewView(2, ranks(3)) },
	}
	for i, step := range steps {
		before := s.Clone()
		print := before.Fingerprint()
		step()
		if before.Fingerprint() != print {
			t.Errorf("step %d changes a copy", i)
		}
		if j, ok := seen[s.Fingerprint()]; ok {
			t.Errorf("steps %d and %d end alike", j, i)
		}
		seen[s.Fingerprint()] = i
	}
}
