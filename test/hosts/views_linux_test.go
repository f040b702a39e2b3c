package hosts

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
	"github.com/coppice-go/coppice/test/stage"
)

// Views across a cut network (rule 2 of the design), with real processes on three
// hosts, and a coordinator in the process of rank 0 or on a host of its own.

func init() { stage.Plays["network"] = networking }

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

// networking is a play in which a task reports every view it sees. In each view after the first it also
// greets the other tasks, including those of crashed processes, which others run. It ends well at a
// SIGTERM. A process without tasks reports what its log says about views.
func networking(tell func(stage.Line), _ []string) coppice.Func {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	log := slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo})
	job := &coppice.Job{Silence: networkSilence, Logger: slog.New(viewTeller{log, tell})}
	err := job.Run(context.Background(), func(_ context.Context, t *coppice.Task) error { return witnessing(ctx, t, stage.Telling(tell, t)) })
	tell(stage.Line{What: "end", Kind: causes(err), Text: fmt.Sprint(err), At: time.Now()})
	os.Exit(0)
	return nil
}

// witnessing is what a task of the play does. It leaves its job's context alone, so that an operation
// returns why the job ended.
func witnessing(ctx context.Context, t *coppice.Task, tell func(stage.Line)) error {
	tell(stage.Line{What: "ready"})
	for v := range t.Views(ctx) {
		tell(stage.Line{What: "view", Value: int(v.Number), Text: stage.Sketch(v), Tasks: v.Owners})
		if v.Number > 1 {
			go func() {
				if err := greet(ctx, t, v); err == nil {
					tell(stage.Line{What: "greeted", Value: int(v.Number)})
				}
			}()
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	err := coppice.Barrier(ctx, t)
	tell(stage.Line{What: "error", Kind: causes(err), Text: fmt.Sprint(err)})
	return err
}

// greet exchanges a message with every other task that has an owner in a view.
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

// causes lists the sentinels that an error matches.
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

// viewTeller also reports the views that a log mentions.
type viewTeller struct {
	slog.Handler
	tell func(stage.Line)
}

func (h viewTeller) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == "view" {
		l := stage.Line{What: "opened", At: r.Time}
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
	server *control.Server // nil: in a process of the job
	seeds  []int           // hosts where the processes look for each other
	six    bool            // by their IPv6 addresses
}

// spreadOut starts the job. Its coordinator is in the process of rank 0 or, with apart, on a host of
// its own; then processes may come back.
func spreadOut(t *testing.T, apart bool) *spread {
	t.Helper()
	s := &spread{network: newNetwork(t, hostCount), seeds: []int{hostA}}
	if apart {
		s.serve(t)
	}
	for rank := range hostOf {
		s.guests = append(s.guests, s.start(t, rank, 1))
	}
	s.begun(t)
	return s
}

// begun waits until the processes have begun.
func (s *spread) begun(t *testing.T) {
	t.Helper()
	for _, g := range s.guests {
		g.Await(t, "view", 1)
	}
	// Until each has heard of all others: this makes the first connections.
	time.Sleep(networkSilence / 2)
}

// serve begins to coordinate on the launcher's host.
func (s *spread) serve(t *testing.T) {
	t.Helper()
	dir, err := os.MkdirTemp(s.dirs[hostL], "l")
	if err != nil {
		t.Fatal(err)
	}
	s.Hosts[hostL].Do(func() {
		s.server, err = control.Serve(control.ServerConfig{
			Dir: dir, Size: len(hostOf), Grow: 1, LocalSize: 1, Silence: networkSilence,
			TCP: fmt.Sprintf("%s:%d", addressOf(hostL), networkPort),
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.server.Close)
	for _, dir := range s.dirs[:hostL] {
		leave, err := control.Keep(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(leave)
		if err := os.WriteFile(filepath.Join(dir, "key"), s.server.Place(0, 1).Key, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// start starts a process.
func (s *spread) start(t *testing.T, rank int, incarnation uint64) *guest {
	t.Helper()
	on := hostOf[rank]
	first, count := slices.Index(hostOf, on), 0
	for _, h := range hostOf {
		if h == on {
			count++
		}
	}
	env := []string{
		fmt.Sprint("COPPICE_RANK=", rank), fmt.Sprint("COPPICE_SIZE=", len(hostOf)),
		"COPPICE_COORDINATOR=" + strings.Join(s.addresses(), ","), "COPPICE_JOIN_TIMEOUT=5s",
		"COPPICE_KEY=a key of this test alone",
		fmt.Sprint("LOCAL_RANK=", rank-first), fmt.Sprint("LOCAL_WORLD_SIZE=", count),
	}
	if s.server != nil {
		p := s.server.Place(rank, incarnation)
		p.Dir, p.LocalRank, p.LocalSize = s.dirs[on], rank-first, count
		p.Coordinator = fmt.Sprintf("%s:%d", addressOf(hostL), networkPort)
		env = p.Vars()
	}
	return s.play(t, on, fmt.Sprintf("process %d.%d", rank, incarnation), stage.Scene{Play: []string{"network"}}, env...)
}

// addresses returns where processes look for each other.
func (s *spread) addresses() (all []string) {
	for _, h := range s.seeds {
		at := addressOf(h)
		if s.six {
			at = "[" + address6(h, 2) + "]"
		}
		all = append(all, fmt.Sprintf("%s:%d", at, networkPort))
	}
	return all
}

// some returns the processes of these ranks.
func (s *spread) some(ranks ...int) (all []*guest) {
	for _, r := range ranks {
		all = append(all, s.guests[r])
	}
	return all
}

// views returns the views seen by the task with which the process began.
func (g *guest) views() []stage.Line {
	own := g.Of("ready")[0].Rank
	return slices.DeleteFunc(g.Of("view"), func(l stage.Line) bool { return l.Rank != own })
}

// tasks returns the tasks that the process has in a view that it saw.
func (g *guest) tasks(number int) (all []int) {
	views := g.views()
	i := slices.IndexFunc(views, func(l stage.Line) bool { return l.Value == number })
	for task, owner := range views[i].Tasks {
		if owner == views[i].Rank {
			all = append(all, task)
		}
	}
	return all
}

// sees waits until a process has seen a view with these members, and returns its number.
func (g *guest) sees(t testing.TB, members string) (number int) {
	t.Helper()
	g.until(t, "a view of "+members, func() bool {
		views := g.views()
		i := slices.IndexFunc(views, func(l stage.Line) bool { return l.Text == members })
		if i >= 0 {
			number = views[i].Value
		}
		return i >= 0
	})
	return number
}

// opens waits until the log of a process says that it has opened a view.
func (g *guest) opens(t testing.TB, number, members int) {
	t.Helper()
	g.until(t, fmt.Sprintf("view %d of %d", number, members), func() bool {
		return slices.ContainsFunc(g.Of("opened"), func(l stage.Line) bool { return l.Value == number && l.Text == fmt.Sprint(members) })
	})
}

// agree checks that the processes see a view with these members and the same number, have all tasks in
// it, and that the tasks exchange messages. It returns the number.
func agree(t testing.TB, members string, all ...*guest) int {
	t.Helper()
	number := all[0].sees(t, members)
	for _, g := range all {
		if n := g.sees(t, members); n != number {
			t.Errorf("%s sees %q as view %d, not %d", g.name, members, n, number)
		}
	}
	var tasks []int
	for _, g := range all {
		for _, task := range g.tasks(number) {
			tasks = append(tasks, task)
			g.until(t, fmt.Sprintf("messages of task %d in view %d", task, number), func() bool {
				return slices.ContainsFunc(g.Of("greeted"), func(l stage.Line) bool { return l.Rank == task && l.Value == number })
			})
		}
	}
	if slices.Sort(tasks); !slices.Equal(tasks, stage.Without(len(hostOf))) {
		t.Errorf("in view %d these have tasks %v", number, tasks)
	}
	return number
}

// oneHistory checks the views that all tasks saw: one view for each number, and growing numbers.
func (s *spread) oneHistory(t *testing.T, more ...*guest) {
	t.Helper()
	by := map[int]string{}
	for _, g := range append(slices.Clone(s.guests), more...) {
		last := map[int]int{}
		for _, l := range g.Of("view") {
			view := fmt.Sprintf("%s, owners %v", l.Text, l.Tasks)
			if by[l.Value] == "" {
				by[l.Value] = view
			}
			if by[l.Value] != view {
				t.Errorf("two views of number %d: %q and %q", l.Value, by[l.Value], view)
			}
			if l.Value <= last[l.Rank] {
				t.Errorf("%s: task %d saw view %d after %d", g.name, l.Rank, l.Value, last[l.Rank])
			}
			last[l.Rank] = l.Value
		}
	}
}

// endsWith checks that processes end by themselves, with an error of one of these kinds.
func endsWith(t *testing.T, kinds []string, all ...*guest) {
	t.Helper()
	for _, g := range all {
		l := g.end(t)
		if !slices.ContainsFunc(kinds, func(kind string) bool { return strings.Contains(l.Kind, kind) }) {
			t.Errorf("%s ended with %q: %s; want %q", g.name, l.Kind, l.Text, kinds)
		}
	}
}

// release lets processes end, and checks that they end well.
func release(t *testing.T, all ...*guest) {
	t.Helper()
	for _, g := range all {
		g.signal(t, syscall.SIGTERM)
	}
	endsWith(t, []string{"well"}, all...)
}

// saw checks that processes have seen exactly count views: the first, and perhaps the one that follows
// a cut.
func saw(t *testing.T, count int, all ...*guest) {
	t.Helper()
	for _, g := range all {
		if v := g.views(); len(v) != count {
			t.Errorf("%s saw %d views, not %d: %v", g.name, len(v), count, v)
		}
	}
}

// TestViewsMinorityCutOff cuts one host off: its processes end without a quorum, and the others go on
// without them, in one view more, with their tasks.
func TestViewsMinorityCutOff(t *testing.T) {
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
			agree(t, stage.List(c.stays), s.some(c.stays...)...)
			endsWith(t, []string{"no quorum"}, s.some(c.leaves...)...)
			saw(t, 2, s.some(c.stays...)...)
			saw(t, 1, s.some(c.leaves...)...)
			s.oneHistory(t)
			release(t, s.some(c.stays...)...)
		})
	}
}

// TestViewsLowestCutOff cuts off the host of the processes with the lowest ids, one of which proposes:
// the others find another proposer.
func TestViewsLowestCutOff(t *testing.T) {
	for _, c := range []struct {
		name string
		rest []int
		ends []string
	}{
		{"from the launcher, too", []int{hostB, hostC, hostL}, []string{"no quorum"}},
		{"all reach the launcher", []int{hostB, hostC}, []string{"no quorum", "excluded"}}, // depends on which one notifies them first
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := spreadOut(t, true)
			s.part(t, []int{hostA}, c.rest)
			agree(t, "2 3 4", s.some(2, 3, 4)...)
			endsWith(t, c.ends, s.some(0, 1)...)
			saw(t, 2, s.some(2, 3, 4)...)
			saw(t, 1, s.some(0, 1)...)
			s.oneHistory(t)
			release(t, s.some(2, 3, 4)...)
		})
	}
	// The coordinator is in the process of rank 0: another process takes its place.
	t.Run("with the coordinator", func(t *testing.T) {
		t.Parallel()
		s := spreadOut(t, false)
		s.part(t, []int{hostA}, []int{hostB, hostC})
		agree(t, "2 3 4", s.some(2, 3, 4)...)
		endsWith(t, []string{"no quorum"}, s.some(0, 1)...)
		saw(t, 2, s.some(2, 3, 4)...)
		saw(t, 1, s.some(0, 1)...)
		s.oneHistory(t)
		release(t, s.some(2, 3, 4)...)
	})
}

// TestViewsCutIntoThree leaves no side with a majority: no process goes on. One process is on the host
// of the coordinator, which may notify it first that the job has ended.
func TestViewsCutIntoThree(t *testing.T) {
	for _, c := range []struct {
		name   string
		apart  bool
		always []int // hear nothing else
	}{
		{"coordinator in process 0", false, []int{0, 2, 3, 4}},
		{"launcher", true, []int{0, 1, 2, 3, 4}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := spreadOut(t, c.apart)
			// If the launcher could notify the others which processes have ended, the last might go on.
			s.part(t, []int{hostA}, []int{hostB}, []int{hostC}, []int{hostL})
			endsWith(t, []string{"no quorum"}, s.some(c.always...)...)
			endsWith(t, []string{"no quorum", "abandoned"}, s.guests...)
			saw(t, 1, s.guests...)
		})
	}
}

// TestViewsCutHeals cuts a host off and heals the cut: its processes come back as new incarnations, and
// all are in one view.
func TestViewsCutHeals(t *testing.T) {
	t.Parallel()
	s := spreadOut(t, true)
	s.part(t, []int{hostB}, []int{hostA, hostC, hostL})
	agree(t, "0 1 4", s.some(0, 1, 4)...)
	endsWith(t, []string{"no quorum"}, s.some(2, 3)...)
	s.heal(t)
	var back []*guest
	for _, rank := range []int{2, 3} {
		places, err := s.server.Reserve(1, rank)
		if err != nil {
			t.Fatal(err)
		}
		back = append(back, s.start(t, rank, places[0].Incarnation))
	}
	number := agree(t, "0 1 2.2 3.2 4", s.some(0, 1, 4)...)
	for _, g := range back {
		g.opens(t, number, 5)
	}
	s.oneHistory(t)
	release(t, s.some(0, 1, 4)...)
	endsWith(t, []string{"well"}, back...)
}

// TestViewsShortCutChangesNoView cuts hosts off for a third of the silence, again and again.
func TestViewsShortCutChangesNoView(t *testing.T) {
	t.Parallel()
	s := spreadOut(t, false)
	for _, h := range []int{hostB, hostC, hostA} {
		s.part(t, []int{h}, others(h))
		time.Sleep(networkSilence / 3)
		s.heal(t)
		time.Sleep(networkSilence)
	}
	time.Sleep(networkSilence)
	saw(t, 1, s.guests...)
	release(t, s.guests...)
}

// TestViewsStoppedProcessIsVotedOut stops a process where none can kill it, on a host of its own: the
// others vote it out, and it ends as soon as it continues.
func TestViewsStoppedProcessIsVotedOut(t *testing.T) {
	for name, apart := range map[string]bool{"coordinator in process 0": false, "launcher": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := spreadOut(t, apart)
			s.guests[4].signal(t, syscall.SIGSTOP)
			agree(t, "0 1 2 3", s.some(0, 1, 2, 3)...)
			s.guests[4].signal(t, syscall.SIGCONT)
			endsWith(t, []string{"excluded"}, s.guests[4])
			saw(t, 2, s.some(0, 1, 2, 3)...)
			saw(t, 1, s.guests[4])
			s.oneHistory(t)
			release(t, s.some(0, 1, 2, 3)...)
		})
	}
}

// others returns all hosts but one.
func others(host int) (all []int) { return stage.Without(hostCount, host) }
