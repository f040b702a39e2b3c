//go:build unix

package launch

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/control"
)

func init() { programs["keeper"] = keeper }

// keeper joins and stays until it is asked to stop. Rank 0 tells of a view with all, and
// of one without each process that dies, whose task is its own from then on; and that all
// tasks have saved, when it gets SIGUSR1. The argument says what else they do.
func keeper(args []string) int {
	signal.Ignore(syscall.SIGTERM)
	save := make(chan os.Signal, 1)
	signal.Notify(save, syscall.SIGUSR1)
	client, w, e := join()
	rank, v := w.Place.Rank, control.View{Number: 2}
	for r := range w.Size {
		v.Members = append(v.Members, control.Identity{uint64(r), 1})
		v.Owners = append(v.Owners, r)
	}
	heir := 0
	switch args[0] {
	case "full": // nobody has room for another task
		client.Load(1, 1<<20)
		heir = -1
	case "spare": // some have no task
		v.Owners = []int{0, 1}
	case "leave": // some end by themselves
		switch rank {
		case 1:
			<-e.all
			client.Close()
			return 0
		case 2:
			<-e.all
			client.Returned(0, "boom", true)
			client.Close()
			return 1
		}
	}
	tell := func() {
		e.view.Store(v.Number)
		if rank == 0 {
			client.Emit(control.Event{Type: control.EventView, Attrs: map[string]any{
				"number": v.Number, "members": v.Members, "owners": v.Owners, "opened": true,
			}})
		}
	}
	tell()
	for {
		select {
		case p := <-e.peers:
			if p.Rank == w.Place.Rank && p.Incarnation == w.Place.Incarnation {
				fmt.Println("pid", os.Getpid(), "joins", w.Joins)
			}
		case d := <-e.deaths:
			tellDeath(d)
			v.Members = slices.DeleteFunc(v.Members, func(m control.Identity) bool { return m.Rank() == d.Rank })
			if i := slices.Index(v.Owners, d.Rank); i >= 0 {
				v.Owners[i] = heir
			}
			v.Number++
			tell()
		case <-save:
			client.Emit(control.Event{Type: control.EventEpoch, Attrs: map[string]any{"number": 1}})
		case <-e.stop:
			client.Returned(v.Number, "", true)
		case <-e.finished:
			client.Close()
			return 0
		case <-e.lost:
			return 3
		}
	}
}

func TestTheDeadAreRespawned(t *testing.T) {
	for _, hosts := range [][]Host{nil, {{"a", 2}, {"b", 2}}} {
		t.Run(fmt.Sprint(hosts), func(t *testing.T) {
			t.Parallel()
			c := own(3, "awaiting", "2", "3")
			c.Respawn = RespawnAlways
			host, on := "", ""
			if hosts != nil {
				c.onHosts(t, hosts...)
				host, on = "b", " on b"
			}
			wait := c.begin(t)
			c.out.await(t, `pid (\d+) joins false`, 3)
			first := numbers(t, c.out.await(t, `\[2\] pid (\d+) joins false`, 1))[0]
			syscall.Kill(first, syscall.SIGKILL)
			second := numbers(t, c.out.await(t, `\[2\] pid (\d+) joins true`, 1))[0]
			syscall.Kill(second, syscall.SIGKILL)
			r := wait()
			if r.Exit != 0 || !slices.Equal(r.Joined, []int{2, 2}) || !slices.Equal(r.Killed, []int{2}) || len(r.Respawned) != 2 {
				t.Fatalf("report %+v", r)
			}
			for i, again := range r.Respawned {
				if again.Rank != 2 || again.Why != "--respawn always" || again.Host != host || again.After <= 0 {
					t.Errorf("%d: %+v", i, again)
				}
			}
			if after := r.Respawned[1].After; after < 100 {
				t.Errorf("%v ms after a short life, want a pause", after)
			}
			want := "process 2 died: respawned" + on + ": --respawn always\nprocess 2.2 died: respawned" + on + ": --respawn always\n"
			if c.notices.String() != want {
				t.Errorf("notices %q, want %q", c.notices.String(), want)
			}
			if last := r.Tasks[len(r.Tasks)-1]; last.Again != 3 || !last.well() || last.Host != host {
				t.Errorf("the last life: %+v", last)
			}
			gone(t, first, second)
		})
	}
}

// TestALostHostIsReplaced: its agent is gone, and whoever can tell that its process is
// dead with it; the view that goes on without that says so.
func TestALostHostIsReplaced(t *testing.T) {
	t.Parallel() // it waits
	c := own(4, "keeper", "")
	c.Respawn, c.Silence = RespawnAlways, time.Second
	c.onHosts(t, Host{"a", 2}, Host{"b", 1}, Host{"c", 2}, Host{"d", 1})
	wait := c.begin(t)
	c.out.await(t, `pid (\d+) joins false`, 4)
	pid := numbers(t, c.out.await(t, `\[2\] pid (\d+)`, 1))[0]
	syscall.Kill(parent(t, pid), syscall.SIGKILL)
	c.out.await(t, `\[2\] pid (\d+) joins true`, 1)
	c.signals <- syscall.SIGTERM
	r := wait()
	if len(r.Respawned) != 1 || r.Respawned[0].Rank != 2 || r.Respawned[0].Host != "d" || !strings.HasPrefix(r.Tasks[2].Why, "host b lost") {
		t.Errorf("report %+v", r)
	}
	gone(t, pid)
}

// parent is the process that started another one.
func parent(t *testing.T, pid int) int {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Skip("finds the parent of a process, which needs /proc: runs on Linux:", err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return numbers(t, strings.Fields(rest)[1:2])[0]
}

func TestRespawningComesToAnEnd(t *testing.T) {
	for _, c := range []struct {
		name, script string
		most         int
		want         []string // notices
		exit         int
	}{
		{
			"a mistake in the program", `exit 7`, 0,
			[]string{"process 1 ended with exit code 7: respawned: --respawn always", "process 1.2 ended with exit code 7: not respawned: it has ended with an error code again"},
			1,
		},
		{
			"killed at once", `kill -9 $$`, 2,
			[]string{"process 1 died: respawned: --respawn always", "process 1.2 died: respawned: --respawn always", "process 1.3 died: not respawned: 2 have been, and no more are allowed"},
			0,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			end := filepath.Join(t.TempDir(), "end")
			job := shell(2, `[ $RANK = 1 ] && `+c.script+`; while [ ! -e `+end+` ]; do sleep 0.01; done`)
			job.Respawn, job.RespawnMax = RespawnAlways, c.most
			wait := job.begin(t)
			job.notices.await(t, "not respawned", 1)
			if err := os.WriteFile(end, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			r := wait()
			if want := strings.Join(c.want, "\n") + "\n"; job.notices.String() != want {
				t.Errorf("notices %q, want %q", job.notices.String(), want)
			}
			if r.Exit != c.exit || len(r.Respawned) != len(c.want)-1 {
				t.Errorf("report %+v", r)
			}
		})
	}
}

// TestWhoEndsIsNotRespawned: neither who ends well, nor whose task has failed; who dies
// after them is.
func TestWhoEndsIsNotRespawned(t *testing.T) {
	t.Parallel()
	c := own(4, "keeper", "leave")
	c.Respawn = RespawnAlways
	wait := c.begin(t)
	c.out.await(t, `death: rank 1`, 2)
	c.out.await(t, `death: rank 2`, 2)
	syscall.Kill(numbers(t, c.out.await(t, `\[3\] pid (\d+)`, 1))[0], syscall.SIGKILL)
	c.out.await(t, `\[3\] pid (\d+) joins true`, 1)
	c.signals <- syscall.SIGTERM
	if r := wait(); len(r.Respawned) != 1 || r.Respawned[0].Rank != 3 {
		t.Errorf("report %+v", r)
	}
}

func TestNobodyIsRespawnedAtTheEnd(t *testing.T) {
	t.Parallel()
	c := shell(3, `trap '' TERM; echo ready; while :; do sleep 0.01; done`)
	c.Respawn = RespawnAlways
	wait := c.begin(t)
	c.out.await(t, "ready", 3)
	c.signals <- syscall.SIGTERM
	c.signals <- syscall.SIGTERM
	if r := wait(); len(r.Respawned) != 0 || !slices.Equal(r.Killed, []int{0, 1, 2}) {
		t.Errorf("report %+v", r)
	}
}

// TestAPlainProgramIsRunAgain: what knows nothing of jobs does it all again.
func TestAPlainProgramIsRunAgain(t *testing.T) {
	t.Parallel()
	mark := filepath.Join(t.TempDir(), "again")
	c := shell(2, `[ $RANK.$COPPICE_INCARNATION = 1.1 ] && kill -9 $$; [ $RANK = 1 ] && echo > `+mark+`; while [ ! -e `+mark+` ]; do sleep 0.01; done`)
	c.Respawn = RespawnAuto
	r := c.begin(t)()
	if r.Exit != 0 || !slices.Equal(r.Killed, []int{1}) || len(r.Lost) != 0 || len(r.Respawned) != 1 || r.Respawned[0].Why != "nobody takes its task over" {
		t.Errorf("report %+v", r)
	}
}

func TestTheChoiceIsByWhatTheJobTells(t *testing.T) {
	for _, c := range []struct{ name, want string }{
		{"spare", `^process 3 died: not respawned: running through costs 0\.0 s \(1 task for a process instead of 1\), a start(?: and the move of tasks)? [0-9.]+ s$`},
		{"full", `^process 3 died: respawned: the others have no memory for its tasks$`},
		{"", `^process 3 died: (not )?respawned: running through (?:costs|would cost) ([0-9.]+) s \(2 tasks for a process instead of 1\), a start(?: and the move of tasks)? ([0-9.]+) s$`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			job := own(4, "keeper", c.name)
			job.Respawn = RespawnAuto
			wait := job.begin(t)
			job.out.await(t, `pid (\d+) joins false`, 4)
			syscall.Kill(numbers(t, job.out.await(t, `\[3\] pid (\d+)`, 1))[0], syscall.SIGKILL)
			said := ""
			if c.name != "full" {
				job.notices.await(t, "respawned", 1)
				const yet = "process 3 died: not respawned yet: it would get no tasks before another one dies, since the tasks have saved nothing\n"
				if said = job.notices.String(); said != yet {
					t.Errorf("notice %q before anything is saved", said)
				}
				syscall.Kill(numbers(t, job.out.await(t, `\[0\] pid (\d+)`, 1))[0], syscall.SIGUSR1)
			}
			job.notices.await(t, "respawned: ", 1)
			said = strings.TrimSuffix(strings.TrimPrefix(job.notices.String(), said), "\n")
			job.signals <- syscall.SIGTERM
			r := wait()
			match := regexp.MustCompile(c.want).FindStringSubmatch(said)
			if match == nil || strings.Contains(said, "not") != (len(r.Respawned) == 0) {
				t.Fatalf("notice %q, want %s; respawned %+v", said, c.want, r.Respawned)
			}
			if len(match) > 1 { // as the figures say, if they differ
				through, err1 := strconv.ParseFloat(match[2], 64)
				start, err2 := strconv.ParseFloat(match[3], 64)
				if err1 != nil || err2 != nil || through < start && match[1] == "" || through > start && match[1] != "" {
					t.Errorf("notice %q", said)
				}
			}
		})
	}
}

// TestWhoJoinedIsRespawnedAsItWas: with the program that was asked for.
func TestWhoJoinedIsRespawnedAsItWas(t *testing.T) {
	shelf := shelf(t)
	c := own(2, "keeper", "")
	c.Grow, c.Respawn = 1, RespawnAlways
	wait := c.begin(t)
	c.out.await(t, "pid", 2)
	if _, err := ask(t, directory(t, shelf), 1, -1, "sh", "-c", `echo another $COPPICE_RANK.$COPPICE_INCARNATION; [ $COPPICE_INCARNATION = 2 ] && exit 0; kill -9 $$`); err != nil {
		t.Fatal(err)
	}
	c.out.await(t, `\[2\] another 2\.2`, 1)
	c.signals <- syscall.SIGTERM
	if r := wait(); !slices.Equal(r.Joined, []int{2, 2}) || len(r.Respawned) != 1 {
		t.Errorf("report %+v", r)
	}
}

func TestBadRespawnsAreRefused(t *testing.T) {
	for want, change := range map[string]func(*Config){
		`respawn "often"; allowed: auto, always, never`:      func(c *Config) { c.Respawn = "often" },
		"at most -1 processes respawned; allowed: 1 or more": func(c *Config) { c.RespawnMax = -1 },
	} {
		c := shell(1, ":")
		change(&c.Config)
		if _, err := New(c.Config); err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}
