package control

import (
	"errors"
	"fmt"
	"time"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
	"github.com/coppice-go/coppice/protocol/suspicion"
)

// Fence is an order to the agent of a host to kill a process there. Orders of the user (signals, time-outs, --kill) and of the launcher that
// ends a run are of another kind.
type Fence struct {
	Rank        int    `json:"rank"`
	Incarnation uint64 `json:"incarnation"`
	Why         string `json:"why"`
	Proof       []byte `json:"proof,omitempty"` // a letter of the membership (membership.Letter.Condemns); nil: the process has not joined the job
}

// Check returns nil if the agent of the process's host may carry out the order. dir is the job's directory there. The agent takes the word of a
// coordinator only for a process that has not joined the job. For any other it checks the proof, against what the process itself has recorded.
func (f Fence) Check(dir string) error {
	if len(f.Proof) == 0 {
		if HasJoined(dir, f.Rank, f.Incarnation) {
			return fmt.Errorf("%w: it has joined the job, and the order carries no proof", membership.ErrUnproven)
		}
		return nil
	}
	proof, err := membership.Decode(f.Proof)
	if err != nil {
		return err
	}
	var known *membership.View
	if record, err := ReadRecord(dir, f.Rank, f.Incarnation); err == nil && len(record) > 0 {
		if accepted, err := membership.Decode(record); err == nil {
			known = accepted.Base
		}
	}
	return proof.Condemns(Identity{uint64(f.Rank), f.Incarnation}.member(), known)
}

// fenceAsked kills a process for another one, which cannot continue while the suspect may be
// alive: rule 1 of the design. If the proof of a majority is one, nothing more is needed. If it proves that only two processes are left, there
// is no majority without the other: the coordinator kills the suspect if it is silent, and if both are alive, and do not hear each other, the
// process of the higher rank, so that not both die. Otherwise the request is a wish, and the coordinator
// decides by what it sees of the suspect on its own host. s.mu is held.
func (s *Server) fenceAsked(c *session, said message) {
	m, by := s.members[said.Rank], c.member
	suspect := Identity{uint64(said.Rank), said.Incarnation}
	proof, err := s.readProof(by, said.Proof)
	order := err == nil && proof.Kind == membership.Fence
	if order {
		if err = proof.Condemns(suspect.member(), s.known()); err == nil && suspect != m.identity() {
			err = fmt.Errorf("%w: %v is here, not %v", membership.ErrUnproven, m.identity(), suspect)
		}
	}
	majority, pair := order && err == nil && proof.Certain, order && err == nil && !proof.Certain
	silent := s.silent(m)
	if !m.joined && s.awaited(m) && silent >= s.cfg.Silence/2 && (majority || pair || !s.cfg.spread) {
		s.giveUp(m, fmt.Sprintf("never joined: asked for by rank %d: %s", by.rank, said.Why))
		return
	}
	if err == nil && (!m.joined || !order && suspect != m.identity()) {
		return
	}
	s.log.Info("control: fence asked for", "rank", m.rank, "by", by.rank, "why", said.Why, "majority", majority, "last two", pair, "silent", silent)
	switch {
	case m.death != nil && m.death.Certain:
		c.tellDeath(m.obituary)
	case m.fenced != "" || by.fenced != "": // one of the two is about to die
	case err != nil:
		s.spare(m, by, err)
	case majority:
		s.execute(m, by, proof, fmt.Sprintf("asked for by rank %d with a majority: %s", by.rank, said.Why))
	case s.absent(m, pair, silent):
		why := fmt.Sprintf("silent for %s, asked for by rank %d: %s", seconds(silent), by.rank, said.Why)
		if pair {
			s.execute(m, by, proof, why)
		} else {
			s.fence(m, why)
		}
	case !pair:
		s.suspected(c, said)
	default: // the coordinator hears both, but they do not hear each other
		higher := m
		if by.rank > m.rank {
			higher = by
		}
		s.execute(higher, by, proof, fmt.Sprintf("the higher of the last two ranks, %d and %d, of which %d suspects the other: %s", min(m.rank, by.rank), max(m.rank, by.rank), by.rank, said.Why))
	}
}

// readProof returns the letter with which a process asks for the end of another one. The process must have counted the
// promises itself.
func (s *Server) readProof(by *member, b []byte) (*membership.Letter, error) {
	m, err := membership.Decode(b)
	if err != nil {
		return nil, err
	}
	if m.Kind != membership.Fence && m.Kind != membership.Wish {
		return nil, fmt.Errorf("%w: a %v is no request", membership.ErrUnproven, m.Kind)
	}
	if !m.Base.Has(by.identity().member()) || m.Ballot.By() != protocol.Rank(by.rank) {
		return nil, fmt.Errorf("%w: ballot %v of %v is not one of %v, which asks", membership.ErrUnproven, m.Ballot, m.Base, by.identity())
	}
	return m.Letter, nil
}

// known returns the latest view that a process has reported, as its members have decided it; nil: none.
func (s *Server) known() *membership.View {
	if s.view == nil {
		return nil
	}
	return s.view.decided()
}

// removal returns the proof that the latest view has removed a process.
func (s *Server) removal(m *member) *membership.Letter {
	v := s.view.decided()
	return membership.Removal(membership.NewView(v.Number, v.Members, []membership.Member{m.identity().member()}, nil))
}

// absent reports whether a suspect shows no life here. Silence of a process on another
// host counts only if there is no other witness: if only two processes are left.
func (s *Server) absent(m *member, pair bool, silent time.Duration) bool {
	if m.process == nil {
		return pair && silent >= s.cfg.Silence
	}
	if !pair { // as long as others may come back, the same evidence counts as for the guard
		silent = time.Duration(s.guard.Counted(protocol.Rank(m.rank)))
	}
	return !m.process.own() && silent >= s.cfg.Silence/2 && s.inspect(protocol.Rank(m.rank)) != suspicion.Working
}

// execute kills a process if the proof says that it may be killed. On another
// host its agent kills it, if the agent finds so, too, and reports when it is dead; if that takes too long, the coordinator
// gives up on the process like on any suspect. by is the process that has asked for it; nil: none.
func (s *Server) execute(m, by *member, proof *membership.Letter, why string) {
	if err := proof.Condemns(m.identity().member(), s.known()); err != nil {
		s.spare(m, by, err)
		return
	}
	if m.process != nil || s.cfg.Kill == nil {
		s.fence(m, why)
		return
	}
	s.noteFence(m, why)
	m.fencedBy = by
	s.cfg.Kill(Fence{m.rank, m.incarnation, why, membership.Message{Letter: proof}.Append(nil)})
}

// spare notifies the process that has asked for the end of another one that it is refused.
func (s *Server) spare(m, by *member, why error) {
	rank := -1
	if by != nil {
		rank = by.rank
	}
	m.removedAt = time.Now() // it is asked for again later
	s.log.Warn("control: a process is not killed", "rank", m.rank, "incarnation", m.incarnation, "by", rank, "why", why)
	s.emit(EventSpared, m.rank, "incarnation", m.incarnation, "by", rank, "why", why.Error())
	if by != nil && by.session != nil {
		by.session.tell(message{Type: tellSpared, Rank: m.rank, Incarnation: m.incarnation, Why: why.Error()}.line())
	}
}

// Spared records that the agent on its host refuses to kill a process.
func (s *Server) Spared(rank int, incarnation uint64, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.life(Identity{uint64(rank), incarnation}); m != nil && m.fenced != "" && m.death == nil {
		by := m.fencedBy
		m.fenced, m.fencedBy = "", nil
		s.spare(m, by, errors.New(why))
	}
}
