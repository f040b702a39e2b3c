package launch

import (
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/coppice-go/coppice/internal/posix"
)

// crew is the processes of one host, seen from that host: it starts them, and
// makes sure that none is left.
type crew struct {
	orders  []order
	threads *threads
	running sync.WaitGroup // one for each process that has not exited
	out     sync.WaitGroup // one for each process whose output is not yet read completely

	mu      sync.Mutex
	procs   []*process // by order; nil: it was not started
	stopped error      // why no more are started
}

// ending is the end of a process.
type ending struct {
	rank   int
	life   uint64 // the incarnation
	status status
	at     time.Time
	lost   string // if it is unknown how it ended: why its host is lost
}

// newCrew prepares to start a process for each order.
func newCrew(orders []order) *crew {
	return &crew{orders: orders, threads: newThreads(len(orders)), procs: make([]*process, len(orders))}
}

// start starts the processes. If one cannot be started, none stays.
func (c *crew) start() error {
	c.threads.each(len(c.orders), func(i int) {
		if c.stop(nil) != nil {
			return
		}
		p, err := start(c.orders[i])
		if err != nil {
			c.stop(err)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.procs[i] = p
	})
	failed := c.stop(nil)
	if failed == nil {
		return nil
	}
	for _, p := range c.procs {
		if p != nil {
			p.signal(syscall.SIGKILL)
			p.exited()
			p.reap()
			p.drained()
		}
	}
	c.threads.close()
	return failed
}

// stop prevents further starts, unless why is nil, and returns the first reason for that.
func (c *crew) stop(why error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped == nil {
		c.stopped = why
	}
	return c.stopped
}

// watch calls ended, from goroutines of its own, for each process that has
// exited. It calls linger before: until linger returns, the rest of the
// process's group lives on. watch is called once.
func (c *crew) watch(linger func(rank int), ended func(ending)) {
	for i, p := range c.procs {
		o := c.orders[i]
		c.running.Add(1)
		c.out.Go(func() {
			p.exited()
			c.running.Done()
			at := time.Now()
			linger(o.rank)
			ended(ending{rank: o.rank, life: o.life, status: p.reap(), at: at})
			p.drained()
		})
	}
}

// signal sends a signal to all running processes, and to everything that they
// started in their groups.
func (c *crew) signal(s syscall.Signal) {
	c.each(func(p *process, _ int) { p.signal(s) })
}

// signalOne sends a signal to the process of a rank, and to everything that it started in its group.
func (c *crew) signalOne(rank int, s syscall.Signal) {
	c.each(func(p *process, of int) {
		if of == rank {
			p.signal(s)
		}
	})
}

// each calls f for all processes that were started, with their ranks.
func (c *crew) each(f func(p *process, rank int)) {
	c.mu.Lock()
	procs := slices.Clone(c.procs)
	c.mu.Unlock()
	for i, p := range procs {
		if p != nil {
			f(p, c.orders[i].rank)
		}
	}
}

// alive returns the ranks of processes that were started and have not been waited for.
func (c *crew) alive() (ranks []int) {
	c.each(func(p *process, rank int) {
		if !p.gone() {
			ranks = append(ranks, rank)
		}
	})
	return ranks
}

// strike kills all processes at once, except for some, which get SIGQUIT. It prevents further starts.
func (c *crew) strike(spared []int) {
	c.stop(errTimeout)
	known := map[int]bool{}
	c.each(func(p *process, rank int) {
		known[p.pid] = true
		if slices.Contains(spared, rank) {
			p.signal(syscall.SIGQUIT)
		} else {
			p.signal(syscall.SIGKILL)
		}
	})
	for _, pid := range c.threads.children() { // processes that have not reached exec
		if !known[pid] {
			_ = posix.Kill(pid, syscall.SIGKILL)
		}
	}
}

// close waits until all processes have ended and all their output was read.
func (c *crew) close() {
	c.out.Wait()
	c.threads.close()
}
