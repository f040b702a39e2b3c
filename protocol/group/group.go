// Package group is the one machine that knows the others: it carries the frames
// of several operations and of the membership between the same processes.
//
// Source: rules 2 and 4 of docs/design.md. A frame of an operation says in which
// view it was sent. One of a later view than this process's is held, and the
// view, of which it is the proof, is fetched; one of an earlier view is dropped,
// since what was lost in between is planned anew; frames of processes that are
// not in the view are dropped. Frames of operations that this process has not
// begun are held until it does. When a view opens, every operation that runs is
// told, in the order of their numbers.
//
// Cost: nothing of its own but a question for a view that is not known.
//
// An operation's ranks are the ids of processes; who takes part in it, and what a
// new view means to it, is the operation's business.
package group

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
)

// Operation is one process's part in one operation, as a value that can be
// copied: the methods of a protocol.Protocol on one state.
type Operation interface {
	Receive(now protocol.Time, from protocol.Rank, body Body)
	Notify(now protocol.Time, n protocol.Notice)
	NewView(now protocol.Time, v *membership.View) // a view is open
	Next(now protocol.Time) protocol.Action[Body]
	Clone() Operation
	Fingerprint() [2]uint64
}

// Body is an operation's message.
type Body interface{ Fingerprint() [2]uint64 }

// Frame is what processes of a group send each other: of the membership, if Op is
// 0, otherwise of an operation. What a group delivers is a Frame, too: an opened
// view, or an operation's result.
type Frame struct {
	Op     uint64
	View   uint64 // in which it was sent
	Letter membership.Message
	Body   Body
}

// Fingerprint stands for the frame.
func (f Frame) Fingerprint() [2]uint64 {
	a, b := f.Letter.Fingerprint(), [2]uint64{f.Op, f.View}
	if f.Body != nil {
		b = mix(b, f.Body.Fingerprint())
	}
	return mix(a, b)
}

func (f Frame) String() string {
	if f.Op == 0 {
		return f.Letter.String()
	}
	return fmt.Sprintf("%v of operation %d in view %d", f.Body, f.Op, f.View)
}

func mix(a, b [2]uint64) [2]uint64 {
	return [2]uint64{protocol.Mix(a[0], b[0]^b[1]<<1), protocol.Mix(a[1]^a[0], b[1]+3*b[0])}
}

// Config is what all processes of a group know.
type Config struct {
	Membership *membership.Protocol

	// Begin makes this process's part in operation op, which is begun in a view.
	Begin func(op uint64, self protocol.Rank, v *membership.View) Operation
}

// Group is a group's protocol, configured. It implements
// protocol.Protocol[State, Frame].
//
// Notices: Begin begins operation Value, Cancel and WorkDone are for operations
// (WorkDone for whoever asked first), Death and Suspect for the membership.
type Group struct{ cfg Config }

// New returns the protocol of a group.
func New(cfg Config) (*Group, error) {
	if cfg.Membership == nil || cfg.Begin == nil {
		return nil, fmt.Errorf("group without membership or operations; allowed: both")
	}
	return &Group{cfg}, nil
}

// State is that of one process.
type State struct {
	self    protocol.Rank
	members membership.State
	view    *membership.View // open, or the last that was
	over    bool             // excluded, or without a quorum
	running []running        // in the order of their numbers
	done    done
	held    []held
	asked   uint64   // the latest view that was asked for
	works   []uint64 // operations, 0 for the membership, whose work is not done
}

type running struct {
	op      uint64
	machine Operation
}

type held struct {
	from  protocol.Rank
	frame Frame
}

// View is the view that is open, or the last that was.
func (s *State) View() *membership.View { return s.view }

// Members is the state of the membership.
func (s *State) Members() *membership.State { return &s.members }

// Over tells whether the group has ended for this process.
func (s *State) Over() bool { return s.over }

// Running lists the operations that run.
func (s *State) Running() (ops []uint64) {
	for _, r := range s.running {
		ops = append(ops, r.op)
	}
	return ops
}

// Holds counts the frames that are held.
func (s *State) Holds() int { return len(s.held) }

// Init implements protocol.Protocol.
func (g *Group) Init(s *State, self protocol.Rank, seed uint64) {
	*s = State{self: self}
	g.cfg.Membership.Init(&s.members, self, seed)
	s.view = s.members.View()
}

// Receive implements protocol.Protocol.
func (g *Group) Receive(s *State, now protocol.Time, from protocol.Rank, f Frame) {
	if f.Op == 0 {
		g.cfg.Membership.Receive(&s.members, now, from, f.Letter)
		return
	}
	g.take(s, now, from, f)
}

// Judgement is what becomes of a frame.
type Judgement uint8

// What may become of a frame.
const (
	Now   Judgement = iota
	Later           // hold it: its view, or its operation, is still to come
	Never           // drop it
)

// Judge says what becomes of a frame of a view at a process whose own is another.
func Judge(frame, own uint64) Judgement {
	switch {
	case frame > own:
		return Later
	case frame < own:
		return Never
	}
	return Now
}

// take hands a frame to its operation, holds it or drops it.
func (g *Group) take(s *State, now protocol.Time, from protocol.Rank, f Frame) {
	if s.over || s.view == nil || s.done.has(f.Op) {
		return
	}
	r := s.find(f.Op)
	switch judged := Judge(f.View, s.view.Number); {
	case judged == Never:
	case judged == Later:
		s.held = append(slices.Clip(s.held), held{from, f})
		if f.View > s.asked {
			s.asked = f.View
			g.cfg.Membership.Fetch(&s.members, from)
		}
	case r == nil:
		s.held = append(slices.Clip(s.held), held{from, f})
	default:
		if _, in := s.view.Find(from); in {
			r.machine.Receive(now, from, f.Body)
		}
	}
}

func (s *State) find(op uint64) *running {
	i, ok := slices.BinarySearchFunc(s.running, op, func(r running, op uint64) int { return cmp.Compare(r.op, op) })
	if !ok {
		return nil
	}
	return &s.running[i]
}

// Notify implements protocol.Protocol.
func (g *Group) Notify(s *State, now protocol.Time, n protocol.Notice) {
	switch n.Kind {
	case protocol.Begin:
		g.begin(s, now, n.Value)
	case protocol.Cancel:
		if r := s.find(n.Value); r != nil {
			r.machine.Notify(now, n)
		}
	case protocol.WorkDone:
		if len(s.works) == 0 {
			return
		}
		op := s.works[0]
		s.works = s.works[1:]
		if r := s.find(op); r != nil {
			r.machine.Notify(now, n)
		} else if op == 0 {
			g.cfg.Membership.Notify(&s.members, now, n)
		}
	default:
		g.cfg.Membership.Notify(&s.members, now, n)
	}
}

// begin begins an operation, and hands it what came before.
func (g *Group) begin(s *State, now protocol.Time, op uint64) {
	if op == 0 || s.over || s.view == nil || s.done.has(op) || s.find(op) != nil {
		return
	}
	i, _ := slices.BinarySearchFunc(s.running, op, func(r running, op uint64) int { return cmp.Compare(r.op, op) })
	s.running = slices.Insert(slices.Clip(s.running), i, running{op, g.cfg.Begin(op, s.self, s.view)})
	g.release(s, now)
}

// release looks again at what is held.
func (g *Group) release(s *State, now protocol.Time) {
	all := s.held
	s.held = nil
	for _, h := range all {
		g.take(s, now, h.from, h.frame)
	}
}

// Next implements protocol.Protocol.
func (g *Group) Next(s *State, now protocol.Time) protocol.Action[Frame] {
	until := protocol.Never
	switch a := g.cfg.Membership.Next(&s.members, now); a.Kind {
	case protocol.Idle:
	case protocol.Wait:
		until = a.At
	default:
		if a.Kind == protocol.Work {
			s.works = append(slices.Clip(s.works), 0)
		}
		if a.Kind == protocol.Deliver {
			g.news(s, now, a.Msg)
		}
		return protocol.Action[Frame]{Kind: a.Kind, At: a.At, To: a.To, Msg: Frame{Letter: a.Msg}}
	}
	for i := 0; i < len(s.running) && !s.over; i++ {
		op := s.running[i].op
		switch a := s.running[i].machine.Next(now); a.Kind {
		case protocol.Idle:
		case protocol.Wait:
			until = min(until, a.At)
		case protocol.Done:
			s.done.add(op)
			s.running = slices.Delete(slices.Clone(s.running), i, i+1)
			i--
		default:
			if a.Kind == protocol.Work {
				s.works = append(slices.Clip(s.works), op)
			}
			return protocol.Action[Frame]{Kind: a.Kind, At: a.At, To: a.To, Msg: Frame{Op: op, View: s.view.Number, Body: a.Msg}}
		}
	}
	if until == protocol.Never {
		return protocol.Action[Frame]{Kind: protocol.Idle}
	}
	return protocol.Action[Frame]{Kind: protocol.Wait, At: until}
}

// news is told by the membership of a view that is open, or that there will be
// none.
func (g *Group) news(s *State, now protocol.Time, m membership.Message) {
	switch m.Kind {
	case membership.Opened:
		s.view = m.Base
		for i := range s.running {
			s.running[i].machine.NewView(now, s.view)
		}
		g.release(s, now)
	case membership.Excluded, membership.NoQuorum:
		s.over = true
		for i := range s.running {
			s.running[i].machine.Notify(now, protocol.Notice{Kind: protocol.Cancel, Value: s.running[i].op})
		}
	}
}

// Testament is what a process would leave if it died now.
func Testament(s *State) Frame { return Frame{Letter: membership.Testament(&s.members)} }

// Clone returns a copy that shares nothing that changes.
func (s *State) Clone() State {
	c := *s
	c.members = s.members.Clone()
	c.running = slices.Clone(s.running)
	for i := range c.running {
		c.running[i].machine = c.running[i].machine.Clone()
	}
	c.held, c.works, c.done.above = slices.Clone(s.held), slices.Clone(s.works), slices.Clone(s.done.above)
	return c
}

// Fingerprint stands for the state.
func (s *State) Fingerprint() [2]uint64 {
	f := s.members.Fingerprint()
	for i := range s.running {
		f = mix(mix(f, [2]uint64{s.running[i].op, 1}), s.running[i].machine.Fingerprint())
	}
	for _, h := range s.held {
		f = mix(mix(f, [2]uint64{uint64(h.from), 2}), h.frame.Fingerprint())
	}
	f = mix(f, [2]uint64{s.done.all, s.asked})
	for _, op := range append(slices.Clone(s.done.above), s.works...) {
		f = mix(f, [2]uint64{op, 3})
	}
	n := uint64(len(s.running)) | uint64(len(s.held))<<16 | uint64(len(s.works))<<32
	if s.over {
		n |= 1 << 63
	}
	if s.view != nil {
		n ^= s.view.Number << 48
	}
	return mix(f, [2]uint64{n, uint64(len(s.done.above))})
}

// done is the numbers of operations that are over: all up to one, and some above.
type done struct {
	all   uint64
	above []uint64 // in order
}

func (d *done) has(op uint64) bool {
	_, above := slices.BinarySearch(d.above, op)
	return op <= d.all || above
}

func (d *done) add(op uint64) {
	if i, has := slices.BinarySearch(d.above, op); !has && op > d.all {
		d.above = slices.Insert(slices.Clone(d.above), i, op)
	}
	for len(d.above) > 0 && d.above[0] == d.all+1 {
		d.all++
		d.above = d.above[1:]
	}
}
