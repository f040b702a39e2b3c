package launch

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
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

// start starts all processes.
func (j *job) start() (err error) {
	j.began = time.Now()
	if j.first.IsZero() {
		j.first = j.began
	}
	for rank := range j.N {
		j.again.clock.begin(j.began, control.Identity{uint64(rank), firstIncarnation})
	}
	relays := make([][streams]*relay, j.N)
	defer func() {
		for _, r := range relays {
			if err != nil {
				_ = closeLogs(r) // there is nothing in them
			}
		}
	}()
	for rank := range relays {
		if relays[rank], err = j.Output.newRelays(j.screen, rank, len(j.report.Restarts) > 0); err != nil {
			return err
		}
	}
	if j.Hosts == nil {
		err = j.startHere(relays)
	} else {
		err = j.startThere(relays)
	}
	if err != nil {
		return err
	}
	for rank := range j.N {
		j.running[rank], j.entry[rank] = firstIncarnation, rank
	}
	return nil
}

// startHere starts all processes on this host.
func (j *job) startHere(relays [][streams]*relay) error {
	input, err := newStdin(j.Input)
	if err != nil {
		return err
	}
	defer input.close()
	list := make([]order, j.N)
	for rank := range list {
		list[rank] = j.order(j.server.Place(rank, firstIncarnation), program{j.path, append([]string{j.Program}, j.Args...)}, relays[rank])
		list[rank].stdin = input.of(rank == j.StdinRank)
	}
	here, err := j.startLocal(list)
	if err != nil {
		return programError(j.Program, err)
	}
	j.stations = append(j.stations, here)
	for rank, p := range here.ranks {
		j.at[rank] = here
		j.report.Tasks[rank] = TaskReport{Rank: rank, PID: p.pid, said: relays[rank][stderr].cry}
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

// startThere starts all processes on other hosts. If one host cannot, none
// does.
func (j *job) startThere(relays [][streams]*relay) error {
	remotes := j.remotes(relays)
	called := make([]error, len(remotes))
	callers := newThreads(len(remotes))
	j.threads = append(j.threads, callers)
	j.dog.watch(callers)
	callers.each(len(remotes), func(i int) { called[i] = j.call(remotes[i]) })
	failed := errors.Join(called...)
	for i, r := range remotes {
		if called[i] == nil {
			j.stations = append(j.stations, r)
		}
	}
	for _, r := range remotes {
		if failed == nil {
			failed = j.await(r)
		}
	}
	if failed != nil {
		for _, s := range j.stations {
			s.(*remote).hangUp()
		}
		callers.close()
		return failed
	}
	for _, r := range remotes {
		for rank, pid := range r.pids {
			j.at[rank] = r
			j.report.Tasks[rank] = TaskReport{Rank: rank, Host: r.host, PID: pid, said: relays[rank][stderr].cry}
		}
	}
	return nil
}

// callTime is how long a host may take to start its processes.
const callTime = time.Minute

// await waits until a host has started its processes.
func (j *job) await(r *remote) error {
	timer := time.NewTimer(callTime)
	defer timer.Stop()
	select {
	case err := <-r.started:
		return err
	case <-timer.C:
		return fmt.Errorf("host %s does not answer within %v", r.host, callTime)
	case <-j.dog.struck:
		return errTimeout
	case s := <-j.Signals:
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

// remotes prepares the stations on other hosts.
func (j *job) remotes(relays [][streams]*relay) (all []*remote) {
	for rank := range j.N {
		if j.places[rank].local == 0 {
			all = append(all, j.remote(j.hostName(rank), firstIncarnation, append([]string{j.Program}, j.Args...)))
		}
		r := all[len(all)-1]
		r.orders.Ranks = append(r.orders.Ranks, rank)
		r.relays[rank] = relays[rank]
	}
	return all
}

// remote prepares a station on another host, for ranks to be added.
func (j *job) remote(host string, life uint64, argv []string) *remote {
	here, err := os.Hostname()
	if err != nil {
		here = "localhost"
	}
	place := j.server.Place(0, firstIncarnation)
	on, _, _ := net.SplitHostPort(j.Coordinator)
	_, port, _ := net.SplitHostPort(j.server.Port())
	return &remote{
		host: host, server: j.server, relays: map[int][streams]*relay{}, ended: j.end,
		orders: agentOrders{
			Job: place.Job, Key: place.Key, Size: j.N, Grow: j.Grow, Coordinator: net.JoinHostPort(on, port), Fallback: here,
			Life: life, Program: argv[0], Args: argv[1:], Dir: j.Dir, Env: merge(Carried(), j.Env),
			Patience: max(patienceMin, 3*j.Silence),
		},
	}
}
