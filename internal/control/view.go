package control

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
)

// View is what a process reports about a view that it has opened, in an event of type
// "view". The coordinator takes no part in deciding views. It keeps the latest for
// observers, and needs it to know which processes have tasks and whether the tasks of the dead have
// been given to others.
type View struct {
	Number  uint64     `json:"number"`
	Members []Identity `json:"members"`          // by id
	Owners  []int      `json:"owners,omitempty"` // by task: the id of its owner, −1: none
	Since   []uint64   `json:"since,omitempty"`  // by task: the number of the view that gave it to its owner
	Gone    []Identity `json:"-"`                // the last lives of ids that views have removed, for a successor of the coordinator
}

// Identity is a process: its id, which is its rank, and its incarnation. Its JSON
// is [id, incarnation].
type Identity [2]uint64

// Rank returns the id.
func (i Identity) Rank() int { return int(i[0]) }

// Incarnation counts the lives of the id, from 1.
func (i Identity) Incarnation() uint64 { return i[1] }

// String returns the id, and the incarnation if it is not the first.
func (i Identity) String() string {
	if i[1] == 1 {
		return fmt.Sprint(i[0])
	}
	return fmt.Sprintf("%d.%d", i[0], i[1])
}

// Has reports whether a process is a member of the view.
func (v *View) Has(rank int, incarnation uint64) bool {
	return v != nil && slices.Contains(v.Members, Identity{uint64(rank), incarnation})
}

// Tasks returns the tasks that a member owns.
func (v *View) Tasks(rank int, incarnation uint64) (tasks []int) {
	if !v.Has(rank, incarnation) {
		return nil
	}
	for task, owner := range v.Owners {
		if owner == rank {
			tasks = append(tasks, task)
		}
	}
	return tasks
}

// ParseView reads the view of an event. It is nil if the event reports no opened
// view.
func ParseView(event []byte) *View {
	var v struct {
		View
		Opened bool `json:"opened"`
	}
	if json.Unmarshal(event, &v) != nil || !v.Opened || len(v.Members) == 0 {
		return nil
	}
	return &v.View
}

// viewed records a view that a process reports. It returns false if the view is already
// known: several processes may report it. s.mu is held.
func (s *Server) viewed(m *member, event []byte) (news bool) {
	v := ParseView(event)
	if v != nil && v.Number == 1 {
		s.first = v
	}
	switch {
	case v == nil:
		return true
	case s.view != nil && v.Number < s.view.Number:
		return false
	case s.view != nil && v.Number == s.view.Number:
		if slices.Equal(v.Members, s.view.Members) && slices.Equal(v.Owners, s.view.Owners) && slices.Equal(v.Since, s.view.Since) { // a report has no Gone
			return false
		}
		s.log.Error("control: two views of one number", "rank", m.rank, "number", v.Number, "view", v, "other", s.view)
		return true
	}
	s.install(v)
	s.ending.Viewed(v.decided())
	s.log.Info("control: view", "number", v.Number, "members", len(v.Members))
	s.settle()
	return true
}

// install makes a view the latest.
func (s *Server) install(v *View) {
	before := s.view
	if before == nil {
		before = s.firstView(len(v.Owners))
	}
	s.view, s.in = v, make(map[Identity]bool, len(v.Members))
	for _, m := range v.Members {
		s.in[m] = true
	}
	for _, m := range before.Members {
		if s.in[m] {
			continue
		}
		if life := s.life(m); life != nil {
			life.removed, life.removedAt, life.estate = true, time.Now(), before.Tasks(m.Rank(), m.Incarnation())
			s.inherit(life, v)
		}
	}
}

// decided returns the view as its members have decided it.
func (v *View) decided() *membership.View {
	members, owners := make([]membership.Member, len(v.Members)), make([]protocol.Rank, len(v.Owners))
	for i, m := range v.Members {
		members[i] = m.member()
	}
	for t, owner := range v.Owners {
		owners[t] = protocol.Rank(owner)
	}
	if v.Owners == nil {
		owners = nil
	}
	w := membership.NewView(v.Number, members, nil, owners)
	if len(v.Since) == len(owners) {
		w.Since = v.Since
	}
	return w
}

func (i Identity) member() membership.Member {
	return membership.Member{ID: protocol.Rank(i[0]), Incarnation: uint32(i[1])}
}

// firstView returns the view that all processes begin with, if no process has reported it. Its
// owners are known if there are as many tasks as processes.
func (s *Server) firstView(tasks int) *View {
	v := &View{Number: 1, Members: make([]Identity, s.cfg.Size)}
	for rank := range v.Members {
		v.Members[rank] = Identity{uint64(rank), 1}
		if tasks == s.cfg.Size {
			v.Owners = append(v.Owners, rank)
		}
	}
	return v
}

// life returns what is known of a process; nil: nothing.
func (s *Server) life(i Identity) *member {
	if i[0] >= uint64(len(s.members)) {
		return nil
	}
	for life := range s.members[i.Rank()].lives() {
		if life.identity() == i {
			return life
		}
	}
	return nil
}

// identity returns whose life it is; a process that has not joined yet will be the first incarnation.
func (m *member) identity() Identity { return Identity{uint64(m.rank), max(m.incarnation, 1)} }

// inView reports whether a process is in the latest view, or in the first if no process has reported
// one.
func (s *Server) inView(m *member) bool {
	if s.view == nil {
		return m.rank < s.cfg.Size && m.incarnation <= 1
	}
	return s.in[m.identity()]
}

// View returns the latest view that a process reported; nil: none.
func (s *Server) View() *View {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view
}

// First returns the view that the job began with; nil: no process has reported it.
func (s *Server) First() *View {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.first
}
