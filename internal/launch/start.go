package launch

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/coppice-go/coppice/internal/control"
)

// open creates the job's directory and its coordinator.
func (j *job) open() error {
	given := j.Settings
	given.Joins = given.Joins || j.respawns()
	settings, err := json.Marshal(given)
	if err != nil {
		return err
	}
	tcp := ""
	if j.Hosts != nil {
		tcp = cmp.Or(j.Coordinator, ":0")
	}
	dir, err := j.makeDir()
	if err != nil {
		return fmt.Errorf("the job's directory: %w", err)
	}
	j.server, err = control.Serve(control.ServerConfig{
		Dir: dir, Size: j.N, Command: j.Command(), Settings: settings, Silence: j.Silence, JoinTimeout: j.JoinTimeout, TCP: tcp, Logger: j.Logger,
		Events: j.observe, Grow: j.Grow, Join: j.requestJoin, Kill: j.agentKill(),
	})
	if err != nil {
		os.RemoveAll(dir)
	}
	return err
}

// makeDir creates the job's directory on this host.
func (p *Plan) makeDir() (string, error) {
	if p.Name != "" {
		dir, err := control.NamedDir(os.Getenv, p.Name)
		if err == nil {
			err = os.Mkdir(dir, 0o700)
		}
		if !errors.Is(err, fs.ErrExist) { // it belongs to another job
			return dir, err
		}
	}
	return control.MakeDir(os.Getenv)
}

// Command returns the program and its arguments, as a shell reads them.
func (p *Plan) Command() string { return commandLine(p.Program, p.Args) }

func commandLine(program string, args []string) string {
	words := []string{quote(program)}
	for _, arg := range args {
		words = append(words, quote(arg))
	}
	return strings.Join(words, " ")
}

// start starts all processes. If one host cannot start its processes, none does.
func (j *job) start() (err error) {
	j.began = time.Now()
	if j.first.IsZero() {
		j.first = j.began
	}
	g := newGrowth(joinCall{})
	for rank := range j.N {
		g.places = append(g.places, j.server.Place(rank, firstIncarnation))
	}
	if err := j.prepare(g); err != nil {
		return err
	}
	if j.Hosts == nil {
		err = j.startHere(g, j.Input)
	} else {
		err = j.startThere(g)
	}
	if err != nil {
		g.closeLogs()
		return err
	}
	for i := range g.places {
		j.record(g, i)
	}
	return nil
}

// prepare opens what takes the output of processes that are about to be started.
func (j *job) prepare(g *growth) error {
	now := time.Now()
	for _, at := range g.places {
		j.again.clock.begin(now, control.Identity{uint64(at.Rank), at.Incarnation})
		relays, err := j.Output.newRelays(j.screen, at.Rank, at.Incarnation > firstIncarnation || len(j.report.Restarts) > 0)
		if err != nil {
			g.closeLogs()
			return err
		}
		g.relays = append(g.relays, relays)
	}
	return nil
}

// record records a process that was started.
func (j *job) record(g *growth, i int) control.Joiner {
	at := g.places[i]
	on := g.on[at.Rank]
	pid, host := on.where(at.Rank)
	j.at[at.Rank], j.running[at.Rank], j.entry[at.Rank] = on, at.Incarnation, len(j.report.Tasks)
	t := TaskReport{Rank: at.Rank, Host: host, PID: pid, extra: at.Rank >= j.N, said: g.relays[i][stderr].cry}
	if at.Incarnation > firstIncarnation {
		t.Again = at.Incarnation
	}
	j.report.Tasks = append(j.report.Tasks, t)
	return control.Joiner{Rank: at.Rank, Incarnation: at.Incarnation, Pid: pid, Host: host}
}

// startHere starts processes on this host. The process of StdinRank reads the input, the others nothing.
func (j *job) startHere(g *growth, input *os.File) error {
	runs, err := g.call.program(j.Plan)
	if err != nil {
		return err
	}
	in, err := newStdin(input)
	if err != nil {
		return err
	}
	defer in.close()
	list := make([]order, len(g.places))
	for i, at := range g.places {
		list[i] = j.order(at, runs, g.relays[i])
		list[i].stdin = in.of(at.Rank == j.StdinRank)
	}
	here, err := j.startLocal(list)
	if err != nil {
		return programError(runs.argv[0], err)
	}
	j.stations = append(j.stations, here)
	for _, at := range g.places {
		g.on[at.Rank] = here
	}
	return nil
}

// program returns what a process of this host runs.
type program struct {
	path string
	argv []string
}

// order returns what to start here for a place, without its input.
func (j *job) order(at control.Place, p program, relays [streams]*relay) order {
	out, err := relays[stdout], relays[stderr]
	return order{
		rank: at.Rank, life: at.Incarnation, path: p.path, argv: p.argv, dir: j.Dir,
		env:  merge(inherited(), working(j.Dir), j.Env, at.Vars()),
		take: [streams]func([]byte) error{out.take, err.take},
		end:  [streams]func() error{out.end, err.end},
	}
}

// startThere starts all processes on other hosts.
func (j *job) startThere(g *growth) error {
	for _, host := range j.shares {
		for _, rank := range host.Ranks {
			j.assign(g, rank, host.Name, j.end)
		}
	}
	failed := g.callAll(j, func(r *remote) error { return j.await(r, j.dog.struck, errTimeout, j.Signals) })
	j.threads = append(j.threads, g.callers)
	for _, r := range g.called() {
		j.stations = append(j.stations, r)
		if failed != nil {
			r.hangUp()
		}
	}
	if failed != nil {
		g.callers.close()
	}
	return failed
}

// assign gives a process to the station of its host.
func (j *job) assign(g *growth, i int, host string, ended func(ending)) {
	at := g.places[i]
	known := slices.IndexFunc(g.remotes, func(r *remote) bool { return r.host == host })
	if known < 0 {
		known = len(g.remotes)
		g.remotes = append(g.remotes, j.remote(host, at.Incarnation, g.call.argv(j.Plan), ended))
	}
	r := g.remotes[known]
	r.orders.Ranks = append(r.orders.Ranks, at.Rank)
	r.relays[at.Rank], g.on[at.Rank] = g.relays[i], r
}

// callTime is how long a host may take to start its processes.
const callTime = time.Minute

// await waits until a host has started its processes, or must do so no more.
func (j *job) await(r *remote, no <-chan struct{}, why error, signals <-chan os.Signal) error {
	timer := time.NewTimer(callTime)
	defer timer.Stop()
	select {
	case err := <-r.started:
		return err
	case <-timer.C:
		return fmt.Errorf("host %s does not answer within %v", r.host, callTime)
	case <-no:
		return why
	case s := <-signals:
		select {
		case err := <-r.started: // the processes have started: the signal is for them
			j.early = s
			return err
		default:
			sig, _ := s.(syscall.Signal)
			return fmt.Errorf("%w while host %s was called", Interrupted{sig}, r.host)
		}
	}
}

// remote prepares a station on another host, for ranks to be added. ended is called when one of its processes has ended.
func (j *job) remote(host string, life uint64, argv []string, ended func(ending)) *remote {
	here, err := os.Hostname()
	if err != nil {
		here = "localhost"
	}
	place := j.server.Place(0, firstIncarnation)
	on, _, _ := net.SplitHostPort(j.Coordinator)
	_, port, _ := net.SplitHostPort(j.server.Port())
	return &remote{
		connection: connection{host: host}, server: j.server, relays: map[int][streams]*relay{}, ended: ended,
		orders: agentOrders{
			Job: place.Job, Key: place.Key, Size: j.N, Grow: j.Grow, Coordinator: net.JoinHostPort(on, port), Fallback: here,
			Life: life, Program: argv[0], Args: argv[1:], Dir: j.Dir, Env: merge(Carried(), j.Env),
			Patience: max(patienceMin, 3*j.Silence),
		},
	}
}
