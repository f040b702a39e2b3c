package collective

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/coppice-go/coppice/chaos"
	"github.com/coppice-go/coppice/internal/extent"
	"github.com/coppice-go/coppice/protocol"
)

type (
	carriedSetup  = chaos.Setup[carried, letter]
	carriedConfig = chaos.Config[carried, letter]
	carriedWorld  = chaos.World[carried, letter]
)

// carriedBy is a world with one of the carriers in each run, and up to the given number of truants among its tasks; the
// others begin at any moment.
func carriedBy(carriers []*carrier, truants int) carriedConfig {
	p := carriers[0].P
	return carriedConfig{
		P: p, Protocol: carriers[0],
		Vary: func(s *carriedSetup) {
			run := *carriers[s.Choose(len(carriers))]
			var inputs []chaos.Input
			want := s.Choose(min(truants, p) + 1)
			for r := range p {
				if s.Chance(want, p-r) {
					want--
					run.truants |= 1 << r
					continue
				}
				inputs = append(inputs, chaos.Input{Rank: Rank(r), Notice: protocol.Notice{Kind: protocol.Begin}})
			}
			s.Protocol, s.Inputs = &run, inputs
		},
		Check: checkCarried,
	}
}

// checkCarried returns what a finished run got wrong.
func checkCarried(w *carriedWorld) error {
	c := w.Protocol().(*carrier)
	full := c.truants == 0
	for r := range Rank(c.P) {
		full = full && w.Alive(r)
	}
	for _, check := range []func(*carried) error{(*carried).failed, c.checkState} {
		for r := range Rank(c.P) {
			if s := w.State(r); s == nil {
				continue
			} else if err := check(s); err != nil {
				return err
			}
		}
	}
	for r := range Rank(c.P) {
		if err := checkDelivered(w, r); err != nil {
			return err
		}
	}
	for r := range Rank(c.P) {
		n := len(w.Delivered(r))
		switch {
		case full && n == 0:
			return fmt.Errorf("p%d delivered 0 times", r)
		case !w.Alive(r):
		case (n == 1) != (w.Rest(r) == chaos.Done):
			return fmt.Errorf("p%d delivered %d times and its rest is %d", r, n, w.Rest(r))
		case n == 0 && w.State(r).begun:
			if err := c.checkAwaits(w, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkDelivered returns what is wrong with what a task's user got, dead or alive.
func checkDelivered(w *carriedWorld, r Rank) error {
	for i, d := range w.Delivered(r) {
		if d.Msg.value != nil {
			return errors.New(string(d.Msg.value))
		}
		if i > 0 {
			return fmt.Errorf("p%d delivered again", r)
		}
	}
	return nil
}

// checkState demands that no task wrote memory that was not its own.
func (c *carrier) checkState(s *carried) error {
	for i, b := range s.lent {
		if !bytes.Equal(b, c.given(s.self, i)) {
			return fmt.Errorf("p%d: value %d of the user was written", s.self, i)
		}
	}
	for i, b := range s.result {
		if !bytes.Equal(b, s.was[i]) {
			return fmt.Errorf("p%d: result %d was written", s.self, i)
		}
	}
	return nil
}

// checkAwaits follows Awaits from a stuck task to one that is the reason: dead, or expected and absent.
func (c *carrier) checkAwaits(w *carriedWorld, start Rank) error {
	r := start
	for range c.P + 1 {
		if !w.Alive(r) || c.truants>>r&1 == 1 && c.mustBegin(r) {
			return nil
		}
		waits := c.awaits(w.State(r))
		if len(waits) == 0 {
			break
		}
		r = waits[0]
	}
	return fmt.Errorf("p%d is stuck, and its Awaits lead to p%d, who is not the reason", start, r)
}

// everyWay calls f for every operation and algorithm among p tasks, those that know of hosts with some of these.
func everyWay(p int, f func(spec Spec)) {
	for op := Broadcast; op <= ReduceScatter; op++ {
		for i, hosts := range [][]Rank{nil, {0, Rank(p) / 2}, {0, 1}, {0, 2, Rank(p) - 2}, {0, 3, 4, 6}} {
			open := Spec{Op: op, P: p, AnyOrder: true, Hosts: hosts}
			if checkHosts(open) != nil {
				continue
			}
			for _, a := range Algorithms(open) {
				if w, _ := find(op, a); (w.twoLevel != nil) == (i > 0) {
					f(Spec{Op: op, Algorithm: a, P: p, AnyOrder: w.anyOrder, Hosts: hosts})
				}
			}
		}
	}
}

// named is the name of a schedule's test.
func named(spec Spec) string {
	name := fmt.Sprint(spec.Op, " ", spec.Algorithm, " ", spec.P)
	if spec.Hosts != nil {
		name += fmt.Sprint(" ", spec.Hosts)
	}
	return name
}

// carriers are a schedule's variants: roots, pieces, sizes, and what the runtime
// and the users may do differently.
func carriers(t testing.TB, spec Spec) (all []*carrier) {
	t.Helper()
	op, p := spec.Op, spec.P
	roots := p
	if op != Broadcast && op != Scatter && op != Gather && op != Reduce {
		roots = 1
	}
	spans := []int{1}
	if Spans(op, spec.Algorithm) {
		spans = []int{1, 3}
	}
	for root := range Rank(roots) {
		for _, s := range spans {
			spec.Root, spec.Spans = root, s
			for i, n := range []int{8 * (p + 2), 8 * p, 16, 8, 0} {
				k, err := newCarrier(spec, n)
				if err != nil {
					t.Fatal(err)
				}
				for v := range 8 {
					if i > 0 && v != i+int(root)%4 { // of most sizes one variant
						continue
					}
					k := *k
					k.byRef, k.late, k.rooms = v&1 == 0, v&2 == 0, v&4 == 0
					all = append(all, &k)
				}
			}
		}
	}
	return all
}

func drawn(t *testing.T, cfg carriedConfig, seed uint64, runs int) {
	t.Helper()
	if _, err := chaos.Random(cfg, seed, runs, 0); err != nil {
		t.Error(err)
	}
}

func runsOf(n int) int {
	if !extent.Full() {
		return n/10 + 1
	}
	return n
}

func TestSchedulesDeliverTheSerialResultInRandomSchedules(t *testing.T) {
	for p := 1; p <= 9; p++ {
		everyWay(p, func(spec Spec) {
			t.Run(named(spec), func(t *testing.T) {
				all := carriers(t, spec)
				cfg := carriedBy(all, 0)
				drawn(t, cfg, uint64(p), runsOf(2*len(all)))
				cfg.Reorder = true
				drawn(t, cfg, uint64(p)+100, runsOf(2*len(all)))
			})
		})
	}
}

func TestSchedulesDeliverNothingWrongWithoutTruantsAndTheDead(t *testing.T) {
	for _, p := range []int{2, 3, 5, 8, 9} {
		everyWay(p, func(spec Spec) {
			t.Run(named(spec), func(t *testing.T) {
				all := carriers(t, spec)
				drawn(t, carriedBy(all, 2), uint64(p), runsOf(2*len(all)))
				cfg := carriedBy(all, 1)
				cfg.Crashes, cfg.LossyCrashes = 2, true
				drawn(t, cfg, uint64(p)+100, runsOf(4*len(all)))
			})
		})
	}
}

// few are the variants for Exhaustive: the last root, both moments of a fold.
func few(t testing.TB, spec Spec) (all []*carrier) {
	t.Helper()
	spec.Root = Rank(spec.P - 1)
	if Spans(spec.Op, spec.Algorithm) {
		spec.Spans = 2
	}
	for _, late := range []bool{false, true} {
		k, err := newCarrier(spec, 16)
		if err != nil {
			t.Fatal(err)
		}
		k.late, k.rooms = late, late
		if all = append(all, k); spec.Op < Reduce {
			break
		}
	}
	return all
}

func TestSchedulesDeliverTheSerialResultInAnySchedule(t *testing.T) {
	most := extent.Of(t, 3, 4)
	for p := 1; p <= most; p++ {
		everyWay(p, func(spec Spec) {
			t.Run(named(spec), func(t *testing.T) {
				cfg := carriedBy(few(t, spec), min(p, 5-p))
				cfg.Reorder, cfg.ExtraNext = p < 4, p < 4
				report, err := chaos.Exhaustive(cfg)
				t.Logf("%d states, %d ends, %.3f s", report.States, report.Terminals, report.Seconds)
				if err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestSchedulesDeliverNothingWrongWhenTasksCrashInAnySchedule(t *testing.T) {
	for p := 2; p <= 4; p++ {
		everyWay(p, func(spec Spec) {
			if p == 4 && spec.Algorithm == Direct {
				return // 34,000 states each
			}
			t.Run(named(spec), func(t *testing.T) {
				cfg := carriedBy(few(t, spec)[:1], 1)
				cfg.Crashes, cfg.LossyCrashes = 2, true
				report, err := chaos.Exhaustive(cfg)
				t.Logf("%d states, %d ends, %.3f s", report.States, report.Terminals, report.Seconds)
				if err != nil {
					t.Error(err)
				}
			})
		})
	}
}
