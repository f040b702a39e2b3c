// Command coppice offers what the library can do: trees, simulations, hostile
// schedules and a demonstration. It is thin: it reads flags, calls the library
// and prints. Flags, JSON keys and exit codes are stable; docs/design.md,
// section «The command», is their contract.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/coppice-go/coppice/apps/tpch/dbgen"
	"github.com/coppice-go/coppice/internal/control"
	"github.com/coppice-go/coppice/internal/launch"
)

// words are what the texts of flags refer to; a command sets some to its own.
var words = kong.Vars{"trees": "binomial, kary:k, lame:k, optimal, gossip:T, big or bfb", "sync": "synchronized", "recoveryModes": strings.Join(recoveryModes, " or "), "demoKills": demoKills, "tpchTables": strings.Join(dbgen.Tables(), ", ")}

// commands lists the commands. Each is a struct of its flags with a method
// Run(*console) error, in a file of its own name.
type commands struct {
	Version kong.VersionFlag `help:"Print the version."`

	Attach          attachCmd          `cmd:"" help:"Show the output of a detached job, from where it was, until the job ends."`
	Bench           benchCmd           `cmd:"" help:"Measure collective operations between processes: latency and throughput."`
	BenchMembership benchMembershipCmd `cmd:"" name:"bench membership" help:"Measure how fast the survivors of a death have a new view."`
	BenchRecovery   benchRecoveryCmd   `cmd:"" name:"bench recovery" help:"Measure how fast the survivors of a death have finished what it happened in."`
	Chaos           chaosCmd           `cmd:"" set:"sync=overlapped" help:"Attack broadcasts, or what --protocol names (views, agreement, recovery, reductions), with hostile schedules and crashes."`
	Completion      completionCmd      `cmd:"" help:"Print the script that lets a shell complete commands and flags."`
	Demo            demoCmd            `cmd:"" help:"See processes answer a query although some of them are killed."`
	Doctor          doctorCmd          `cmd:"" help:"Say what hosts lack for a job: reachability, versions, clocks, ports, limits."`
	Help            helpCmd            `cmd:"" help:"Show the help of a command."`
	Jobs            jobsCmd            `cmd:"" help:"List detached jobs, or remove one that has ended."`
	Join            joinCmd            `cmd:"" help:"Add processes to a running job."`
	Members         membersCmd         `cmd:"" help:"Show who is in which view of a running job."`
	Probe           probeCmd           `cmd:"" help:"Measure L, o, g of this machine or of hosts, and choose the tree that fits."`
	Reproduce       reproduceCmd       `cmd:"" help:"Reproduce the papers' figures and tables."`
	Run             runCmd             `cmd:"" help:"Start a program as a job of N processes."`
	Sim             simCmd             `cmd:"" help:"Simulate many runs of a broadcast or another collective in the LogP model."`
	Sort            sortCmd            `cmd:"" help:"Sort keys or records, whoever dies."`
	Stacks          stacksCmd          `cmd:"" help:"Show what each task of a running job does, and what it waits for."`
	Tpch            tpchCmd            `cmd:"" help:"Answer queries of TPC-H, whoever dies."`
	TpchDbgen       tpchDbgenCmd       `cmd:"" name:"tpch dbgen" help:"Print columns of tables of TPC-H."`
	Tree            treeCmd            `cmd:"" set:"trees=binomial, kary:k, lame:k or optimal" help:"Print a broadcast tree: the parent of every rank."`
	Tune            tuneCmd            `cmd:"" help:"Choose how long to gossip before correction, by the model, or algorithms of collectives, by measurement."`
	VersionCmd      versionCmd         `cmd:"" name:"version" help:"Print the version."`
	Vet             vetCmd             `cmd:"" help:"Find, in the source of programs, what breaks the user's duties."`
	Wait            waitCmd            `cmd:"" help:"Wait until a detached job ends."`

	processes
}

// processes lists the commands that the command itself calls, on behalf of others.
type processes struct {
	Agent                  agentCmd                  `cmd:"" hidden:"" help:"Start processes of a launcher on another host."`
	BenchMembershipProcess benchMembershipProcessCmd `cmd:"" hidden:"" help:"Be one of the processes that coppice bench membership starts."`
	BenchFloorProcess      benchFloorProcessCmd      `cmd:"" hidden:"" help:"Be one of the processes that it compares them with."`
	BenchRecoveryProcess   benchRecoveryProcessCmd   `cmd:"" hidden:"" help:"Be one of the processes that coppice bench recovery starts."`
	BenchProcess           benchProcessCmd           `cmd:"" hidden:"" help:"Be one of the processes that coppice bench starts."`
	DoctorProcess          doctorProcessCmd          `cmd:"" hidden:"" help:"Examine a host for coppice doctor."`
	SortProcess            sortProcessCmd            `cmd:"" hidden:"" help:"Be one of the processes that coppice sort starts."`
	TpchProcess            tpchProcessCmd            `cmd:"" hidden:"" help:"Be one of the processes that coppice tpch starts."`
	ProbeProcess           probeProcessCmd           `cmd:"" hidden:"" help:"Be one of the processes that coppice probe starts."`
}

const description = `Runs and tests MPI-style programs that survive crashes.

Bad input ends with exit code 2 and one line that says what is wrong and what is allowed, a failed run
with exit code 1, a run that a signal has ended by that signal. --json makes a command print one JSON document on standard output.`

// Exit codes.
const (
	exitFailed = 1 // the run failed
	exitInput  = 2 // the input was bad
)

// badInput is an error in what the user asked for.
type badInput struct{ error }

// told is an error that the process has told who started it, who says it.
type told struct{ error }

// exitCode is that a job has ended with an exit code other than 0, and all was said of it.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, stdout, stderr *os.File) (exit int) {
	con := newConsole(stdout, stderr)
	grammar := any(&commands{})
	if callsItself(args) { // as often as a job has processes: the parser need not learn all commands
		grammar = &processes{}
	}
	parser, err := kong.New(grammar,
		kong.Name("coppice"),
		kong.Description(description),
		kong.Writers(stdout, stderr),
		words,
		kong.Vars{"version": version()},
		kong.Help(help),
		directories,
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, FlagsLast: true, WrapUpperBound: 100}),
		kong.ExplicitGroups([]kong.Group{
			{Key: "faults", Title: "Faults:"},
			{Key: "ring", Title: "Details of correction and reception:"},
		}),
	)
	if err != nil {
		return fail(stderr, err)
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	ctx, err := parse(parser, args)
	if err != nil {
		return fail(stderr, err)
	}
	if err := ctx.Run(con, parser); err != nil {
		return fail(stderr, err)
	}
	return 0
}

// callsItself reports whether the first argument is one of the processes.
func callsItself(args []string) bool {
	fields := reflect.VisibleFields(reflect.TypeFor[processes]())
	return len(args) > 0 && slices.ContainsFunc(fields, func(f reflect.StructField) bool {
		return strings.ToLower(f.Name) == strings.ReplaceAll(args[0], "-", "")
	})
}

// directories are flags of type directory.
var directories = kong.NamedMapper("directory", kong.MapperFunc(decodeDirectory))

// decodeDirectory reads the name of a directory. An empty one, of a variable that is not set, is not as if there were no flag.
func decodeDirectory(ctx *kong.DecodeContext, to reflect.Value) error {
	var name string
	if err := ctx.Scan.PopValueInto("string", &name); err != nil {
		return err
	}
	if name == "" {
		return errors.New("an empty name; allowed: that of a directory")
	}
	to.SetString(name)
	return nil
}

// fail says in one line what is wrong.
func fail(stderr io.Writer, err error) (exit int) {
	if errors.As(err, new(told)) {
		return exitFailed
	}
	if e := exitCode(0); errors.As(err, &e) {
		return int(e)
	}
	exit = complain(stderr, err)
	if i := (launch.Interrupted{}); errors.As(err, &i) {
		endBy(i.Signal)
	}
	return exit
}

// complain says in one line what is wrong, and has the exit code for it.
func complain(stderr io.Writer, err error) (exit int) {
	fmt.Fprintln(stderr, "coppice:", oneLine(err))
	if errors.As(err, new(badInput)) || errors.As(err, new(launch.InputError)) || errors.As(err, new(control.BadJobsDir)) {
		return exitInput
	}
	return exitFailed
}

// oneLine is the text of an error, or of several, of which each has a line. The library's own errors begin with its
// name. Of words that nobody reads to their end it has the beginning.
func oneLine(err error) string {
	text := strings.TrimPrefix(err.Error(), "coppice: ")
	text = strings.NewReplacer(":\n", ": ", "\n", "; ").Replace(text)
	return longWord.ReplaceAllString(strings.Join(strings.Fields(text), " "), "$1…")
}

var longWord = regexp.MustCompile(`(\S{100})\S{400,}`)

// joinValues writes flags so that kong understands more of them: -P=8 as -P8,
// and as one argument a flag and its value where that is a negative number,
// which looks like a flag, or true or false, which kong takes for a stray.
func joinValues(args []string) []string {
	var joined []string
	for i, arg := range args {
		last := len(joined) - 1
		joins := negative(arg) || arg == "true" || arg == "false"
		switch {
		case arg == "--":
			return append(joined, args[i:]...)
		case shortFlag(arg) && len(arg) > 3 && arg[2] == '=':
			joined = append(joined, arg[:2]+arg[3:])
		case joins && last >= 0 && shortFlag(joined[last]) && len(joined[last]) == 2:
			joined[last] += arg
		case joins && last >= 0 && strings.HasPrefix(joined[last], "--") && !strings.Contains(joined[last], "="):
			joined[last] += "=" + arg
		default:
			joined = append(joined, arg)
		}
	}
	return joined
}

func shortFlag(arg string) bool {
	return len(arg) > 1 && arg[0] == '-' && arg[1] != '-' && !negative(arg)
}

func negative(arg string) bool {
	return len(arg) > 1 && arg[0] == '-' && arg[1] >= '0' && arg[1] <= '9'
}

type versionCmd struct{}

func (versionCmd) Run(c *console) error {
	_, err := fmt.Fprintln(c.stdout, version())
	return err
}

// version is that of the command: its module's, or the revision it was built from, and Go's.
func version() string {
	info, _ := debug.ReadBuildInfo()
	return fmt.Sprintf("coppice %s %s %s/%s", revision(info), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// revision names what a program was built from.
func revision(info *debug.BuildInfo) string {
	const unknown = "(devel)"
	if info == nil {
		return unknown
	}
	if v := info.Main.Version; v != "" && v != unknown {
		return v
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	name := settings["vcs.revision"]
	if name == "" {
		return unknown
	}
	name = "devel-" + name[:min(12, len(name))]
	if settings["vcs.modified"] == "true" {
		name += "+dirty"
	}
	return name
}
