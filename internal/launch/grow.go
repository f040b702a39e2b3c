package launch

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

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

// growth is a start of processes: of all at first, or of more for a request.
type growth struct {
	call   joinCall
	places []control.Place
	relays [][streams]*relay
	on     map[int]station // by rank

	// On other hosts:
	remotes []*remote
	callers *threads
	begun   chan struct{} // closed when the job knows of the processes
	err     error         // why they could not be started
}

func newGrowth(call joinCall) *growth {
	return &growth{call: call, on: map[int]station{}, begun: make(chan struct{})}
}

// closeLogs closes the logs of processes that were not started: there is nothing in them.
func (g *growth) closeLogs() {
	for _, r := range g.relays {
		_ = closeLogs(r)
	}
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
	g := newGrowth(c)
	if err := j.reserve(g); err != nil {
		c.answer(joinReply{err: err})
		return
	}
	if err := j.prepare(g); err != nil {
		j.refuse(g, err)
	} else if j.Hosts != nil {
		j.joinThere(g)
	} else if err := j.startHere(g, nil); err != nil {
		j.refuse(g, err)
	} else {
		j.accept(g)
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
	return err
}

// refuse takes back what was prepared, and answers why.
func (j *job) refuse(g *growth, err error) {
	g.closeLogs()
	for _, at := range g.places {
		j.server.Withdraw(at)
	}
	g.call.answer(joinReply{err: err})
}

// accept records processes that were started, and answers the request.
func (j *job) accept(g *growth) {
	var answer joinReply
	for i, at := range g.places {
		delete(j.why, at.Rank)
		j.called[at.Rank] = g.call.JoinRequest
		j.report.Joined = append(j.report.Joined, at.Rank)
		answer.joined = append(answer.joined, j.record(g, i))
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

// joinThere starts processes on other hosts, each through its own agent. The result
// arrives on j.grown.
func (j *job) joinThere(g *growth) {
	taken := j.taken()
	for i, at := range g.places {
		host, ok := j.freeHost(at.Rank, taken)
		if !ok {
			j.refuse(g, control.Refused(fmt.Sprintf("all %d slots of the hosts are taken, or lost; allowed: when a process has ended", slots(j.Hosts))))
			return
		}
		taken[host]++
		j.assign(g, i, host, func(e ending) {
			<-g.begun
			j.end(e)
		})
	}
	j.calling[g] = true
	go func() {
		g.err = g.callAll(j, func(r *remote) error { return j.await(r, j.calls.Done(), errEnding, nil) })
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
func (g *growth) callAll(j *job, wait func(*remote) error) error {
	called := make([]error, len(g.remotes))
	g.callers = newThreads(len(g.remotes))
	j.dog.watch(g.callers)
	g.callers.each(len(g.remotes), func(i int) { called[i] = j.call(g.remotes[i]) })
	failed := errors.Join(called...)
	for _, r := range g.remotes {
		if failed == nil {
			failed = wait(r)
		}
	}
	return failed
}

// called returns the stations on hosts that were called.
func (g *growth) called() []*remote {
	return slices.DeleteFunc(slices.Clone(g.remotes), func(r *remote) bool { return r.left == nil })
}

// settleGrowth records the result of starting processes on other hosts.
func (j *job) settleGrowth(g *growth) {
	defer close(g.begun)
	delete(j.calling, g)
	if g.err == nil && j.ending() {
		g.err = errEnding
	}
	j.threads = append(j.threads, g.callers)
	for _, r := range g.called() {
		j.stations = append(j.stations, r)
		if g.err != nil {
			r.dismissed = true
			r.stdin.Close() // the agent kills what it has started, and ends
		}
	}
	if g.err != nil {
		g.relays = nil // the remotes close them
		j.refuse(g, g.err)
		return
	}
	j.accept(g)
}
