package main

import (
	"github.com/coppice-go/coppice/logp"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
)

// coloring tells how a process got the message.
type coloring struct {
	Rank protocol.Rank `json:"rank"`
	From protocol.Rank `json:"from"`
	At   protocol.Time `json:"at"`
	Tree bool          `json:"-"` // dissemination brought it, not correction
}

// witness is a broadcast that notes for every process what colored it. It is
// for one engine: what it notes is shared by all processes.
type witness struct {
	*broadcast.Plain
	colored []coloring // in the order of time
}

// seen is a process that knows its rank.
type seen struct {
	state broadcast.State[broadcast.Walk]
	self  protocol.Rank
}

type message = broadcast.Message[broadcast.None]

func (w *witness) Init(s *seen, self protocol.Rank, seed uint64) {
	s.self = self
	w.Plain.Init(&s.state, self, seed)
}

func (w *witness) Receive(s *seen, now protocol.Time, from protocol.Rank, m message) {
	if !s.state.Colored() {
		w.colored = append(w.colored, coloring{Rank: s.self, From: from, At: now, Tree: m.Kind == broadcast.Spread})
	}
	w.Plain.Receive(&s.state, now, from, m)
}

func (w *witness) Notify(s *seen, now protocol.Time, n protocol.Notice) {
	w.Plain.Notify(&s.state, now, n)
}

func (w *witness) Next(s *seen, now protocol.Time) protocol.Action[message] {
	return w.Plain.Next(&s.state, now)
}

// watch simulates one run with the given dead and tells what colored whom.
func watch(p *broadcast.Plain, net logp.Network, dead []protocol.Rank) (logp.Result, []coloring, error) {
	w := &witness{Plain: p}
	engine, err := logp.NewEngine(w, net)
	if err != nil {
		return logp.Result{}, nil, err
	}
	result, err := engine.Run(1, logp.Faults{Failed: dead})
	return result, w.colored, err
}
