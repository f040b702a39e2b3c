package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/coppice-go/coppice/internal/control"
	"github.com/coppice-go/coppice/internal/detect"
	"github.com/coppice-go/coppice/internal/spool"
	"github.com/coppice-go/coppice/internal/transport"
	"github.com/coppice-go/coppice/protocol/collective"
)

// Config is what to run and how. The zero value of a field is its default, unless the field
// says otherwise.
type Config struct {
	N       int      // number of processes; required
	Grow    int      // how many processes may join while the job runs
	Program string   // as the user names it; required
	Args    []string // of the program
	Dir     string   // working directory of the processes; "": the launcher's
	Env     []string // K=V, beyond the launcher's environment

	Input     *os.File // the launcher's standard input; nil: none
	StdinRank int      // the rank that gets it; −1: none. The other processes read nothing
	Output    Output

	Timeout time.Duration // when the job ends at the latest; 0: never
	Abrupt  bool          // at the timeout, kill processes at once and ask none for goroutines; also kill processes that linger when the job is over
	Grace   time.Duration // how long processes have to end after a signal was forwarded, before they are killed; 0: 30 s
	// JoinTimeout is how long after the first process joined, or after its own start if that was
	// later, a process may join the job before it is killed; 0: 1 min.
	JoinTimeout time.Duration
	Kills       []control.Kill
	control.Settings

	Hosts []Host   // where processes go, in this order; nil: all run here
	SSH   []string // the command that runs a command on another host: SSH… HOST AGENT…; required with Hosts
	Agent []string // the command that runs Agent there; required with Hosts

	// Coordinator is where the processes of Hosts find the coordinator, as HOST:PORT or HOST:LOW-HIGH. Without HOST it listens on all
	// interfaces, and a process calls it at the address from which its agent was called. "": on all, on any port.
	Coordinator string
	// Listen is where processes of Hosts listen, as their COPPICE_LISTEN says; "": anywhere.
	Listen string

	Respawn    Respawn // whether processes that die are started again; "": never
	RespawnMax int     // how often at most, in all; 0: N times

	Restart int // how often all processes are started again, when one has died or failed; 0: never

	Name string // of the job, as in the name of its directory; "": one is drawn

	Signals <-chan os.Signal    // signals that the launcher received: it forwards the first, and kills at the second
	Notice  func(line string)   // reports to the user at once; called by one goroutine; may be nil
	Events  func(control.Event) // called with all events of the coordinator, in order; may be nil
	Logger  *slog.Logger        // nil: nothing is logged
}

// Plan is a checked Config.
type Plan struct {
	Config
	path   string       // path of the program; other hosts look for it themselves
	shares []spool.Host // the hosts that have processes; without Hosts this one, which has no name
}

// New checks what the user asked for, before anything starts.
func New(c Config) (*Plan, error) {
	p := &Plan{Config: c}
	if err := Supported(); err != nil {
		return nil, err
	}
	for _, check := range []func() error{p.checkCount, p.checkRespawn, p.checkRestart, p.checkProgram, p.checkDir, p.checkTimes, p.checkKills, p.checkEnv, p.checkJobsDir, p.checkLogs} {
		if err := check(); err != nil {
			return nil, err
		}
	}
	p.share()
	p.Network = p.network()
	if len(p.shares) > 1 {
		for _, h := range p.shares {
			p.Settings.Hosts = append(p.Settings.Hosts, len(h.Ranks))
		}
	}
	return p, nil
}

// network returns what will lie between the processes.
func (p *Plan) network() collective.Network {
	env := merge(os.Environ(), p.Env)
	value := func(name string) string {
		i := slices.IndexFunc(env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
		if i < 0 {
			return ""
		}
		return env[i][len(name)+1:]
	}
	switch {
	case len(p.shares) > 1:
		return collective.AcrossHosts
	case transport.Shares(value):
		return collective.InMemory
	}
	return collective.OverSockets
}

// Supported returns an error if jobs of several processes do not run on this operating system.
func Supported() error { return supported(runtime.GOOS) }

// supported returns an error if jobs of several processes do not run on an operating system.
func supported(goos string) error {
	if goos != "windows" {
		return nil
	}
	return InputError{errors.New("a job of several processes needs Linux or macOS; on Windows there are sim, tree, tune, chaos, demo --simulator, and coppice.Local in programs")}
}

func (p *Plan) checkCount() error {
	most := control.SizeMax // whatever the limits of the launcher (limits.go) are
	if p.Hosts != nil {
		most = min(most, slots(p.Hosts))
	}
	switch {
	case p.Grow < 0 || p.Grow > max(most-p.N, 0) && p.N >= 1 && p.N <= most:
		return fmt.Errorf("growth by %d of %d processes; allowed: 0 to %d", p.Grow, p.N, max(most-p.N, 0))
	case p.N > most && p.Hosts != nil:
		return fmt.Errorf("%d processes on hosts with %d slots; allowed: 1 to %d", p.N, slots(p.Hosts), most)
	case p.N < 1 || p.N > most:
		return fmt.Errorf("%d processes; allowed: 1 to %d", p.N, most)
	case p.StdinRank < -1 || p.StdinRank >= p.N:
		return fmt.Errorf("standard input for task %d of %d; allowed: 0 to %d, or none", p.StdinRank, p.N, p.N-1)
	}
	return nil
}

// checkProgram finds the program as a shell would. A relative path starts at
// the launcher's directory, not at Dir.
func (p *Plan) checkProgram() (err error) {
	if p.Program == "" {
		return errors.New("no program; allowed: coppice run [flags] -- PROG ARGS")
	}
	if p.Hosts != nil { // each host looks for it itself
		if len(p.SSH) > 0 {
			if _, err := exec.LookPath(p.SSH[0]); err != nil {
				return programError(p.SSH[0], err)
			}
		}
		return nil
	}
	p.path, err = findProgram(p.Program, p.Program)
	return err
}

// FindProgram returns the path of a program on this host, for the name given to coppice run.
func FindProgram(name string) (string, error) { return findProgram(name, name) }

// findProgram returns the path of a program for the name that the user has given.
func findProgram(program, name string) (string, error) {
	path, err := exec.LookPath(program)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return "", programError(name, err)
	}
	return path, nil
}

// InputError is why nothing of what the user asked for can be started.
type InputError struct{ error }

func programError(program string, err error) error {
	if errors.Is(err, errTimeout) { // the program is not to blame
		return err
	}
	if wrapped := (*exec.Error)(nil); errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	err = withoutPath(err)
	for _, e := range []struct {
		is  syscall.Errno
		see string
	}{{syscall.EMFILE, "ulimit -n"}, {syscall.EAGAIN, "ulimit -u"}} { // nor here
		if errors.Is(err, e.is) {
			return fmt.Errorf("the processes could not all be started: %w; see %s", err, e.see)
		}
	}
	if errors.Is(err, exec.ErrNotFound) {
		err = errors.New("not found in $PATH")
	}
	return InputError{fmt.Errorf("program %s: %w; allowed: an executable file", program, err)}
}

// withoutPath returns what went wrong with a file whose path the message already names.
func withoutPath(err error) error {
	if wrapped := (*fs.PathError)(nil); errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}

func (p *Plan) checkDir() error {
	if p.Dir == "" || p.Hosts != nil {
		return nil
	}
	info, err := os.Stat(p.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir():
		return fmt.Errorf("there is no directory %s; allowed: an existing one", p.Dir)
	case err != nil:
		return err
	}
	return nil
}

func (p *Plan) checkTimes() error {
	if p.Timeout < 0 || p.Grace < 0 || p.JoinTimeout < 0 || p.Silence < 0 {
		return fmt.Errorf("time-out of %v, grace of %v, join time-out of %v, silence of %v; allowed: 0 or more", p.Timeout, p.Grace, p.JoinTimeout, p.Silence)
	}
	if p.Silence != 0 && p.Silence < detect.SilenceMin {
		return fmt.Errorf("silence of %v; allowed: %v or more", p.Silence, detect.SilenceMin)
	}
	return nil
}

func (p *Plan) checkKills() error {
	for _, k := range p.Kills {
		if k.Op == "" && k.Task >= p.N { // only the processes know how many tasks there are
			return fmt.Errorf("kill %v: task %d of %d; allowed: 0 to %d", k, k.Task, p.N, p.N-1)
		}
		if k.Op != "" {
			p.Kill = append(slices.Clip(p.Kill), k)
		}
	}
	return nil
}

func (p *Plan) checkEnv() error {
	for _, variable := range p.Env {
		name, _, ok := strings.Cut(variable, "=")
		if !ok || name == "" {
			return fmt.Errorf("variable %q; allowed: NAME=VALUE", variable)
		}
		if slices.Contains(placeVars, name) {
			return fmt.Errorf("variable %s, which the launcher sets itself; allowed: any other", name)
		}
	}
	return nil
}

// checkJobsDir checks where the job's directory will be. With Hosts it need not be here.
func (p *Plan) checkJobsDir() error {
	if p.Hosts != nil {
		return nil
	}
	return control.CheckJobsDir(os.Getenv)
}

// checkLogs creates the directory for logs.
func (p *Plan) checkLogs() error {
	dir := p.Output.LogDir
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("logs cannot be written to %s: %w; allowed: a directory, or the name of a new one", dir, withoutPath(err))
	}
	return nil
}

// share gives every rank a host: it fills the hosts in order.
func (p *Plan) share() {
	hosts := p.Hosts
	if hosts == nil {
		hosts = []Host{{Slots: p.N}}
	}
	rank := 0
	for _, h := range hosts {
		share := spool.Host{Name: h.Name}
		for ; rank < p.N && len(share.Ranks) < h.Slots; rank++ {
			share.Ranks = append(share.Ranks, rank)
		}
		if share.Ranks != nil {
			p.shares = append(p.shares, share)
		}
	}
}
