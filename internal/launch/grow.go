package launch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/coppice-go/coppice/internal/control"
)

// joinCall is a request for more processes.
type joinCall struct {
	control.JoinRequest
	revive bool            // it is the launcher's own, for the next incarnation of a dead process
	answer func(joinReply) // gets the result; it does not block
}

type joinReply struct {
	joined []control.Joiner
	err    error
}

// growth is a request in progress.
type growth struct {
	call   joinCall
	places []control.Place
	relays [][streams]*relay

	// On other hosts:
	remotes []*remote
	callers *threads
	begun   chan struct{} // closed when the job knows of the processes
	err     error         // why they could not be started
}

// requestJoin passes a request to the goroutine that oversees the job, and waits for the answer. The
// coordinator calls it, from its own goroutines.
func (j *job) requestJoin(r control.JoinRequest) ([]control.Joiner, error) {
	reply := make(chan joinReply, 1)
	c := joinCall{JoinRequest: r, answer: func(a joinReply) { reply <- a }}
	select {
	case j.joins <- c:
	case <-j.over:
		return nil, control.Refused("the job has finished; allowed: one that runs")
	}
	answer := <-reply
	return answer.joined, answer.err
}

// join meets a request, if it can.
func (j *job) join(c joinCall) {
	g := &growth{call: c}
	if err := j.reserve(g); err != nil {
		c.answer(joinReply{err: err})
		return
	}
	for _, at := range g.places {
		relays, err := j.Output.newRelays(j.screen, at.Rank, at.Incarnation > firstIncarnation)
		if err != nil {
			j.refuse(g, err)
			return
		}
		g.relays = append(g.relays, relays)
	}
	if j.Hosts == nil {
		j.joinHere(g)
	} else {
		j.joinThere(g)
	}
}

// errEnding refuses requests that come too late.
const errEnding = control.Refused("the job is about to end; allowed: one that goes on")

// ending reports whether the job is about to end.
func (j *job) ending() bool { return j.calls.Err() != nil }

// reserve reserves places for the processes.
func (j *job) reserve(g *growth) (err error) {
	rank, known := g.call.Rank, j.server.Status()
	if j.ending() {
		return errEnding
	}
	if rank >= 0 && j.running[rank] != 0 && known[rank].State == control.Dead {
		return control.Refused(fmt.Sprintf("rank %d is taken for dead, but its process still runs; allowed: a dead one", rank))
	}
	if g.call.revive {
		g.places, err = j.server.Revive(rank)
	} else {
		g.places, err = j.server.Reserve(g.call.Count, rank)
	}
	if err == nil && rank >= 0 {
		j.learn(known[rank]) // the last chance to know it of the previous incarnation
	}
	now := time.Now()
	for _, at := range g.places {
		j.again.clock.begin(now, control.Identity{uint64(at.Rank), at.Incarnation})
	}
	return err
}

// refuse takes back what was prepared, and answers why.
func (j *job) refuse(g *growth, err error) {
	for _, r := range g.relays {
		_ = closeLogs(r) // there is nothing in them
	}
	for _, at := range g.places {
		j.server.Withdraw(at)
	}
	g.call.answer(joinReply{err: err})
}

// accept records processes that were started, and answers the request.
func (j *job) accept(g *growth, where func(rank int) (station, int, string)) {
	var answer joinReply
	for i, at := range g.places {
		station, pid, host := where(at.Rank)
		j.at[at.Rank], j.running[at.Rank], j.entry[at.Rank] = station, at.Incarnation, len(j.report.Tasks)
		delete(j.why, at.Rank)
		j.called[at.Rank] = g.call.JoinRequest
		t := TaskReport{Rank: at.Rank, Host: host, PID: pid, extra: at.Rank >= j.N, said: g.relays[i][stderr].cry}
		if at.Incarnation > firstIncarnation {
			t.Again = at.Incarnation
		}
		j.report.Tasks = append(j.report.Tasks, t)
		j.report.Joined = append(j.report.Joined, at.Rank)
		answer.joined = append(answer.joined, control.Joiner{Rank: at.Rank, Incarnation: at.Incarnation, Pid: pid, Host: host})
	}
	g.call.answer(answer)
}

// program returns what the processes of a request run on this host: the job's own
// program, unless the request names another.
func (c joinCall) program(p *Plan) (program, error) {
	argv := c.argv(p)
	if len(c.Program) == 0 {
		return program{p.path, argv}, nil
	}
	path, err := findProgram(argv[0], c.Program[0])
	return program{path, argv}, err
}

// argv returns the program with its arguments. A relative path begins where the request
// was made.
func (c joinCall) argv(p *Plan) []string {
	if len(c.Program) == 0 {
		return append([]string{p.Program}, p.Args...)
	}
	name := c.Program[0]
	if strings.Contains(name, "/") && !filepath.IsAbs(name) {
		name = filepath.Join(c.Dir, name)
	}
	return append([]string{name}, c.Program[1:]...)
}

// joinHere starts processes on this host.
func (j *job) joinHere(g *growth) {
	here, err := j.startMore(g)
	if err != nil {
		j.refuse(g, err)
		return
	}
	j.stations = append(j.stations, here)
	j.accept(g, func(rank int) (station, int, string) { return here, here.ranks[rank].pid, "" })
}

func (j *job) startMore(g *growth) (*local, error) {
	runs, err := g.call.program(j.Plan)
	if err != nil {
		return nil, err
	}
	none, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer none.Close()
	list := make([]order, len(g.places))
	for i, at := range g.places {
		list[i] = j.order(at, runs, g.relays[i])
		list[i].stdin = none
	}
	here, err := j.startLocal(list)
	if err != nil {
		return nil, programError(runs.argv[0], err)
	}
	return here, nil
}

// joinThere starts processes on other hosts, each through its own agent. The result
// arrives on j.grown.
func (j *job) joinThere(g *growth) {
	g.begun = make(chan struct{})
	taken := j.taken()
	of := map[string]*remote{}
	for i, at := range g.places {
		host, ok := j.freeHost(at.Rank, taken)
		if !ok {
			j.refuse(g, control.Refused(fmt.Sprintf("all %d slots of the hosts are taken, or lost; allowed: when a process has ended", slots(j.Hosts))))
			return
		}
		taken[host]++
		r := of[host]
		if r == nil {
			r = j.remote(host, at.Incarnation, g.call.argv(j.Plan))
			r.ended = func(e ending) {
				<-g.begun
				j.end(e)
			}
			of[host], g.remotes = r, append(g.remotes, r)
		}
		r.orders.Ranks = append(r.orders.Ranks, at.Rank)
		r.relays[at.Rank] = g.relays[i]
	}
	g.callers = newThreads(len(g.remotes))
	j.calling[g] = true
	go func() {
		g.err = g.callAll(j)
		j.grown <- g
	}()
}

// taken counts the processes that run, or are about to run, on each host.
func (j *job) taken() map[string]int {
	taken := map[string]int{}
	for rank := range j.running {
		if r, ok := j.at[rank].(*remote); ok {
			taken[r.host]++
		}
	}
	for g := range j.calling {
		for _, r := range g.remotes {
			taken[r.host] += len(r.orders.Ranks)
		}
	}
	return taken
}

// freeHost returns a host with a free slot: that of the rank's last process if possible,
// otherwise the host with the fewest processes.
func (j *job) freeHost(rank int, taken map[string]int) (name string, ok bool) {
	lost := map[string]bool{}
	for _, s := range j.stations {
		if r := s.(*remote); r.lost() {
			lost[r.host] = true
		}
	}
	var last string
	if r, ok := j.at[rank].(*remote); ok {
		last = r.host
	}
	for _, h := range j.Hosts {
		switch {
		case taken[h.Name] >= h.Slots || lost[h.Name]:
		case h.Name == last:
			return last, true
		case !ok || taken[h.Name] < taken[name]:
			name, ok = h.Name, true
		}
	}
	return name, ok
}

// callAll calls the hosts and waits until their processes have started.
func (g *growth) callAll(j *job) error {
	called := make([]error, len(g.remotes))
	j.dog.watch(g.callers)
	g.callers.each(len(g.remotes), func(i int) { called[i] = j.call(g.remotes[i]) })
	if err := errors.Join(called...); err != nil {
		return err
	}
	late := time.NewTimer(callTime)
	defer late.Stop()
	for _, r := range g.remotes {
		select {
		case err := <-r.started:
			if err != nil {
				return err
			}
		case <-late.C:
			return fmt.Errorf("host %s does not answer within %v", r.host, callTime)
		case <-j.calls.Done():
			return errEnding
		}
	}
	return nil
}

// settleGrowth records the result of starting processes on other hosts.
func (j *job) settleGrowth(g *growth) {
	defer close(g.begun)
	delete(j.calling, g)
	if g.err == nil && j.ending() {
		g.err = errEnding
	}
	j.threads = append(j.threads, g.callers)
	where := map[int]*remote{}
	for _, r := range g.remotes {
		if r.left == nil { // it was not called
			continue
		}
		j.stations = append(j.stations, r)
		if g.err != nil {
			r.dismissed = true
			r.stdin.Close() // the agent kills what it has started, and ends
		}
		for _, rank := range r.orders.Ranks {
			where[rank] = r
		}
	}
	if g.err != nil {
		g.relays = nil // the remotes close them
		j.refuse(g, g.err)
		return
	}
	j.accept(g, func(rank int) (station, int, string) {
		r := where[rank]
		return r, r.pids[rank], r.host
	})
}
