package node

import (
	"encoding/json"
	"slices"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
)

// tracer writes down the calls of a process's machines; nil: nobody wants them.
type tracer struct {
	p        *Process
	machines uint64 // that have begun
}

// self is which life of which process this is.
func (p *Process) self() membership.Member {
	return membership.Member{ID: protocol.Rank(p.cfg.Rank), Incarnation: uint32(max(p.cfg.Incarnation, 1))}
}

// begin writes down that a machine begins, and with what. It returns what notes its calls.
func (t *tracer) begin(kind string, with ...any) protocol.Note {
	if t == nil {
		return nil
	}
	t.machines++
	number := t.machines
	note := func(call string, values ...any) {
		t.write(membership.Line[any]{Who: t.p.self(), Machine: number, Call: call, Values: values})
	}
	note(kind, with...)
	return note
}

func (t *tracer) write(l membership.Line[any]) {
	line, err := json.Marshal(l)
	if err == nil {
		// A line that was cut off before must not spoil this one.
		_, err = t.p.cfg.Trace.Write(slices.Concat([]byte{'\n'}, line, []byte{'\n'}))
	}
	if err != nil {
		t.p.cfg.Logger.Warn("the trace has a gap", "error", err)
	}
}

// trace writes down what the task does in the group, from when it has joined.
func (m *Member) trace() {
	if t := m.p.trace; t != nil && m.ahead.Note == nil {
		m.ahead.Note = t.begin("Account", m.place(), m.tasks, m.ahead.Limits)
	}
}

// place is where the task is.
func (m *Member) place() protocol.Place {
	return protocol.Place{Group: m.group, Epoch: uint64(m.epoch), Task: protocol.Rank(m.task)}
}
