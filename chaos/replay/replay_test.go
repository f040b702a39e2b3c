package replay

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/recovery"
)

// crew is a job under a plain driver: round-robin, first in first out.
type crew struct {
	job     *Job
	states  []State
	dead    []bool
	mail    [][]letter // by process
	results []*Attempt
	visit   func(*State) // before each action
}

type letter struct {
	from protocol.Rank
	msg  Message
}

func newCrew(t *testing.T, cfg Config) *crew {
	t.Helper()
	job, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c := &crew{job: job, states: make([]State, cfg.Processes+1), dead: make([]bool, cfg.Processes+1), mail: make([][]letter, cfg.Processes+1)}
	for r := range c.states {
		job.Init(&c.states[r], protocol.Rank(r), 0)
	}
	return c
}

// kill kills a process, and notifies all others.
func (c *crew) kill(victim protocol.Rank) {
	will := Testament(&c.states[victim])
	c.dead[victim] = true
	for r := range c.states {
		if !c.dead[r] {
			c.job.Receive(&c.states[r], 0, victim, will)
			c.job.Notify(&c.states[r], 0, protocol.Notice{Kind: protocol.Death, Rank: victim, Value: 1})
		}
	}
}

// round lets every process receive and act once. It returns false if none did.
func (c *crew) round() (busy bool) {
	for r := range c.states {
		s := &c.states[r]
		if c.dead[r] {
			continue
		}
		if len(c.mail[r]) > 0 {
			m := c.mail[r][0]
			c.mail[r] = c.mail[r][1:]
			c.job.Receive(s, 0, m.from, m.msg)
			busy = true
		}
		if c.visit != nil {
			c.visit(s)
		}
		switch a := c.job.Next(s, 0); a.Kind {
		case protocol.Send:
			c.mail[a.To] = append(c.mail[a.To], letter{protocol.Rank(r), a.Msg})
			busy = true
		case protocol.Work:
			c.job.Notify(s, 0, protocol.Notice{Kind: protocol.WorkDone})
			busy = true
		case protocol.Deliver:
			if a.Msg.Result != nil {
				c.results = append(c.results, a.Msg.Result)
			}
			busy = true
		}
	}
	return busy
}

// check demands that every survivor is done, and that every task has returned.
func (c *crew) check(t *testing.T) {
	t.Helper()
	returned := map[protocol.Rank]bool{}
	serial := c.serial()
	for _, a := range c.results {
		returned[a.Task] = true
		if want := serial[a.Task]; !slices.Equal(a.Digests, want) {
			t.Errorf("task %d, begun in view %d: digests %x, want %x", a.Task, a.View, a.Digests, want)
		}
	}
	if len(returned) != c.job.program.Tasks {
		t.Errorf("%d of %d tasks have returned", len(returned), c.job.program.Tasks)
	}
	for r := range c.states {
		if a := c.job.Next(&c.states[r], 0); !c.dead[r] && a.Kind != protocol.Done {
			t.Errorf("process %d: %v at the end, want done", r, a.Kind)
		}
	}
}

// serial returns what all tasks get, given the values that Once had.
func (c *crew) serial() [][]uint64 {
	onces := make([][]uint64, c.job.program.Tasks)
	for _, a := range c.results {
		onces[a.Task] = a.Onces
	}
	for t, values := range onces {
		onces[t] = append(values, make([]uint64, c.job.program.Onces()-len(values))...)
	}
	return c.job.program.Serial(nil, onces)
}

func menu(t *testing.T, tasks int) *Menu {
	t.Helper()
	m, err := NewMenu(tasks)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestTasksReturnWithTheSerialBits(t *testing.T) {
	for _, d := range []struct {
		tasks, processes int
		deaths           []protocol.Rank // one every ten rounds
	}{
		{1, 1, nil},
		{5, 5, nil},
		{8, 4, nil},
		{2, 5, nil},
		{5, 5, []protocol.Rank{0}},
		{5, 5, []protocol.Rank{3, 0, 4, 1}},
		{8, 4, []protocol.Rank{1, 0, 2}},
		{2, 5, []protocol.Rank{0, 1, 2, 3}},
	} {
		t.Run(fmt.Sprint(d), func(t *testing.T) {
			c := newCrew(t, Config{Program: menu(t, d.tasks).Random(7, 40), Processes: d.processes})
			for round := 1; c.round(); round++ {
				if i := round/10 - 1; round%10 == 0 && i < len(d.deaths) {
					c.kill(d.deaths[i])
				}
			}
			c.check(t)
		})
	}
}

func TestCopiesOfAStateGoTheirOwnWay(t *testing.T) {
	follow(t, Config{Program: menu(t, 4).Random(3, 25), Processes: 3})
}

// follow runs, on copies of copies of its states, a job whose process 1 crashes.
func follow(t *testing.T, cfg Config) {
	t.Helper()
	c := newCrew(t, cfg)
	var kept []State
	var prints [][2]uint64
	c.visit = func(s *State) {
		again := s.Clone()
		if again.Fingerprint() != s.Fingerprint() {
			t.Fatal("a copy has another fingerprint")
		}
		kept, prints = append(kept, again), append(prints, s.Fingerprint())
		a, b := again.Clone(), s.Clone()
		x, y := c.job.Next(&a, 0), c.job.Next(&b, 0)
		if x.Kind != y.Kind || x.To != y.To || x.Msg.Fingerprint() != y.Msg.Fingerprint() || a.Fingerprint() != b.Fingerprint() {
			t.Fatalf("two copies do different things: %v, %v", x, y)
		}
		*s = again.Clone() // the run goes on with a copy of a copy
	}
	for round := 1; c.round(); round++ {
		if round == 30 {
			c.kill(1)
		}
	}
	c.check(t)
	for i := range kept {
		if kept[i].Fingerprint() != prints[i] {
			t.Fatal("what happened to a state happened to its copy")
		}
	}
}

func TestExtraNextChangesNothing(t *testing.T) {
	c := newCrew(t, Config{Program: menu(t, 3).Random(5, 20), Processes: 3})
	c.visit = func(s *State) {
		again := s.Clone()
		if a := c.job.Next(&again, 0); a.Kind == protocol.Idle {
			before := again.Fingerprint()
			if a := c.job.Next(&again, 0); a.Kind != protocol.Idle || again.Fingerprint() != before {
				t.Fatalf("a process that rests does %v", a.Kind)
			}
		}
	}
	for c.round() {
		continue
	}
	c.check(t)
}

func TestSumsDependOnTheAssociation(t *testing.T) {
	p := &Plan{Op: AllReduce, Root: 0}
	differ := 0
	for seed := range uint64(100) {
		g := NewProgram(3, seed, Call{Plan: &Plan{Op: Barrier}, Elems: 5})
		a, b, c := g.vector(0, 0, 0), g.vector(0, 1, 0), g.vector(0, 2, 0)
		left := p.canonical(g.memory, [][]byte{a, b, c})
		bc, _ := p.add(nil, b, c)
		if right, _ := p.add(nil, a, bc); !bytes.Equal(left, right) {
			differ++
		}
	}
	if differ < 50 {
		t.Errorf("in %d of 100 cases", differ)
	}
}

func TestNumbersAreFinite(t *testing.T) {
	for x := range uint64(1000) {
		f := math.Float64frombits(float(protocol.Mix(x, 1)))
		if math.IsNaN(f) || math.IsInf(f, 0) {
			t.Fatalf("%d gives %v", x, f)
		}
	}
}

func TestMessagesComeOutOfTheLogAsTheyWere(t *testing.T) {
	for _, f := range []*Frame{
		{Name: Name{0, 0, 1, 0, 0}, Value: nil, Past: 0},
		{Name: Name{7, 2, 1, 65535, 3}, Value: []byte{}, Past: 1 << 63},
		{Name: Name{300, 11, 1, 3, 65535}, Value: []byte("some bytes"), Past: 5},
		{Name: Name{1 << 30, 1 << 20, 1, 9, 1}, Value: make([]byte, recovery.Inline+1), Past: 0},
	} {
		l := recovery.NewLog(headLen)
		head := f.head()
		l.Add(int(f.To), head[:], f.Value)
		for h, v := range l.Clone().To(int(f.To)) {
			got := logged(h, v)
			if got.Name != f.Name || got.Past != f.Past || !bytes.Equal(got.Value, f.Value) || (got.Value == nil) != (f.Value == nil) {
				t.Errorf("%v came out as %v", f, got)
			}
		}
	}
}

func TestOperationsHaveNames(t *testing.T) {
	for op := range ops {
		if got, err := ParseOp(op.String()); got != op || err != nil {
			t.Errorf("%v: %v, %v", op, got, err)
		}
	}
	if _, err := ParseOp("wish"); err == nil || !strings.Contains(err.Error(), "allowed: barrier") {
		t.Error(err)
	}
}

func TestPlansAreAllThereAre(t *testing.T) {
	for _, d := range []struct {
		op          Op
		tasks, want int
	}{
		{Barrier, 4, 3},
		{Broadcast, 3, 15}, // binomial and flat in 1 or 3 pieces, scatter-all-gather; each root
		{Scatter, 3, 6},
		{AllGather, 4, 5},
		{AllReduce, 4, 7},
		{AllReduce, 3, 6}, // no Rabenseifner
		{Scan, 6, 1},
		{ExScan, 6, 1},
		{ReduceScatter, 4, 3},
		{Send, 6, 5},
		{Send, 1, 1},
	} {
		plans, err := Plans(d.op, d.tasks)
		if err != nil || len(plans) != d.want {
			t.Errorf("%v among %d: %d plans, %v; want %d", d.op, d.tasks, len(plans), err, d.want)
		}
	}
}

func TestJobsThatCannotBeAreRefused(t *testing.T) {
	g := menu(t, 2).Random(1, 1)
	for _, cfg := range []Config{
		{Processes: 1},
		{Program: g},
		{Program: g, Processes: 2, Owners: []protocol.Rank{0}},
		{Program: g, Processes: 2, Owners: []protocol.Rank{0, 2}},
		{Program: g, Processes: 2, Fanout: 3},
		{Program: g, Processes: 2, Joiners: -1},
	} {
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), "allowed: ") {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
	if _, err := NewMenu(0); err == nil {
		t.Error("a menu without tasks")
	}
}
