package experiment

import (
	"context"
	"fmt"

	"github.com/coppice-go/coppice/logp"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
)

// change is a change of the membership to simulate: some members have failed, or processes join, and the
// proposer learns of it.
type change struct {
	n       int // processes in the group after the change
	fanout  int
	net     logp.Network  // without P
	ocp     protocol.Time // time to compute for a proposal
	dead    []protocol.Rank
	joins   int // how many processes join: the last ranks
	dying   []protocol.Rank
	dyingAt protocol.Time // when they die, after the proposer learned of the dead; the detector reports them
}

// stabilized is how long a change took, from the moment when the proposer learned of it.
type stabilized struct {
	accepted protocol.Time // until the proposer had all acceptances, of localized views those for the first one: T_s of the thesis
	stable   protocol.Time // until the last process knew that the (last) view is open
	messages int64
	views    int // number of opened views
}

// learned is when the proposer learns of a change: not at 0, which is the start.
const learned protocol.Time = 1

// run simulates a change among processes 0 … n−1 and the dead ones. If nothing joins and dead is nil, the
// last rank of n+1 is dead.
func (c change) run(ctx context.Context) (stabilized, error) {
	p := c.n
	if c.joins == 0 {
		if c.dead == nil {
			c.dead = []protocol.Rank{protocol.Rank(c.n)}
		}
		p += len(c.dead) + len(c.dying)
	}
	c.net.P = p
	machine, err := membership.New(membership.Config{
		First: membership.First(p-c.joins, nil), Fanout: c.fanout,
		Retry: patience, Patience: 2 * patience, Report: patience,
	})
	if err != nil {
		return stabilized{}, err
	}
	hosts := &agents{Protocol: machine, wills: make([]membership.Message, p), ocp: c.ocp}
	watch := &viewWatch{joins: c.joins > 0}
	o := logp.Observer[membership.Message]{Received: watch.received, Delivered: watch.delivered}
	r, err := observed(ctx, hosts, c.net, o, c.faults(), c.inputs(p)...)
	switch {
	case err != nil:
		return stabilized{}, err
	case watch.opened != c.n:
		return stabilized{}, fmt.Errorf("a view of %d opened at %d processes", c.n, watch.opened)
	}
	return stabilized{
		accepted: watch.first - watch.learned + c.ocp, stable: watch.last - watch.learned + c.ocp,
		messages: r.Sent(), views: int(watch.number) - 1,
	}, nil
}

// observed simulates one run.
func observed[S, M any](ctx context.Context, p protocol.Protocol[S, M], net logp.Network, o logp.Observer[M], faults logp.Faults, inputs ...logp.Input) (logp.Result, error) {
	if err := ctx.Err(); err != nil {
		return logp.Result{}, err
	}
	e, err := logp.NewEngine(p, net)
	if err != nil {
		return logp.Result{}, err
	}
	e.Observe(o)
	return e.Run(1, faults, inputs...)
}

// patience is far longer than any simulated change: nothing is sent twice.
const patience protocol.Time = 1 << 30

func (c change) faults() logp.Faults {
	f := logp.Faults{Failed: c.dead}
	for _, r := range c.dying {
		f.Deaths = append(f.Deaths, logp.Death{Rank: r, At: learned + c.dyingAt})
	}
	return f
}

// inputs returns notices of the dead processes for the lowest live one, and notices to join for joiners. The
// network's detector reports the processes that die later, to all.
func (c change) inputs(p int) (inputs []logp.Input) {
	proposer := protocol.Rank(0)
	for _, r := range c.dead { // in order
		if r == proposer {
			proposer++
		}
	}
	for _, r := range c.dead {
		inputs = append(inputs, logp.Input{At: learned, Rank: proposer, Notice: protocol.Notice{Kind: protocol.Death, Rank: r, Value: 1}})
	}
	for i := range c.joins {
		inputs = append(inputs, logp.Input{At: learned, Rank: protocol.Rank(p - 1 - i), Notice: protocol.Notice{Kind: protocol.Begin, Value: 1}})
	}
	return inputs
}

// agents runs the membership protocol with what hosts do: they keep what processes record, and pass it on
// with the notice of a death. Recording takes no time. It belongs to one engine.
type agents struct {
	*membership.Protocol
	wills []membership.Message
	ocp   protocol.Time
}

// Init implements protocol.Protocol.
func (a *agents) Init(s *membership.State, self protocol.Rank, seed uint64) {
	a.Protocol.Init(s, self, seed)
	a.wills[self] = membership.Testament(s)
}

// Next implements protocol.Protocol.
func (a *agents) Next(s *membership.State, now protocol.Time) protocol.Action[membership.Message] {
	action := a.Protocol.Next(s, now)
	if action.Kind == protocol.Work {
		a.wills[s.Self().ID] = membership.Testament(s)
	}
	return action
}

// Notify implements protocol.Protocol.
func (a *agents) Notify(s *membership.State, now protocol.Time, n protocol.Notice) {
	if n.Kind == protocol.Death {
		n.Value = 1 // no process has another life here
		a.Receive(s, now, n.Rank, a.wills[n.Rank])
	}
	a.Protocol.Notify(s, now, n)
}

// Computing implements logp.Computing: a process that gets a proposal computes the tree.
func (a *agents) Computing(_ protocol.Rank, m membership.Message) protocol.Time {
	if m.Kind == membership.Propose {
		return a.ocp
	}
	return 0
}

// viewWatch records when the first and the last process opened the last view.
type viewWatch struct {
	joins                bool
	learned, first, last protocol.Time
	number               uint64
	opened               int
}

// received records when a joiner's letter reaches the proposer.
func (w *viewWatch) received(at protocol.Time, to, _ protocol.Rank, _ protocol.Kind, m membership.Message) {
	if w.joins && w.learned == 0 && m.Kind == membership.Join && to == 0 {
		w.learned = at
	}
}

func (w *viewWatch) delivered(at protocol.Time, _ protocol.Rank, m membership.Message) {
	if m.Kind != membership.Opened || m.Number < w.number {
		return
	}
	if m.Number > w.number {
		w.number, w.first, w.opened = m.Number, at, 0
	}
	w.last = at
	w.opened++
	if !w.joins {
		w.learned = learned
	}
}
