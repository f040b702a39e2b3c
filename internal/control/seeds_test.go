//go:build unix

package control_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/control"
	"github.com/coppice-go/coppice/test/port"
)

// TestSeedIsListenedAtWithoutItsName: a server of names that does not answer holds nobody up.
func TestSeedIsListenedAtWithoutItsName(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	before := net.DefaultResolver
	defer func() { net.DefaultResolver = before }()
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}}
	defer cancel() // for the goroutine that still waits for an answer
	began := time.Now()
	l, err := control.ListenDoor("steps-0.steps:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("after %v", took)
	}
}

// TestNamesAreAskedForAgain: a question that nobody answers does not stand for those that follow, though two have asked it at once.
func TestNamesAreAskedForAgain(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	before := net.DefaultResolver
	defer func() { net.DefaultResolver = before }()
	defer cancel()
	var asked atomic.Int64
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		asked.Add(1)
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}}
	try := func() {
		ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		if _, err := control.Shake(ctx, "steps-0.steps:1", control.Place{Key: make([]byte, 32)}); err == nil {
			t.Error("connected")
		}
	}
	var two sync.WaitGroup
	two.Go(try)
	two.Go(try)
	two.Wait()
	first := asked.Load()
	try()
	if asked.Load() == first {
		t.Error("nobody was asked again")
	}
}

// TestNobodyGathersBesideAJobThatHasBegun: while a job looks for another coordinator, a process that comes again leaves the directory to those of the
// job: one that gathers would hold its lock, and keep them from it.
func TestNobodyGathersBesideAJobThatHasBegun(t *testing.T) {
	t.Parallel()
	key := []byte("the key of a job that has begun")
	free, err := control.ListenDoor("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	own := free.Addr().String()
	free.Close()
	seeds := []string{own, control.Guide(t, key, "tls:127.0.0.1:1")}
	dir, err := control.MakeDir(os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	defer control.RemoveDir(dir)
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		p := control.Place{Dir: dir, Key: key, Rank: 1, Size: 3, LocalSize: 1, Seeds: seeds, Coordinator: strings.Join(seeds, ","), How: control.ManualHow}
		if c, _, err := control.Join(ctx, p, newRecorder(), nil); err == nil {
			t.Error("joined")
			c.Close()
		}
	}()
	for {
		if _, err := os.Stat(filepath.Join(dir, "control.sock")); err == nil {
			t.Error("it gathers")
			<-done
			return
		}
		select {
		case <-done:
			return
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// TestNobodyJoinsAtTheSeedOfItsHost: the coordinator of this host knows nothing of how processes end that join over the network, and takes them for those of
// another host, so they join where it sees them.
func TestNobodyJoinsAtTheSeedOfItsHost(t *testing.T) {
	s := serve(t, control.ServerConfig{Size: 2, TCP: "127.0.0.1:0"})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	p := uncounted(t, s)
	p.Incarnation = 1
	if err := control.ConnectOwnSeed(ctx, p); err == nil {
		t.Error("joined")
	}
	if state := s.Status()[1].State; state != control.Absent {
		t.Errorf("the coordinator takes it for %v", state)
	}
}

// TestNamesThatDoNotResolveAreTold: after a while, once, with the time for which the process goes on, and in the end; by a process that looks for
// others and by one that gathers them.
func TestNamesThatDoNotResolveAreTold(t *testing.T) {
	before := net.DefaultResolver
	defer func() { net.DefaultResolver = before }()
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("no server of names")
	}}
	defer control.TellUnnamedAfter(500 * time.Millisecond)()
	const a, b = "a.invalid:7411", "b.invalid:7411"
	t.Run("all", func(t *testing.T) {
		for name, c := range map[string]struct {
			seeds     []string
			wait      time.Duration
			told, end string
		}{
			"looks":           {[]string{a, b}, time.Second, "at=" + a + "," + b + " for=1s", "lookup b.invalid"},
			"looks for one":   {[]string{a}, time.Second, "at=" + a + " for=1s", "lookup a.invalid"},
			"gathers":         {[]string{port.Free(t), b}, 3 * time.Second / 2, "at=" + b + " for=1s", "1 of 3 have come within 1.5s; a majority is needed; process 1, which waited for them, cannot resolve " + b},
			"gives up before": {[]string{port.Free(t), b}, 300 * time.Millisecond, "", "process 1, which waited for them, cannot resolve " + b},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				var log bytes.Buffer
				p := control.Place{
					Dir: elsewhere(t), Key: []byte("the key of " + t.Name()), Rank: 1, Size: 3, LocalSize: 1, Coordinator: strings.Join(c.seeds, ","),
					JoinTimeout: c.wait, How: control.ManualHow,
				}
				if len(c.seeds) > 1 {
					p.Seeds = c.seeds
				}
				_, _, err := control.Join(t.Context(), p, newRecorder(), slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})))
				if err == nil || !strings.Contains(err.Error(), c.end) {
					t.Errorf("%v\nwant %s", err, c.end)
				}
				lines := strings.Count(log.String(), "\n")
				if c.told == "" && lines > 0 || c.told != "" && (lines != 1 || !strings.Contains(log.String(), c.told)) {
					t.Errorf("it tells %q, want %q", log.String(), c.told)
				}
			})
		}
	})
}
