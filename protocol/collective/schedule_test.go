package collective

import (
	"errors"
	"fmt"
	"testing"

	"github.com/coppice-go/coppice/internal/extent"
	"github.com/coppice-go/coppice/protocol"
)

// inOrder carries out a schedule in the plainest order there is: the tasks in
// turn, each as far as it can.
func inOrder(c *carrier) error {
	states := make([]carried, c.P)
	delivered := make([]int, c.P)
	flight := make([][]posted, c.P) // by receiver
	for r := range states {
		c.Init(&states[r], Rank(r), 0)
		c.Notify(&states[r], 0, protocol.Notice{Kind: protocol.Begin})
	}
	for moved := true; moved; {
		moved = false
		for r := range states {
			s := &states[r]
			for _, m := range flight[r] {
				c.Receive(s, 0, m.from, m.letter)
			}
			flight[r] = nil
			for a := c.Next(s, 0); a.Kind != protocol.Idle && a.Kind != protocol.Done; a = c.Next(s, 0) {
				moved = true
				switch a.Kind {
				case protocol.Send, protocol.Correct:
					flight[a.To] = append(flight[a.To], posted{a.Msg, Rank(r)})
				case protocol.Work:
					c.Notify(s, 0, protocol.Notice{Kind: protocol.WorkDone})
				case protocol.Deliver:
					if delivered[r]++; a.Msg.value != nil {
						return errors.New(string(a.Msg.value))
					}
				}
			}
		}
	}
	for r := range states {
		if err := errors.Join(states[r].err, c.checkState(&states[r])); err != nil {
			return err
		}
		if delivered[r] != 1 || len(flight[r]) > 0 {
			return fmt.Errorf("p%d delivered %d times, and did not take %d messages", r, delivered[r], len(flight[r]))
		}
	}
	return nil
}

func TestSchedulesEqualTheSerialReference(t *testing.T) {
	for _, p := range []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 16, 17, 31, 32, 33}[:extent.Of(t, 13, 16)] {
		everyWay(p, func(spec Spec) {
			for i, n := range []int{0, 8, 24, 200, 8 * 33} {
				for _, spans := range []int{1, 3} {
					if spans > 1 && !Spans(spec.Op, spec.Algorithm) {
						continue
					}
					spec.Root, spec.Spans = Rank((7*p+i)%p), spans
					c, err := newCarrier(spec, n)
					if err != nil {
						t.Fatal(err)
					}
					c.byRef, c.rooms = i%2 == 0, i > 2
					for _, c.keeps = range []bool{false, true} {
						if err := inOrder(c); err != nil {
							t.Errorf("%+v, %d bytes, keeps %v: %v", spec, n, c.keeps, err)
						}
					}
				}
			}
		})
	}
}

// The canonical association is a promise: floating-point sums are the same bits,
// whatever the algorithm, the root and the number of pieces. mixed is a hash of
// the whole expression.
func TestReductionsHaveTheCanonicalAssociation(t *testing.T) {
	for p := 1; p <= 40; p++ {
		everyWay(p, func(spec Spec) {
			if spec.Op < Reduce || spec.AnyOrder {
				return
			}
			for _, root := range []Rank{0, Rank(p / 3), Rank(p - 1)} {
				spec.Root = root
				if Spans(spec.Op, spec.Algorithm) {
					spec.Spans = 2
				}
				c, err := newCarrier(spec, 8*p)
				if err != nil {
					t.Fatal(err)
				}
				if err := inOrder(c); err != nil {
					t.Errorf("%+v: %v", spec, err)
				}
			}
		})
	}
}

// What the canonical association is, in words that a user can check.
func TestCanonicalAssociationInWords(t *testing.T) {
	pair := func(_, l, r []byte) ([]byte, error) { return fmt.Appendf(nil, "(%s %s)", l, r), nil }
	for p, want := range map[int]string{
		1: "0",
		2: "(0 1)",
		3: "((0 1) 2)",
		5: "(((0 1) (2 3)) 4)",
		7: "(((0 1) (2 3)) ((4 5) 6))",
		8: "(((0 1) (2 3)) ((4 5) (6 7)))",
	} {
		var values [][]byte
		for r := range p {
			values = append(values, fmt.Append(nil, r))
		}
		if got := string(canonical(values, pair)); got != want {
			t.Errorf("%d tasks: %s, want %s", p, got, want)
		}
		everyWay(p, func(spec Spec) {
			if spec.Op != Reduce && spec.Op != AllReduce || spec.Algorithm == Rabenseifner || spec.AnyOrder { // these cut the value
				return
			}
			if got := combined(t, spec, values, pair); got != want {
				t.Errorf("%s: %s, want %s", named(spec), got, want)
			}
		})
	}
}

// combined is the result of task 0, for values that may differ in length.
func combined(t *testing.T, spec Spec, values [][]byte, fold func(dst, l, r []byte) ([]byte, error)) string {
	t.Helper()
	c, err := New(spec)
	if err != nil {
		t.Fatal(err)
	}
	type task struct {
		state StepState
		store Store
	}
	tasks := make([]task, spec.P)
	for r := range tasks {
		g := c.Program(Rank(r))
		tasks[r].state.Reset(g.Steps)
		tasks[r].store.Reset(&g, Kind{Loose: true, Fold: fold})
		tasks[r].store.SetVector(values[r])
		c.Notify(&tasks[r].state, 0, protocol.Notice{Kind: protocol.Begin})
	}
	for range 2 * spec.P { // at least one task moves in each round
		for r := range tasks {
			k := &tasks[r]
			for a := c.Next(&k.state, 0); a.Kind != protocol.Idle && a.Kind != protocol.Done; a = c.Next(&k.state, 0) {
				st := &k.state.steps[a.Msg.Step]
				switch a.Kind {
				case protocol.Send:
					to := &tasks[a.To]
					v, _ := k.store.Take(st, nil)
					if err := to.store.Put(&to.state.steps[to.state.Match(Rank(r), a.Msg.Lane)], v, true); err != nil {
						t.Fatal(err)
					}
					c.Receive(&to.state, 0, Rank(r), a.Msg)
				case protocol.Work:
					if err := k.store.Fold(st); err != nil {
						t.Fatal(err)
					}
					c.Notify(&k.state, 0, protocol.Notice{Kind: protocol.WorkDone})
				}
			}
		}
	}
	v, _ := tasks[0].store.Vector()
	return string(v)
}
