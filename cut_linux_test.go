package coppice_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/internal/control"
)

// Views across a cut network (rule 2 of the design), with real processes on three
// hosts, and a coordinator in the process of rank 0 or on a host of its own.

func init() { plays["network"] = networking }

// The hosts, and the processes on them.
const (
	hostA = iota // processes 0 and 1
	hostB        // 2 and 3
	hostC        // 4
	hostL        // the launcher's
	hostCount
)

var hostOf = []int{hostA, hostA, hostB, hostB, hostC}

const (
	networkSilence = time.Second
	networkPort    = 7070
)

// networking is a play in which a task tells every view it sees and greets, in
// each after the first, the other tasks that are left. It ends well at a SIGTERM. A
// process without tasks tells what its log says of views.
func networking(tell func(line), _ []string) coppice.Func {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	job := &coppice.Job{Silence: networkSilence, Logger: slog.New(viewTeller{slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}), tell})}
	err := job.Run(context.Background(), func(_ context.Context, t *coppice.Task) error { return witnessing(ctx, t, telling(tell, t)) })
	tell(line{What: "end", Kind: causes(err), Text: fmt.Sprint(err), At: time.Now()})
	os.Exit(0)
	return nil
}

// witnessing is what a task of the play does. Its job's context is left alone: why
// the job ended, an operation is to say.
func witnessing(ctx context.Context, t *coppice.Task, tell func(line)) error {
	tell(line{What: "ready"})
	for v := range t.Views(ctx) {
		tell(line{What: "view", Value: int(v.Number), Text: sketch(v)})
		if v.Number > 1 {
			go func() {
				if err := greet(ctx, t, v); err == nil {
					tell(line{What: "greeted", Value: int(v.Number)})
				}
			}()
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	err := coppice.Barrier(ctx, t)
	tell(line{What: "error", Kind: causes(err), Text: fmt.Sprint(err)})
	return err
}

// greet exchanges a message with every other task that a view has an owner for.
func greet(ctx context.Context, t *coppice.Task, v coppice.View) error {
	var others []int
	for task, owner := range v.Owners {
		if owner >= 0 && task != t.Rank() {
			others = append(others, task)
		}
	}
	for _, o := range others {
		if err := coppice.Send(ctx, t, o, int(v.Number), t.Rank()); err != nil {
			return err
		}
	}
	for _, o := range others {
		if who, err := coppice.Recv[int](ctx, t, o, int(v.Number)); err != nil || who != o {
			return errors.Join(err, fmt.Errorf("task %d says that it is %d", o, who))
		}
	}
	return nil
}

// causes lists what an error is.
func causes(err error) string {
	var all []string
	for name, e := range map[string]error{
		"lost": coppice.ErrLost, "abandoned": coppice.ErrAbandoned,
		"excluded": coppice.ErrExcluded, "no quorum": coppice.ErrNoQuorum,
	} {
		if errors.Is(err, e) {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	switch {
	case err == nil:
		return "well"
	case all == nil:
		return "other"
	}
	return strings.Join(all, ", ")
}

// viewTeller tells, besides, of the views that a log mentions.
type viewTeller struct {
	slog.Handler
	tell func(line)
}

func (h viewTeller) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == "view" {
		l := line{What: "opened", At: r.Time}
		r.Attrs(func(a slog.Attr) bool {
			switch a.Key {
			case "number":
				l.Value = int(a.Value.Uint64())
			case "members":
				l.Text = a.Value.String()
			}
			return true
		})
		h.tell(l)
	}
	return h.Handler.Handle(ctx, r)
}

func (h viewTeller) WithAttrs(attrs []slog.Attr) slog.Handler {
	return viewTeller{h.Handler.WithAttrs(attrs), h.tell}
}

func (h viewTeller) WithGroup(name string) slog.Handler {
	return viewTeller{h.Handler.WithGroup(name), h.tell}
}

// spread is a job whose processes are on three hosts.
type spread struct {
	*network
	guests []*guest
	server *control.Server // nil: in the process of rank 0
}

// begin starts the job. Its coordinator is in the process of rank 0, or, if apart,
// on a host of its own; then processes may come back.
func spreadOut(t *testing.T, apart bool) *spread {
	t.Helper()
	s := &spread{network: newNetwork(t, hostCount)}
	if apart {
		s.serve(t)
	}
	for rank := range hostOf {
		s.guests = append(s.guests, s.start(t, rank, 1))
	}
	for _, g := range s.guests {
		g.await(t, "view", 1)
	}
	// Until all have heard of all: the first connections are made on the way.
	time.Sleep(networkSilence / 2)
	return s
}

// serve begins to coordinate on the launcher's host.
func (s *spread) serve(t *testing.T) {
	t.Helper()
	dir, err := os.MkdirTemp(s.hosts[hostL].dir, "l")
	if err != nil {
		t.Fatal(err)
	}
	err = s.hosts[hostL].enter(func() (err error) {
		s.server, err = control.Serve(control.ServerConfig{
			Dir: dir, Size: len(hostOf), Grow: 1, LocalSize: 1, Silence: networkSilence,
			TCP: fmt.Sprintf("%s:%d", address(hostL, 2), networkPort),
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.server.Close)
	for _, h := range s.hosts[:hostL] {
		leave, err := control.Keep(h.dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(leave)
		if err := os.WriteFile(filepath.Join(h.dir, "key"), s.server.Place(0, 1).Key, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// start starts a process.
func (s *spread) start(t *testing.T, rank int, incarnation uint64) *guest {
	t.Helper()
	h, local := hostOf[rank], 0
	var here []int
	for r, on := range hostOf {
		if on == h {
			here = append(here, r)
		}
	}
	local = slices.Index(here, rank)
	var env []string
	if s.server != nil {
		p := s.server.Place(rank, incarnation)
		p.Dir, p.LocalRank, p.LocalSize = s.hosts[h].dir, local, len(here)
		p.Coordinator = fmt.Sprintf("%s:%d", address(hostL, 2), networkPort)
		env = p.Vars()
	} else {
		env = []string{
			fmt.Sprint("COPPICE_RANK=", rank), fmt.Sprint("COPPICE_SIZE=", len(hostOf)),
			fmt.Sprintf("COPPICE_COORDINATOR=%s:%d", address(hostOf[0], 2), networkPort),
			"COPPICE_KEY=a key of this test alone",
			fmt.Sprint("LOCAL_RANK=", local), fmt.Sprint("LOCAL_WORLD_SIZE=", len(here)),
		}
	}
	return s.hosts[h].play(t, fmt.Sprintf("process %d.%d", rank, incarnation), scene{play: []string{"network"}}, env...)
}

// some are the processes of these ranks.
func (s *spread) some(ranks ...int) (all []*guest) {
	for _, r := range ranks {
		all = append(all, s.guests[r])
	}
	return all
}

// sees waits until a process has seen a view with these members, and returns its
// number.
func (g *guest) sees(t testing.TB, members string) int {
	t.Helper()
	late := time.After(patienceTime)
	for {
		next := g.next()
		for _, l := range g.of("view") {
			if l.Text == members {
				return l.Value
			}
		}
		select {
		case <-next:
		case <-g.over:
			t.Fatalf("%s has ended: %v; it saw %v, want %q", g.name, g.of("end"), g.of("view"), members)
		case <-late:
			t.Fatalf("%s saw %v, want %q", g.name, g.of("view"), members)
		}
	}
}

// agree checks that the processes see a view with these members, the same number at
// all, and exchange messages in it.
func agree(t testing.TB, members string, all ...*guest) {
	t.Helper()
	number := 0
	for _, g := range all {
		if n := g.sees(t, members); number == 0 {
			number = n
		} else if n != number {
			t.Errorf("%s sees %q as view %d, not %d", g.name, members, n, number)
		}
	}
	for _, g := range all {
		late := time.After(patienceTime)
		for {
			next := g.next()
			if slices.ContainsFunc(g.of("greeted"), func(l line) bool { return l.Value == number }) {
				break
			}
			select {
			case <-next:
			case <-late:
				t.Fatalf("%s has not exchanged messages in view %d", g.name, number)
			}
		}
	}
}

// oneHistory checks what all processes saw: one view a number, numbers that grow.
func (s *spread) oneHistory(t *testing.T, more ...*guest) {
	t.Helper()
	by := map[int]string{}
	for _, g := range append(slices.Clone(s.guests), more...) {
		last := 0
		for _, l := range g.of("view") {
			if by[l.Value] == "" {
				by[l.Value] = l.Text
			}
			if by[l.Value] != l.Text {
				t.Errorf("two views of number %d: %q and %q", l.Value, by[l.Value], l.Text)
			}
			if l.Value <= last {
				t.Errorf("%s saw view %d after %d", g.name, l.Value, last)
			}
			last = l.Value
		}
	}
}

// endsWith checks that processes end by themselves, with this error.
func endsWith(t *testing.T, kind string, all ...*guest) {
	t.Helper()
	for _, g := range all {
		if l := g.end(t); !strings.Contains(l.Kind, kind) {
			t.Errorf("%s ended with %q: %s; want %q", g.name, l.Kind, l.Text, kind)
		}
	}
}

// release lets processes end, which they must do well.
func release(t *testing.T, all ...*guest) {
	t.Helper()
	for _, g := range all {
		g.signal(t, syscall.SIGTERM)
	}
	endsWith(t, "well", all...)
}

// stillIn checks that processes have seen the first view and no other.
func stillIn(t *testing.T, all ...*guest) {
	t.Helper()
	for _, g := range all {
		if v := g.of("view"); len(v) != 1 {
			t.Errorf("%s saw %v", g.name, v)
		}
	}
}

// TestCutMinority cuts one host off: its processes end without a quorum, the others
// go on without them.
func TestCutMinority(t *testing.T) {
	for _, c := range []struct {
		name   string
		cut    int
		stays  []int
		leaves []int
	}{
		{"of two", hostB, []int{0, 1, 4}, []int{2, 3}},
		{"of one", hostC, []int{0, 1, 2, 3}, []int{4}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := spreadOut(t, false)
			s.part(t, []int{c.cut}, others(c.cut))
			agree(t, list(c.stays), s.some(c.stays...)...)
			endsWith(t, "no quorum", s.some(c.leaves...)...)
			stillIn(t, s.some(c.leaves...)...)
			s.oneHistory(t)
			release(t, s.some(c.stays...)...)
		})
	}
}

// TestCutOfTheLowest cuts off the host of the processes with the lowest ids, one of
// which proposes: the others find another one. The coordinator, on a host of its
// own, is on their side, or is reached by all.
func TestCutOfTheLowest(t *testing.T) {
	for _, c := range []struct {
		name string
		cut  []int
		rest []int
	}{
		{"with the coordinator", []int{hostA}, []int{hostB, hostC, hostL}},
		{"all reach the coordinator", []int{hostA}, []int{hostB, hostC}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := spreadOut(t, true)
			s.part(t, c.cut, c.rest)
			agree(t, "2 3 4", s.some(2, 3, 4)...)
			if len(c.rest) == hostL {
				endsWith(t, "no quorum", s.some(0, 1)...)
			} else {
				// They are told by the coordinator that they are out, if not by a view.
				for _, g := range s.some(0, 1) {
					if l := g.end(t); l.Kind == "well" || l.Kind == "other" || l.Kind == "abandoned" {
						t.Errorf("%s ended with %q: %s", g.name, l.Kind, l.Text)
					}
				}
			}
			stillIn(t, s.some(0, 1)...)
			s.oneHistory(t)
			release(t, s.some(2, 3, 4)...)
		})
	}
}

// TestCutIntoThree leaves no side with a majority: nobody goes on.
func TestCutIntoThree(t *testing.T) {
	for _, apart := range []bool{false, true} {
		t.Run(fmt.Sprintf("coordinator apart %v", apart), func(t *testing.T) {
			t.Parallel()
			s := spreadOut(t, apart)
			s.part(t, []int{hostA}, []int{hostB}, []int{hostC})
			endsWith(t, "no quorum", s.guests...)
			stillIn(t, s.guests...)
		})
	}
}

// TestCutThatHeals cuts a host off and heals the cut: its processes come back as new
// incarnations, and all are in one view.
func TestCutThatHeals(t *testing.T) {
	t.Parallel()
	s := spreadOut(t, true)
	s.part(t, []int{hostB}, []int{hostA, hostC, hostL})
	agree(t, "0 1 4", s.some(0, 1, 4)...)
	endsWith(t, "no quorum", s.some(2, 3)...)
	s.heal(t)
	var back []*guest
	for _, rank := range []int{2, 3} {
		places, err := s.server.Reserve(1, rank)
		if err != nil {
			t.Fatal(err)
		}
		back = append(back, s.start(t, rank, places[0].Incarnation))
	}
	agree(t, "0 1 2.2 3.2 4", s.some(0, 1, 4)...)
	number := s.guests[0].sees(t, "0 1 2.2 3.2 4")
	for _, g := range back {
		g.opens(t, number, "5")
	}
	s.oneHistory(t)
	release(t, s.some(0, 1, 4)...)
	endsWith(t, "well", back...)
}

// TestShortCutChangesNoView cuts hosts off for a third of the silence, again and
// again.
func TestShortCutChangesNoView(t *testing.T) {
	t.Parallel()
	s := spreadOut(t, false)
	for _, h := range []int{hostB, hostC, hostA} {
		s.part(t, []int{h}, others(h))
		time.Sleep(networkSilence / 3)
		s.heal(t)
		time.Sleep(networkSilence)
	}
	time.Sleep(networkSilence)
	stillIn(t, s.guests...)
	release(t, s.guests...)
}

// TestStoppedFarAway stops a process on another host than the coordinator's: it is
// voted out, and ends when it goes on.
func TestStoppedFarAway(t *testing.T) {
	for _, apart := range []bool{false, true} {
		t.Run(fmt.Sprintf("coordinator apart %v", apart), func(t *testing.T) {
			t.Parallel()
			s := spreadOut(t, apart)
			s.guests[4].signal(t, syscall.SIGSTOP)
			agree(t, "0 1 2 3", s.some(0, 1, 2, 3)...)
			s.guests[4].signal(t, syscall.SIGCONT)
			endsWith(t, "excluded", s.guests[4])
			stillIn(t, s.guests[4])
			s.oneHistory(t)
			release(t, s.some(0, 1, 2, 3)...)
		})
	}
}

// others are all hosts but one.
func others(host int) (all []int) { return without(hostCount, host) }

// list is a view of processes that were there from the start.
func list(ids []int) string { return strings.Trim(fmt.Sprint(ids), "[]") }

// opens waits until a process says that it has opened a view of a number, with so
// many members.
func (g *guest) opens(t testing.TB, number int, members string) {
	t.Helper()
	late := time.After(patienceTime)
	for {
		next := g.next()
		for _, l := range g.of("opened") {
			if l.Value == number && l.Text == members {
				return
			}
		}
		select {
		case <-next:
		case <-g.over:
			t.Fatalf("%s has ended: %v; it opened %v, want %d", g.name, g.of("end"), g.of("opened"), number)
		case <-late:
			t.Fatalf("%s opened %v, want %d with %s members", g.name, g.of("opened"), number, members)
		}
	}
}
