package replay

import (
	"slices"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
)

// ending is the coordinator's. It ends the job when every process that owns tasks in the
// latest view that it has heard of has returned from all of them, in that view or in one
// before since which it was given none.
//
// Then every task has returned somewhere: at its owner in the latest view. That a
// process died after it returned does not matter, and need not be known.
type ending struct {
	first *membership.View
	in    []*membership.View // by process, the last one in which all its tasks had returned
	told  int                // processes that were told of the end
	view  uint64             // the view in which that was found; 0: it was not
}

func newEnding(first *membership.View, processes int) *ending {
	return &ending{first: first, in: make([]*membership.View, processes)}
}

// returned takes the word of a process. That of an earlier life may come late.
func (e *ending) returned(r protocol.Rank, v *membership.View) {
	if e.in[r] == nil || e.in[r].Number < v.Number {
		e.in[r] = v
	}
}

// ready reports whether the job has come to its end.
func (e *ending) ready() bool {
	latest := e.first
	for _, v := range e.in {
		if v != nil && v.Number > latest.Number {
			latest = v
		}
	}
	for t, owner := range latest.Owners {
		if v := e.in[owner]; v == nil || v.Number < latest.Since[t] {
			return false
		}
	}
	e.view = latest.Number
	return true
}

// Ending is the view in which the coordinator has found that all tasks have returned; 0: it has
// not. Who is let in by a later view and survives everybody may begin to run them again, until
// it is told.
func (s *State) Ending() uint64 { return s.ending.view }

func (e *ending) next() protocol.Action[Message] {
	if e.told == len(e.in) {
		return protocol.Action[Message]{Kind: protocol.Done}
	}
	if e.told == 0 && !e.ready() {
		return protocol.Action[Message]{Kind: protocol.Idle}
	}
	e.told++
	return protocol.Action[Message]{Kind: protocol.Send, To: protocol.Rank(e.told - 1), Msg: Message{Kind: End}}
}

func (e *ending) clone() *ending {
	return &ending{e.first, slices.Clone(e.in), e.told, e.view}
}

func (e *ending) sign(f fingerprint) fingerprint {
	for r, v := range e.in {
		if v != nil {
			f = f.with(uint64(r)).with(v.Number)
		}
	}
	return f.with(uint64(e.told))
}
