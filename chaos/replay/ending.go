package replay

import (
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/ending"
	"github.com/coppice-go/coppice/protocol/membership"
)

// end is the coordinator's part: it tells everybody when the job is over.
type end struct {
	job       ending.Job
	memory    *Memory
	processes int
	told      int    // processes that were told
	view      uint64 // the view in which it was found to be over; 0: it was not
}

// returned takes the word of a process. That of an earlier life may come late.
func (e *end) returned(r protocol.Rank, v *membership.View) {
	e.job.Viewed(v)
	if m, ok := v.Find(r); ok {
		e.job.Returned(m, v.Number)
	}
}

// Ending is the view in which the coordinator has found that all tasks have returned; 0: it has
// not. Who is let in by a later view and survives everybody may begin to run them again, until
// it is told.
func (s *State) Ending() uint64 { return s.end.view }

func (e *end) next() protocol.Action[Message] {
	if e.told == e.processes {
		return protocol.Action[Message]{Kind: protocol.Done}
	}
	if e.view == 0 {
		if e.job.Verdict() != ending.Over {
			return protocol.Action[Message]{Kind: protocol.Idle}
		}
		e.view = e.job.Latest()
	}
	e.told++
	return protocol.Action[Message]{Kind: protocol.Send, To: protocol.Rank(e.told - 1), Msg: e.memory.message(End)}
}

func (e *end) clone() *end {
	c := *e
	c.job = *e.job.Clone()
	return &c
}

func (e *end) sign(f fingerprint) fingerprint {
	f = f.with(e.job.Latest())
	for m, view := range e.job.Returns {
		f = f.with(uint64(uint32(m.ID))<<32 | uint64(m.Incarnation)).with(view)
	}
	return f.with(uint64(e.told))
}
