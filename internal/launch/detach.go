package launch

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/coppice-go/coppice/internal/control"
	"github.com/coppice-go/coppice/internal/spool"
)

// seedHosts is how many hosts have an address at which processes look for each other.
const seedHosts = 3

// About describes a job of the plan that outlives its launcher.
func (p *Plan) About() spool.About {
	a := spool.About{Command: p.Command(), Began: time.Now()}
	if p.Hosts != nil {
		a.Hosts, a.SSH, a.Agent = p.shares, p.SSH, p.Agent
	}
	return a
}

// Detach starts the processes on other hosts, where they outlive this process. If one host cannot start its processes, Detach undoes the others. If
// this process is killed in the meantime, the started processes wait for the others, and end if no majority joins.
func (p *Plan) Detach(ctx context.Context, name string, about spool.About) error {
	hosts := about.Hosts
	calls := make([]*agentCall, len(hosts))
	err := forEach(calls, func(i int) (err error) {
		calls[i], err = callAgent(p.SSH, p.Agent, hosts[i].Name)
		return err
	})
	defer func() {
		_ = forEach(calls, func(i int) error {
			if calls[i] != nil {
				calls[i].hangUp()
			}
			return nil
		})
	}()
	seeds := make([]string, len(hosts))
	if err == nil {
		err = forEach(calls, func(i int) (err error) {
			seeds[i], err = calls[i].seed(ctx, p.Listen)
			return err
		})
	}
	if err != nil {
		return err
	}
	orders, err := p.keptOrders(name, about, seeds)
	if err != nil {
		return err
	}
	started := make([]bool, len(hosts))
	err = forEach(calls, func(i int) error {
		mine := orders
		keep := *orders.Keep
		mine.Ranks, mine.Keep, keep.Host = hosts[i].Ranks, &keep, hosts[i].Name
		err := calls[i].order(ctx, mine)
		started[i] = err == nil
		return err
	})
	if err == nil {
		return nil
	}
	_ = forEach(calls, func(i int) error { // processes that cannot be undone end because they have no majority
		if !started[i] {
			return nil
		}
		_ = calls[i].say.say(command{Undo: true})
		_, _ = calls[i].next(context.Background(), undoTime) // the host ends its part then
		return nil
	})
	return err
}

// undoTime is how long a host has to end what it has started.
const undoTime = 5 * time.Second

// forEach calls f for all at once, and returns the first error by index.
func forEach[T any](all []T, f func(i int) error) error {
	errs := make([]error, len(all))
	var done sync.WaitGroup
	for i := range all {
		done.Go(func() { errs[i] = f(i) })
	}
	done.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// keptOrders returns the orders that all hosts get.
func (p *Plan) keptOrders(name string, about spool.About, seeds []string) (agentOrders, error) {
	settings, err := json.Marshal(p.Settings)
	if err != nil {
		return agentOrders{}, err
	}
	env := merge(Carried(), p.Env)
	if p.JoinTimeout > 0 {
		env = merge(env, []string{control.VarJoinTimeout + "=" + p.JoinTimeout.String()})
	}
	o := agentOrders{
		Key: make([]byte, 32), Size: p.N, Coordinator: strings.Join(seeds[:min(len(seeds), seedHosts)], ","), Life: firstIncarnation,
		Program: p.Program, Args: p.Args, Dir: p.Dir, Env: env,
		Keep: &keepOrders{
			Name: name, About: about, Settings: settings, Grace: p.Grace, Timeout: p.Timeout, Prefix: p.Output.Prefix,
			Hidden: p.Output.Stdout == nil && p.Output.Stderr == nil, Shown: p.Output.Ranks,
		},
	}
	rand.Read(o.Key) // these never fail
	rand.Read(o.Job[:])
	return o, nil
}

// seed asks a host for an address.
func (c *agentCall) seed(ctx context.Context, listen string) (string, error) {
	name := c.host[strings.LastIndexByte(c.host, '@')+1:]
	if err := c.begin(ctx, callTime, agentOrders{Seed: true, Fallback: name, Listen: listen}); err != nil {
		return "", err
	}
	n, err := c.expect(ctx, noticeSeed)
	return n.Text, err
}

// order gives a host its orders, and waits until it has carried them out.
func (c *agentCall) order(ctx context.Context, o agentOrders) error {
	if err := c.tell(ctx, o); err != nil {
		return err
	}
	_, err := c.expect(ctx, noticeStarted)
	return err
}
