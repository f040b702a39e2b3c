package floor

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/coppice-go/coppice/bench/clock"
)

// Times are the times of one crash, in nanoseconds of the common clock.
type Times struct {
	Killed  int64
	Noticed []int64 // by survivor
	Done    []int64
}

// Took returns the time from the crash until the last survivor was done.
func (t Times) Took() time.Duration {
	var last int64
	for _, done := range t.Done {
		last = max(last, done)
	}
	return time.Duration(last - t.Killed)
}

// settleTime is how long processes are left alone before Measure kills one.
const settleTime = 200 * time.Millisecond

// Measure starts n processes, kills one and returns when the others have recovered from it. The command
// of a process calls Run with the directory.
func Measure(ctx context.Context, n, victim int, command func(dir string, rank int) []string) (t Times, err error) {
	if n < 3 || victim < 0 || victim >= n {
		return Times{}, fmt.Errorf("death of process %d of %d; allowed: 3 or more processes, counted from 0", victim, n)
	}
	dir, err := os.MkdirTemp("", "coppice-floor-")
	if err != nil {
		return Times{}, err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all []*child
	defer func() {
		if err != nil {
			cancel()
		}
		for _, c := range all {
			c.in.Close()
		}
		for _, c := range all {
			_ = c.cmd.Wait()
		}
	}()
	for rank := range n {
		c, err := start(ctx, command(dir, rank))
		if err != nil {
			return t, err
		}
		all = append(all, c)
	}
	for rank, c := range all {
		if err := c.ready(); err != nil {
			return t, fmt.Errorf("process %d of the floor: %w", rank, err)
		}
	}
	time.Sleep(settleTime)
	return kill(all, victim)
}

// kill kills one of the processes and reads the times of the others.
func kill(all []*child, victim int) (t Times, err error) {
	t.Killed = clock.Now()
	if err := all[victim].cmd.Process.Kill(); err != nil {
		return t, err
	}
	for rank, c := range all {
		if rank == victim {
			continue
		}
		var noticed, done int64
		if _, err := fmt.Fscan(c.out, &noticed, &done); err != nil {
			return t, fmt.Errorf("process %d of the floor: %w", rank, err)
		}
		t.Noticed, t.Done = append(t.Noticed, noticed), append(t.Done, done)
	}
	return t, nil
}

// child is a started process.
type child struct {
	cmd *exec.Cmd
	in  io.Closer
	out *bufio.Reader
}

func start(ctx context.Context, words []string) (*child, error) {
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &child{cmd, in, bufio.NewReader(out)}, nil
}

func (c *child) ready() error {
	var word string
	if _, err := fmt.Fscan(c.out, &word); err != nil {
		return err
	}
	if word != "ready" {
		return errors.New("said " + word)
	}
	return nil
}
