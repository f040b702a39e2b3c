package replay

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/coppice-go/coppice/internal/plant"
	"github.com/coppice-go/coppice/protocol"
)

// Schedules that show why every word of the rule of aborts is needed. In all of them one task aborts a
// barrier in which task 0 tells all others that all have come (a star), and the task's process crashes when a
// few processes have heard of the abort. Afterwards the tasks send each other messages.

// directed is a schedule.
type directed struct {
	name    string
	cfg     Config
	cancels protocol.Rank // the task whose context ends
	steps   string        // see do; after them the run takes its ordinary course
	aborted bool          // at the survivors
}

var schedules = []directed{
	{
		name: "a record that one survivor has", cfg: Config{Processes: 3}, cancels: 2,
		// Only p1 hears of the abort, after it has accepted the view without p2.
		// p0 could end the barrier: it has all of p1's messages.
		steps: `act 0; act 1; act 2; crash 2; lose 2 0; tell 0 2; act 0; hear 1 0; views 1; hear 0 1; act 0
			hear 1 2; act 1`,
		aborted: true,
	},
	{
		name: "a record that nobody has", cfg: Config{Processes: 3}, cancels: 2,
		// The abort leaves no trace.
		steps: `act 0; act 1; act 2; crash 2; lose 2 0; lose 2 1`,
	},
	{
		name: "a record that comes too late", cfg: Config{Processes: 3}, cancels: 2,
		// p1 gets the record when the view without p2 is open and p0 has ended the barrier, since p1
		// has sent its word.
		steps: `act 0; act 1; act 2; crash 2; lose 2 0; tell 0 2; act 0; hear 1 0; views 1; hear 0 1; act 0
			hear 1 0; act 1; hear 0 1; act 0; hear 1 2; act 1`,
	},
	{
		name: "a message that depends on a lost record", cfg: Config{Processes: 3}, cancels: 2,
		// p1 hears of the abort, goes on, and crashes. What it sends to p0 after the barrier comes
		// after the record.
		steps:   `act 0; act 1; act 2; crash 2; lose 2 0; hear 1 2; act 1; crash 1; hear 0 1`,
		aborted: true,
	},
	{
		name: "a record of one who dies before its word", cfg: Config{Processes: 4}, cancels: 3,
		// p2 has sent its word as of view 2 when it gets the record from p1, which has crashed by
		// then. p0 knows that p1 is dead; p2's record is in flight.
		steps: `act 0; act 1; act 2; act 3; crash 3; lose 3 0; lose 3 2
			tell 0 3; act 0; hear 1 0; views 1; hear 2 0; views 2; hear 0 1; hear 0 2; act 0
			hear 2 0; act 2; hear 0 2; act 0
			hear 1 3; act 1; crash 1; lose 1 0; hear 2 1; act 2; tell 0 1; act 0`,
		aborted: true,
	},
	{
		name: "a record that comes between two views", cfg: Config{Processes: 4}, cancels: 3,
		// p0 is in view 3 without p1, and has p2's word as of view 2. p2 has accepted view 3, and has
		// yet to open it, when it gets p1's record.
		steps: `act 0; act 1; act 2; act 3; crash 3; lose 3 0; lose 3 2
			tell 0 3; act 0; hear 1 0; views 1; hear 2 0; views 2; hear 0 1; hear 0 2; act 0
			hear 2 0; act 2; hear 0 2; act 0
			hear 1 3; act 1; crash 1; lose 1 0; tell 0 1; act 0; hear 2 0; act 2; hear 0 2; act 0
			hear 2 1; act 2`,
		aborted: true,
	},
	{
		name: "a joiner that was not told", cfg: Config{Processes: 3, Joiners: 1, Owners: []protocol.Rank{1, 0, 2}}, cancels: 2,
		// p0 gets the record in view 1, adds p3, excludes p2, whose task p3 adopts, and only then
		// sends records. p1, which has task 0, has not got them when p3 has heard p0's first message.
		steps: `act 0; act 1; hear 1 0; act 1; act 2; begin 3; act 3; hear 0 2; hear 0 3
			views 0; hear 1 0; views 1; hear 2 0; act 2; hear 3 0; views 3; hear 0 1; hear 0 2; hear 0 3; views 0
			crash 2; lose 2 1; hear 1 0; act 1; hear 3 0; act 3; tell 0 2; views 0; hear 1 0; views 1; hear 3 0; views 3
			hear 0 1; hear 0 3; views 0; hear 1 0; act 1; hear 3 0; hear 3 1; act 3; act 0
			hear 3 0 1; act 3; hear 1 3; act 1`,
		aborted: true,
	},
	{
		name: "a joiner that is sent the log", cfg: Config{Processes: 2, Joiners: 1},
		// p1 crashes when p2, which adopts its task, has joined. p0 sends p2 its record before it
		// resends what followed from the abort, and crashes between the two.
		steps: `act 0; begin 2; act 2; hear 0 2; views 0; hear 1 0; views 1; hear 2 0; views 2; hear 0 1; hear 0 2; views 0
			crash 1; tell 0 1; views 0; hear 2 0; views 2; hear 0 2; views 0; act 0; crash 0; hear 2 0 2; lose 0 2`,
		aborted: true,
	},
	{
		name: "a record before the first view", cfg: Config{Processes: 3, Joiners: 1, Owners: []protocol.Rank{1, 2}}, cancels: 1,
		// p3 gets the record from p0 before it has opened view 2. Both others that had the record
		// crash. p1 waits in the barrier, and runs nothing again.
		steps: `begin 3; act 3; hear 0 3; act 0; hear 1 0; act 1; hear 2 0; act 2; hear 3 0; act 3; hear 0 1; hear 0 3; hear 0 2 1; act 0
			hear 1 0; act 1; crash 2; lose 2 1; hear 0 2; act 0; crash 0; lose 0 1; hear 3 0; act 3`,
		aborted: true,
	},
}

// stage is a job that runs a given schedule.
type stage struct {
	t        *testing.T
	job      *Job
	states   []State
	dead     []bool
	wills    []Message
	told     [][]bool      // [to][of]: to is notified that of crashed
	channels [][][]Message // [from][to]
	last     []*Attempt    // by task, the latest that returned
	lines    []string
}

func newStage(t *testing.T, d *directed) *stage {
	t.Helper()
	n := d.cfg.Processes
	if d.cfg.Owners != nil {
		n = len(d.cfg.Owners)
	}
	barriers, err := barriers(n)
	if err != nil {
		t.Fatal(err)
	}
	cfg := d.cfg
	cfg.Fanout = 8
	for r := range protocol.Rank(cfg.Processes) {
		cfg.Cancels = append(cfg.Cancels, Cancel{r, d.cancels, 0})
	}
	cfg.Program = NewProgram(n, 1, Call{Plan: barriers[2], Agreed: true}, Call{Plan: shifts(n)[n-2], Elems: 2}, Call{Plan: shifts(n)[0], Elems: 2})
	job, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	all := job.processes + 1
	x := &stage{
		t: t, job: job, states: make([]State, all), dead: make([]bool, all), wills: make([]Message, all),
		told: make([][]bool, all), channels: make([][][]Message, all), last: make([]*Attempt, n),
	}
	for r := range x.states {
		job.Init(&x.states[r], protocol.Rank(r), 0)
		x.told[r], x.channels[r] = make([]bool, all), make([][]Message, all)
	}
	return x
}

// do takes one step, and reports whether anything happened.
func (x *stage) do(words []string) bool {
	n := []int{}
	for _, word := range words[1:] {
		i, err := strconv.Atoi(word)
		if err != nil {
			x.t.Fatal(err)
		}
		n = append(n, i)
	}
	switch words[0] {
	case "act": // until it rests
		x.act(n[0], func(Message) bool { return true })
	case "views": // the same, but only what the membership does
		return x.act(n[0], func(m Message) bool { return m.Kind == View })
	case "hear": // everything from another process, or the given number of messages
		return x.hear(n[0], n[1], append(n, 1<<30)[2])
	case "tell": // of a crash
		return x.tell(n[0], n[1])
	case "begin":
		x.job.Notify(&x.states[n[0]], 0, protocol.Notice{Kind: protocol.Begin, Value: 1})
	case "crash":
		x.dead[n[0]], x.wills[n[0]] = true, Testament(&x.states[n[0]])
		x.lines = append(x.lines, fmt.Sprintf("p%d crashes", n[0]))
	case "lose": // what a crashed process has sent to another
		x.channels[n[0]][n[1]] = nil
	default:
		x.t.Fatalf("no such step: %v", words)
	}
	return true
}

func (x *stage) act(r int, wanted func(Message) bool) (acted bool) {
	for s := &x.states[r]; !x.dead[r]; acted = true {
		try := s.Clone()
		a := x.job.Next(&try, 0)
		switch {
		case a.Kind == protocol.Idle || a.Kind == protocol.Wait || a.Kind == protocol.Done:
			*s = try
			return acted
		case !wanted(a.Msg):
			return acted
		}
		x.lines = append(x.lines, fmt.Sprintf("p%d %v to p%d: %v", r, a.Kind, a.To, a.Msg))
		*s = try
		switch {
		case a.Kind == protocol.Send && !x.dead[a.To]:
			x.channels[r][a.To] = append(x.channels[r][a.To], a.Msg)
		case a.Kind == protocol.Work:
			x.job.Notify(s, 0, protocol.Notice{Kind: protocol.WorkDone})
		case a.Kind == protocol.Deliver && a.Msg.Result != nil:
			if t := a.Msg.Result.Task; x.last[t] == nil || x.last[t].View < a.Msg.Result.View {
				x.last[t] = a.Msg.Result
			}
		}
	}
	return acted
}

func (x *stage) hear(r, from, most int) bool {
	mail := x.channels[from][r]
	n := min(most, len(mail))
	x.channels[from][r] = mail[n:]
	for _, m := range mail[:n] {
		if !x.dead[r] {
			x.lines = append(x.lines, fmt.Sprintf("p%d hears p%d: %v", r, from, m))
			x.job.Receive(&x.states[r], 0, protocol.Rank(from), m)
		}
	}
	return n > 0
}

func (x *stage) tell(r, of int) bool {
	if x.dead[r] || !x.dead[of] || x.told[r][of] {
		return false
	}
	x.told[r][of] = true
	x.job.Receive(&x.states[r], 0, protocol.Rank(of), x.wills[of])
	x.job.Notify(&x.states[r], 0, protocol.Notice{Kind: protocol.Death, Rank: protocol.Rank(of), Value: 1})
	return true
}

// ordinary runs the ordinary course until nothing more happens.
func (x *stage) ordinary() {
	for busy := true; busy; {
		busy = false
		for r := range x.states {
			for from := range x.states {
				heard, told := x.hear(r, from, 1), x.tell(r, from)
				busy = busy || heard || told
			}
			acted := x.act(r, func(Message) bool { return true })
			busy = busy || acted
		}
	}
}

// check returns what is wrong at the end.
func (x *stage) check(aborted bool) error {
	for r := range x.states {
		if err := x.states[r].Err(); err != nil && !x.dead[r] {
			return err
		}
	}
	var want []int
	if aborted {
		want = []int{0}
	}
	serial := x.job.program.Serial(want, nil)
	for t, a := range x.last {
		switch {
		case a == nil:
			return fmt.Errorf("task %d does not return", t)
		case !slices.Equal(a.Aborted, want):
			return fmt.Errorf("aborted is %v for task %d, want %v", a.Aborted, t, want)
		case !slices.Equal(a.Digests, serial[t]):
			return fmt.Errorf("task %d returns with other bits", t)
		}
	}
	return nil
}

// run plays a schedule. A step that changes nothing is a mistake in the schedule, unless a mistake is planted
// elsewhere.
func (d *directed) run(t *testing.T) ([]string, error) {
	x := newStage(t, d)
	var idle error
	for _, step := range strings.FieldsFunc(d.steps, func(r rune) bool { return r == ';' || r == '\n' }) {
		if words := strings.Fields(step); !x.do(words) && os.Getenv(plant.Variable) == "" {
			idle = errors.Join(idle, fmt.Errorf("nothing happens in %q after %d lines", step, len(x.lines)))
		}
	}
	x.ordinary()
	return x.lines, errors.Join(idle, x.check(d.aborted))
}

func TestEveryWordOfTheRuleOfAbortsIsNeeded(t *testing.T) {
	for _, d := range schedules {
		t.Run(d.name, func(t *testing.T) {
			if lines, err := d.run(t); err != nil {
				t.Errorf("%s\n=> %v", strings.Join(lines, "\n"), err)
			}
		})
	}
}
