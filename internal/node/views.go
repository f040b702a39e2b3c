package node

import (
	"context"
	"fmt"
	"time"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
)

// Sight is a view that was open, and the way to the next one.
type Sight struct {
	View *membership.View
	next *Sight
	come chan struct{} // closed when there is a next one, or there will be none
}

// Come is closed when there is a next view, or there will be none.
func (s *Sight) Come() <-chan struct{} { return s.come }

// Next waits for the next view. It returns nil when there will be none.
func (s *Sight) Next(ctx context.Context) (*Sight, error) {
	select {
	case <-s.come:
		return s.next, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// views is a process's part in the membership of its job.
type views struct {
	state    *membership.Tape
	sight    *Sight
	stepping bool
	timer    protocol.Time // the earliest that is set, if it is to come
	looked   protocol.Time // when the process was last known to run
	slept    protocol.Time // so much of its time it did not
	latest   protocol.Time // that the machine was told
	buf      []byte
	drained  chan Drained // nil: the process was not told to leave
}

// Times of the membership protocol. What is lost is sent again much later than it
// usually takes; a death that all are told of need not be reported by all.
const (
	viewRetryMax    = 250 * time.Millisecond
	viewPatienceMin = 3 * time.Second
	warmAfter       = protocol.Time(300 * time.Millisecond)
	warmEach        = protocol.Time(4 * time.Millisecond) // for each process of the job, when it starts
)

// initViews makes the first view, which all processes know.
func (p *Process) initViews() error {
	owners := make([]protocol.Rank, p.roster.Len())
	for t := range owners {
		owners[t] = protocol.Rank(p.roster.Owner(t))
	}
	retry := min(viewRetryMax, p.cfg.Silence/4)
	first := membership.First(p.cfg.Size, owners)
	cfg, self := membership.Config{
		First: first, Fanout: p.cfg.Fanout, Gather: p.cfg.gather, Adopt: p.replays(), Arbiter: p.cfg.Arbiter != nil,
		Report: protocol.Time(retry / 8), Retry: protocol.Time(retry),
		Patience: protocol.Time(max(2*p.cfg.Silence, viewPatienceMin)),
	}, protocol.Rank(p.cfg.Rank)
	state, err := membership.NewTape(cfg, self, p.trace.begin("Membership", cfg, self))
	if err != nil {
		return err
	}
	v := &p.views
	v.state, v.sight = state, &Sight{View: first, come: make(chan struct{})}
	return nil
}

// joinViews asks to be let in, if the process joins a running job.
func (p *Process) joinViews() {
	p.notifyViews(protocol.Notice{Kind: protocol.Begin, Value: p.cfg.Incarnation})
}

// view is the view that is open, or the last that was.
func (p *Process) view() *membership.View { return p.views.sight.View }

// viewsSettled reports whether no view is on its way.
func (p *Process) viewsSettled() bool { return p.views.state.Settled() }

// lowest reports whether this process is the lowest member of the view.
func (p *Process) lowest() bool { return p.view().Members[0] == p.views.state.Self() }

// limit says how many tasks a process can own.
func (p *Process) limit(who membership.Member, most int) { p.views.state.Limit(who, most) }

// testament is what the process would leave if it died now.
func (p *Process) testament() []byte { return membership.Testament(&p.views.state.State).Append(nil) }

// Sight returns the view that is open.
func (p *Process) Sight() *Sight {
	p.engine.Lock()
	defer p.engine.Unlock()
	return p.views.sight
}

// Out is closed when the process takes no more part in the job.
func (p *Process) Out() <-chan struct{} { return p.out }

// Ended is why it takes no more part; nil: it does.
func (p *Process) Ended() error {
	p.engine.Lock()
	defer p.engine.Unlock()
	return p.ended
}

// stepViews lets the membership machine do all it can now.
func (p *Process) stepViews() {
	v := &p.views
	if v.stepping || p.engine.Stopped() || p.dead {
		return
	}
	v.stepping = true
	defer func() { v.stepping = false }()
	if !v.state.Settled() {
		p.patrolSoon()
	}
	for !p.engine.Stopped() && !p.dead {
		switch a := v.state.Next(p.viewNow()); a.Kind {
		case protocol.Send:
			p.sendView(int(a.To), a.Msg)
		case protocol.Deliver:
			p.viewNews(a.Msg)
		case protocol.Work:
			p.viewWork(a.Msg)
			v.state.Notify(p.viewNow(), protocol.Notice{Kind: protocol.WorkDone})
		case protocol.Wait:
			p.stepViewsAt(a.At)
			p.viewsRest()
			return
		default:
			p.viewsRest()
			return
		}
	}
}

// viewsRest looks what is to be done while the machine waits.
func (p *Process) viewsRest() {
	p.balanced()
	p.hurryViews()
}

// notifyViews tells the membership machine something.
func (p *Process) notifyViews(n protocol.Notice) {
	p.views.state.Notify(p.viewNow(), n)
	p.stepViews()
}

// viewNow is the time as the membership machine has it: without that in which this
// process did not run, when it was stopped or the machine asleep. Others may have
// spoken to it meanwhile, and it has yet to read what they said.
func (p *Process) viewNow() protocol.Time {
	v, now := &p.views, p.engine.Now()
	if gap := now - v.looked; gap > pauseMin {
		v.slept += gap
		v.looked = now
	}
	v.latest = max(v.latest, now-v.slept) // time does not run backwards
	return v.latest
}

// look takes note that the process runs.
func (v *views) look(p *Process) {
	p.viewNow()
	v.looked = p.engine.Now()
}

// pauseMin is what counts as a pause: many patrols that did not take place.
const pauseMin = 8 * patrolEvery

// stepViewsAt lets the machine act again at a time.
func (p *Process) stepViewsAt(at protocol.Time) {
	v := &p.views
	at += v.slept
	if v.timer <= p.engine.Now() || at < v.timer {
		v.timer = at
		p.engine.At(at, p.stepViews)
	}
}

// hurryViews has the background drive at once if nobody does and a view is on its
// way.
func (p *Process) hurryViews() {
	if !p.views.state.Settled() {
		p.engine.Hurry()
	}
}

func (p *Process) sendView(to int, m membership.Message) {
	p.views.buf = m.Append(p.views.buf[:0])
	value := p.views.buf
	if len(value) > inlineMax { // it is not copied
		value = append([]byte(nil), value...)
	}
	p.peerAt(to).send(envelope{plan: Plan{op: opView}}, value, nil)
}

// viewLetter takes a letter of the membership protocol.
func (p *Process) viewLetter(in *incoming) {
	if !in.Complete() {
		in.arrived = func() {
			p.viewLetter(in)
		}
		in.want()
		return
	}
	m, err := membership.Decode(in.value)
	if err != nil {
		p.cfg.Logger.Warn("bad letter", "peer", in.source.rank, "error", err)
		return
	}
	p.views.state.Receive(p.viewNow(), protocol.Rank(in.source.rank), m)
	p.stepViews()
}

// viewWork does what the machine asks of its host.
func (p *Process) viewWork(m membership.Message) {
	if m.Kind == membership.Arbitrate {
		go p.askArbiter(m.Number)
		return
	}
	h := p.cfg.Host
	if h == nil {
		return
	}
	switch m.Kind {
	case membership.Record:
		if err := h.Record(m.Append(nil)); err != nil {
			// What is not recorded must not be said: better to be dead.
			p.cfg.Logger.Error("no record", "error", err)
			p.end(&Parting{ErrExcluded, fmt.Sprintf("%v: %v", ErrExcluded, err)})
		}
	case membership.Fence, membership.Wish:
		why := fmt.Sprintf("stands in the way of view %d", m.Number+1)
		go h.Fence(int(m.Who.ID), uint64(m.Who.Incarnation), why, m.Append(nil))
	}
}

// askArbiter asks the arbiter about a view, and tells the machine what it says, in time for its patience.
func (p *Process) askArbiter(view uint64) {
	ctx, cancel := context.WithTimeout(context.Background(), max(p.cfg.Silence, viewPatienceMin/2))
	defer cancel()
	named, err := p.cfg.Arbiter(ctx, view)
	kind := membership.Denied
	switch {
	case err != nil:
		kind = membership.NoArbiter
	case named:
		kind = membership.Granted
	}
	p.cfg.Logger.Info("asked who goes on with half of a view", "view", view, "answer", kind, "error", err)
	p.engine.Lock()
	defer p.engine.Unlock()
	if p.engine.Stopped() || p.dead {
		return
	}
	self := p.views.state.Self()
	p.views.state.Receive(p.viewNow(), self.ID, membership.Message{Letter: &membership.Letter{Kind: kind, Number: view}, From: self.Incarnation})
	p.stepViews()
}

// viewNews is told that a view is open, or that there will be none.
func (p *Process) viewNews(m membership.Message) {
	if p.ended != nil { // it only answers others now
		return
	}
	switch m.Kind {
	case membership.Opened:
		p.viewOpened(m.Base)
	case membership.Excluded:
		if p.leftOut(m.Number) {
			return
		}
		p.cfg.Logger.Warn("excluded", "view", m.Number)
		p.end(&Parting{ErrExcluded, fmt.Sprintf("%v by view %d", ErrExcluded, m.Number)})
	case membership.NoQuorum:
		p.cfg.Logger.Warn("no quorum", "view", m.Number, "failed", fmt.Sprint(p.views.state.Failed()))
		p.end(&Parting{ErrNoQuorum, fmt.Sprintf("%v to follow view %d", ErrNoQuorum, m.Number)})
	}
}

// viewOpened makes a view the one that is open.
func (p *Process) viewOpened(v *membership.View) {
	before := p.views.sight
	now := &Sight{View: v, come: make(chan struct{})}
	before.next, p.views.sight = now, now
	close(before.come)
	p.cfg.Logger.Info("view", "number", v.Number, "members", len(v.Members))
	p.meet(before.View, v)
	p.assign(v)
	p.ruleOpened(v)
	p.tellLoad()
	for m := range p.groups.all() {
		m.reconvene(v)
	}
	if p.cfg.Host != nil && p.lowest() {
		go p.cfg.Host.Opened(v)
	}
	p.warmLater()
}

// warmLater connects the process with its children in the tree of the view, in a
// while, so that the next view has not to wait for connections. At the start of the job, it waits until all members have begun, and then
// as long as the machine may be busy with what they do first.
func (p *Process) warmLater() {
	if !p.networked() {
		return
	}
	v, start := p.views.sight.View, p.views.sight.View.Number == 1
	var look func()
	look = func() {
		switch now := p.engine.Now(); {
		case p.views.sight.View != v:
		case p.views.state.Gathering():
			p.engine.At(now+warmAfter, look)
		case start:
			start = false
			p.engine.At(now+protocol.Time(p.cfg.Size)*warmEach, look)
		default:
			for _, id := range p.views.state.Neighbours() {
				if q := p.peerAt(int(id)); q.link == nil {
					q.beat()
				}
			}
		}
	}
	p.engine.At(p.engine.Now()+warmAfter, look)
}
