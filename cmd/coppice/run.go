package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coppice-go/coppice/internal/control"
	"github.com/coppice-go/coppice/internal/launch"
)

type runCmd struct {
	N       *int           `name:"processes" short:"n" placeholder:"N" help:"Number of processes (default: one per CPU)."`
	Kill    []control.Kill `placeholder:"TASK@WHEN" sep:"none" help:"SIGKILL the process of a task; WHEN is a duration (150ms), OP#SEQ (reduce#2), OP#SEQ/STEP or OP#SEQ/STEP+half. May be repeated."`
	Timeout *time.Duration `bounds:"time-out of %v; allowed: a duration above 0, such as 30s" placeholder:"D" help:"End the run after so long, whatever hangs; a few processes are asked for their goroutines."`
	Grace   *time.Duration `bounds:"grace of %v; allowed: a duration above 0, such as 30s" placeholder:"D" help:"Kill processes that have not ended so long after a signal was passed on to them (default 30s)."`

	Quiet  bool   `short:"q" group:"Output:" help:"Show nothing of what the processes write."`
	Prefix bool   `default:"true" negatable:"" group:"Output:" help:"Show each line with the rank that wrote it (default true)."`
	Ranks  string `placeholder:"0,3-5" group:"Output:" help:"Show only what these ranks write."`
	LogDir string `placeholder:"DIR" group:"Output:" help:"Write what each rank writes to DIR/RANK.out and DIR/RANK.err too, byte for byte."`

	Trace string `placeholder:"FILE" group:"Output:" help:"Write every call of the machines that decide in every process to FILE, on each host; coppice chaos --check FILE checks them."`

	Stdin string   `placeholder:"RANK" group:"Start:" help:"Who reads standard input: a rank or none (default 0; with --restart none); the others read nothing."`
	Env   []string `placeholder:"NAME=VALUE" sep:"none" group:"Start:" help:"Set a variable in every process. May be repeated."`
	Dir   string   `placeholder:"DIR" group:"Start:" help:"Working directory of the processes."`

	hostFlags

	Grow        int            `placeholder:"MAX" group:"Start:" help:"So many processes may join while the job runs (coppice join)."`
	Silence     *time.Duration `bounds:"silence of %v; allowed: a duration above 0, such as 3s" placeholder:"D" group:"Start:" help:"How long a process may show no sign of life before it is suspected (default 3s)."`
	JoinTimeout *time.Duration `bounds:"join-timeout of %v; allowed: a duration above 0, such as 1m" placeholder:"D" group:"Start:" help:"A process that has not joined the job so long after the first is killed (default 1m)."`

	respawnFlags

	Rehearse *float64 `placeholder:"RATE" help:"Run tasks again beside the job, for at most this share of its time, and compare what they do with what they did; 1: all that they do (--rehearse alone: 0.01)."`
	Resume   bool     `group:"Start:" help:"Take up a job whose processes are all gone, from the files that it has Stored; with as many tasks."`

	Detach bool   `group:"Start:" help:"Print the job's id and return; the job goes on in the background. coppice attach shows its output, coppice wait waits for its end."`
	Keeper string `hidden:"" help:"Be the keeper of a detached job, in its directory."`

	DryRun  bool `help:"Print what would be started, and start nothing."`
	Verbose bool `short:"v" help:"Log the name of the job and what the coordinator sees."`
	JSON    bool `name:"json" help:"Print JSON; what the processes write goes to standard error."`

	Program []string `arg:"" optional:"" name:"prog" placeholder:"-- PROG ARGS" passthrough:"partial" help:"The program and its arguments, after --."`
}

func (r *runCmd) Run(c *console) error {
	if r.Keeper != "" {
		return r.keep(c)
	}
	if err := r.checkDetached(); err != nil {
		return badInput{err}
	}
	plan, err := r.plan(c)
	if err != nil {
		return badInput{err}
	}
	if r.Detach && !r.DryRun {
		return r.detach(c, plan)
	}
	if r.DryRun {
		return c.show(r.JSON, plan.Preview(), func(w *bufio.Writer) { plan.Preview().Write(w) })
	}
	signals, stop := received()
	defer stop()
	plan.Signals = signals
	report, err := plan.Run(context.Background())
	if err != nil {
		return err
	}
	if report.Timeout { // from here on there may be no reader of the output, including the last line of main
		time.AfterFunc(lastWords, func() { os.Exit(exitFailed) })
	}
	if r.JSON {
		err = c.printJSON(report)
	}
	switch {
	case report.Exit != 0:
		return errors.Join(report.Err(), err)
	case report.Cause != "":
		c.notice(report.Cause)
	}
	return err
}

// lastWords is how long a launcher whose timeout has expired may take to print the result of the job.
const lastWords = 2 * time.Second

// plan turns the flags into a plan.
func (r *runCmd) plan(c *console) (*launch.Plan, error) {
	program, err := afterFlags(r.Program, "coppice run [flags] -- PROG ARGS")
	if err == nil && program == nil {
		err = errors.New("no program; allowed: coppice run [flags] -- PROG ARGS")
	}
	if err != nil {
		return nil, err
	}
	config := launch.Config{
		N: runtime.NumCPU(), Program: program[0], Args: program[1:], Dir: r.Dir, Env: r.Env,
		Input: os.Stdin, Kills: r.Kill,
		Notice: c.notice,
	}
	if err := r.spread(&config); err != nil {
		return nil, err
	}
	config.N = given(r.N, config.N)
	config.Grow, config.Resume = r.Grow, r.Resume
	if config.Rehearse = given(r.Rehearse, 0); r.Rehearse != nil && !(config.Rehearse > 0 && config.Rehearse <= 1) {
		return nil, fmt.Errorf("--rehearse=%v; allowed: a share of the time above 0 and up to 1", config.Rehearse)
	}
	if err := r.replace(&config); err != nil {
		return nil, err
	}
	config.Timeout, config.Grace = given(r.Timeout, 0), given(r.Grace, 0)
	config.Silence, config.JoinTimeout = given(r.Silence, 0), given(r.JoinTimeout, 0)
	switch config.StdinRank, err = strconv.Atoi(r.Stdin); {
	case r.Stdin == "none" || r.Stdin == "" && r.Restart > 0:
		config.StdinRank = -1
	case r.Stdin == "":
		config.StdinRank = 0
	case err != nil || config.StdinRank < 0:
		return nil, fmt.Errorf("standard input for %q; allowed: a rank, or none", r.Stdin)
	}
	if r.Verbose {
		config.Logger = slog.New(slog.NewTextHandler(c.stderr, nil))
	}
	if config.Output, err = r.output(c, config.N+max(config.Grow, 0)); err != nil {
		return nil, err
	}
	if err := r.trace(&config); err != nil {
		return nil, err
	}
	return launch.New(config)
}

// trace creates the file to which the processes write their steps.
func (r *runCmd) trace(config *launch.Config) error {
	if r.Trace == "" {
		return nil
	}
	name, err := filepath.Abs(r.Trace)
	if err == nil && !r.DryRun {
		err = os.WriteFile(name, nil, 0o600)
	}
	if err != nil {
		return fmt.Errorf("--trace: %w; allowed: a file in an existing directory", err)
	}
	config.Env = append(config.Env, control.VarTrace+"="+name)
	return nil
}

// afterFlags returns the program that follows the flags; nil: none does. Without --
// before it, its own flags could have been changed on the way (joinValues).
func afterFlags(words []string, allowed string) ([]string, error) {
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	} else if slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(w, "-") }) {
		return nil, errors.New("the program has flags of its own; allowed: " + allowed)
	}
	if len(words) == 0 {
		return nil, nil
	}
	return words, nil
}

// output turns the flags about output into what the launcher takes.
func (r *runCmd) output(c *console, n int) (launch.Output, error) {
	o := launch.Output{Prefix: r.Prefix}
	if !r.DryRun {
		o.LogDir = r.LogDir
	}
	switch {
	case r.Quiet:
	case r.JSON:
		o.Stdout, o.Stderr = c.stderr, c.stderr
		o.PaintStdout = c.bars && os.Getenv("NO_COLOR") == ""
		o.PaintStderr = o.PaintStdout
	default:
		o.Stdout, o.Stderr = c.stdout, c.stderr
		o.PaintStdout, o.PaintStderr = c.colour, c.colour && c.bars
	}
	if r.Ranks == "" || n < 1 {
		return o, nil
	}
	var err error
	o.Ranks, err = launch.ParseRanks(r.Ranks, n)
	return o, err
}

// respawnFlags say what happens to processes that die.
type respawnFlags struct {
	Respawn    launch.Respawn `placeholder:"WHEN" group:"Start:" help:"Start processes that die again: always, never, or auto, which is if it is estimated to be better than going on without them (default never; --respawn alone: auto)."`
	RespawnMax *int           `bounds:"at most %d processes respawned; allowed: 1 or more" placeholder:"MAX" group:"Start:" help:"Start so many again at most, in all (default: as many as processes)."`
	Restart    int            `placeholder:"N" group:"Start:" help:"If a process dies or fails, kill the others and start all again, up to N times."`
}

// replace makes the launcher replace processes that die, if the user wants it.
func (f *respawnFlags) replace(config *launch.Config) error {
	config.Respawn, config.Restart = f.Respawn, f.Restart
	switch {
	case f.RespawnMax == nil:
		return nil
	case f.Respawn == "" || f.Respawn == launch.RespawnNever:
		return errors.New("--respawn-max where none is respawned; allowed: with --respawn auto or always")
	}
	config.RespawnMax = *f.RespawnMax
	return nil
}

// bare are the flags whose value may be omitted, which kong does not know: the value that they have then, and whether a word may be
// one.
var bare = map[string]struct {
	value string
	may   func(word string) bool
}{
	"--respawn":  {string(launch.RespawnAuto), func(word string) bool { return new(launch.Respawn).UnmarshalText([]byte(word)) == nil }},
	"--rehearse": {"0.01", func(word string) bool { _, err := strconv.ParseFloat(word, 64); return err == nil }},
}

// withValues gives bare flags their values. The next word is the value if it can be one, or if the program comes after
// a -- and so cannot be the next word.
func withValues(args []string) []string {
	end := slices.Index(args, "--")
	var all []string
	for i := 0; i < len(args); i++ {
		flag, known := bare[args[i]]
		if !known || end >= 0 && i > end {
			all = append(all, args[i])
			continue
		}
		name, value := args[i], flag.value
		if i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") && (end >= 0 || flag.may(args[i+1])) {
			i++
			value = args[i]
		}
		all = append(all, name+"="+value)
	}
	return all
}
