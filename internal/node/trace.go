package node

import (
	"encoding/json"
	"slices"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
	"github.com/coppice-go/coppice/protocol/recovery"
)

// tracer writes down the steps of a process's machines; nil: nobody wants them.
type tracer struct{ p *Process }

func (p *Process) tracer() *tracer {
	if p.cfg.Trace == nil {
		return nil
	}
	return &tracer{p}
}

// self is which life of which process this is.
func (p *Process) self() membership.Member {
	return membership.Member{ID: protocol.Rank(p.cfg.Rank), Incarnation: uint32(max(p.cfg.Incarnation, 1))}
}

func (t *tracer) write(l recovery.Line) {
	l.Who = t.p.self()
	line, err := json.Marshal(l)
	if err == nil {
		// A line that was cut off before must not spoil this one.
		_, err = t.p.cfg.Trace.Write(slices.Concat([]byte{'\n'}, line, []byte{'\n'}))
	}
	if err != nil {
		t.p.cfg.Logger.Warn("the trace has a gap", "error", err)
	}
}

func (t *tracer) recovery() func(*recovery.Step) {
	if t == nil {
		return nil
	}
	return func(s *recovery.Step) { t.write(recovery.Line{Step: s}) }
}

func (t *tracer) members() func(*membership.Step) {
	if t == nil {
		return nil
	}
	return func(s *membership.Step) { t.write(recovery.Line{Members: s}) }
}
