package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/coppice-go/coppice/internal/control"
)

// roster is who is in a job, as its event stream tells.
type roster struct {
	job   string
	about control.About
	size  int
	view  *control.View
	over  bool // the job has finished
	all   map[control.Identity]*control.Status
	news  []string // the last of it, for the screen
}

func newRoster(job string) *roster {
	return &roster{job: job, all: map[control.Identity]*control.Status{}}
}

// membersReport is the roster at one moment. Its JSON is part of the command's
// contract.
type membersReport struct {
	Job string `json:"job"`
	control.About
	View    *uint64        `json:"view"` // its number; null: no process has told of one
	Members []memberReport `json:"members"`
	Dead    []memberReport `json:"dead"`
	Ended   string         `json:"ended,omitempty"` // wellEnded, or what has failed; "": the job runs
	News    string         `json:"news,omitempty"`  // what changed
}

const (
	wellEnded = "well"                 // how a job ended in which every task has returned well
	ended     = control.State("ended") // of a process that has left after the end of its job
)

type memberReport struct {
	ID          int           `json:"id"`
	Incarnation uint64        `json:"incarnation"`
	Host        string        `json:"host,omitempty"`
	Pid         int           `json:"pid,omitempty"`
	State       control.State `json:"state"`
	InView      bool          `json:"in_view"`
	Tasks       []int         `json:"tasks"`
	How         string        `json:"how,omitempty"`     // of the dead
	Certain     bool          `json:"certain,omitempty"` // of the dead: they are; otherwise taken for it
}

// report tells who is there.
func (r *roster) report(news string) membersReport {
	report := membersReport{Job: r.job, About: r.about, Members: []memberReport{}, Dead: []memberReport{}}
	if _, rest, ok := strings.Cut(news, "  "); ok {
		report.News = rest
	}
	if r.view != nil {
		report.View = &r.view.Number
	}
	for _, id := range slices.SortedFunc(maps.Keys(r.all), func(a, b control.Identity) int { return slices.Compare(a[:], b[:]) }) {
		s := r.all[id]
		m := memberReport{
			ID: s.Rank, Incarnation: s.Incarnation, Host: s.HostName, Pid: s.Pid, State: s.State,
			InView: r.view.Has(s.Rank, s.Incarnation), Tasks: r.tasks(s), How: s.How, Certain: s.Certain,
		}
		if r.over && s.Failure != "" && report.Ended == "" {
			report.Ended = fmt.Sprintf("process %v failed: %s", id, s.Failure)
		}
		if s.State == control.Dead {
			report.Dead = append(report.Dead, m)
		} else {
			report.Members = append(report.Members, m)
		}
	}
	switch {
	case !r.over || report.Ended != "":
	case len(report.Members) == 0:
		report.Ended = "no process is left"
	default:
		report.Ended = wellEnded
	}
	return report
}

// tasks are those that a process owns: before the first view is told, every process
// the job began with has its own.
func (r *roster) tasks(s *control.Status) []int {
	if r.view == nil && s.Rank < r.size && s.Incarnation <= 1 {
		return []int{s.Rank}
	}
	return append([]int{}, r.view.Tasks(s.Rank, s.Incarnation)...)
}

// happening is what an event may say, of all types that count here.
type happening struct {
	Rank        int              `json:"rank"`
	Incarnation uint64           `json:"incarnation"`
	Pid         int              `json:"pid"`
	Size        int              `json:"size"`
	Command     string           `json:"command"`
	Began       time.Time        `json:"began"`
	Again       bool             `json:"again"`
	HostName    string           `json:"host_name"`
	Certain     bool             `json:"certain"`
	How         string           `json:"how"`
	Why         string           `json:"why"`
	By          any              `json:"by"`
	Failure     string           `json:"failure"`
	Reason      string           `json:"reason"`
	Members     json.RawMessage  `json:"members"`
	Former      []control.Status `json:"former"`
	View        *control.View    `json:"view"`
}

// learn takes an event in and says in a line what is new; "" if nothing is.
func (r *roster) learn(e control.Event) (news string) {
	raw, err := json.Marshal(e)
	if err != nil {
		return ""
	}
	var h happening
	if json.Unmarshal(raw, &h) != nil {
		return ""
	}
	who := control.Identity{uint64(h.Rank), h.Incarnation}
	switch e.Type {
	case control.EventJob:
		r.size = h.Size
	case control.EventStatus:
		r.begin(h)
	case control.EventView:
		return r.change(control.ParseView(raw))
	case control.EventSuspected:
		return fmt.Sprintf("%v suspected by %v: %s", who, h.By, h.Why)
	case control.EventFenced:
		return fmt.Sprintf("%v fenced: %s", who, h.Why)
	case control.EventStop:
		return "stop: " + h.Reason
	case control.EventFinished:
		r.over = true
		if how := r.report("").Ended; how != wellEnded {
			return "the job has ended: " + how
		}
		return "the job has ended well: all have returned"
	case control.EventJoined, control.EventAnnounced, control.EventDied, control.EventReturned, control.EventResumed, control.EventLeft:
		return r.note(e.Type, who, h)
	}
	return ""
}

// begin takes the present in.
func (r *roster) begin(h happening) {
	clear(r.all)
	if !h.Began.IsZero() {
		r.size, r.about = h.Size, control.About{Command: h.Command, Pid: h.Pid, Began: h.Began}
	}
	var members []control.Status
	if json.Unmarshal(h.Members, &members) != nil {
		return
	}
	for _, s := range append(members, h.Former...) {
		if s.Incarnation == 0 && s.Rank >= r.size { // an id that nobody has yet
			continue
		}
		if s.Left {
			s.State = ended
		}
		r.all[control.Identity{uint64(s.Rank), s.Incarnation}] = &s
	}
	r.view = h.View
}

// note takes in what happened to one process.
func (r *roster) note(kind string, who control.Identity, h happening) (news string) {
	s := r.all[who]
	if s == nil {
		delete(r.all, control.Identity{who[0], 0}) // it was awaited
		s = &control.Status{Rank: h.Rank, Incarnation: h.Incarnation}
		r.all[who] = s
	}
	switch kind {
	case control.EventJoined:
		s.Pid = h.Pid
		if h.Again {
			return ""
		}
		s.State = control.Joined
		return fmt.Sprintf("%v joined: pid %d", who, h.Pid)
	case control.EventAnnounced:
		s.State, s.HostName = control.Present, h.HostName
		return fmt.Sprintf("%v present on %s", who, dash(h.HostName))
	case control.EventReturned:
		s.State, s.Failure = control.Returned, h.Failure
		if h.Failure != "" {
			return fmt.Sprintf("%v returned with a failure: %s", who, h.Failure)
		}
		return fmt.Sprintf("%v returned", who)
	case control.EventResumed:
		s.State = control.Present
		return fmt.Sprintf("%v has more to do", who)
	case control.EventLeft:
		s.State, s.How, s.Certain = control.Dead, h.How, true
		if r.over {
			s.State, s.How, s.Certain = ended, "", false
			return fmt.Sprintf("%v has ended", who)
		}
		return fmt.Sprintf("%v has ended: %s", who, h.How)
	}
	s.State, s.How, s.Certain = control.Dead, h.How, h.Certain
	if !h.Certain {
		return fmt.Sprintf("%v given up: %s", who, h.How)
	}
	return fmt.Sprintf("%v died: %s", who, h.How)
}

// change takes a view in and says who it removed and added.
func (r *roster) change(v *control.View) (news string) {
	if v == nil {
		return ""
	}
	before := r.view
	r.view = v
	news = fmt.Sprintf("view %d:", v.Number)
	if before == nil {
		return news + " " + countOf(len(v.Members), "member", "members")
	}
	changed := false
	for _, m := range before.Members {
		if !v.Has(m.Rank(), m.Incarnation()) {
			news, changed = news+fmt.Sprintf(" −%v", m), true
		}
	}
	for _, m := range v.Members {
		if !before.Has(m.Rank(), m.Incarnation()) {
			news, changed = news+fmt.Sprintf(" +%v", m), true
		}
	}
	if !changed {
		news += " the same members"
	}
	return news
}
