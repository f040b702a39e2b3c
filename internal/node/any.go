package node

import (
	"context"

	"github.com/coppice-go/coppice/internal/node/engine"
)

// Any waits until there is a message with a tag from any other task of the group, and returns that task's rank; of several, the
// one whose rank is next to that of the last call. If no message can come any more, the error is that of one of the tasks. Which rank it is
// differs between attempts: the caller keeps it.
func (m *Member) Any(ctx context.Context, tag int) (rank int, err error) {
	const op = "recvany"
	p := m.p
	p.engine.Lock()
	defer p.engine.Unlock()
	if err := m.open(op); err != nil {
		return 0, err
	}
	var w engine.Waiter
	var streams []*inStream
	for i := range m.Size() {
		if r := (m.anyRank + 1 + i) % m.Size(); r != m.rank {
			streams = append(streams, m.streamIn(r, uint64(tag)))
		}
	}
	defer func() {
		for _, s := range streams {
			s.wanted, s.any = false, nil
		}
	}()
	for _, s := range streams {
		s.wanted, s.any, s.err, s.endless = true, &w, nil, false
		s.want()
		s.fails(op)
	}
	for {
		var failure *Failure
		open := 0
		for _, s := range streams {
			if in := s.head(); in != nil && in.Complete() {
				m.anyRank = s.from
				return s.from, nil
			}
			if s.err == nil {
				open++
			} else if failure == nil {
				failure = s.err
			}
		}
		if open == 0 {
			if failure == nil {
				failure = &Failure{Tasks: []int{m.task}, Err: ErrMismatch, Text: "there is no other task"}
			}
			failure.Op = op
			return 0, failure
		}
		w.Reset()
		if err := p.engine.Wait(ctx, &w); err != nil {
			return 0, &Failure{Op: op, Err: err}
		}
		if err := m.open(op); err != nil {
			return 0, err
		}
	}
}

// fails notes if the sender will send nothing more, and otherwise asks one that has returned.
func (s *inStream) fails(op string) {
	m, in := s.m, s.head()
	switch g := m.goneRank(s.from); {
	case g.Dead && (in == nil || !in.Complete()): // the rest of it will not come
		s.err = m.goneFailure(op, s.from)
	case g.Returned && in == nil:
		m.probe(s.from, envelope{plan: Plan{op: opSend}})
	}
}
