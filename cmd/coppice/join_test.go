package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/control"
	"github.com/coppice-go/coppice/internal/launch"
)

func TestJoinRefusesBadInput(t *testing.T) {
	jobs(t)
	if out, err := command(t, "join"); err == nil || errors.As(err, new(badInput)) || err.Error() != "no running job on this host; start one with coppice run" || out != "" {
		t.Errorf("without a job: %v, printed %q", err, out)
	}
	refusal(t, "0 processes; allowed: 1 or more", "join", "-n", "0")
	refusal(t, "-2 processes; allowed: 1 or more", "join", "-n", "-2")
	refusal(t, "rank -1; allowed: 0 or more", "join", "--rank", "-1")
	refusal(t, "2 processes of rank 1; allowed: 1", "join", "-n", "2", "--rank", "1")
	refusal(t, "the program has flags of its own; allowed: coppice join [flags] -- PROG ARGS", "join", "echo", "-n")
	coordinate(t, control.ServerConfig{Size: 1})
	refusal(t, "the job was not started by coppice run; allowed: one that was", "join")
}

// shown is what a job shows.
type shown struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *shown) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(b)
}

func (s *shown) await(t *testing.T, text string) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		s.mu.Lock()
		all := s.b.String()
		s.mu.Unlock()
		if strings.Contains(all, text) {
			return
		}
		if time.Since(began) > 10*time.Second {
			t.Fatalf("no %q in %q", text, all)
		}
	}
}

// launched runs a job of real processes until the file end is there.
func launched(t *testing.T, grow int) (out *shown, end func() *launch.Report) {
	t.Helper()
	out = &shown{}
	file := t.TempDir() + "/end"
	plan, err := launch.New(launch.Config{
		N: 2, Grow: grow, Program: "sh", StdinRank: -1,
		Args:   []string{"-c", `echo "up $COPPICE_RANK.$COPPICE_INCARNATION $0"; while [ ! -e ` + file + ` ]; do sleep 0.01; done`, "own"},
		Output: launch.Output{Stdout: out, Stderr: out, Prefix: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan *launch.Report, 1)
	go func() {
		r, err := plan.Run(context.Background())
		if err != nil {
			t.Error(err)
		}
		done <- r
	}()
	out.await(t, "[0] up 0.1 own")
	out.await(t, "[1] up 1.1 own")
	return out, func() *launch.Report {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		return <-done
	}
}

func TestJoinAddsProcesses(t *testing.T) {
	jobs(t)
	out, end := launched(t, 3)
	name := control.JobName(control.Jobs(os.Getenv)[0])
	text, err := command(t, "join")
	var pid int
	if n, _ := fmt.Sscanf(text, "process 2 joins job "+name+": pid %d\n", &pid); err != nil || n != 1 {
		t.Errorf("%q, %v", text, err)
	}
	out.await(t, "[2] up 2.1 own")
	text, err = command(t, "join", "-n", "2", "--json", "--", "sh", "-c", "echo other $COPPICE_RANK; exit 0")
	var report joinReport
	if err != nil || json.Unmarshal([]byte(text), &report) != nil || report.Job != name || len(report.Joined) != 2 || report.Joined[1].Rank != 4 {
		t.Errorf("%q, %v", text, err)
	}
	out.await(t, "[3] other 3")
	out.await(t, "[4] other 4")
	for { // until both ends are known
		text, err := command(t, "members", "--json")
		var report membersReport
		if err != nil || json.Unmarshal([]byte(text), &report) != nil {
			t.Fatalf("%q, %v", text, err)
		}
		if len(report.Dead) == 2 {
			break
		}
	}
	refusal(t, "rank 1 is alive; allowed: a dead one: 3, 4", "join", "--rank", "1")
	refusal(t, "the job has grown by 3 of 3 processes; allowed: --rank R, the id of a dead one", "join")
	refusal(t, "program nosuch: not found in $PATH; allowed: an executable file", "join", "--rank", "3", "nosuch")
	if text, err := command(t, "join", "--rank", "3"); err != nil || !strings.HasPrefix(text, "process 3.2 joins job ") {
		t.Errorf("%q, %v", text, err)
	}
	out.await(t, "[3] up 3.2 own")
	if r := end(); r.Exit != 0 || !slices.Equal(r.Joined, []int{2, 3, 4, 3}) {
		t.Errorf("%+v", r)
	}
}

func TestJoinNeedsAJobThatGrows(t *testing.T) {
	jobs(t)
	_, end := launched(t, 0)
	refusal(t, "the job does not grow; allowed: jobs of coppice run --grow MAX", "join")
	refusal(t, "the job does not grow; allowed: jobs of coppice run --grow MAX", "join", "--rank", "0")
	end()
}
