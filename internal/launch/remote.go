package launch

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/coppice-go/coppice/internal/control"
)

// remote is the station of the processes on another host: an agent there, at
// the other end of ssh.
type remote struct {
	connection
	server *control.Server
	orders agentOrders
	relays map[int][streams]*relay
	ended  func(ending)

	pids    map[int]int
	held    []notice   // notices from before all had started
	started chan error // one: nil when all processes have started

	mu      sync.Mutex
	running map[int]bool // ranks whose end was not reported

	dismissed bool // the launcher ended it: it could not start its processes, or was too late
}

// call calls a host, and lets the timeout end the call.
func (j *job) call(r *remote) error {
	err := r.call(j.SSH, j.Agent)
	if err == nil {
		j.dog.watch(r)
	}
	return err
}

// call calls the host. It must be called on a thread that outlives the call;
// the result arrives on started.
func (r *remote) call(ssh, agent []string) error {
	if err := r.open(ssh, agent, attributes()); err != nil { // its own group: the launcher forwards Ctrl-C
		return err
	}
	r.pids, r.running, r.started = map[int]int{}, map[int]bool{}, make(chan error, 1)
	go r.attend()
	return nil
}

// attend acts on the agent's notices until it ends.
func (r *remote) attend() {
	defer close(r.left)
	lost := r.listen(func() error {
		defer func() { go r.beat(r.orders.Patience / 6) }() // the orders come first, however long the login takes
		return r.say.say(r.orders)
	}, r.hear)
	for _, rank := range r.alive() {
		r.ended(ending{rank: rank, life: r.orders.Life, at: time.Now(), lost: lost.Error()})
	}
	for _, relays := range r.relays {
		_ = relays[stdout].end() // a failure is recorded where the output is shown
		_ = relays[stderr].end()
	}
	r.begun(lost)
}

// begun reports, once, whether all processes have started.
func (r *remote) begun(err error) { offer(r.started, err) }

// hear acts on a notice of the agent.
func (r *remote) hear(n notice) error {
	relays, ours := r.relays[n.Rank]
	if n.Type == noticeRefused {
		return InputError{errors.New(oneLine(n.Text))}
	}
	if !ours || n.Stream < 0 || n.Stream >= streams {
		return fmt.Errorf("the agent speaks of rank %d, stream %d", n.Rank, n.Stream)
	}
	if n.Type != noticeStarted && len(r.pids) < len(r.orders.Ranks) {
		r.held = append(r.held, n)
		return nil
	}
	switch n.Type {
	case noticeStarted:
		return r.begin(n)
	case noticeOutput:
		return relays[n.Stream].take(n.Data)
	case noticeSpared:
		r.server.Spared(n.Rank, r.orders.Life, oneLine(n.Text))
	case noticeClosed:
		return relays[n.Stream].end()
	case noticeExited:
		if !r.runs(n.Rank, false) || n.Status == nil {
			return fmt.Errorf("the agent tells the end of rank %d twice", n.Rank)
		}
		r.server.Exited(n.Rank, r.orders.Life, n.Status.String(), n.Will)
		r.ended(ending{rank: n.Rank, life: r.orders.Life, status: *n.Status, at: time.Now()})
	}
	return nil
}

// begin records a start. Notices from before the last start are handled then:
// a job that shows output has started.
func (r *remote) begin(n notice) error {
	if _, twice := r.pids[n.Rank]; twice {
		return fmt.Errorf("the agent tells the start of rank %d twice", n.Rank)
	}
	r.pids[n.Rank] = n.PID
	r.runs(n.Rank, true)
	r.server.Started(n.Rank, r.orders.Life, n.PID)
	if len(r.pids) < len(r.orders.Ranks) {
		return nil
	}
	r.begun(nil)
	for _, n := range r.held {
		if err := r.hear(n); err != nil {
			return err
		}
	}
	r.held = nil
	return nil
}

// runs records whether a process runs, and reports whether it did before.
func (r *remote) runs(rank int, does bool) (did bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	did = r.running[rank]
	if r.running[rank] = does; !does {
		delete(r.running, rank)
	}
	return did
}

// alive returns the ranks whose processes run, as far as is known.
func (r *remote) alive() []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.running))
}

// A message to an agent may not arrive. Then its host is lost, and attend says
// so.

func (r *remote) signal(s syscall.Signal) { _ = r.say.say(command{Signal: s}) }

func (r *remote) kill(rank int) { _ = r.say.say(command{Signal: syscall.SIGKILL, Rank: &rank}) }

func (r *remote) fence(f control.Fence) { _ = r.say.say(command{Fence: &f}) }

// strike kills all processes at once, except for some, which get SIGQUIT. It does not wait for an agent
// that does not read.
func (r *remote) strike(spared []int) {
	go func() {
		for _, rank := range r.orders.Ranks {
			c := command{Signal: syscall.SIGKILL, Rank: &rank}
			if slices.Contains(spared, rank) {
				c.Signal = syscall.SIGQUIT
			}
			if r.say.say(c) != nil {
				return
			}
		}
	}()
}

func (r *remote) where(rank int) (pid int, host string) { return r.pids[rank], r.host }

// close releases the agent and waits for it.
func (r *remote) close() {
	r.stdin.Close()
	<-r.left
}

// lost reports whether the agent ended before its processes did.
func (r *remote) lost() bool {
	return closed(r.left) && !r.dismissed && (len(r.alive()) > 0 || len(r.pids) < len(r.orders.Ranks))
}
