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

type message = broadcast.Message[broadcast.None]

// witness notes for every process what colored it.
type witness struct {
	logp.Unobserved[message]
	colored []coloring // in the order of time
	has     map[protocol.Rank]bool
}

func (w *witness) Received(at protocol.Time, to, from protocol.Rank, kind protocol.Kind, _ message) {
	if !w.has[to] {
		w.has[to] = true
		w.colored = append(w.colored, coloring{Rank: to, From: from, At: at, Tree: kind == protocol.Send})
	}
}

func (w *witness) Delivered(_ protocol.Time, r protocol.Rank, _ message) { w.has[r] = true }

// watch simulates one run with the given dead and tells what colored whom.
func watch(p *broadcast.Plain, net logp.Network, dead []protocol.Rank) (logp.Result, []coloring, error) {
	engine, err := logp.NewEngine(p, net)
	if err != nil {
		return logp.Result{}, nil, err
	}
	w := &witness{has: map[protocol.Rank]bool{}}
	engine.Observe(w)
	result, err := engine.Run(1, logp.Faults{Failed: dead})
	return result, w.colored, err
}
