package replay

import (
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/ending"
	"github.com/coppice-go/coppice/protocol/membership"
)

// end is the coordinator's part: it tells all processes when the job is over.
type end struct {
	job       ending.Job
	memory    *Memory
	processes int
	told      int    // number of processes that it has told
	view      uint64 // the view in which it found the job to be over; 0: not yet
}

// returned handles a process's report that its tasks have returned. A report from an earlier life may come
// late.
func (e *end) returned(r protocol.Rank, v *membership.View) {
	e.job.Viewed(v)
	if m, ok := v.Find(r); ok {
		e.job.Returned(m, v.Number)
	}
}

// Ending returns the view in which the coordinator found that all tasks have returned, or 0. A process that a
// later view adds and that survives all others may begin to run them again, until the coordinator tells it
// that the job is over.
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
