//go:build unix

package launch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/control"
	"github.com/coppice-go/coppice/test/port"
)

// fakeSSH runs the command here. A login shell says something first; the host
// down cannot be called, the host slow does not answer.
const fakeSSH = `#!/bin/sh
[ "$1" = down ] && { echo "no route to $1" >&2; exit 255; }
[ "$1" = slow ] && exec sleep 300
echo "$@" >> "$0.calls"
unset COPPICE_LISTEN # as ssh would
shift
export SSH_CONNECTION="127.0.0.1 50000 127.0.0.1 22"
echo "Welcome!"
exec "$@"
`

// onHosts puts a test's processes on hosts, all of which are this one.
func (c *test) onHosts(t *testing.T, hosts ...Host) (ssh string) {
	t.Helper()
	ssh = filepath.Join(t.TempDir(), "ssh")
	if err := os.WriteFile(ssh, []byte(fakeSSH), 0o700); err != nil {
		t.Fatal(err)
	}
	c.Hosts, c.SSH, c.Agent = hosts, []string{ssh}, []string{"env", programVar + "=agent", own(1, "").Program}
	return ssh
}

func TestHostsRunTheirShare(t *testing.T) {
	shelf(t)
	c := shell(5, `echo $COPPICE_RANK/$COPPICE_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $EXTRA $COPPICE_LISTEN; printf err >&2; [ $RANK = 3 ] && kill -9 $$; exit 0`)
	c.Env = []string{"EXTRA=more"}
	t.Setenv("COPPICE_LISTEN", "there")
	ssh := c.onHosts(t, Host{"a", 3}, Host{"b", 4})
	r := c.run(t)
	want := []string{"[0] 0/5 0/3 more there\n", "[1] 1/5 1/3 more there\n", "[2] 2/5 2/3 more there\n", "[3] 3/5 0/2 more there\n", "[4] 4/5 1/2 more there\n"}
	if got := lines(c.out.String()); !slices.Equal(got, want) {
		t.Errorf("shown %q, want %q", got, want)
	}
	if got := strings.Count(c.err.String(), "] err\n"); got != 5 {
		t.Errorf("standard error %q", c.err.String())
	}
	if r.Exit != 0 || !slices.Equal(r.Killed, []int{3}) || r.Tasks[2].Host != "a" || r.Tasks[3].Host != "b" || r.Tasks[3].Signal != "SIGKILL" || r.Tasks[4].PID == 0 {
		t.Errorf("report %+v", r)
	}
	calls, err := os.ReadFile(ssh + ".calls")
	agent := strings.Join(c.Agent, " ")
	if want := []string{"a " + agent + "\n", "b " + agent + "\n"}; err != nil || !slices.Equal(lines(string(calls)), want) {
		t.Errorf("command lines %q (%v), want %q", calls, err, want)
	}
}

func TestMembersOnHostsMeet(t *testing.T) {
	shelf(t)
	c := own(4, "member")
	c.onHosts(t, Host{"a", 2}, Host{"b", 2})
	r := c.run(t)
	if r.Exit != 0 || !r.Tasks[3].Joined || strings.Count(c.out.String(), "joined") != 4 {
		t.Errorf("report %+v, shown %q, %q", r, c.out.String(), c.err.String())
	}
}

func TestADeathOnAHostIsTold(t *testing.T) {
	t.Parallel() // it waits
	c := own(4, "patient")
	c.onHosts(t, Host{"a", 2}, Host{"b", 2})
	c.Kills = []control.Kill{{Task: 2, After: time.Second}}
	c.Silence = 20 * time.Second // nobody takes it for silent before its agent tells of the death, on a busy machine either
	r := c.run(t)
	if r.Exit != 0 || !slices.Equal(r.Killed, []int{2}) || r.Tasks[2].Why != "--kill 2@1s" {
		t.Errorf("report %+v", r)
	}
	told := regexp.MustCompile(`death: rank 2 \(incarnation 1\) is dead: (never joined: )?killed by SIGKILL`) // on a busy machine
	if got := told.FindAllString(c.out.String(), -1); len(got) != 3 {
		t.Errorf("shown %q", c.out.String())
	}
}

func TestEveryByteOfTheDeadOnAHostIsShown(t *testing.T) {
	shelf(t)
	c := own(2, "flood")
	c.onHosts(t, Host{"a", 2})
	c.Output.LogDir = t.TempDir()
	c.run(t)
	for _, name := range []string{"0.out", "1.out"} {
		log, err := os.ReadFile(filepath.Join(c.Output.LogDir, name))
		if err != nil || strings.Count(string(log), "\n") != floodLines || !strings.HasSuffix(string(log), "\nthe end") {
			t.Errorf("%s: %d bytes (%v)", name, len(log), err)
		}
	}
}

func TestSignalsAndTheTimeoutReachHosts(t *testing.T) {
	t.Parallel() // it waits
	c := shell(2, `trap 'echo caught; exit 0' INT; echo ready; while :; do sleep 0.01; done`)
	c.onHosts(t, Host{"a", 1}, Host{"b", 1})
	wait := c.begin(t)
	c.out.await(t, "ready", 2)
	c.signals <- syscall.SIGINT
	if r := wait(); r.Signal != "SIGINT" || strings.Count(c.out.String(), "caught") != 2 {
		t.Errorf("report %+v, shown %q", r, c.out.String())
	}
	c = own(2, "stuck")
	c.onHosts(t, Host{"a", 1}, Host{"b", 1})
	c.Timeout = 5 * time.Second // in which it has started, on a busy machine too
	if r := c.run(t); !r.Timeout || strings.Count(c.err.String(), "goroutine 1 ") < 2 {
		t.Errorf("report %+v, standard error %q", r, c.err.String())
	}
}

func TestALostHostLosesItsRanks(t *testing.T) {
	dir, err := os.MkdirTemp("", "l") // the dead agent leaves its directory there
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	t.Setenv(control.VarParent, dir)
	c := shell(3, `echo agent $PPID, pid $$; [ $RANK = 0 ] && exit 0; exec sleep 300`)
	c.onHosts(t, Host{"a", 1}, Host{"b", 2})
	wait := c.begin(t)
	c.out.await(t, "agent", 3)
	agent := numbers(t, c.out.await(t, `\[1\] agent (\d+)`, 1))[0]
	pids := numbers(t, c.out.await(t, `\[[12]\] agent \d+, pid (\d+)`, 2))
	syscall.Kill(agent, syscall.SIGKILL)
	r := wait()
	if r.Exit != 0 || !slices.Equal(r.Killed, []int{1, 2}) || r.Tasks[1].Why != "host b lost: signal: killed" {
		t.Errorf("report %+v", r)
	}
	gone(t, pids...)
}

func TestHostsThatCannotStartAreNamed(t *testing.T) {
	shelf(t)
	for _, c := range []struct {
		hosts   []Host
		program string
		want    string
		input   bool
	}{
		{[]Host{{"a", 1}, {"down", 1}}, "sh", "host down lost: exit status 255: no route to down", false},
		{[]Host{{"a", 1}, {"b", 1}}, "nosuch", "host a: program nosuch: not found in $PATH; allowed: an executable file", true},
	} {
		job := shell(2, "exec sleep 300")
		job.Program = c.program
		job.onHosts(t, c.hosts...)
		plan, err := New(job.Config)
		if err != nil {
			t.Fatal(err)
		}
		_, err = plan.Run(context.Background())
		if err == nil || err.Error() != c.want || errors.As(err, new(InputError)) != c.input {
			t.Errorf("%v: error %v, want %s", c.hosts, err, c.want)
		}
	}
}

func TestAHostThatDoesNotAnswerIsLeftByASignal(t *testing.T) {
	t.Parallel() // it waits
	c := shell(2, "exec sleep 300")
	c.onHosts(t, Host{"slow", 1}, Host{"a", 1})
	plan, err := New(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(200*time.Millisecond, func() { c.signals <- syscall.SIGINT })
	if _, err := plan.Run(context.Background()); err == nil || err.Error() != "interrupted by SIGINT while host slow was called" || !errors.Is(err, Interrupted{syscall.SIGINT}) {
		t.Errorf("error %v", err)
	}
}

func TestAnAgentThatIsToldToEndLeavesNothing(t *testing.T) {
	shelf(t)
	in, orders := io.Pipe()
	defer orders.Close()
	var out text
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Agent(ctx, in, &out, nil, nil) }()
	say := &lineWriter{w: orders}
	if err := say.say(agentOrders{Size: 1, Coordinator: "here:1", Ranks: []int{0}, Program: "sleep", Args: []string{"300"}}); err != nil {
		t.Fatal(err)
	}
	pid := numbers(t, out.await(t, `"started","rank":0,"pid":(\d+)`, 1))[0]
	cancel()
	if err := <-done; err != nil || alive(pid) {
		t.Errorf("error %v, process alive: %v", err, alive(pid))
	}
	if want := `{"type":"exited","rank":0,"status":{"exit":-1,"signal":9,`; !strings.Contains(out.String(), want) {
		t.Errorf("said %s, want %s", out.String(), want)
	}
}

// TestAnAgentKillsOnAQuorumsWordOnly: whatever a coordinator that is wrong, or cut off with a minority, orders, a process that has joined stays.
// What the user orders is done.
func TestAnAgentKillsOnAQuorumsWordOnly(t *testing.T) {
	shelf(t)
	in, orders := io.Pipe()
	var out text
	done := make(chan error, 1)
	go func() { done <- Agent(t.Context(), in, &out, nil, nil) }()
	say := &lineWriter{w: orders}
	if err := say.say(agentOrders{Size: 5, Coordinator: "here:1", Ranks: []int{0, 1, 2}, Life: 1, Program: "sh", Args: []string{"-c", `echo in $COPPICE_DIR; exec sleep 300`}}); err != nil {
		t.Fatal(err)
	}
	pids := numbers(t, out.await(t, `"started","rank":\d,"pid":(\d+)`, 3))
	out.await(t, `"output","rank":\d`, 3)
	dirs, _ := filepath.Glob(filepath.Join(os.Getenv("COPPICE_JOBS_DIR"), "*", "key"))
	if len(dirs) != 1 {
		t.Fatalf("directories of jobs: %q", dirs)
	}
	for rank := range 2 { // as processes do that join
		record, err := control.OpenRecord(filepath.Dir(dirs[0]), rank, 1)
		if err != nil {
			t.Fatal(err)
		}
		defer record.Close()
	}
	fence := func(rank int, life uint64, proof []byte) {
		if err := say.say(command{Fence: &control.Fence{Rank: rank, Incarnation: life, Why: "a test", Proof: proof}}); err != nil {
			t.Fatal(err)
		}
	}
	for i, c := range []struct {
		life  uint64
		proof []byte
		why   string
	}{
		{1, nil, "the order carries no proof"},
		{1, proof(1, 5, 2, 0, 3, 4), "2 of the 5 members"},
		{1, proof(1, 5, 2, 1), "it is about 1, not about 0"},
		{2, proof(1, 5, 2, 0), "incarnation 1 runs here, not 2"},
		{1, []byte("forged"), "not a membership letter"},
	} {
		fence(0, c.life, c.proof)
		out.await(t, `"(spared|exited)","rank":0`, i+1)
		if !alive(pids[0]) || strings.Contains(out.String(), "exited") || !strings.Contains(out.String(), c.why) {
			t.Fatalf("said %s, want %q", out.String(), c.why)
		}
	}
	fence(0, 1, proof(1, 5, 2, 0))
	out.await(t, `"exited","rank":0`, 1)
	fence(2, 1, nil) // it has not joined
	out.await(t, `"exited","rank":2`, 1)
	rank := 1
	if err := say.say(command{Signal: syscall.SIGKILL, Rank: &rank}); err != nil { // the user
		t.Fatal(err)
	}
	out.await(t, `"exited","rank":1`, 1)
	orders.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestACoordinatorWithAMinorityKillsNobody: rank 0 and the coordinator in the launcher are sure of what they have, and the processes of host b
// are healthy.
func TestACoordinatorWithAMinorityKillsNobody(t *testing.T) {
	shelf(t)
	c := own(5, "minority")
	c.onHosts(t, Host{"a", 2}, Host{"b", 3})
	r := c.run(t)
	if r.Exit != 0 || len(r.Killed) > 0 || strings.Count(c.out.String(), "refused: ") != 2 {
		t.Errorf("report %+v, shown %q", r, c.out.String())
	}
}

// TestAnAgentWithoutProcessesEnds: when all is said, and if nobody takes it when the launcher was not heard of for long
// enough; its orders end in neither case.
func TestAnAgentWithoutProcessesEnds(t *testing.T) {
	shelf(t)
	for name, stuck := range map[string]bool{"all said": false, "the launcher is gone": true} {
		in, orders := io.Pipe()
		from, to := io.Pipe()
		done := make(chan error, 1)
		go func() { done <- Agent(context.Background(), in, to, nil, nil) }()
		greeted, release := make(chan struct{}), make(chan struct{})
		go func() {
			said := newLineReader(from)
			said.Scan()
			close(greeted)
			for said.Scan() && !stuck { // the first line that follows says that it has started
			}
			<-release
		}()
		<-greeted
		patience := time.Hour
		if stuck {
			patience = 10 * time.Millisecond
		}
		if err := (&lineWriter{w: orders}).say(agentOrders{
			Size: 1, Coordinator: "here:1", Ranks: []int{0}, Program: "sh", Args: []string{"-c", "echo much"}, Patience: patience,
		}); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(time.Minute):
			t.Errorf("%s: the agent stays", name)
		}
		orders.Close()
		to.Close()
		from.Close()
		close(release)
	}
}

// TestTheEndDoesNotWaitForALostHost: it has lost its power, so to speak, and its connection is still there.
func TestTheEndDoesNotWaitForALostHost(t *testing.T) {
	dir, err := os.MkdirTemp("", "l") // the dead agent leaves its directory there
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	t.Setenv("COPPICE_JOBS_DIR", dir)
	c := own(2, "powerless")
	c.onHosts(t, Host{"a", 1}, Host{"b", 1})
	c.Silence = time.Second
	r := c.begin(t)()
	if r.Exit != 0 || !slices.Equal(r.Killed, []int{1}) || !strings.Contains(c.out.String(), "[0] death: rank 1 (incarnation 1) is suspected") {
		t.Errorf("report %+v, shown %q", r, c.out.String())
	}
	gone(t, r.Tasks[1].PID)
}

func TestNoOrphansOnHostsWhenTheLauncherIsKilled(t *testing.T) {
	dir := shelf(t)
	c := own(2, "patient")
	c.onHosts(t, Host{"a", 1}, Host{"b", 1})
	config, err := json.Marshal(map[string]any{
		"N": 2, "Program": c.Program, "Env": c.Env, "Hosts": c.Hosts, "SSH": c.SSH, "Agent": c.Agent,
	})
	if err != nil {
		t.Fatal(err)
	}
	var out text
	cmd := exec.Command(c.Program, string(config))
	cmd.Env = append(os.Environ(), programVar+"=launcher")
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pids := numbers(t, out.await(t, `pid (\d+)`, 2))
	cmd.Process.Kill()
	_ = cmd.Wait()
	gone(t, pids...)
	left, _ := filepath.Glob(filepath.Join(dir, "*")) // the launcher's and, the fake ssh being killed with it, the agents'
	for _, d := range left {
		os.RemoveAll(d)
	}
}

// TestAnAgentOfAnotherVersionIsRefused: at once, and not when nobody has answered for a minute.
func TestAnAgentOfAnotherVersionIsRefused(t *testing.T) {
	r := &remote{connection: connection{host: "old"}, ended: func(ending) {}, orders: agentOrders{Patience: time.Hour}}
	callers := newThreads(1)
	defer callers.close()
	var called error
	callers.each(1, func(int) {
		called = r.call([]string{"sh", "-c", "echo Welcome; echo coppice agent 1; read -r line"}, nil)
	})
	if called != nil {
		t.Fatal(called)
	}
	select {
	case err := <-r.started:
		want := `host old: it has another version of coppice: it says "coppice agent 1", and this one "` + agentGreeting + `"; allowed: the same version on all hosts`
		if !errors.As(err, new(InputError)) || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	case <-time.After(30 * time.Second):
		t.Error("the launcher waits")
	}
}

// TestACallEndsThoughAChildOfSSHRuns: a wrapper of ssh is killed, and what it has started holds its output.
func TestACallEndsThoughAChildOfSSHRuns(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("sleep"); err != nil {
		t.Skipf("needs sleep: %v; on Debian: apt-get install coreutils", err)
	}
	c, err := callAgent([]string{"sh", "-c", "echo '" + agentName + "1'; sleep 60; true"}, nil, "old")
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if _, err := c.next(t.Context(), 50*time.Second); err == nil || !strings.Contains(err.Error(), "another version") {
		t.Errorf("after %v: %v, want what is wrong with the agent", time.Since(began), err)
	}
	c.hangUp()
	if took := time.Since(began); took > 40*time.Second {
		t.Errorf("the call ended after %v", took)
	}
}

// TestTheCoordinatorListensWhereItIsTold: on one interface, at one of some ports, and agents are told where.
func TestTheCoordinatorListensWhereItIsTold(t *testing.T) {
	shelf(t)
	for _, host := range []string{"127.0.0.1", "::1"} {
		_, free, _ := net.SplitHostPort(port.Free(t))
		taken, err := net.Listen("tcp", net.JoinHostPort(host, free))
		if err != nil {
			t.Skipf("runs where one can listen at %s: %v", host, err)
		}
		defer taken.Close()
		low := taken.Addr().(*net.TCPAddr).Port
		c := shell(1, `echo at $COPPICE_COORDINATOR`)
		c.onHosts(t, Host{"a", 1})
		c.Coordinator = net.JoinHostPort(host, fmt.Sprintf("%d-%d", low, low+9))
		c.run(t)
		_, said, _ := strings.Cut(strings.TrimSpace(c.out.String()), "at ")
		at, chosen, err := net.SplitHostPort(said)
		number, _ := strconv.Atoi(chosen)
		if err != nil || at != host || number <= low || number > low+9 {
			t.Errorf("said %q, %v; want %s and a port from %d to %d", c.out.String(), err, host, low+1, low+9)
		}
	}
}

// A login may take longer than a beat: what the agent reads first is its orders.
func TestOrdersComeFirst(t *testing.T) {
	read := filepath.Join(t.TempDir(), "read")
	script := fmt.Sprintf("sleep 0.5; echo '%s'; read -r line; echo \"$line\" >%s", agentGreeting, read)
	r := &remote{connection: connection{host: "slow"}, ended: func(ending) {}, orders: agentOrders{Program: "the program", Patience: 60 * time.Millisecond}}
	callers := newThreads(1)
	defer callers.close()
	var called error
	callers.each(1, func(int) { called = r.call([]string{"sh", "-c", script}, nil) })
	if called != nil {
		t.Fatal(called)
	}
	<-r.left
	if line, err := os.ReadFile(read); err != nil || !strings.Contains(string(line), "the program") {
		t.Errorf("the agent was told %q first, %v", line, err)
	}
}
