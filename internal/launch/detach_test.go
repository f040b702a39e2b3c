//go:build unix

package launch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/extent"
	"github.com/coppice-go/coppice/internal/spool"
)

// detach starts a test's processes on hosts, where they outlive their launcher.
func (c *test) detach(t *testing.T, hosts ...Host) (a *Attachment, ssh string) {
	t.Helper()
	t.Setenv("HOME", t.TempDir())
	ssh = c.onHosts(t, hosts...)
	c.StdinRank = -1
	p, err := New(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	about := p.About()
	if err := p.Detach(context.Background(), "7", about); err != nil {
		t.Fatal(err)
	}
	return &Attachment{Job: "7", Hosts: about.Hosts, SSH: c.SSH, Agent: c.Agent, Notice: func(string) {}}, ssh
}

func TestDetachedProcessesFindEachOther(t *testing.T) {
	shelf(t)
	c := own(4, "member")
	a, _ := c.detach(t, Host{"a", 1}, Host{"b", 3})
	out := ""
	a.Emit = func(_ string, _ int, data []byte, _ int64) error {
		out += string(data)
		return nil
	}
	r, err := a.Follow(context.Background())
	if err != nil || r.Exit != 0 || strings.Count(out, "joined") != 4 {
		t.Errorf("%+v, %v, shown %q", r, err, out)
	}
}

// TestAttachmentSurvivesItsConnections breaks the connection with a host again and again: nothing that was written is missing, or
// comes twice.
func TestAttachmentSurvivesItsConnections(t *testing.T) {
	const lines = 60
	shelf(t)
	c := shell(2, fmt.Sprintf(`i=0; while [ $i -lt %d ]; do echo line $i; i=$((i+1)); sleep 0.01; done`, lines))
	a, ssh := c.detach(t, Host{"a", 1}, Host{"b", 1})
	if err := os.WriteFile(ssh, []byte(strings.Replace(fakeSSH, "exec \"$@\"\n", "echo $$ >> \"$0.pids\"\nexec \"$@\"\n", 1)), 0o700); err != nil {
		t.Fatal(err)
	}
	got, broken := map[string]string{}, 0
	a.Notice = func(string) { broken++ }
	a.Emit = func(host string, _ int, data []byte, _ int64) error {
		got[host] += string(data)
		if n := strings.Count(got[host], "\n"); n == 10 || n == 20 { // of those that were called some are gone
			pids, err := os.ReadFile(ssh + ".pids")
			if err != nil {
				return err
			}
			for _, text := range strings.Fields(string(pids)) {
				pid, _ := strconv.Atoi(text)
				if words, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)); strings.Contains(string(words), programVar+"=agent") {
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			}
		}
		return nil
	}
	r, err := a.Follow(context.Background())
	if err != nil || r.Exit != 0 {
		t.Fatal(r, err)
	}
	for rank, host := range []string{"a", "b"} {
		want := ""
		for i := range lines {
			want += fmt.Sprintf("[%d] line %d\n", rank, i)
		}
		if got[host] != want {
			t.Errorf("host %s: %q", host, got[host])
		}
	}
	if broken == 0 {
		t.Error("no connection was broken")
	}
}

// TestTimeoutOfDetachedProcesses: each host ends its processes, and asks them for their goroutines before, of which it keeps the program's.
func TestTimeoutOfDetachedProcesses(t *testing.T) {
	shelf(t)
	c := shell(3, `[ $RANK = 2 ] && exit 0; trap 'echo asked; printf "SIGQUIT: quit\n\ngoroutine 1 [running]:\nmain.f()\n\tmain.go:1\n\ngoroutine 7 [select]:\nruntime.gopark(0x1)\n\n" >&2; exit 3' QUIT; while :; do sleep 0.01; done`)
	c.Timeout = 2 * time.Second
	a, _ := c.detach(t, Host{"a", 1}, Host{"b", 2})
	out := ""
	a.Emit = func(_ string, _ int, data []byte, _ int64) error {
		out += string(data)
		return nil
	}
	r, err := a.Follow(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if r.Exit != 1 || r.Error != "time-out after 2s, when tasks 0, 1 still ran" || !strings.Contains(string(r.Report), `"timeout":true`) {
		t.Errorf("exit %d: %s; %s", r.Exit, r.Error, r.Report)
	}
	if strings.Count(out, "asked") != 2 || strings.Count(out, "main.f()") != 2 || strings.Contains(out, "gopark") {
		t.Errorf("they said %q", out)
	}
}

// TestLauncherThatIsGoneLeavesTooFew: when the launcher is killed before it has given all orders, those that were started
// end if they are too few, and within JoinTimeout.
func TestLauncherThatIsGoneLeavesTooFew(t *testing.T) {
	shelf(t)
	c := own(3, "member")
	c.JoinTimeout = time.Second
	t.Setenv("HOME", t.TempDir())
	c.onHosts(t, Host{"a", 1}, Host{"b", 2})
	c.StdinRank = -1
	p, err := New(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	call, err := callAgent(p.SSH, p.Agent, "a")
	if err != nil {
		t.Fatal(err)
	}
	seed, err := call.seed(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	orders, err := p.keptOrders("7", p.About(), []string{seed, "127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	orders.Ranks, orders.Keep.Host = []int{0}, "a"
	if err := call.say.say(orders); err != nil {
		t.Fatal(err)
	}
	call.hangUp() // it does not wait for an answer
	root, err := spool.Root()
	if err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if job, err := spool.Open(root, KeptName("7", "a")); err == nil && job.Result() != nil {
			break
		}
		if time.Since(began) > 30*time.Second {
			t.Fatal("it did not end")
		}
	}
	r, err := (&Attachment{Job: "7", Hosts: []spool.Host{{Name: "a", Ranks: []int{0}}}, SSH: p.SSH, Agent: p.Agent}).Follow(context.Background())
	if err != nil || r.Exit != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestKilledKeeperTakesItsProcesses: they end, and what is left of them is removed by who asks.
func TestKilledKeeperTakesItsProcesses(t *testing.T) {
	dir := shelf(t)
	c := shell(2, `echo $$ > `+filepath.Join(t.TempDir(), "pid")+`-$RANK; [ $RANK = 0 ] || exec sleep 300`)
	a, _ := c.detach(t, Host{"a", 1}, Host{"b", 1})
	root, _ := spool.Root()
	job, err := spool.Open(root, KeptName("7", "b"))
	if err != nil {
		t.Fatal(err)
	}
	if err := job.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	r, err := a.Follow(context.Background())
	if err != nil || r.Exit != 0 || !strings.Contains(r.Error, "task 1 was lost (host b: its agent was killed, and its processes with it)") {
		t.Errorf("%+v, %v", r, err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "coppice-*")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	if err := a.Remove(context.Background()); err != nil {
		t.Error(err)
	}
	if left := spool.List(root); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestStoppedKeeperIsNotWaitedForForEver: a host whose agent stands still does not answer.
func TestStoppedKeeperIsNotWaitedForForEver(t *testing.T) {
	if extent.Few(t, "a host that does not answer, which takes 16 s") {
		return
	}
	shelf(t)
	c := shell(3, `[ $RANK != 2 ] || exec sleep 300`)
	a, _ := c.detach(t, Host{"a", 2}, Host{"b", 1})
	root, _ := spool.Root()
	job, err := spool.Open(root, KeptName("7", "b"))
	if err != nil {
		t.Fatal(err)
	}
	if err := job.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() {
		for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGCONT} {
			if err := job.Signal(s); err != nil {
				t.Error(err)
			}
		}
		_, _ = job.Follow(context.Background(), 0, nil) // to the end of the keeper
	}()
	a.Patience = time.Second
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	r, err := a.Follow(ctx)
	if err != nil || !strings.Contains(r.Error, "task 2 was lost") {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestKeptJobsEndAsTheirHostsTell: what is concluded from what hosts tell.
func TestKeptJobsEndAsTheirHostsTell(t *testing.T) {
	exit := func(code int) *int { return &code }
	type task = TaskReport
	well := func(rank int) task { return task{Rank: rank, Joined: true, Exit: exit(0)} }
	ended := func(ranks []int, tasks ...task) hostEnd {
		return hostEnd{result: &spool.Result{}, report: hostReport{Report: Report{Tasks: tasks}, Ended: ranks}, finished: len(ranks) > 0}
	}
	gone := hostEnd{gone: "its agent was killed"}
	interrupted := ended(nil, task{Rank: 0, Joined: true, Exit: exit(1)})
	interrupted.result.Signal = syscall.SIGINT
	for _, c := range []struct {
		name   string
		ends   []hostEnd // of hosts with one process each; none: the host does not answer
		exit   int
		killed []int
		unsure bool
	}{
		{name: "all well", ends: []hostEnd{ended([]int{0}, well(0)), ended([]int{1}, well(1))}},
		{name: "an agent was killed", ends: []hostEnd{gone, ended([]int{1}, well(1))}, killed: []int{0}},
		{name: "a host was cut off", ends: []hostEnd{ended([]int{0}, well(0)), ended(nil, task{Rank: 1, Joined: true, Exit: exit(1)})}, killed: []int{1}},
		{name: "a process failed at the end", ends: []hostEnd{ended([]int{0}, well(0)), ended([]int{1}, task{Rank: 1, Joined: true, Exit: exit(1)})}, exit: 1},
		{name: "nobody saw the end", ends: []hostEnd{ended(nil, well(0)), ended(nil, well(1))}, exit: 1},
		{name: "all agents were killed", ends: []hostEnd{gone, gone}, exit: 1, killed: []int{0, 1}},
		{name: "a program that never joins", ends: []hostEnd{ended(nil, task{Rank: 0, Exit: exit(0)}), ended(nil, task{Rank: 1, Exit: exit(3)})}, exit: 1},
		{name: "a process of it died", ends: []hostEnd{ended(nil, task{Rank: 0, Exit: exit(0)}), ended(nil, task{Rank: 1, Signal: "SIGKILL"})}, killed: []int{1}},
		{name: "a minority is silent", ends: []hostEnd{ended(nil, task{Rank: 0, Exit: exit(0)}), ended(nil, task{Rank: 1, Exit: exit(0)}), {}}, killed: []int{2}},
		{name: "half is silent", ends: []hostEnd{ended(nil, task{Rank: 0, Joined: true, Exit: exit(1)}), {}}, unsure: true},
		{name: "a majority is silent after the end", ends: []hostEnd{ended([]int{0}, well(0)), {}, {}}, killed: []int{1, 2}},
		{name: "interrupted", ends: []hostEnd{interrupted}, exit: 1},
	} {
		a := &Attachment{missing: map[string]string{}, ended: map[string]hostEnd{}}
		for rank, end := range c.ends {
			name := fmt.Sprint("h", rank)
			a.Hosts = append(a.Hosts, spool.Host{Name: name, Ranks: []int{rank}})
			if end.result != nil || end.gone != "" {
				a.ended[name] = end
			}
		}
		r, err := a.conclude()
		if c.unsure {
			if !errors.Is(err, errUnsure) {
				t.Errorf("%s: %+v, %v", c.name, r, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		killed := "[]"
		if c.killed != nil {
			killed = strings.ReplaceAll(fmt.Sprint(c.killed), " ", ",")
		}
		if r.Exit != c.exit || !strings.Contains(string(r.Report), `"killed":`+killed+`,`) {
			t.Errorf("%s: exit %d, %s", c.name, r.Exit, r.Report)
		}
		if want := map[bool]syscall.Signal{true: syscall.SIGINT}[c.name == "interrupted"]; r.Signal != want {
			t.Errorf("%s: %v", c.name, r.Signal)
		}
	}
}

// TestSeedIsWhereProcessesListen: on an interface and among ports that a firewall lets through, and not the first one, which is a process's.
func TestSeedIsWhereProcessesListen(t *testing.T) {
	shelf(t)
	c := own(1, "member")
	c.onHosts(t, Host{"a", 1})
	low, taken := 20000, net.Listener(nil) // three ports, of which the last one is taken
	for ; taken == nil; low += 3 {
		if free, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", low+4)); err == nil {
			free.Close()
			taken, _ = net.Listen("tcp", fmt.Sprint("127.0.0.1:", low+5))
		}
	}
	defer taken.Close()
	for listen, want := range map[string]string{
		fmt.Sprintf("127.0.0.1:%d-%d", low, low+2): fmt.Sprint("127.0.0.1:", low+1),
		fmt.Sprintf("127.0.0.1:%d", low+2):         "address already in use",
		"127.0.0.1:0":                              "127.0.0.1:",
	} {
		call, err := callAgent(c.SSH, c.Agent, "a")
		if err != nil {
			t.Fatal(err)
		}
		got, err := call.seed(t.Context(), listen)
		call.hangUp()
		if text := fmt.Sprint(got, err); !strings.Contains(text, want) {
			t.Errorf("processes that listen at %q are looked for at %s, want %s", listen, text, want)
		}
	}
}
