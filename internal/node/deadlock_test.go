package node

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coppice-go/coppice/protocol/collective"
	"github.com/coppice-go/coppice/protocol/deadlock"
)

// deed is a step of a task in a random program: an operation, or a rest.
type deed struct {
	what     string // send recv barrier broadcast gather allgather rest
	rank     int    // the other one, or the root
	tag      int
	duration time.Duration
}

// knot is a random program: what each task does. All collective operations come in the same order everywhere; messages are sent and
// received in between at any time, so that tasks may wait for each other.
func knot(rng *rand.Rand, tasks int) [][]deed {
	all := make([][]deed, tasks)
	for range 1 + rng.IntN(4) {
		d := deed{what: []string{"barrier", "broadcast", "gather", "allgather"}[rng.IntN(4)], rank: rng.IntN(tasks)}
		for r := range all {
			all[r] = append(all[r], d)
		}
	}
	insert := func(r int, d deed) {
		i := rng.IntN(len(all[r]) + 1)
		all[r] = append(all[r][:i], append([]deed{d}, all[r][i:]...)...)
	}
	for range 1 + rng.IntN(2*tasks) {
		from, to, tag := rng.IntN(tasks), rng.IntN(tasks), rng.IntN(2)
		if from == to {
			continue
		}
		insert(from, deed{what: "send", rank: to, tag: tag})
		insert(to, deed{what: "recv", rank: from, tag: tag})
	}
	for range rng.IntN(3) {
		insert(rng.IntN(tasks), deed{what: "rest", duration: time.Duration(rng.IntN(30)) * time.Millisecond})
	}
	return all
}

// finishes reports which tasks come to the end of a program: the others wait for ever.
func finishes(all [][]deed) []bool {
	at, entered := make([]int, len(all)), make([]int, len(all)) // the step of each task, and collective operations that it has entered
	inside := make([]bool, len(all))
	messages := map[[3]int]int{}
	can := func(r int, d deed) bool {
		switch d.what {
		case "recv":
			return messages[[3]int{d.rank, r, d.tag}] > 0
		case "barrier", "allgather", "gather", "broadcast":
			for o := range all {
				needed := d.what == "barrier" || d.what == "allgather" || d.what == "gather" && r == d.rank || d.what == "broadcast" && o == d.rank
				if needed && entered[o] < entered[r] {
					return false
				}
			}
		}
		return true
	}
	for moved := true; moved; {
		moved = false
		for r := range all {
			if at[r] == len(all[r]) {
				continue
			}
			d := all[r][at[r]]
			switch d.what {
			case "barrier", "allgather", "gather", "broadcast":
				if !inside[r] {
					inside[r], moved = true, true
					entered[r]++
				}
			}
			if !can(r, d) {
				continue
			}
			switch d.what {
			case "send":
				messages[[3]int{r, d.rank, d.tag}]++
			case "recv":
				messages[[3]int{d.rank, r, d.tag}]--
			}
			at[r]++
			inside[r], moved = false, true
		}
	}
	done := make([]bool, len(all))
	for r := range all {
		done[r] = at[r] == len(all[r])
	}
	return done
}

// do carries out a step.
func (d deed) do(ctx context.Context, m *Member) error {
	value := []byte("12345678")
	var err error
	switch d.what {
	case "rest":
		time.Sleep(d.duration)
	case "send":
		err = m.Send(ctx, d.rank, d.tag, 1, value)
	case "recv":
		_, err = m.Recv(ctx, d.rank, d.tag, 1, "string")
	case "barrier":
		_, err = m.Do(ctx, &Call{Plan: BarrierPlan()})
	case "broadcast":
		root := d.rank == m.rank
		c := Call{Plan: m.Choose(collective.Broadcast, Choice{Root: d.rank, Bytes: 8, Decides: root})}
		if root {
			c.Value = value
		}
		_, err = m.Do(ctx, &c)
	case "gather":
		_, err = m.Do(ctx, &Call{Plan: m.Choose(collective.Gather, Choice{Root: d.rank, Bytes: 8}), Value: value})
	case "allgather":
		_, err = m.Do(ctx, &Call{Plan: m.Choose(collective.AllGather, Choice{Bytes: 8}), Value: value})
	}
	if err != nil {
		return fmt.Errorf("%s %d %d: %w", d.what, d.rank, d.tag, err)
	}
	return nil
}

// TestDeadlocks runs random programs while every task follows again and again what it waits for: those that can end do so, and in the
// others all who wait learn of it.
func TestDeadlocks(t *testing.T) {
	ended, stuckOnes := 0, 0
	var mu sync.Mutex
	t.Run("programs", func(t *testing.T) {
		for _, kind := range allKinds {
			for seed := range uint64(short(120, 20)) {
				t.Run(fmt.Sprintf("%s/%d", kind, seed), func(t *testing.T) {
					t.Parallel()
					rng := rand.New(rand.NewPCG(seed, 5))
					n := 2 + rng.IntN(4)
					program := knot(rng, n)
					done := finishes(program)
					deadlock := false
					for _, d := range done {
						deadlock = deadlock || !d
					}
					mu.Lock()
					if deadlock {
						stuckOnes++
					} else {
						ended++
					}
					mu.Unlock()
					perform(t, kind, n, program, done, deadlock)
				})
			}
		}
	})
	if ended < stuckOnes/8 || stuckOnes < ended/8 || ended == 0 {
		t.Errorf("%d programs end, %d do not: want many of both", ended, stuckOnes)
	}
}

func perform(t *testing.T, kind string, n int, program [][]deed, done []bool, deadlock bool) {
	ctx, stop := context.WithCancelCause(context.Background())
	j := start(t, kind, n, func(c *Config) { c.Adopt, c.Ends = func(int, int, int) {}, ctx.Done() })
	hangs := time.AfterFunc(hangTime, func() { stop(errors.New("the test hangs")) })
	defer hangs.Stop()
	errs := make([]error, n)
	var tasks sync.WaitGroup
	for r, p := range j.ps {
		tasks.Go(func() {
			m := p.World(r)
			for _, d := range program[r] {
				if errs[r] = d.do(ctx, m); errs[r] != nil {
					return
				}
			}
		})
	}
	ends := make(chan struct{})
	var chaser sync.WaitGroup
	chaser.Go(func() {
		for {
			select {
			case <-ends:
				return
			case <-time.After(time.Millisecond):
			}
			for r, p := range j.ps {
				p.engine.Lock()
				p.pursue(r)
				p.pursueDue(1)
				p.engine.Unlock()
			}
		}
	})
	tasks.Wait()
	close(ends)
	chaser.Wait()
	named := false
	for r, err := range errs {
		switch {
		case err != nil && !errors.Is(err, ErrDeadlock), err != nil && !deadlock, err == nil && !done[r]:
			t.Errorf("task %d: %v; it ends: %t; program: %v", r, err, done[r], program)
		case err != nil:
			named = named || strings.Contains(err.Error(), fmt.Sprintf("task %d waits in ", r))
		}
	}
	if deadlock && !named {
		t.Errorf("%v does not say what any of them waits for", errors.Join(errs...))
	}
}

// TestWaitsThatMayEnd: no task that may be freed counts as one that waits for ever.
func TestWaitsThatMayEnd(t *testing.T) {
	for _, c := range []struct {
		name string
		ctx  func() (context.Context, context.CancelFunc)
		fork bool
		part func(context.Context, *Member, int) (*Member, error) // the tasks have made a group
		ends bool                                                 // with the job
		want error
	}{
		{name: "a time limit", ctx: func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(context.Background(), 300*time.Millisecond)
		}, want: context.DeadlineExceeded},
		{name: "a fork", ctx: func() (context.Context, context.CancelFunc) {
			ctx, stop := context.WithCancelCause(context.Background())
			time.AfterFunc(300*time.Millisecond, func() { stop(errSilence) })
			return ctx, func() { stop(nil) }
		}, fork: true, ends: true, want: errSilence},
		{name: "a group", ctx: func() (context.Context, context.CancelFunc) {
			ctx, stop := context.WithCancelCause(context.Background())
			time.AfterFunc(300*time.Millisecond, func() { stop(errSilence) })
			return ctx, func() { stop(nil) }
		}, part: func(ctx context.Context, m *Member, r int) (*Member, error) { return m.Split(ctx, 0, r) }, ends: true, want: errSilence},
		{name: "a group of those that live", ctx: func() (context.Context, context.CancelFunc) {
			ctx, stop := context.WithCancelCause(context.Background())
			time.AfterFunc(300*time.Millisecond, func() { stop(errSilence) })
			return ctx, func() { stop(nil) }
		}, part: func(ctx context.Context, m *Member, _ int) (*Member, error) { return m.Shrink(ctx) }, ends: true, want: errSilence},
		{name: "a context of its own", ctx: func() (context.Context, context.CancelFunc) {
			ctx, stop := context.WithCancelCause(context.Background())
			time.AfterFunc(300*time.Millisecond, func() { stop(errSilence) })
			return ctx, func() { stop(nil) }
		}, want: errSilence},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, stop := c.ctx()
			defer stop()
			j := start(t, memory, 2, func(cfg *Config) {
				if cfg.Adopt = func(int, int, int) {}; c.ends {
					cfg.Ends = ctx.Done()
				}
			})
			var tasks sync.WaitGroup
			for r, p := range j.ps {
				if c.fork {
					p.World(r).Fork()
				}
				tasks.Go(func() {
					if c.part != nil {
						if _, err := c.part(ctx, p.World(r), r); err != nil {
							t.Error(err)
						}
					}
					if _, err := p.World(r).Recv(ctx, 1-r, 0, 1, "string"); !errors.Is(err, c.want) {
						t.Errorf("task %d: %v, want %v", r, err, c.want)
					}
				})
			}
			for range 100 {
				time.Sleep(time.Millisecond)
				for r, p := range j.ps {
					p.engine.Lock()
					p.pursue(r)
					p.pursueDue(1)
					p.engine.Unlock()
				}
			}
			tasks.Wait()
		})
	}
}

// TestFewChasesAtOnce: however many tasks wait in a row, each patrol begins one chase.
func TestFewChasesAtOnce(t *testing.T) {
	const tasks = 20
	j := start(t, memory, 1, func(c *Config) { c.Adopt, c.Tasks = func(int, int, int) {}, tasks })
	p := j.ps[0]
	ctx, stop := context.WithCancel(context.Background())
	p.cfg.Ends = ctx.Done()
	var waits sync.WaitGroup
	for r := range tasks - 1 {
		waits.Go(func() { _, _ = p.World(r).Recv(ctx, r+1, 0, 1, "string") })
	}
	for waiting := 0; waiting < tasks-1; time.Sleep(time.Millisecond) {
		waiting = 0
		p.engine.Lock()
		for r := range tasks - 1 {
			if p.stuck(r) != nil {
				waiting++
			}
		}
		p.engine.Unlock()
	}
	p.engine.Lock()
	for range 2 {
		for r := range tasks {
			p.pursue(r)
		}
	}
	before := p.chases.begun
	p.pursueDue(1)
	if n := p.chases.begun - before; n != 1 {
		t.Error(n, "begun")
	}
	p.pursueDue(100)
	if n := p.chases.begun - before; n != tasks-1 {
		t.Error(n, "begun in all")
	}
	p.engine.Unlock()
	stop()
	waits.Wait()
}

var errSilence = errors.New("it is over")

// TestChasesThatAreGarbage are ignored.
func TestChasesThatAreGarbage(t *testing.T) {
	j := start(t, memory, 2, func(c *Config) { c.Adopt = func(int, int, int) {} })
	p := j.ps[0]
	ctx, stop := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer stop()
	var waits sync.WaitGroup
	waits.Go(func() {
		if _, err := p.World(0).Recv(ctx, 1, 0, 1, "string"); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
	one := func(found bool, path ...deadlock.Wait) string {
		return string((&deadlock.Chase{Found: found, Path: path}).Append(nil))
	}
	for _, text := range []string{
		"", "x", "\xff\xff\xff", one(false), one(false, deadlock.Wait{}), one(true, deadlock.Wait{}),
		one(false, deadlock.Wait{Task: -1, Group: 1}), one(false, deadlock.Wait{Task: 99, Rank: 99, Group: 1, Kind: 1}),
		one(false, deadlock.Wait{Task: 1, Rank: 1, Group: 1, Kind: 77, Seq: 9}), one(false, deadlock.Wait{Task: 1, Rank: 1, Group: 1, Kind: 2, Seq: 9}),
		one(true, deadlock.Wait{Group: 1, Kind: 1, Op: 1, Seq: 1, Peer: 1}),
	} {
		m := j.ps[1].World(1)
		e := m.to(0)
		e.plan = Plan{op: opChase}
		j.ps[1].engine.Lock()
		m.peer(0).send(e, []byte(text), nil)
		j.ps[1].engine.Unlock()
	}
	waits.Wait()
}

// TestLastLook: the first task of a chase that has come back looks whether it still waits for the same, and whether it is what the last one
// needs.
func TestLastLook(t *testing.T) {
	own := deadlock.Wait{Group: 1, Kind: deadlock.Message, Op: 1, Seq: 1, Peer: 1, Tag: 4}
	other := own
	other.Tag = 5
	last := func(kind deadlock.Kind, peer int, tag uint64) deadlock.Wait {
		w := deadlock.Wait{Task: 1, Rank: 1, Group: 1, Kind: kind, Seq: 1, Peer: peer, Tag: tag}
		if kind == deadlock.Message {
			w.Op = 1
		}
		return w
	}
	for _, c := range []struct {
		name string
		path []deadlock.Wait
		want error
	}{
		{"a cycle", []deadlock.Wait{own, last(deadlock.Message, 0, 3)}, ErrDeadlock},
		{"the last one does not wait so", []deadlock.Wait{own, last(deadlock.All, 0, 0)}, errSilence},
		{"it waits for another message", []deadlock.Wait{other, last(deadlock.Message, 0, 3)}, errSilence},
		{"it is not the root", []deadlock.Wait{own, last(deadlock.Root, 1, 0)}, errSilence},
		{"the message is for another", []deadlock.Wait{own, last(deadlock.Message, 1, 3)}, errSilence},
		{"it has sent the message", []deadlock.Wait{own, last(deadlock.Message, 0, 9)}, errSilence},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, stop := context.WithCancelCause(context.Background())
			j := start(t, memory, 2, func(c *Config) { c.Adopt, c.Ends = func(int, int, int) {}, ctx.Done() })
			m := j.ps[0].World(0)
			if err := m.Send(ctx, 1, 9, 1, []byte("x")); err != nil {
				t.Fatal(err)
			}
			sender := j.ps[1].World(1)
			got := make(chan error)
			for r, tag := range []int{4, 3} {
				go func() {
					_, err := j.ps[r].World(r).Recv(ctx, 1-r, tag, 1, "string")
					got <- err
				}()
				for waits := false; !waits; time.Sleep(time.Millisecond) {
					j.ps[r].engine.Lock()
					waits = j.ps[r].stuck(r) != nil
					j.ps[r].engine.Unlock()
				}
			}
			e := sender.to(0)
			e.plan = Plan{op: opChase}
			j.ps[1].engine.Lock()
			sender.peer(0).send(e, (&deadlock.Chase{Path: c.path}).Append(nil), nil)
			j.ps[1].engine.Unlock()
			time.AfterFunc(100*time.Millisecond, func() { stop(errSilence) })
			for range j.ps {
				if err := <-got; !errors.Is(err, c.want) {
					t.Errorf("%v, want %v", err, c.want)
				}
			}
		})
	}
}
