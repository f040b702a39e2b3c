package broadcast

import (
	"fmt"

	"github.com/coppice-go/coppice/protocol"
)

// Word is a message of any broadcast, for drivers that carry several kinds of them.
type Word struct {
	Extra uint64 // what the correction adds
	Round uint16
	Kind  MessageKind
}

// Runner is one process's machine in a broadcast of any kind.
type Runner interface {
	Init(self Rank, seed uint64)
	Receive(now Time, from Rank, w Word)
	Next(now Time) protocol.Action[Word]

	// Clone returns a copy that shares nothing that changes.
	Clone() Runner
	// State is a value that is equal for equal states.
	State() any
}

// Runners returns what makes the machines of a broadcast. Each is to be initialized.
func (s Spec) Runners() (func() Runner, error) {
	built, err := s.Build()
	if err != nil {
		return nil, err
	}
	switch b := built.(type) {
	case *Plain:
		return func() Runner { return &runner[Walk, None]{protocol: b} }, nil
	case *Delays:
		return func() Runner { return &runner[Delaying, None]{protocol: b} }, nil
	case *Provers:
		brief, ok := Brief(b)
		if !ok {
			f := b.correction.(*FailureProof).F
			return nil, fmt.Errorf("failure-proof:%d among %d tasks; allowed: up to %d tasks", f, s.P, 1<<min(64/(f+1), 31))
		}
		return func() Runner {
			return &runner[Proving, Names]{
				protocol: brief,
				pack:     func(n Names) uint64 { return uint64(n) }, unpack: func(v uint64) Names { return Names(v) },
			}
		}, nil
	}
	return nil, fmt.Errorf("tree %s has messages of its own; allowed: trees, gossip, big", s.Tree)
}

// runner is a machine with its types. Where a correction adds nothing to messages, there is nothing to pack.
type runner[C, E any] struct {
	protocol *Protocol[C, E]
	pack     func(E) uint64
	unpack   func(uint64) E
	state    State[C]
}

func (r *runner[C, E]) Init(self Rank, seed uint64) { r.protocol.Init(&r.state, self, seed) }

func (r *runner[C, E]) Receive(now Time, from Rank, w Word) {
	m := Message[E]{Kind: w.Kind, Round: w.Round}
	if r.unpack != nil {
		m.Extra = r.unpack(w.Extra)
	}
	r.protocol.Receive(&r.state, now, from, m)
}

func (r *runner[C, E]) Next(now Time) protocol.Action[Word] {
	a := r.protocol.Next(&r.state, now)
	out := protocol.Action[Word]{Kind: a.Kind, At: a.At, To: a.To}
	if a.Kind.Sends() {
		out.Msg = Word{Kind: a.Msg.Kind, Round: a.Msg.Round}
		if r.pack != nil {
			out.Msg.Extra = r.pack(a.Msg.Extra)
		}
	}
	return out
}

func (r *runner[C, E]) Clone() Runner {
	c := *r
	return &c
}

func (r *runner[C, E]) State() any { return r.state }
