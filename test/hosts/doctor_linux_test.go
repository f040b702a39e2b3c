package hosts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/doctor"
	"github.com/coppice-go/coppice/test/machine"
)

// newDoctorsLab makes hosts with an sshd each, or skips the test.
func newDoctorsLab(t *testing.T) (*lab, *hostNetwork) {
	t.Helper()
	l := openLab(t)
	if l.noSSH != nil {
		t.Skip(l.noSSH)
	}
	n, err := l.newNetwork()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	return l, n
}

// examined returns what coppice doctor finds, called on the launcher's host.
func (l *lab) examined(t *testing.T, n *hostNetwork, listen string, args ...string) (r doctor.Report) {
	t.Helper()
	exit := l.calls(t, n, listen, &r, append([]string{"doctor", "--json"}, args...)...)
	if exit != r.Exit {
		t.Errorf("exit code %d, though the report says %d", exit, r.Exit)
	}
	if r.Seconds > 40 {
		t.Errorf("took %.1f s", r.Seconds)
	}
	return r
}

// finds examines hosts until it finds what it should, at most five times, since a busy machine may not
// answer in time.
func (l *lab) finds(t *testing.T, n *hostNetwork, listen string, want []string, args ...string) (r doctor.Report) {
	t.Helper()
	for range 5 {
		still := machine.Watch()
		r = l.examined(t, n, listen, args...)
		late := still().Most
		if slices.Equal(wrong(r), want) || late < 100*time.Millisecond {
			break
		}
		t.Logf("the machine kept a process waiting for %v: found %q", late, wrong(r))
	}
	return r
}

// calls runs coppice on the launcher's host, and parses the JSON that it prints.
func (l *lab) calls(t *testing.T, n *hostNetwork, listen string, report any, args ...string) (exit int) {
	t.Helper()
	cmd := exec.Command(l.path("bin", "coppice"), args...)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	cmd.Env = []string{"PATH=" + l.searchPath(), "HOME=" + l.dir, "COPPICE_LISTEN=" + listen}
	if err := n.Hosts[launcherHost].Start(cmd); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if err := json.Unmarshal(out.Bytes(), report); err != nil {
		t.Fatalf("%v: %s%s", err, out.String(), said.String())
	}
	return cmd.ProcessState.ExitCode()
}

// wrong returns the findings that are not well, each as its state, check and place.
func wrong(r doctor.Report) (all []string) {
	for _, f := range r.Findings {
		if f.State != doctor.OK {
			all = append(all, fmt.Sprintf("%s %s %s", f.State, f.Check, f.Where))
		}
	}
	return all
}

// TestHostsDoctorNamesTheWay: where a firewall or a broken network keeps hosts apart, the doctor names
// the way and the cause.
func TestHostsDoctorNamesTheWay(t *testing.T) {
	t.Parallel()
	l, n := newDoctorsLab(t)
	const listen = "tls:7000-7099"
	to := func(from, to int) string { return fmt.Sprintf("from %s to %s", addressOf(from), addressOf(to)) }
	for _, c := range []struct {
		name             string
		selector, action string
		want             []string
		text             string // in every finding that fails
	}{
		{"whole", "", "", nil, ""},
		{"a firewall", to(0, 1) + " ipproto tcp dport 7000-7099", "blackhole", []string{"fail connect host0 → host1"}, "198.18.1.2:7000 is blocked: no answer within 3s"},
		{"one that says so", to(1, 2) + " ipproto tcp dport 7000-7099", "prohibit", []string{"fail connect host1 → host2"}, "198.18.2.2:7000: "},
		{"to the launcher", to(2, launcherHost) + " ipproto tcp dport 7000-7099", "blackhole", []string{"fail connect host2 → this host"}, "is blocked"},
		{"from the launcher", to(launcherHost, 2) + " ipproto tcp dport 7000-7099", "blackhole", []string{"note connect this host → host2"}, ""},
		{"datagrams", to(2, 0) + " ipproto udp", "blackhole", []string{"note datagrams host2 → host0"}, ""},
		{"all packets one way", to(0, 2), "blackhole", []string{"fail connect host0 → host2", "fail connect host2 → host0"}, "what host0 sends to host2 is lost"},
		{"a host that cannot be called", to(launcherHost, 1), "blackhole", []string{"fail call host1"}, "no answer within 10s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.selector != "" {
				if err := n.Rule(c.selector, c.action); err != nil {
					t.Fatal(err)
				}
				defer func() {
					if err := n.Unrule(c.selector, c.action); err != nil {
						t.Error(err)
					}
				}()
			}
			r := l.finds(t, n, listen, c.want, "--hosts", "host0,host1:2,host2", "--", "program")
			if got := wrong(r); !slices.Equal(got, c.want) {
				t.Errorf("found %q, want %q: %+v", got, c.want, r.Findings)
			}
			for _, f := range r.Findings {
				if f.State == doctor.Fail && !strings.Contains(f.Text, c.text) {
					t.Errorf("says %q, want %q", f.Text, c.text)
				}
				if f.State != doctor.OK && f.Advice == "" {
					t.Errorf("%q: no advice", f.Text)
				}
			}
		})
	}
}

// TestHostsOverIPv6: the doctor examines hosts given only by their IPv6 addresses, and a job runs on
// them.
func TestHostsOverIPv6(t *testing.T) {
	t.Parallel()
	l, n := newDoctorsLab(t)
	if err := n.onlyIPv6(); err != nil {
		t.Fatal(err)
	}
	hosts := fmt.Sprintf("[%s]:2,[%s]:2,root@[%s]:1", address6(0, 2), address6(1, 2), address6(2, 2))
	for _, network := range []string{"", "fd00:18::/32"} {
		where := []string{"--hosts", hosts}
		if network != "" {
			where = append(where, "--interface", network)
		}
		r := l.finds(t, n, "", nil, where...)
		if got := wrong(r); got != nil || r.Exit != 0 {
			t.Fatalf("found %q: %+v", got, r.Findings)
		}
		j, err := l.start(t.Context(), n, time.Minute, append(append(where, "--"), stepsProgram(2*time.Second, stepTasks)...)...)
		if err != nil {
			t.Fatal(err)
		}
		ran, err := j.end()
		if err != nil || ran.Exit != 0 || len(ran.evicted()) > 0 {
			t.Errorf("network %q: %v, %+v\n%s", network, err, ran, j.log())
		}
	}
}

// TestHostsNeedThesePortsOnly: a firewall that opens ssh and as many ports as the guide,
// docs/operations.md, names is open enough.
func TestHostsNeedThesePortsOnly(t *testing.T) {
	t.Parallel()
	l, n := newDoctorsLab(t)
	// Two processes on each host, and the launcher's coordinator on its own; a detached job has a seed on each host.
	const ports, seeded = "7000-7001", "7000-7002"
	var rules strings.Builder
	for _, open := range []string{"tcp dport 22", "tcp sport 22", "tcp dport " + seeded, "tcp sport " + seeded, "udp dport " + ports} {
		fmt.Fprintf(&rules, "rule add pref 100 ipproto %s lookup main\n", open)
	}
	rules.WriteString("rule add pref 200 from 198.18.0.0/15 to 198.18.0.0/15 blackhole\n")
	if err := n.router.ip(rules.String()); err != nil {
		t.Fatal(err)
	}
	const hosts = "host0:2,host1:2,host2:2"
	if r := l.finds(t, n, "tls:"+ports, nil, "--hosts", hosts); wrong(r) != nil {
		t.Fatalf("%+v", r.Findings)
	}
	if r := l.examined(t, n, "", "--hosts", hosts); r.Exit != 1 {
		t.Errorf("any ports: %+v", r.Findings)
	}
	var r report
	words := append([]string{"run", "--json", "--timeout", "1m", "--hosts", hosts, "--"}, stepsProgram(2*time.Second, stepTasks)...)
	words[len(words)-1] = l.path("ports-steps")
	if exit := l.calls(t, n, "tls:"+ports, &r, words...); exit != 0 || len(r.evicted()) > 0 {
		t.Errorf("exit code %d, %+v", exit, r)
	}
	var detached struct{ Job string }
	if exit := l.calls(t, n, "tls:"+seeded, &detached, append([]string{"run", "--detach", "--json"}, words[4:]...)...); exit != 0 {
		t.Fatalf("exit code %d", exit)
	}
	if exit := l.calls(t, n, "", &r, "attach", "--json", detached.Job); exit != 0 || len(r.evicted()) > 0 {
		t.Errorf("detached: exit code %d, %+v", exit, r)
	}
}
