package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/coppice-go/coppice/internal/control"
)

// command runs one of the commands about running jobs, and returns what it printed.
func command(t *testing.T, args ...string) (string, error) {
	t.Helper()
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	err = begin(t, out, args...)
	text, _ := os.ReadFile(out.Name())
	return string(text), err
}

func begin(t *testing.T, out *os.File, args ...string) error {
	t.Helper()
	var all struct {
		Join    joinCmd    `cmd:""`
		Members membersCmd `cmd:""`
	}
	parser, err := kong.New(&all, words)
	if err != nil {
		t.Fatal(err)
	}
	ctx, err := parse(parser, args)
	if err != nil {
		return err
	}
	return ctx.Run(newConsole(out, out))
}

// refusal wants a command to be refused as bad input, with one line.
func refusal(t *testing.T, want string, args ...string) {
	t.Helper()
	out, err := command(t, args...)
	if !errors.As(err, new(badInput)) || err.Error() != want || out != "" {
		t.Errorf("%q:\n got %q (%T), printed %q\nwant %q", args, err, err, out, want)
	}
}

// jobs is where this test's jobs are found, and no others.
func jobs(t *testing.T) {
	t.Helper()
	dir, err := os.MkdirTemp("", "m") // short: for the paths of sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	t.Setenv(control.VarParent, dir)
	t.Setenv(control.VarDir, "")
}

// listener is a process of a job that waits for its peers.
type listener struct{ peers chan control.Peer }

func (l *listener) Peers(peers []control.Peer) {
	for _, p := range peers {
		l.peers <- p
	}
}
func (l *listener) Died(control.Death)                  {}
func (l *listener) Alive(int)                           {}
func (l *listener) HeardOf(int, bool, time.Duration)    {}
func (l *listener) PeersReturned([]int, uint64, string) {}
func (l *listener) AllKnow()                            {}
func (l *listener) Finished(uint64, string)             {}
func (l *listener) Stop(string)                         {}
func (l *listener) Lost(error)                          {}

// coordinate begins a job.
func coordinate(t *testing.T, cfg control.ServerConfig) *control.Server {
	t.Helper()
	var err error
	if cfg.Dir, err = control.MakeDir(os.Getenv); err != nil {
		t.Fatal(err)
	}
	s, err := control.Serve(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// enter lets a process of this very process join, and waits until it is present.
func enter(t *testing.T, s *control.Server, p control.Place) *control.Client {
	t.Helper()
	l := &listener{make(chan control.Peer, 100)}
	c, _, err := control.Join(t.Context(), p, l, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	c.Announce([]string{"nowhere"}, "host")
	for peer := range l.peers {
		if peer.Rank == p.Rank && peer.Incarnation == p.Incarnation {
			return c
		}
	}
	return nil
}

func opened(number int, owners []int, members ...control.Identity) control.Event {
	return control.Event{Type: control.EventView, Attrs: map[string]any{
		"number": number, "members": members, "owners": owners, "opened": true,
	}}
}

func TestMembersFindsItsJob(t *testing.T) {
	jobs(t)
	if out, err := command(t, "members"); err == nil || errors.As(err, new(badInput)) || err.Error() != "no running job on this host; start one with coppice run" || out != "" {
		t.Errorf("without a job: %v, printed %q", err, out)
	}
	refusal(t, "no job x; allowed: one that runs, and none does here", "members", "--job", "x")
	one := coordinate(t, control.ServerConfig{Size: 1, Command: "./pi -v"}).Place(0, 1).Dir
	name := control.JobName(one)
	for _, args := range [][]string{nil, {"--job", name}, {"--job", "coppice-" + name}, {"--job", one}} {
		out, err := command(t, append([]string{"members"}, args...)...)
		if err != nil || !strings.HasPrefix(out, fmt.Sprintf("job %s: no view told yet, 1 process, 0 dead\n./pi -v, pid %d, since ", name, os.Getpid())) {
			t.Errorf("%q: %q, %v", args, out, err)
		}
	}
	refusal(t, "no job x; allowed: "+name, "members", "--job", "x")
	refusal(t, "no job ./x; allowed: "+name, "members", "--job", "./x")
	long := strings.Repeat("x", 2*commandShown)
	two := coordinate(t, control.ServerConfig{Size: 1, Command: long}).Place(0, 1).Dir
	want := fmt.Sprintf(`^2 jobs run here; allowed: --job with one of %s \(\./pi -v, pid %d, since [-0-9]+ [:0-9]+\), %s \(%s…, pid %[2]d, since [-0-9]+ [:0-9]+\)$`,
		name, os.Getpid(), control.JobName(two), long[:commandShown])
	if _, err := command(t, "members"); !errors.As(err, new(badInput)) || !regexp.MustCompile(want).MatchString(err.Error()) {
		t.Errorf("%v, want %s", err, want)
	}
	t.Setenv(control.VarDir, two) // part of that job
	if out, err := command(t, "members"); err != nil || !strings.HasPrefix(out, "job "+control.JobName(two)) {
		t.Errorf("%q, %v", out, err)
	}
}

func TestMembersShowsTheView(t *testing.T) {
	jobs(t)
	s := coordinate(t, control.ServerConfig{Size: 4, Grow: 2, Silence: time.Hour})
	var clients []*control.Client
	for rank := range 3 {
		clients = append(clients, enter(t, s, s.Place(rank, 1)))
	}
	var before membersReport
	if out, err := command(t, "members", "--json"); err != nil || json.Unmarshal([]byte(out), &before) != nil {
		t.Fatalf("%q, %v", out, err)
	}
	if before.View != nil || len(before.Members) != 4 || before.Members[3].State != control.Absent || !slices.Equal(before.Members[2].Tasks, []int{2}) {
		t.Errorf("%+v", before)
	}
	clients[1].Close()
	again, err := s.Reserve(1, 1)
	for err != nil { // until its end is known
		time.Sleep(time.Millisecond)
		again, err = s.Reserve(1, 1)
	}
	enter(t, s, again[0])
	clients[0].Emit(opened(7, []int{0, 2, 2, 0, 2}, control.Identity{0, 1}, control.Identity{2, 1}))
	var got membersReport
	for got.View == nil { // the coordinator hears it a little later
		out, err := command(t, "members", "--json")
		if err != nil || json.Unmarshal([]byte(out), &got) != nil {
			t.Fatalf("%q, %v", out, err)
		}
	}
	if *got.View != 7 || len(got.Members) != 4 || len(got.Dead) != 1 || got.Job != control.JobName(s.Place(0, 1).Dir) {
		t.Errorf("%+v", got)
	}
	for i, want := range []memberReport{
		{ID: 0, Incarnation: 1, State: control.Present, InView: true, Tasks: []int{0, 3}},
		{ID: 1, Incarnation: 2, State: control.Present, Tasks: []int{}},
		{ID: 2, Incarnation: 1, State: control.Present, InView: true, Tasks: []int{1, 2, 4}},
		{ID: 3, Incarnation: 0, State: control.Absent, Tasks: []int{}},
	} {
		if m := got.Members[i]; m.ID != want.ID || m.Incarnation != want.Incarnation || m.State != want.State || m.InView != want.InView || !slices.Equal(m.Tasks, want.Tasks) {
			t.Errorf("%+v, want %+v", m, want)
		}
	}
	if d := got.Dead[0]; d.ID != 1 || d.Incarnation != 1 || !d.Certain || d.How != "left before the end" {
		t.Errorf("%+v", d)
	}
	out, err := command(t, "members")
	for _, want := range []string{
		`^job \d+: view 7, 4 processes, 1 dead\n-, pid \d+, since .*\n\nid  incarnation  host .* state .* tasks\n`,
		`(?m)^0   1 .* present .* 0, 3$`,
		`(?m)^1   2 .* present, not in the view  +-$`,
		`(?m)^2   1 .* present .* 1-2, 4$`,
		`(?m)^1   1 .* dead: left before the end  +-$`,
	} {
		if err != nil || !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("%v; no %s in\n%s", err, want, out)
		}
	}
}

// watched runs `members --watch` in the background and returns its lines, at the
// end of the job all of them.
func watched(t *testing.T, args ...string) (begun func(string), lines func() []string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "watched")
	out, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		done <- begin(t, out, append([]string{"members", "--watch"}, args...)...)
		out.Close()
	}()
	read := func() string {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	begun = func(text string) {
		t.Helper()
		for began := time.Now(); !strings.Contains(read(), text); time.Sleep(time.Millisecond) {
			if time.Since(began) > 10*time.Second {
				t.Fatalf("no %q in %q", text, read())
			}
		}
	}
	return begun, func() []string {
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(10 * time.Second):
			t.Error("it watches on when the job has ended")
		}
		return slices.Collect(strings.Lines(read()))
	}
}

// happen lets a job have a short life.
func happen(t *testing.T, s *control.Server, begun func(string), first string) {
	t.Helper()
	begun(first)
	zero, one := enter(t, s, s.Place(0, 1)), enter(t, s, s.Place(1, 1))
	zero.Emit(opened(1, []int{0, 1}, control.Identity{0, 1}, control.Identity{1, 1}))
	begun("view 1")
	zero.Suspect(1, 1, "no frames")
	begun("suspected")
	zero.Fence(1, 1, "no frames", nil)
	begun("spared")
	one.Close()
	begun("died")
	places, err := s.Reserve(1, -1)
	if err != nil {
		t.Fatal(err)
	}
	enter(t, s, places[0])
	zero.Emit(opened(2, []int{0, 0}, control.Identity{0, 1}, control.Identity{2, 1}))
	begun("view 2")
	zero.Returned(0, "", true)
	begun("ended well")
	s.Close()
}

func TestMembersWatchTellsWhatHappens(t *testing.T) {
	jobs(t)
	s := coordinate(t, control.ServerConfig{Size: 2, Grow: 1})
	begun, lines := watched(t)
	happen(t, s, begun, "tasks")
	var told []string
	for _, line := range lines() {
		if at := regexp.MustCompile(`^\d\d:\d\d:\d\d\.\d{3}  (.*)\n$`).FindStringSubmatch(line); at != nil {
			told = append(told, at[1])
		}
	}
	for _, want := range []string{
		"0 joined: pid ", "0 present on ", "1 joined: pid ", "view 1: 2 members", "1 suspected by 0: no frames", "1 spared: not a membership letter",
		"1 died: left before the end", "2 joined: pid ", "view 2: −1 +2", "0 returned", "the job has ended well: all have returned",
	} {
		i := slices.IndexFunc(told, func(line string) bool { return strings.HasPrefix(line, want) })
		if i < 0 {
			t.Fatalf("no %q, in this order, in %q", want, told)
		}
		told = told[i+1:]
	}
}

func TestMembersWatchJSONIsADocumentALine(t *testing.T) {
	jobs(t)
	s := coordinate(t, control.ServerConfig{Size: 2, Grow: 1})
	begun, lines := watched(t, "--json")
	happen(t, s, begun, `"view"`)
	var last membersReport
	var views, changes int
	for i, line := range lines() {
		before := last.View
		last = membersReport{}
		if err := json.Unmarshal([]byte(line), &last); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if (last.News == "") != (i == 0) {
			t.Errorf("line %d: %s", i, line)
		}
		if last.View != nil && (before == nil || *before != *last.View) {
			views++
		}
		changes++
	}
	if views != 2 || changes < 10 || len(last.Dead) != 1 || *last.View != 2 || last.Ended != wellEnded {
		t.Errorf("%d views in %d changes; at last %+v", views, changes, last)
	}
}

// TestMembersSaysHowTheJobEnded: those who leave after the end are not dead.
func TestMembersSaysHowTheJobEnded(t *testing.T) {
	for failure, want := range map[string]string{"": `ended well; view 1, 2 processes, 0 dead`, "no disk": `ended, process 1 failed: no disk; view 1, 2 processes, 0 dead`} {
		jobs(t)
		s := coordinate(t, control.ServerConfig{Size: 2})
		zero, one := enter(t, s, s.Place(0, 1)), enter(t, s, s.Place(1, 1))
		zero.Emit(opened(1, []int{0, 1}, control.Identity{0, 1}, control.Identity{1, 1}))
		zero.Returned(0, "", true)
		one.Returned(0, failure, true)
		await := func(state string) { // of process 0
			t.Helper()
			row := regexp.MustCompile(`(?m)^0   1 .* ` + state + `  +0$`)
			for began := time.Now(); ; time.Sleep(time.Millisecond) {
				out, err := command(t, "members")
				if err == nil && strings.Contains(out, ": "+want+"\n") && row.MatchString(out) && !strings.Contains(out, "dead:") {
					return
				}
				if time.Since(began) > time.Minute {
					t.Fatalf("%v; no %q in\n%s", err, want, out)
				}
			}
		}
		await("returned")
		zero.Close()
		await("ended")
		s.Close()
	}
}
