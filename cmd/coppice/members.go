package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/coppice-go/coppice/internal/control"
)

type membersCmd struct {
	jobFlag
	Watch bool `short:"w" help:"Go on with what happens, until the job ends."`
	JSON  bool `name:"json" help:"Print JSON; with --watch one document a line, for every change."`
}

func (m *membersCmd) Run(c *console) error {
	dir, err := m.find()
	if err != nil {
		return err
	}
	r, begun := newRoster(control.JobName(dir)), false
	for e, err := range control.Watch(context.Background(), dir) {
		if err != nil {
			return err
		}
		news := r.learn(e)
		switch {
		case e.Type == control.EventStatus:
			begun = true
			if err := m.show(c, r, ""); err != nil || !m.Watch {
				return err
			}
		case begun && news != "":
			if err := m.show(c, r, e.Time.Local().Format("15:04:05.000")+"  "+news); err != nil {
				return err
			}
		}
	}
	if !begun {
		return errors.New("the job ended before it told who is there")
	}
	return nil
}

// show prints what is known; news is what changed, "" the first time.
func (m *membersCmd) show(c *console, r *roster, news string) error {
	if news != "" {
		r.news = append(r.news, news)
		r.news = r.news[max(0, len(r.news)-newsShown):]
	}
	switch {
	case m.JSON && m.Watch:
		line, err := json.Marshal(r.report(news))
		if err != nil {
			return err
		}
		return c.print(func(w *bufio.Writer) { w.Write(append(line, '\n')) })
	case m.JSON:
		return c.printJSON(r.report(""))
	case m.Watch && isTerminal(c.stdout):
		return c.print(func(w *bufio.Writer) {
			fmt.Fprint(w, "\x1b[H\x1b[2J") // from the top of an empty screen
			r.write(w)
			fmt.Fprintf(w, "\n%s\n", strings.Join(r.news, "\n"))
		})
	case news != "":
		return c.print(func(w *bufio.Writer) { fmt.Fprintln(w, news) })
	}
	return c.print(r.write)
}

// newsShown is how many of the latest changes are shown below the table.
const newsShown = 10

// write prints the roster for people.
func (r *roster) write(w *bufio.Writer) {
	report := r.report("")
	view := "no view told yet"
	if report.View != nil {
		view = fmt.Sprintf("view %d", *report.View)
	}
	switch report.Ended {
	case "":
	case wellEnded:
		view = "ended well; " + view
	default:
		view = "ended, " + report.Ended + "; " + view
	}
	fmt.Fprintf(w, "job %s: %s, %s, %d dead\n", r.job, view, countOf(len(report.Members), "process", "processes"), len(report.Dead))
	if !report.Began.IsZero() {
		fmt.Fprintln(w, aboutText(report.About, len(report.Command)))
	}
	fmt.Fprintln(w)
	table := newList(w)
	fmt.Fprintln(table, "id\tincarnation\thost\tpid\tstate\ttasks")
	row := func(p memberReport, state string) {
		fmt.Fprintf(table, "%d\t%d\t%s\t%s\t%s\t%s\n", p.ID, p.Incarnation, dash(p.Host), number0(p.Pid), state, taskList(p.Tasks))
	}
	for _, p := range report.Members {
		state := string(p.State)
		if p.State == control.Returned && len(p.Tasks) == 0 {
			state = "spare" // it has no tasks, and takes some over if another process dies
		}
		if r.view != nil && !p.InView && p.State != ended {
			state += ", not in the view"
		}
		row(p, state)
	}
	for _, p := range report.Dead {
		state := "dead: " + p.How
		if !p.Certain {
			state = "suspected: " + p.How
		}
		if p.InView {
			state += ", still in the view"
		}
		row(p, state)
	}
	table.Flush()
}

func dash(text string) string { return cmp.Or(text, "-") }

// number0 formats a number, and 0 as unknown.
func number0(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

func countOf(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// taskList formats tasks in order, ranges of them as 3-5.
func taskList(tasks []int) string {
	var parts []string
	for i := 0; i < len(tasks); {
		last := i
		for last+1 < len(tasks) && tasks[last+1] == tasks[last]+1 {
			last++
		}
		if last > i {
			parts = append(parts, fmt.Sprintf("%d-%d", tasks[i], tasks[last]))
		} else {
			parts = append(parts, fmt.Sprint(tasks[i]))
		}
		i = last + 1
	}
	return dash(strings.Join(parts, ", "))
}

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
	case control.EventSpared:
		return fmt.Sprintf("%v spared: %s", who, h.Why)
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
	switch {
	case kind == control.EventJoined && h.Again:
		s.Pid = h.Pid
		return ""
	case kind == control.EventJoined:
		s.State, s.Pid, news = control.Joined, h.Pid, fmt.Sprintf("joined: pid %d", h.Pid)
	case kind == control.EventAnnounced:
		s.State, s.HostName, news = control.Present, h.HostName, "present on "+dash(h.HostName)
	case kind == control.EventReturned && h.Failure != "":
		s.State, s.Failure, news = control.Returned, h.Failure, "returned with a failure: "+h.Failure
	case kind == control.EventReturned:
		s.State, s.Failure, news = control.Returned, "", "returned"
	case kind == control.EventResumed:
		s.State, news = control.Present, "has more to do"
	case kind == control.EventLeft && r.over:
		s.State, s.How, s.Certain, news = ended, "", false, "has ended"
	case kind == control.EventLeft:
		s.State, s.How, s.Certain, news = control.Dead, h.How, true, "has ended: "+h.How
	case h.Certain:
		s.State, s.How, s.Certain, news = control.Dead, h.How, true, "died: "+h.How
	default:
		s.State, s.How, s.Certain, news = control.Dead, h.How, false, "given up: "+h.How
	}
	return fmt.Sprintf("%v %s", who, news)
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
