package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"github.com/coppice-go/coppice/internal/control"
	"github.com/coppice-go/coppice/internal/launch"
	"github.com/coppice-go/coppice/internal/spool"
)

// A detached job on this host has a keeper: the launcher, in its own session. The keeper is this command, started again
// with the same flags and the directory of the job, where it writes what a launcher would have shown.

// detached is what run --detach prints.
type detached struct {
	Job string `json:"job"`
}

// checkDetached returns an error for flags that a detached job cannot have.
func (r *runCmd) checkDetached() error {
	if !r.Detach {
		return nil
	}
	if r.Stdin != "" && r.Stdin != "none" {
		return fmt.Errorf("--stdin %s with --detach: nobody reads standard input of a job in the background; allowed: --stdin none", r.Stdin)
	}
	r.Stdin = "none"
	if r.Hosts == "" {
		return nil
	}
	for _, f := range []struct {
		flag  string
		given bool
	}{
		{"--grow", r.Grow != 0},
		{"--respawn", r.Respawn != "" && r.Respawn != launch.RespawnNever},
		{"--restart", r.Restart != 0},
		{"--kill at a time", slices.ContainsFunc(r.Kill, func(k control.Kill) bool { return k.Op == "" })},
		{"--log-dir", r.LogDir != ""},
		{"--verbose", r.Verbose},
	} {
		if f.given {
			return fmt.Errorf("%s with --detach and --hosts: it needs a launcher, which such a job has not; allowed: without one of these flags", f.flag)
		}
	}
	return nil
}

// detach starts the job in the background.
func (r *runCmd) detach(c *console, plan *launch.Plan) error {
	root, err := spool.Root()
	if err != nil {
		return err
	}
	spool.Sweep(root)
	about := plan.About()
	job, err := spool.New(root, "", about)
	if err != nil {
		return err
	}
	if plan.Hosts != nil {
		ctx, stop := untilSignal()
		err = plan.Detach(ctx, job.Name, about)
		stop()
	} else {
		err = startKeeper(job)
	}
	if err != nil {
		return errors.Join(err, job.Remove())
	}
	return c.show(r.JSON, detached{job.Name}, func(w *bufio.Writer) { fmt.Fprintln(w, job.Name) })
}

// startKeeper starts the keeper of a job, and waits until that has started the processes. It forwards a
// signal that comes in the meantime to the keeper.
func startKeeper(job *spool.Job) error {
	log, err := job.Log()
	if err != nil {
		return err
	}
	defer log.Close()
	keeper := exec.Command(self())
	keeper.Args = slices.Concat([]string{os.Args[0], "run", "--keeper", job.Path()}, os.Args[2:])
	keeper.Stderr, keeper.SysProcAttr = log, launch.Detached()
	ready, err := keeper.StdoutPipe()
	if err != nil {
		return err
	}
	ctx, stop := untilSignal()
	defer stop()
	if err := keeper.Start(); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() {
		i := launch.Interrupted{}
		errors.As(context.Cause(ctx), &i)
		_ = keeper.Process.Signal(i.Signal) // a process that is gone needs none
	})()
	said, _ := io.ReadAll(ready) // to its end, whatever ends it
	result := job.Result()
	if len(said) == 0 && result == nil {
		text, _ := os.ReadFile(log.Name())
		return fmt.Errorf("the job's keeper has ended before it had started the processes: %v: %s", keeper.Wait(), text)
	}
	switch {
	case result == nil || result.Started:
		return nil
	case result.Signal != 0:
		return launch.Interrupted{Signal: result.Signal}
	case result.Exit == exitInput:
		return badInput{errors.New(result.Error)}
	}
	return errors.New(result.Error)
}

// keep is the keeper of a detached job: it does what run does, and writes to the job's directory what run would show.
func (r *runCmd) keep(c *console) error {
	signals, stop := received() // before other processes can find this one
	defer stop()
	k, err := spool.At(r.Keeper).Keep()
	if err != nil {
		return err
	}
	r.JSON, r.Stdin = false, "none"
	var result spool.Result
	report, err := r.runKept(c, k, signals, &result)
	switch {
	case err == nil && report.Exit != 0:
		err = report.Err()
	case err == nil && report.Cause != "":
		result.Error = report.Cause
		fmt.Fprintln(k.Stream(spool.Stderr), "coppice:", report.Cause)
	}
	if report != nil {
		result.Report, _ = json.Marshal(report)
	}
	if err != nil {
		result.Error = oneLine(err)
		result.Exit = complain(k.Stream(spool.Stderr), err)
		if i := (launch.Interrupted{}); errors.As(err, &i) {
			result.Signal = i.Signal
		}
	}
	return k.End(&result)
}

// runKept runs the job.
func (r *runCmd) runKept(c *console, k *spool.Keeper, signals <-chan os.Signal, result *spool.Result) (*launch.Report, error) {
	plan, err := r.plan(c)
	if err != nil {
		return nil, badInput{err}
	}
	plan.Name, plan.Signals = k.Name, signals
	if !r.Quiet {
		plan.Output.Stdout, plan.Output.Stderr = k.Stream(spool.Stdout), k.Stream(spool.Stderr)
	}
	plan.Notice = func(line string) { fmt.Fprintln(k.Stream(spool.Stderr), "coppice:", line) }
	if r.Verbose {
		plan.Logger = slog.New(slog.NewTextHandler(k.Stream(spool.Stderr), nil))
	}
	started := 0
	plan.Events = func(e control.Event) {
		if e.Type != control.EventStarted || result.Started {
			return
		}
		if started++; started == plan.N {
			result.Started = true
			fmt.Fprintln(c.stdout, k.Name)
			c.stdout.Close()
		}
	}
	return plan.Run(context.Background())
}

// found returns the detached job of a name.
func found(name string) (*spool.Job, error) {
	root, err := spool.Root()
	if err != nil {
		return nil, err
	}
	job, err := spool.Open(root, name)
	if err == nil {
		return job, nil
	}
	names := each(spool.List(root), func(j *spool.Job) string { return j.Name })
	if len(names) == 0 {
		return nil, badInput{fmt.Errorf("no detached job %s; there is none: coppice run --detach starts one", name)}
	}
	return nil, badInput{fmt.Errorf("no detached job %s; allowed: %s", name, strings.Join(names, ", "))}
}

// concluded returns how a command ends that stands for a job that has ended. If this command forwarded the signal that ended the job, it ends by that signal, too.
func concluded(job *spool.Job, result *spool.Result, err error, passed syscall.Signal) error {
	switch {
	case errors.Is(err, spool.ErrKilled):
		return fmt.Errorf("job %s: %w, and its processes with it; how far they came is not known (coppice jobs --remove %s)", job.Name, err, job.Name)
	case err != nil:
		return err
	case result.Signal != 0 && result.Signal == passed:
		endBy(passed)
	}
	if result.Code() != 0 {
		return exitCode(result.Code())
	}
	return nil
}
