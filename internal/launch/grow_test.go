//go:build unix

package launch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/control"
)

// directory is that of the only job on a shelf, as its launcher made it.
func directory(t *testing.T, shelf string) string {
	t.Helper()
	sockets, err := filepath.Glob(filepath.Join(shelf, "coppice-*", "control.sock"))
	if err != nil || len(sockets) != 1 {
		t.Fatalf("jobs %q, %v", sockets, err)
	}
	return filepath.Dir(sockets[0])
}

// ask asks for processes.
func ask(t *testing.T, dir string, count, rank int, program ...string) ([]control.Joiner, error) {
	t.Helper()
	return control.RequestJoin(t.Context(), dir, control.JoinRequest{Count: count, Rank: rank, Program: program, Dir: filepath.Dir(os.Args[0])})
}

func TestAJobGrows(t *testing.T) {
	for _, hosts := range [][]Host{nil, {{"a", 2}, {"b", 3}}} {
		t.Run(fmt.Sprint(hosts), func(t *testing.T) {
			shelf := shelf(t)
			c := own(2, "awaiting", "4", "1")
			c.Grow = 3
			if hosts != nil {
				c.onHosts(t, hosts...)
			}
			wait := c.begin(t)
			c.out.await(t, "pid .* joins false", 2)
			dir := directory(t, shelf)
			got, err := ask(t, dir, 2, -1)
			if err != nil || len(got) != 2 || got[0].Rank != 2 || got[1].Rank != 3 || got[1].Incarnation != 1 || got[1].Pid == 0 {
				t.Fatalf("%+v, %v", got, err)
			}
			if hosts != nil && got[1].Host != "b" {
				t.Errorf("%+v", got)
			}
			pid := numbers(t, c.out.await(t, `\[3\] pid (\d+) joins true`, 1))[0]
			if pid != got[1].Pid {
				t.Errorf("process %d, told %d", pid, got[1].Pid)
			}
			syscall.Kill(pid, syscall.SIGKILL)
			if got, err := ask(t, dir, 1, -1); err != nil || got[0].Rank != 4 {
				t.Errorf("%+v, %v", got, err)
			}
			r := wait()
			if r.Exit != 0 || !slices.Equal(r.Joined, []int{2, 3, 4}) || !slices.Equal(r.Killed, []int{3}) || len(r.Lost) != 0 || len(r.Tasks) != 5 {
				t.Errorf("report %+v", r)
			}
			if want := "process 3 was killed by SIGKILL"; !strings.HasPrefix(r.Cause, want) {
				t.Errorf("cause %q", r.Cause)
			}
		})
	}
}

func TestTheDeadComeBack(t *testing.T) {
	for _, hosts := range [][]Host{nil, {{"a", 2}, {"b", 2}}} {
		t.Run(fmt.Sprint(hosts), func(t *testing.T) {
			shelf := shelf(t)
			c := own(3, "awaiting", "2", "3")
			c.Grow = 1
			c.Output.LogDir = t.TempDir()
			if hosts != nil {
				c.onHosts(t, hosts...)
			}
			wait := c.begin(t)
			pids := numbers(t, c.out.await(t, `\[2\] pid (\d+)`, 1))
			c.out.await(t, "pid", 3)
			dir := directory(t, shelf)
			for life := 2; life <= 3; life++ {
				if _, err := ask(t, dir, 1, 2); err == nil || err.Error() != "rank 2 is alive; allowed: a dead one, and none is" {
					t.Errorf("error %v", err)
				}
				syscall.Kill(pids[life-2], syscall.SIGKILL)
				got := again(t, dir, 2)
				if got.Incarnation != uint64(life) || hosts != nil && got.Host != "b" {
					t.Fatalf("%+v", got)
				}
				pids = append(pids, got.Pid)
				if life == 2 {
					c.out.await(t, `\[2\] pid \d+ joins true`, 1)
				}
			}
			r := wait()
			if r.Exit != 0 || !slices.Equal(r.Joined, []int{2, 2}) || !slices.Equal(r.Killed, []int{2}) || !slices.Equal(r.Lost, []int{2}) {
				t.Errorf("report %+v", r)
			}
			if len(r.Tasks) != 5 || r.Tasks[2].Signal != "SIGKILL" || r.Tasks[3].Again != 2 || r.Tasks[3].Signal != "SIGKILL" || !r.Tasks[3].Joined || r.Tasks[4].Again != 3 || !r.Tasks[4].well() {
				t.Errorf("tasks %+v", r.Tasks)
			}
			log, err := os.ReadFile(filepath.Join(c.Output.LogDir, "2.out"))
			if err != nil || strings.Count(string(log), "pid") != 3 {
				t.Errorf("log %q, %v", log, err)
			}
		})
	}
}

// again asks for the next life of a rank until the launcher knows that it is dead.
func again(t *testing.T, dir string, rank int) control.Joiner {
	t.Helper()
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		got, err := ask(t, dir, 1, rank)
		if err == nil {
			return got[0]
		}
		if time.Since(began) > 2*time.Minute || !errors.As(err, new(control.Refused)) {
			t.Fatal(err)
		}
	}
}

func TestJoinsAreRefusedInALine(t *testing.T) {
	shelf := shelf(t)
	c := own(2, "patient")
	c.Grow = 1
	wait := c.begin(t)
	c.out.await(t, "pid", 2)
	dir := directory(t, shelf)
	for _, r := range []struct {
		count, rank int
		program     []string
		want        string
	}{
		{2, -1, nil, "2 processes, but the job has grown by 0 of 1; allowed: 1 to 1"},
		{1, 1, nil, "rank 1 is alive; allowed: a dead one, and none is"},
		{1, 5, nil, "there is no rank 5; allowed: a dead one, and none is"},
		{1, -1, []string{"nosuch"}, "program nosuch: not found in $PATH; allowed: an executable file"},
		{1, -1, []string{"./nosuch"}, "program ./nosuch: no such file or directory; allowed: an executable file"},
	} {
		if got, err := ask(t, dir, r.count, r.rank, r.program...); err == nil || err.Error() != r.want {
			t.Errorf("%+v: %+v, %v", r, got, err)
		}
	}
	// What could not be started has used nothing up.
	if got, err := ask(t, dir, 1, -1, "sh", "-c", "echo another program; exit 0"); err != nil || got[0].Rank != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	c.out.await(t, `\[2\] another program`, 1)
	c.out.await(t, `death: rank 2 .* never joined: exited with 0`, 2)
	if r := wait(); r.Exit != 0 || len(r.Killed) != 0 || !slices.Equal(r.Joined, []int{2}) {
		t.Errorf("report %+v", r)
	}
}

func TestNobodyJoinsAJobThatEnds(t *testing.T) {
	shelf := shelf(t)
	c := shell(1, `trap '' TERM; echo ready; while [ ! -e `+filepath.Join(t.TempDir(), "end")+` ]; do sleep 0.01; done`)
	end := c.Args[1][strings.Index(c.Args[1], "-e ")+3 : strings.Index(c.Args[1], " ]")]
	c.Grow = 1
	wait := c.begin(t)
	c.out.await(t, "ready", 1)
	dir := directory(t, shelf)
	c.signals <- syscall.SIGTERM
	c.notices.await(t, "passed on", 1)
	if _, err := ask(t, dir, 1, -1); err == nil || err.Error() != "the job is about to end; allowed: one that goes on" {
		t.Error(err)
	}
	if err := os.WriteFile(end, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wait()
}

func TestHostsWithoutASlotRefuse(t *testing.T) {
	shelf := shelf(t)
	c := own(2, "patient")
	c.Grow = 2
	c.onHosts(t, Host{"a", 2}, Host{"down", 2})
	wait := c.begin(t)
	c.out.await(t, "pid", 2)
	dir := directory(t, shelf)
	if _, err := ask(t, dir, 1, -1); err == nil || err.Error() != "host down lost: exit status 255: no route to down" {
		t.Error(err)
	}
	c.signals <- syscall.SIGINT
	if r := wait(); len(r.Tasks) != 2 || len(r.Joined) != 0 {
		t.Errorf("report %+v", r)
	}
}

func TestRecordsOfTheDeadAreInherited(t *testing.T) {
	for _, hosts := range [][]Host{nil, {{"a", 1}, {"b", 2}}} {
		shelf(t)
		c := own(3, "heir")
		if hosts != nil {
			c.onHosts(t, hosts...)
		}
		r := c.run(t)
		if got := strings.Count(c.out.String(), "inherited 1 true 900000 100000\n"); got != 2 || r.Exit != 0 {
			t.Errorf("hosts %v: shown %q, report %+v", hosts, c.out.String(), r)
		}
	}
}

func TestFencingOnRequest(t *testing.T) {
	for _, hosts := range [][]Host{nil, {{"a", 1}, {"b", 2}}} {
		shelf(t)
		c := own(3, "fencer")
		if hosts != nil {
			c.onHosts(t, hosts...)
		}
		r := c.run(t)
		want := "death: rank 1 (incarnation 1) is dead: fenced: asked for by rank 0 with a majority: a test"
		if got := strings.Count(c.out.String(), want); got != 2 || !slices.Equal(r.Killed, []int{1}) || !strings.HasPrefix(r.Tasks[1].Why, "fenced: ") {
			t.Errorf("hosts %v: shown %q, report %+v", hosts, c.out.String(), r)
		}
	}
}
