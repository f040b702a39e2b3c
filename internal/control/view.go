package control

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
)

// View is what a process tells of a view that it has opened, in an event of type
// "view". The coordinator takes no part in deciding views; it keeps the latest for
// who asks, and needs it to know who has tasks.
type View struct {
	Number  uint64     `json:"number"`
	Members []Identity `json:"members"`          // by id
	Owners  []int      `json:"owners,omitempty"` // by task: the id of who owns it, −1: nobody
}

// Identity is a process: its id, which is its rank, and its incarnation. Its JSON
// is [id, incarnation].
type Identity [2]uint64

// Rank is the id.
func (i Identity) Rank() int { return int(i[0]) }

// Incarnation counts the lives of the id, from 1.
func (i Identity) Incarnation() uint64 { return i[1] }

// String is the id, and the incarnation if it is not the first.
func (i Identity) String() string {
	if i[1] == 1 {
		return fmt.Sprint(i[0])
	}
	return fmt.Sprintf("%d.%d", i[0], i[1])
}

// Has tells whether a process is a member of the view.
func (v *View) Has(rank int, incarnation uint64) bool {
	return v != nil && slices.Contains(v.Members, Identity{uint64(rank), incarnation})
}

// Tasks are those that a member owns.
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

// ParseView reads the view of an event. It is nil if the event tells of none that
// was opened.
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

// viewed takes note of a view that a process tells of. It returns false if all
// know it: every member tells. s.mu is held.
func (s *Server) viewed(m *member, event []byte) (news bool) {
	v := ParseView(event)
	switch {
	case v == nil:
		return true
	case s.view != nil && v.Number < s.view.Number:
		return false
	case s.view != nil && v.Number == s.view.Number:
		if reflect.DeepEqual(v, s.view) {
			return false
		}
		s.log.Error("control: two views of one number", "rank", m.rank, "number", v.Number, "view", v, "other", s.view)
		return true
	}
	s.view = v
	s.log.Info("control: view", "number", v.Number, "members", len(v.Members))
	s.settle()
	return true
}
