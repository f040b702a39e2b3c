package launch

import (
	"sync"
	"syscall"
	"time"
)

// crew is the processes of one host, seen from that host: it starts them, and
// sees to it that none is left.
type crew struct {
	threads *threads
	procs   []*process
	out     sync.WaitGroup // one for each process: all it wrote was taken
}

// ending is the end of a process.
type ending struct {
	rank   int
	life   uint64 // its incarnation
	status status
	at     time.Time
	lost   string // it is not known how: why its host is lost
}

// startCrew starts a process for each order. If one cannot be started, none
// stays.
func startCrew(orders []order) (*crew, error) {
	c := &crew{threads: newThreads(len(orders)), procs: make([]*process, len(orders))}
	var (
		once   sync.Once
		failed error
		broken = make(chan struct{})
	)
	c.threads.each(len(orders), func(i int) {
		select {
		case <-broken: // another could not be started: no more
			return
		default:
		}
		p, err := start(orders[i])
		if c.procs[i] = p; err != nil {
			once.Do(func() { failed = err; close(broken) })
		}
	})
	if failed == nil {
		return c, nil
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
	return nil, failed
}

// watch calls ended, from goroutines of its own, for each process that has
// exited. linger is called before: until it returns, what is left of the
// process's group lives on. It is called once.
func (c *crew) watch(orders []order, linger func(rank int), ended func(ending)) {
	for i, p := range c.procs {
		c.out.Go(func() {
			p.exited()
			at := time.Now()
			linger(orders[i].rank)
			ended(ending{rank: orders[i].rank, life: orders[i].life, status: p.reap(), at: at})
			p.drained()
		})
	}
}

// signal sends a signal to all processes that still run, and to all that those
// started in their groups.
func (c *crew) signal(s syscall.Signal) {
	for _, p := range c.procs {
		p.signal(s)
	}
}

// close waits until all processes have ended and all they wrote was taken.
func (c *crew) close() {
	c.out.Wait()
	c.threads.close()
}
