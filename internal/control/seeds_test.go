//go:build unix

package control_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/control"
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
