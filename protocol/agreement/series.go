package agreement

import (
	"cmp"
	"slices"

	"github.com/coppice-go/coppice/protocol"
)

// A Series is one participant's part in the agreements of one list of participants, which call them one after the other:
// numbers 1, 2, 3 …
//
// It forgets an instance when a later one is decided. Every participant in the view has contributed to the later one, so
// it has returned from those before.
//
// A participant may hear of an instance before it calls it. Its part begins then, and contributes once it calls. T is
// what the driver keeps with an instance.
type Series[T any] struct {
	self         Rank
	participants []Rank
	ahead        uint64
	view         uint64
	members      []Rank // of the view
	called       uint64 // the latest instance that this participant has called
	open         []*Instance[T]
}

// Instance is a participant's part in one agreement of a series.
type Instance[T any] struct {
	State
	Number uint64
	Data   T
}

// Init makes s the initial state of participant self. No honest participant is more than ahead instances before another;
// messages of later ones are dropped.
func (s *Series[T]) Init(self Rank, participants []Rank, ahead uint64) {
	*s = Series[T]{self: self, participants: participants, ahead: ahead}
}

// NewView says that a view is open, and which processes are in it, participants and others.
func (s *Series[T]) NewView(number uint64, members []Rank) {
	s.view, s.members = number, members
	for _, i := range s.open {
		i.NewView(number, members)
	}
}

// Called returns the number of the latest instance that this participant has called.
func (s *Series[T]) Called() uint64 { return s.called }

// Call calls the next instance. The caller contributes with Begin or Cancel.
func (s *Series[T]) Call() *Instance[T] {
	s.called++
	return s.at(s.called)
}

// Hear returns the instance that a message is for; nil: it is over, or cannot be.
func (s *Series[T]) Hear(number uint64) *Instance[T] {
	if i := s.Find(number); i != nil || number <= s.called || number > s.called+s.ahead {
		return i
	}
	return s.at(number)
}

// Find returns an instance that is known here; nil: it is not.
func (s *Series[T]) Find(number uint64) *Instance[T] {
	if n, ok := s.search(number); ok {
		return s.open[n]
	}
	return nil
}

func (s *Series[T]) search(number uint64) (int, bool) {
	return slices.BinarySearchFunc(s.open, number, func(i *Instance[T], number uint64) int { return cmp.Compare(i.Number, number) })
}

// at returns an instance, which begins if it is not known.
func (s *Series[T]) at(number uint64) *Instance[T] {
	n, ok := s.search(number)
	if ok {
		return s.open[n]
	}
	i := &Instance[T]{Number: number}
	i.Init(s.self, s.participants)
	if s.view > 0 {
		i.NewView(s.view, s.members)
	}
	s.open = slices.Insert(slices.Clip(s.open), n, i)
	return i
}

// Open lists the instances that are known and not over, in order.
func (s *Series[T]) Open() []*Instance[T] { return s.open }

// Next returns what an instance does now. When it delivers, the instances before it are over.
func (s *Series[T]) Next(i *Instance[T]) Action {
	a := i.State.Next()
	if a.Kind == protocol.Deliver {
		first, _ := s.search(i.Number)
		s.open = slices.Clone(s.open[first:])
	}
	return a
}

// Clone returns a copy that shares nothing that changes. Data is copied as it is.
func (s *Series[T]) Clone() Series[T] {
	c := *s
	c.open = slices.Clone(s.open)
	for n, i := range c.open {
		c.open[n] = &Instance[T]{i.State.Clone(), i.Number, i.Data}
	}
	return c
}

// Fingerprint stands for the state, but for Data, among those of one participant.
func (s *Series[T]) Fingerprint() [2]uint64 {
	f := fingerprint{}.with(s.view).with(s.called)
	for _, i := range s.open {
		g := i.State.Fingerprint()
		f = f.with(i.Number).with(g[0]).with(g[1])
	}
	return f
}
