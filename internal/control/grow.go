package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/coppice-go/coppice/internal/wire"
)

// A job may grow while it runs: the launcher starts a process under a new id, or
// under the id of a dead process with the next incarnation. The views decide whether and when it becomes
// a member.

// JoinRequest asks a launcher for more processes.
type JoinRequest struct {
	Count   int      `json:"count"`             // how many
	Rank    int      `json:"rank"`              // the id of a dead process, for one; −1: new ids
	Program []string `json:"program,omitempty"` // with its arguments; nil: the job's own
	Dir     string   `json:"dir,omitempty"`     // where a relative path of it begins
}

// Joiner is a process that was started to join a running job.
type Joiner struct {
	Rank        int    `json:"id"`
	Incarnation uint64 `json:"incarnation"`
	Pid         int    `json:"pid"`
	Host        string `json:"host,omitempty"` // "": the launcher's
}

// Refused is why a launcher does not start a process: the request cannot be met.
type Refused string

func (r Refused) Error() string { return string(r) }

// joins reports whether a process joins a running job.
func (s *Server) joins(m *member) bool { return m.rank >= s.cfg.Size || m.incarnation > 1 }

// awaited reports whether the job's end waits for a process: it is alive, as far as is
// known, or about to start.
func (s *Server) awaited(m *member) bool {
	return m.death == nil && (m.rank < s.cfg.Size || m.incarnation > 0)
}

// idle reports whether a process joined and has no tasks: it has returned when all
// others have. If no process has reported the owners, it may have some.
func (s *Server) idle(m *member) bool {
	if !s.joins(m) {
		return false
	}
	unknown := s.inView(m) && s.view.Owners == nil
	return !unknown && len(s.view.Tasks(m.rank, m.incarnation)) == 0
}

// Reserve gives places to processes that a launcher is about to start: for a rank
// of −1 that many new ids, otherwise that rank, with its next incarnation. From then on
// the job's end waits for them.
func (s *Server) Reserve(count, rank int) ([]Place, error) {
	_ = s.keepDir() // the new process reads the key; if it cannot, it says so
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.cfg.Grow == 0:
		return nil, Refused("the job does not grow; allowed: jobs of coppice run --grow MAX")
	case s.finished || s.closing:
		return nil, errOver
	case rank >= 0:
		return s.reserveAgain(rank)
	}
	var free []*member
	for _, m := range s.members[s.cfg.Size:] {
		if m.incarnation == 0 {
			free = append(free, m)
		}
	}
	switch {
	case count < 1:
		return nil, Refused(fmt.Sprintf("%d processes; allowed: 1 or more", count))
	case len(free) == 0:
		return nil, Refused(fmt.Sprintf("the job has grown by %d of %d processes; allowed: --rank R, the id of a dead one", s.cfg.Grow, s.cfg.Grow))
	case count > len(free):
		return nil, Refused(fmt.Sprintf("%d processes, but the job has grown by %d of %d; allowed: 1 to %d", count, s.cfg.Grow-len(free), s.cfg.Grow, len(free)))
	}
	places := make([]Place, count)
	for i, m := range free[:count] {
		places[i] = s.place(s.renew(m.rank, 1))
	}
	return places, nil
}

// errOver refuses processes that join after the job's end.
const errOver = Refused("the job has finished; allowed: one that runs")

// Revive gives the place of a dead process to its next incarnation, which the launcher
// starts of its own accord: the job need not grow.
func (s *Server) Revive(rank int) ([]Place, error) {
	_ = s.keepDir()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finished || s.closing {
		return nil, errOver
	}
	return s.reserveAgain(rank)
}

// Departed reports whether one life of a rank is over for the job: it is dead for
// certain, or a view has continued without it, so that it can never come back.
func (s *Server) Departed(rank int, incarnation uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	life := s.life(Identity{uint64(rank), incarnation})
	return life != nil && life.death != nil && (life.death.Certain || life.removed)
}

// reserveAgain gives the id of a dead process to its next incarnation.
func (s *Server) reserveAgain(rank int) ([]Place, error) {
	var dead []int
	for _, m := range s.members {
		if m.death != nil {
			dead = append(dead, m.rank)
		}
	}
	allowed := "a dead one, and none is"
	if len(dead) > 0 {
		allowed = "a dead one: " + listed(dead)
	}
	switch {
	case rank >= len(s.members) || s.members[rank].incarnation == 0 && rank >= s.cfg.Size:
		return nil, Refused(fmt.Sprintf("there is no rank %d; allowed: %s", rank, allowed))
	case s.members[rank].death == nil:
		return nil, Refused(fmt.Sprintf("rank %d is alive; allowed: %s", rank, allowed))
	}
	return []Place{s.place(s.renew(rank, s.members[rank].incarnation+1))}, nil
}

// listed formats numbers with commas.
func listed(numbers []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(numbers), " ", ", "), "[]")
}

// Withdraw takes back a place whose process could not be started.
func (s *Server) Withdraw(p Place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.members[p.Rank]
	if m.incarnation != p.Incarnation || m.joined {
		return
	}
	s.members[m.rank] = m.before
	if m.before == nil {
		s.members[m.rank] = newMember(m.rank, 0)
	}
	s.settle()
}

// renew begins the next life of a rank. s.mu is held.
func (s *Server) renew(rank int, incarnation uint64) *member {
	m := newMember(rank, incarnation)
	if old := s.members[rank]; old.incarnation > 0 {
		m.before = old
	}
	s.members[rank] = m
	return m
}

// answer does what an observer asks of the launcher.
func (s *Server) answer(conn net.Conn, request *JoinRequest) {
	reply := message{Type: tellRefused, Why: "the job was not started by coppice run; allowed: one that was"}
	if s.cfg.Join != nil && request != nil {
		joined, err := s.cfg.Join(*request)
		reply = message{Type: tellJoined, Joined: joined}
		if err != nil {
			reply = message{Type: tellRefused, Why: brief(err.Error())}
		}
	}
	conn.SetWriteDeadline(time.Now().Add(farewellMax))
	_, _ = conn.Write(reply.line()) // the observer may have gone
}

// RequestJoin asks the launcher of the job in a directory for more processes, and
// waits until they are started. The error is a Refused if the launcher says no.
func RequestJoin(ctx context.Context, dir string, request JoinRequest) ([]Joiner, error) {
	conn, err := visit(ctx, dir, message{Type: sayJoin, Request: &request})
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	reply, err := readMessage(newLines(conn, sayMax))
	if err != nil {
		return nil, err
	}
	if reply.Type != tellJoined {
		return nil, Refused(reply.Why)
	}
	return reply.Joined, nil
}

// visit connects to the coordinator of the job in a directory as an observer, and says what the observer wants.
func visit(ctx context.Context, dir string, wants message) (net.Conn, error) {
	if err := checkDir(dir); err != nil {
		return nil, err
	}
	key, err := readKey(dir)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, visitMax)
	defer cancel()
	for {
		conn, _, err := speak(ctx, controlPath(dir), key, wants)
		if !transient(err) || errors.Is(err, wire.Closing) || !pause(ctx, 5*time.Millisecond) {
			return conn, err
		}
	}
}

// visitMax is how long an observer tries to get past a crowd at the coordinator.
const visitMax = 10 * time.Second
