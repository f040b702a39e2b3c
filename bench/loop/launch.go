package loop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// A launch is bounded by launchTime, and jobTime for each job after the first; the
// slowest take a few seconds each.
const (
	launchTime = time.Minute
	jobTime    = 20 * time.Second
)

// Launch runs a command of this many jobs to its end. It returns the command's standard output and how
// long it took.
func Launch(ctx context.Context, words []string, jobs int) ([]byte, time.Duration, error) {
	most := launchTime + time.Duration(jobs-1)*jobTime
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	// A launcher ends its processes on SIGTERM, but not when it is killed.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	var out, diagnosis bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &diagnosis
	began := time.Now()
	err := cmd.Run()
	elapsed := time.Since(began)
	if ctx.Err() == context.DeadlineExceeded {
		return nil, 0, fmt.Errorf("did not end within %v", most)
	}
	if err != nil {
		return nil, 0, errors.New(Gist(append(diagnosis.Bytes(), out.Bytes()...), err))
	}
	return out.Bytes(), elapsed, nil
}

// Gist returns the first informative line of a program's output, or else its error.
func Gist(out []byte, err error) string {
	for text := range strings.Lines(string(out)) {
		if text = strings.TrimSpace(text); strings.Trim(text, "-=") != "" {
			return text
		}
	}
	if err == nil {
		return ""
	}
	return err.Error()
}
