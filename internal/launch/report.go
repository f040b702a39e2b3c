package launch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/coppice-go/coppice/internal/control"
	"github.com/coppice-go/coppice/internal/posix"
)

// Report is the result of a job. Its JSON is part of the command's contract.
type Report struct {
	Exit      int          `json:"exit"`              // 0: every surviving task ended well; 1: the run failed
	Killed    []int        `json:"killed"`            // ranks whose process died, without those that the launcher killed for a restart
	Lost      []int        `json:"lost"`              // tasks of these that no process finished
	Joined    []int        `json:"joined"`            // ids of the processes that joined while the job ran, in the order of their start
	Respawned []Respawned  `json:"respawned"`         // those of them that replaced a dead process
	Restarts  []Restart    `json:"restarts"`          // the starts before the last; the other fields describe the last
	Seconds   float64      `json:"seconds"`           // from the first start of the first process to the end of the last
	Cause     string       `json:"cause,omitempty"`   // what went wrong first
	Timeout   bool         `json:"timeout,omitempty"` // the timeout expired
	Signal    string       `json:"signal,omitempty"`  // the signal to the launcher that ended the run
	Tasks     []TaskReport `json:"tasks"`

	received  syscall.Signal // Signal
	timeout   time.Duration  // the timeout that expired
	late      []int          // the ranks that still ran then
	cancelled error          // why the caller of Run has ended it; nil: it has not
	givenUp   bool           // the launcher killed the others when one had died or failed
	broke     error          // why the output of the processes could not be shown
	abandoned string         // why the job ended before all its tasks had returned; "": they have, or no process has joined it
	losses    map[int]string // by task that no process could run again: why
	owners    []int          // by task: the rank that owned it last; −1: none; nil: each rank owns the task of its number
}

// TaskReport is the result of one task's process.
type TaskReport struct {
	Rank    int     `json:"rank"`
	Again   uint64  `json:"incarnation,omitempty"` // if it is not the first of its rank
	Host    string  `json:"host,omitempty"`
	PID     int     `json:"pid"`
	Joined  bool    `json:"joined"`               // it took part in the job's communication
	Exit    *int    `json:"exit,omitempty"`       // its exit code, if no signal ended it
	Signal  string  `json:"signal,omitempty"`     // the signal that ended it
	Core    bool    `json:"core,omitempty"`       // it left a core dump
	Peak    int64   `json:"peak_bytes,omitempty"` // the peak memory of it, or of a process that it started
	Why     string  `json:"why,omitempty"`        // what the launcher did to it, or a lost host
	Failure string  `json:"failure,omitempty"`    // how it described its failure itself
	Panic   string  `json:"panic,omitempty"`      // of a Go program that crashed: the line that says why
	Heirs   []int   `json:"heirs,omitempty"`      // the processes that owned its tasks last
	Seconds float64 `json:"seconds"`              // from the start of the first process to its end

	ended  time.Time
	failed time.Time // when it reported its failure, or when the coordinator learned of its death
	apart  bool      // tasks are not numbered as processes are
	extra  bool      // beyond the job's tasks: it joined under a new id
	left   bool      // it ended after all tasks had returned
	in     bool      // it is in the latest view
	out    bool      // it is out of the latest view, and was in an earlier one
	tasks  []int     // the tasks that it owned last
	quit   []int     // its tasks that had not returned when it exited with 0
	said   *lastCry  // what it wrote; nil: unknown
}

// wrong returns when a task went wrong: its process may live on for a while.
func (t *TaskReport) wrong() time.Time {
	if t.failed.IsZero() || !t.ended.IsZero() && t.ended.Before(t.failed) {
		return t.ended
	}
	return t.failed
}

// end records how the process has ended, in a job that began then.
func (t *TaskReport) end(e ending, began time.Time) {
	t.ended, t.Seconds = e.at, e.at.Sub(began).Seconds()
	t.Core, t.Peak = e.status.Core, e.status.Peak
	switch {
	case e.lost != "":
		t.Why = e.lost
	case e.status.Signal != 0:
		t.Signal = control.SignalName(e.status.Signal)
	default:
		t.Exit = &e.status.Exit
	}
}

// learn copies what the coordinator knows. kill is the kill that the user ordered
// for the process; "": none.
func (t *TaskReport) learn(s control.Status, kill string) {
	if s.Pid == 0 {
		return
	}
	wrapper := s.Pid != t.PID
	t.Joined, t.PID, t.Failure, t.left, t.quit = true, s.Pid, s.Failure, s.Left, s.Quit
	for _, at := range []time.Time{s.FailedAt, s.DiedAt} {
		if t.failed.IsZero() || !at.IsZero() && at.Before(t.failed) {
			t.failed = at
		}
	}
	if t.Why == "" && s.State == control.Dead && (strings.HasPrefix(s.How, "fenced") || !s.Certain) {
		t.Why = s.How
	}
	if wrapper && t.Exit != nil && *t.Exit != 0 && t.Failure == "" {
		t.unwrap(kill != "")
	}
	if t.Why == "" && t.Signal == "SIGKILL" && kill != "" {
		t.Why = whyKill + kill
	}
}

// unwrap finds out how a process ended of which only its wrapper knows: a shell
// adds 128 to the signal; go run says nothing.
func (t *TaskReport) unwrap(asked bool) {
	if sig := syscall.Signal(*t.Exit - 128); posix.SignalName(sig) != "" {
		t.Exit, t.Signal = nil, control.SignalName(sig)
	} else if asked || t.Why != "" {
		t.Exit, t.Signal = nil, control.SignalName(syscall.SIGKILL)
	}
}

// well reports whether a task's process ended by itself and successfully.
func (t *TaskReport) well() bool { return t.Exit != nil && *t.Exit == 0 && t.Failure == "" }

// finished reports whether a process took part in the job until that had finished, or never did.
func (t *TaskReport) finished() bool { return t.left || !t.Joined }

// died reports whether the process died, which a job may survive; a process that ended
// with an exit code other than 0 has failed.
func (t *TaskReport) died() bool { return t.Exit == nil }

// name names the process.
func (t *TaskReport) name() string {
	if t.extra || t.apart || len(t.Heirs) > 0 {
		return fmt.Sprintf("process %d", t.Rank)
	}
	return fmt.Sprintf("task %d", t.Rank)
}

// how returns how a task's process ended.
func (t *TaskReport) how() string {
	text, why := "ended well", t.Why
	switch {
	case t.Failure != "" && why == whyRestart:
		text, why = "failed", ""
	case t.Signal != "":
		text = "was killed by " + t.Signal
	case t.Exit == nil:
		text = "was lost"
	case *t.Exit != 0 && t.Panic != "":
		text = "crashed"
	case *t.Exit != 0:
		text = fmt.Sprintf("ended with exit code %d", *t.Exit)
	case t.Failure != "":
		text = "failed"
	}
	if why != "" {
		text += " (" + why + ")"
	}
	text += fmt.Sprintf(", %.2f s after the start", t.Seconds)
	if said := cmp.Or(t.Failure, t.Panic); said != "" {
		text += ": " + oneLine(said)
	}
	return text
}

// blame finds out why a process crashed.
func (t *TaskReport) blame() {
	if t.Exit != nil && *t.Exit != 0 && t.Failure == "" && t.said != nil {
		t.Panic = t.said.text()
	}
}

// oneLine returns the beginning of a text, without line breaks.
func oneLine(text string) string {
	const most = 500
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// conclude fills in what follows from how the tasks ended.
func (r *Report) conclude() {
	r.Killed, r.Lost = []int{}, []int{} // never null in JSON
	r.Joined, r.Respawned, r.Restarts = append([]int{}, r.Joined...), append([]Respawned{}, r.Respawned...), append([]Restart{}, r.Restarts...)
	survivors, failed := 0, 0
	for i := range r.Tasks {
		r.Tasks[i].blame()
		switch t := &r.Tasks[i]; {
		case t.Why == whyRestart: // the run has failed, and not because of it
		case t.died() || r.survived(t):
			r.Killed = append(r.Killed, t.Rank)
			r.Lost = append(r.Lost, r.unfinished(t)...)
		case (t.extra || t.Again > 0 && t.Joined) && !t.in && t.well(): // it came too late to be of use
		case t.well():
			survivors++
		default:
			survivors++
			failed++
		}
	}
	for i := range r.Tasks {
		if t := &r.Tasks[i]; t.Failure == "" && t.Why != whyRestart && !t.finished() {
			r.Lost = append(r.Lost, r.unfinished(t)...)
		}
		r.Lost = append(r.Lost, r.Tasks[i].quit...)
	}
	r.Lost = slices.AppendSeq(r.Lost, maps.Keys(r.losses))
	for _, ranks := range []*[]int{&r.Killed, &r.Lost} { // a rank may die more than once
		slices.Sort(*ranks)
		*ranks = slices.Compact(*ranks)
	}
	if failed > 0 || survivors == 0 || r.stopped() || r.givenUp || r.broke != nil || r.abandoned != "" {
		r.Exit = 1
	}
	r.Cause = r.cause()
}

// cause returns what went wrong first, and what followed.
func (r *Report) cause() string {
	first, others := r.firstFailed()
	var text string
	switch {
	case first == nil && r.unreturned():
		text = fmt.Sprintf("%s never returned: %s", tasks(r.Lost), r.abandoned)
	case first == nil:
	case r.Exit == 0:
		text = first.name() + " " + first.how() + r.aftermath(first, others)
	case others == 0:
		text = first.name() + " " + first.how()
	case !slices.ContainsFunc(r.Tasks, func(t TaskReport) bool { return !t.died() && !t.well() }):
		text = fmt.Sprintf("%s %s; then %s", first.name(), first.how(), counted(others, "other died", "others died"))
	default:
		text = fmt.Sprintf("%s %s; then %s", first.name(), first.how(), r.followers(first, others)) + r.failure(first)
	}
	text = strings.TrimPrefix(text+r.loss(), "; ")
	if first != nil && r.unreturned() && !slices.Equal(r.Lost, []int{first.Rank}) { // unless only its own task is lost, which text already says
		text += fmt.Sprintf("; %s never returned", tasks(r.Lost))
	}
	var end string
	switch {
	case r.Timeout:
		who := tasks(r.late)
		if slices.ContainsFunc(r.Tasks, func(t TaskReport) bool { return t.apart }) {
			who = listed("process", "processes", r.late)
		}
		end = fmt.Sprintf("time-out after %v, when %s still ran", r.timeout, who)
	case r.Signal != "":
		end = Interrupted{r.received}.Error()
	case errors.Is(r.cancelled, context.Canceled): // for no other reason
		end = "cancelled"
	case r.cancelled != nil:
		end = r.cancelled.Error()
	case r.broke != nil:
		end = fmt.Sprintf("what the tasks wrote was lost: %v", r.broke)
	}
	switch {
	case end == "" || text == "":
		return text + end
	case r.stopped():
		return end + "; before that " + text
	}
	return end + "; " + text
}

// stopped reports whether the job was ended from outside, not by its processes.
func (r *Report) stopped() bool { return r.Timeout || r.Signal != "" || r.cancelled != nil }

// unreturned reports whether the job ended by itself before all its tasks had returned. A job that
// was stopped did, too, but that is expected.
func (r *Report) unreturned() bool { return r.abandoned != "" && len(r.Lost) > 0 && !r.stopped() }

// followers describes the processes that failed after the first.
func (r *Report) followers(first *TaskReport, others int) string {
	same, died := 0, 0
	for i := range r.Tasks {
		t := &r.Tasks[i]
		if t == first {
			continue
		}
		if t.Panic != "" && t.Panic == first.Panic {
			same++
		}
		if t.died() {
			died++
		}
	}
	text := counted(others, "other failed", "others failed")
	if 0 < died && died < others {
		text = fmt.Sprintf("%s and %d failed", counted(died, "other died", "others died"), others-died)
	}
	switch same {
	case 0:
		return text
	case others:
		return counted(others, "other crashed the same way", "others crashed the same way")
	default:
		return fmt.Sprintf("%s, %d of them crashed the same way", text, same)
	}
}

// failure describes what went wrong first in a task, if a death that the others could have survived
// came before.
func (r *Report) failure(first *TaskReport) string {
	failed := r.complainant()
	if failed == nil || first.Failure != "" || !first.died() || len(r.losses) > 0 {
		return ""
	}
	return ": " + oneLine(failed.Failure)
}

// loss says which tasks no process could run again, and why for the first of them.
func (r *Report) loss() string {
	if len(r.losses) == 0 {
		return ""
	}
	ranks := slices.Sorted(maps.Keys(r.losses))
	is := "is"
	if len(ranks) > 1 {
		is = "are"
	}
	return fmt.Sprintf("; %s %s lost: %s", tasks(ranks), is, oneLine(r.losses[ranks[0]]))
}

// Interrupted is the error of a run that a signal to the launcher has ended.
type Interrupted struct{ Signal syscall.Signal }

func (i Interrupted) Error() string { return "interrupted by " + control.SignalName(i.Signal) }

// interrupt records the first signal that the launcher received.
func (r *Report) interrupt(s syscall.Signal) {
	if r.received == 0 {
		r.received, r.Signal = s, control.SignalName(s)
	}
}

// Err returns the cause as an error, if the run failed. It unwraps to Interrupted if a signal ended the run.
func (r *Report) Err() error {
	if r.Exit == 0 {
		return nil
	}
	why := r.cancelled
	if r.received != 0 {
		why = Interrupted{r.received}
	}
	return &failedRun{r.Cause, why}
}

type failedRun struct {
	text string
	why  error
}

func (f *failedRun) Error() string { return f.text }

func (f *failedRun) Unwrap() error { return f.why }

// firstFailed returns the first process that did not end well by itself, and how
// many others did not.
func (r *Report) firstFailed() (first *TaskReport, others int) {
	for i := range r.Tasks {
		t := &r.Tasks[i]
		if t.well() || t.Why == whyTimeout || t.Why == whyInterrupted || t.bystander() {
			continue
		}
		if first != nil {
			others++
		}
		if first == nil || t.wrong().Before(first.wrong()) {
			first = t
		}
	}
	return first, others
}

// Failure returns what the first failed process said about its failure; "": none did, or the cause says it.
func (r *Report) Failure() string {
	first, _ := r.firstFailed()
	if first == nil || first.Failure != "" || len(r.losses) > 0 || r.failure(first) != "" {
		return ""
	}
	if first = r.complainant(); first == nil {
		return ""
	}
	return oneLine(first.Failure)
}

// complainant returns the first process that described what went wrong itself; nil: none did.
func (r *Report) complainant() (first *TaskReport) {
	for i := range r.Tasks {
		if t := &r.Tasks[i]; t.Failure != "" && (first == nil || t.wrong().Before(first.wrong())) {
			first = t
		}
	}
	return first
}

// tasks names some.
func tasks(ranks []int) string { return listed("task", "tasks", ranks) }

func listed(one, more string, ranks []int) string {
	if len(ranks) == 1 {
		return one + " " + rankList(ranks)
	}
	return more + " " + rankList(ranks)
}

func counted(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}
