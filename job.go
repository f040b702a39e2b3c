package coppice

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/coppice-go/coppice/internal/control"
	"github.com/coppice-go/coppice/internal/node"
	"github.com/coppice-go/coppice/internal/store"
	"github.com/coppice-go/coppice/internal/watch"
	"github.com/coppice-go/coppice/protocol/collective"
)

// Func is one task's program. All tasks of a job run the same one.
type Func func(ctx context.Context, t *Task) error

// Main is Run for package main: it prints the error and exits with 1. The first
// interrupt ends the context, a second one the process.
//
// SIGTERM is an interrupt, too, unless nobody but its host looks after the process: one that was started
// by hand, by Kubernetes or by srun leaves the job and exits with 143. It hands its tasks over to the others before, in the
// next [Save], if that comes within COPPICE_GRACE (20 s) and before a second SIGTERM. If all processes of a job are to
// leave, they do at once; those of srun take it for an interrupt then.
func Main(f Func) { (&Job{}).Main(f) }

// Main is the function Main with the job's settings.
func (j *Job) Main(f Func) {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, cancel)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM) // before it joins
	go func() {
		<-signals
		terminated.Store(true)
		if d := leaves.Load(); d != nil {
			d.drain(signals)
		}
		signal.Stop(signals) // another one ends the process
		cancel()
	}()
	err := j.Run(ctx, f)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		if errors.Is(err, errTerminated) {
			os.Exit(exitTerminated)
		}
		os.Exit(1)
	}
}

// Run joins the job that the process was started for, by coppice run, mpirun or
// srun, and runs the program of its tasks; a process started by itself is a job
// of one task. It returns once every task of the job has returned: until then
// the process serves the others.
func Run(ctx context.Context, f Func) error { return (&Job{}).Run(ctx, f) }

// Local is Run with n processes that are goroutines of this one. Values are
// copied as if they went over a wire.
func Local(ctx context.Context, n int, f Func) error { return (&Job{Local: n}).Run(ctx, f) }

// Job is Run with settings. The zero value of every field is its default.
type Job struct {
	Local    int           // > 0: that many processes, as goroutines of this one
	Tasks    int           // default: one per process; with more, the work of a dead one spreads better
	Recovery Recovery      // what becomes of the tasks of the dead; default Replay
	Copies   int           // of what a task saves, at other processes; default 2
	Resume   bool          // take up a job whose processes are all gone, from what it has Stored; as coppice run --resume
	LogBytes int64         // that a process keeps of what it has sent, and that may wait to be sent; default 1 GiB
	Silence  time.Duration // a process that is silent for so long is suspected; default 3 s; coppice run's own counts there
	Memory   int64         // bytes that a process may use: it takes over no more tasks of the dead than fit; default: any number
	Check    bool          // compare what a task that is run again sends with what it sent before, as is always done in Local
	Rehearse float64       // run tasks again beside the job, for at most this share of its time, and compare; 1: all that they do; as coppice run --rehearse
	Logger   *slog.Logger  // default: nothing below a warning, on standard error
}

// Recovery is what becomes of the tasks of a process that dies.
type Recovery uint8

// The ways to recover.
const (
	// Replay: a survivor runs the program of the task again from the top.
	// Operations that others have finished take what the task was sent then, and
	// give the same results; the first unfinished one joins the others, who wait for
	// it. What a process sends is kept for that, up to LogBytes; beyond, a warning
	// says so, and a death is ErrLost.
	Replay Recovery = iota
	// Report: operations that need a dead task fail with ErrLost, and the program
	// decides how to go on, as with ULFM.
	Report
)

// Run runs f as the function Run does, with the job's settings.
func (j *Job) Run(ctx context.Context, f Func) error {
	cfg, err := j.config()
	if err == nil && f == nil {
		err = errors.New("no function; allowed: one for a task")
	}
	if err == nil && ctx == nil {
		err = errors.New("no context; allowed: context.Background(), or one made of it")
	}
	if err == nil {
		err = addKills(&cfg, watch.Kills(ctx))
	}
	if err != nil {
		return fmt.Errorf("coppice: %w", err)
	}
	cfg.Ends = ctx.Done()
	if j.Local != 0 {
		return j.runLocal(ctx, j.Local, cfg, f, newArchive(store.Run{Resume: j.Resume}))
	}
	return j.runJoined(ctx, cfg, f)
}

// config is what the job's settings are to its processes.
func (j *Job) config() (cfg node.Config, err error) {
	switch {
	case j.Local < 0 || j.Local > 1<<16:
		return cfg, fmt.Errorf("%d local processes; allowed: 1 to 65536", j.Local)
	case j.Tasks < 0 || j.Tasks > 1<<20:
		return cfg, fmt.Errorf("%d tasks; allowed: 1 to 1048576", j.Tasks)
	case j.Recovery > Report:
		return cfg, fmt.Errorf("recovery %d; allowed: Replay, Report", j.Recovery)
	case j.Copies < 0:
		return cfg, fmt.Errorf("%d copies; allowed: 1 or more", j.Copies)
	case j.LogBytes < 0:
		return cfg, fmt.Errorf("log of %d bytes; allowed: 1 or more", j.LogBytes)
	case j.Rehearse < 0 || j.Rehearse > 1 || math.IsNaN(j.Rehearse):
		return cfg, fmt.Errorf("rehearse for %v of the time; allowed: 0 to 1", j.Rehearse)
	case j.Rehearse > 0 && j.Recovery != Replay:
		return cfg, errReports
	case j.Memory < 0:
		return cfg, fmt.Errorf("memory of %d bytes; allowed: 1 or more", j.Memory)
	case j.Silence < 0:
		return cfg, fmt.Errorf("silence of %v; allowed: more than 0", j.Silence)
	}
	cfg = node.Config{Tasks: j.Tasks, Buffer: j.LogBytes, Silence: j.Silence, Memory: j.Memory, Copies: j.Copies, Check: j.Check || j.Local > 0, SignName: signName, Logger: j.Logger}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	if file := os.Getenv(tuningVariable); file != "" {
		text, err := os.ReadFile(file)
		if err == nil {
			cfg.Rules, err = collective.ParseTable(text)
		}
		if err != nil {
			return cfg, fmt.Errorf("%s: %w", tuningVariable, err)
		}
	}
	if text := os.Getenv(fanoutVariable); text != "" {
		if cfg.Fanout, err = strconv.Atoi(text); err != nil || cfg.Fanout < 2 || cfg.Fanout&(cfg.Fanout-1) != 0 {
			return cfg, fmt.Errorf("%s=%q; allowed: a power of two from 2", fanoutVariable, text)
		}
	}
	if _, err = grace(os.Getenv(graceVariable)); err != nil { // before it is needed
		return cfg, err
	}
	if name := os.Getenv(control.VarTrace); name != "" {
		if cfg.Trace, err = os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600); err != nil {
			return cfg, fmt.Errorf("%s: %w", control.VarTrace, err)
		}
	}
	return cfg, nil
}

var errReports = errors.New("rehearse with Recovery Report, which runs no task again; allowed: with Replay")

// tuningVariable names a file with rules for which collective takes which
// algorithm: what coppice tune --collectives writes. It must be the same for all
// processes of a job.
const tuningVariable = "COPPICE_TUNING"

// fanoutVariable is the number of children of a node in the tree on which views are
// decided. It must be the same for all processes of a job.
const fanoutVariable = "COPPICE_FANOUT"

// addKills adds the kill points that a test asks for.
func addKills(cfg *node.Config, texts []string) error {
	for _, text := range texts {
		k, err := control.ParseKill(text)
		if err == nil {
			err = addKill(cfg, k)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func addKill(cfg *node.Config, k control.Kill) error {
	if k.Op == "" {
		return fmt.Errorf("kill %v after a time; allowed here: TASK@OP#SEQ[/STEP[+half]]", k)
	}
	cfg.Kills = append(cfg.Kills, node.Kill{Task: k.Task, Op: k.Op, Seq: k.Seq, Step: k.Step, Half: k.Half})
	return nil
}

// overrule lets the launcher's settings win over the program's, whose number of tasks is set. It reports whether the launcher asks to resume.
func (j *Job) overrule(cfg *node.Config, given json.RawMessage) (resume bool, err error) {
	if len(given) == 0 {
		return false, nil
	}
	var s control.Settings
	if err := json.Unmarshal(given, &s); err != nil {
		return false, fmt.Errorf("settings of the launcher: %w", err)
	}
	if s.Silence != 0 {
		cfg.Silence = s.Silence
	}
	cfg.Moves, cfg.Network, cfg.Hosts = s.Joins, s.Network, s.Hosts
	j.Rehearse = max(j.Rehearse, s.Rehearse)
	if j.Rehearse > 0 && j.Recovery != Replay {
		return false, errReports
	}
	for _, k := range s.Kill {
		if k.Task >= cfg.Tasks {
			return false, fmt.Errorf("kill %v: task %d of %d; allowed: 0 to %d", k, k.Task, cfg.Tasks, cfg.Tasks-1)
		}
		if err := addKill(cfg, k); err != nil {
			return false, err
		}
	}
	return s.Resume, nil
}

// incomplete is the error of a process whose tasks ended well, in a job of which some
// tasks never did: nobody could run them again.
func incomplete(p *node.Process) error {
	if tasks, _ := p.Missing(); len(tasks) > 0 {
		return failed("run", p.Sight().View.Number, &node.Failure{Tasks: tasks, Err: node.ErrLost})
	}
	return nil
}

// misused is the error of a process: that of its tasks, or misuse that came to
// light only after they had returned.
func misused(p *node.Process, err, misuse error) error {
	var f *node.Failure
	if err != nil || !errors.As(misuse, &f) {
		return err
	}
	return failed(f.Op, p.Sight().View.Number, misuse)
}

// errGoexit: a function has ended its goroutine and returned nothing.
var errGoexit = errors.New("has called runtime.Goexit, as t.FailNow of a test does")

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
