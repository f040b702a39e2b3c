//go:build unix

package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/transport"
)

// listening is this host under a number, on the loopback interface.
func listening(t *testing.T, number uint32, key string) *host {
	t.Helper()
	t.Setenv(transport.ListenVariable, "tls:127.0.0.0/8:0")
	h := &host{orders: orders{Number: number, Key: []byte(strings.Repeat(key, 32))}}
	if h.listen() == nil {
		t.Fatal(h.findings)
	}
	t.Cleanup(h.close)
	return h
}

// targetAt is a host with a number at an address.
func targetAt(number uint32, at string) target {
	return target{Number: number, Host: transport.HostID(), Addresses: []string{"tls:" + at}}
}

func (h *host) address() string { return h.endpoint.Addresses()[0].Host.String() }

// TestConnectionsThatFailAreToldApart: nobody there, the wrong one, one with another key, one that says nothing.
func TestConnectionsThatFailAreToldApart(t *testing.T) {
	us, peer, stranger := listening(t, 0, "k"), listening(t, 1, "k"), listening(t, 1, "j")
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	for _, c := range []struct {
		name string
		to   target
		want string
	}{
		{"the one that was meant", targetAt(1, peer.address()), reachedWell},
		{"another number", targetAt(2, peer.address()), strange},
		{"another key", targetAt(1, stranger.address()), strange},
		{"nobody", targetAt(1, gone.Addr().String()), refused},
		{"one that says nothing", targetAt(1, silent.Addr().String()), unfinished},
		{"no address", target{Number: 1}, unreachable},
		{"the launcher, by a name", target{Number: 1, Addresses: []string{"tls:" + peer.address()}, Fallback: "localhost"}, reachedWell},
		{"the launcher, by a name that is none", target{Number: 1, Addresses: []string{"tls:" + peer.address()}, Fallback: "nosuch.invalid"}, unreachable},
	} {
		t.Setenv("SSH_CONNECTION", "")
		if got := us.reach(t.Context(), c.to); got.How != c.want {
			t.Errorf("%s: %+v, want %s", c.name, got, c.want)
		}
	}
	for deadline := time.Now().Add(10 * time.Second); len(peer.whoWasHeard()) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no datagram has come")
		}
	}
}

func TestFailuresToConnectHaveNames(t *testing.T) {
	for want, err := range map[string]error{
		refused:     &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)},
		blocked:     &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded},
		unreachable: &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EHOSTUNREACH)},
	} {
		if got := failure(err); got != want {
			t.Errorf("%v: %s, want %s", err, got, want)
		}
	}
	if got := failure(fmt.Errorf("dial: %w", context.DeadlineExceeded)); got != blocked {
		t.Errorf("a deadline: %s", got)
	}
}

// examinedWays is an examination of three hosts, the first of which is this one.
func examinedWays() *examination {
	e := &examination{}
	for i, name := range []string{here, "a", "b"} {
		e.all = append(e.all, &patient{name: name, orders: orders{Number: uint32(i)}})
	}
	return e
}

// TestWaysThatAreBlockedSayWhatIsLost: a connection needs both directions, and datagrams tell which is cut.
func TestWaysThatAreBlockedSayWhatIsLost(t *testing.T) {
	both := "what a sends to b is lost"
	for _, c := range []struct {
		name   string
		aHears bool // datagrams of b
		bHears bool
		want   string
	}{
		{"from a to b", true, false, both},
		{"from b to a", false, true, "what b sends to a is lost"},
		{"both", false, false, ""},
		{"connections alone", true, true, ""},
	} {
		e := examinedWays()
		a, b := e.all[1], e.all[2]
		a.reached = []reached{{To: 2, Address: "[fd00::2]:7000", How: blocked}}
		if c.aHears {
			a.heard = []uint32{2}
		}
		if c.bHears {
			b.heard = []uint32{1}
		}
		e.judgeWays()
		if len(e.report.Findings) != 1 || e.report.Exit != 1 {
			t.Fatalf("%s: %+v", c.name, e.report)
		}
		f := e.report.Findings[0]
		if f.Where != "a → b" || !strings.HasPrefix(f.Text, "[fd00::2]:7000 is blocked: no answer within 3s") || !strings.Contains(f.Text, c.want) || strings.Contains(f.Text, "lost") != (c.want != "") {
			t.Errorf("%s: %+v", c.name, f)
		}
		if strings.Contains(c.want, "what b") == strings.Contains(f.Advice, "TCP port 7000") {
			t.Errorf("%s: advice %q", c.name, f.Advice)
		}
	}
}

// TestTheLauncherNeedsNoConnectionsOfItsOwn: it calls hosts through ssh.
func TestTheLauncherNeedsNoConnectionsOfItsOwn(t *testing.T) {
	for _, how := range []string{blocked, refused, unreachable, strange, unfinished} {
		e := examinedWays()
		e.all[0].reached = []reached{{To: 1, Address: "10.0.0.1:7000", How: how, Text: "no way"}}
		e.judgeWays()
		if f := e.report.Findings; len(f) != 1 || f[0].State != Note || f[0].Advice == "" || e.report.Exit != 0 {
			t.Errorf("%s: %+v", how, e.report)
		}
		e = examinedWays()
		e.all[1].reached = []reached{{To: 0, Address: "10.0.0.1:7000", How: how, Text: "no way"}}
		e.judgeWays()
		if f := e.report.Findings; len(f) != 1 || f[0].State != Fail || e.report.Exit != 1 {
			t.Errorf("to the launcher, %s: %+v", how, e.report)
		}
	}
}

func TestClocksAreJudgedByMoreThanTheirError(t *testing.T) {
	for _, c := range []struct {
		ahead, within time.Duration
		want, text    string
	}{
		{900 * time.Millisecond, 0, OK, "900.0 ms ahead, ± 0.0 ms"},
		{3 * time.Second, 2500 * time.Millisecond, OK, ""},
		{-3 * time.Second, time.Second, Note, "3000.0 ms behind, ± 1000.0 ms"},
	} {
		e := examinedWays()
		e.judgeClock(&patient{name: "a", ahead: c.ahead, within: c.within})
		if f := e.report.Findings[0]; f.State != c.want || !strings.Contains(f.Text, c.text) || e.report.Exit != 0 {
			t.Errorf("%v: %+v", c.ahead, f)
		}
	}
}

// TestAHostThatSaysNothingIsGivenUp: within its time, whatever its command has started.
func TestAHostThatSaysNothingIsGivenUp(t *testing.T) {
	if _, err := exec.LookPath("sleep"); err != nil {
		t.Skip("SKIPPED: hosts that say nothing, for which sleep stands, and there is none; on Debian: apt-get install coreutils")
	}
	began := time.Now()
	for _, words := range [][]string{{"sh", "-c", "sleep 300"}, {"sh", "-c", "sleep 300; true"}, {"sh", "-c", "echo " + greeting + "; exec sleep 300"}} {
		s, err := call(words)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = s.ask(t.Context(), 500*time.Millisecond, nil); err == nil {
			_, err = s.ask(t.Context(), 500*time.Millisecond, &request{})
		}
		s.close()
		if !errors.Is(err, errSilent) || !strings.Contains(err.Error(), "no answer within 500ms") {
			t.Errorf("%q: %v", words, err)
		}
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("took %v", took)
	}
}

// TestAHostThatTalksNonsenseIsGivenUp: its words are shown.
func TestAHostThatTalksNonsenseIsGivenUp(t *testing.T) {
	s, err := call([]string{"sh", "-c", "echo " + greeting + "; echo nonsense; cat >/dev/null"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if _, err := s.ask(t.Context(), time.Minute, &request{}); err == nil || !strings.Contains(err.Error(), `it says "nonsense"`) {
		t.Error(err)
	}
}

func TestRequestsThatAreNoneEndTheTalk(t *testing.T) {
	var out strings.Builder
	err := Serve(t.Context(), "v", strings.NewReader("{}\n{\"reach\":[{}]}\nnonsense\n"), &out)
	if err == nil || !strings.Contains(err.Error(), "allowed: those of coppice doctor") || strings.Count(out.String(), "\n") != 3 {
		t.Errorf("%v, said %q", err, out.String())
	}
	if err := Serve(t.Context(), "v", strings.NewReader(""), io.Discard); err != nil {
		t.Error(err)
	}
}

// TestDatagramsKeepToTheInterface: as connections do.
func TestDatagramsKeepToTheInterface(t *testing.T) {
	h := listening(t, 0, "k")
	if got := h.udp.Address().Addr(); got != netip.MustParseAddr("127.0.0.1") {
		t.Errorf("datagrams at %v", got)
	}
}
