package chaos

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/coppice-go/coppice/internal/plant"
	"github.com/coppice-go/coppice/protocol"
)

// The schedules of docs/views.md that broke drafts of the view rule, as scripts. Ranks are chosen so that the
// machine makes the intended process the proposer; trees are flat, so that every process answers for itself.

// directed is a schedule.
type directed struct {
	name  string
	world Membership
	steps string // a line each, see direct; after them the run takes its ordinary course
	open  []protocol.Rank
}

var schedules = []directed{
	{
		name: "notices that carry only a number", world: Membership{P: 5, Fanout: 8, Crashes: 3, Suspicions: 2},
		// p0 proposes A = {0 1 2 3}. p2 accepts, and its answer is slow. p1 gets promises from 3 and
		// 4, and opens B = {1 2 3 4}; p2 does, too. Then p2's old answer reaches p0, which is
		// notified that the others crashed.
		steps: `suspect 0 4; act 0; hear 2 0; act 2
			suspect 1 0; act 1; settle 1 3 4; settle 1 2 3 4
			crash 1; crash 3; crash 4; tell 0 1; tell 0 3; tell 0 4; hear 0 2; act 0`,
		open: []protocol.Rank{2},
	},
	{
		name: "a proposal sent before it is recorded", world: Membership{P: 5, Fanout: 8, Crashes: 4, Suspicions: 1},
		// p1 has promises from 2 and 3 and proposes to 4, when 1, 2 and 3 crash. p0 and p4 continue
		// as {0 4}, p0 crashes, and then p1's proposal reaches p4.
		steps: `suspect 1 0; act 1; hear 2 1; act 2; hear 3 1; act 3; hear 1 2; hear 1 3; next 1 3?
			crash 1; crash 2; crash 3; tell 0 1; tell 0 2; tell 0 3; act 0; hear 4 0; act 4; hear 0 4; act 0; crash 0; lose 0 4
			hear 4 1?; hear 4 1?; act 4`,
		open: []protocol.Rank{4},
	},
	{
		name: "a view that never opens", world: Membership{P: 3, Joiners: 1, Fanout: 8, Crashes: 2, Suspicions: 1},
		// p1 and p2 choose what p0 proposed, {0 1 2 3}, and crash. p3 is in it; p0 chooses it, too.
		// Each could wait for the other.
		steps: `begin 3; act 3; hear 0 3; act 0; hear 1 0; act 1; suspect 1 0; act 1
			hear 2 1; act 2; hear 1 2; act 1; hear 2 1; act 2; hear 1 2; act 1; hear 3 1; act 3; hear 3 1?; act 3
			crash 1; crash 2`,
		open: []protocol.Rank{0, 3},
	},
	{
		name: "excluded and silent", world: Membership{P: 5, Fanout: 8, Crashes: 1, Suspicions: 2},
		// p0 excludes 3 and 4, which learn of it, and crashes before 1 and 2 learn of it: they need
		// an answer from 3 or 4.
		steps: `suspect 0 3; suspect 0 4; act 0; settle 0 1; hear 2 0; act 2; hear 0 2; act 0; hear 3 0; act 3; hear 4 0; act 4
			crash 0; lose 0 1; lose 0 2`,
		open: []protocol.Rank{1, 2},
	},
	{
		name: "nobody left", world: Membership{P: 2, Joiners: 1, Fanout: 8, Crashes: 1},
		// p0 accepts its own proposal to add 2, and crashes.
		steps: `begin 2; act 2; hear 0 2; next 0 1; crash 0; tell 1 0; act 1`,
		open:  []protocol.Rank{1},
	},
	{
		name: "quorum without the dead", world: Membership{P: 5, Fanout: 8, Crashes: 2, Cuts: 1, Agentless: true},
		// {0 1 2} is cut from {3 4} and continues; 0 and 1 crash, and every process is notified.
		steps: `cut 0 1 2; suspected 0 3; suspected 0 4; settle 0 1 2; crash 0; crash 1
			tell 2 0; tell 2 1; suspected 3 2; suspected 4 2; settle 2; heal; tell 3 0; tell 3 1; tell 4 0; tell 4 1; settle 3 4`,
	},
	{
		name: "joins without the record", world: Membership{P: 3, Joiners: 1, Fanout: 8, Crashes: 2, Cuts: 1},
		// {0} is cut from the others, which exclude it, add 3, and crash: 3 continues. 0 is notified
		// that 1 and 2 crashed.
		steps: `cut 0; suspected 1 0; suspected 2 0; settle 1 2; begin 3; settle 0 1 2 3; time; settle 0 1 2 3
			crash 1; crash 2; settle 3 1 2; heal; tell 0 1; tell 0 2; act 0`,
		open: []protocol.Rank{3},
	},
	{
		name: "a notice that comes late", world: Membership{P: 7, Fanout: 8, Crashes: 2},
		// p0 opens view 2 and crashes. p1 has view 3 chosen, which waits for 5, when p1 hears from p0
		// that view 2 is open.
		steps: `crash 6; tell 0 6; act 0; hear 1 0; act 1; hear 2 0; act 2; hear 3 0; act 3; hear 4 0; act 4; hear 5 0; act 5
			hear 0 1; hear 0 2; hear 0 3; hear 0 4; hear 0 5; act 0; crash 0; tell 1 0; act 1; settle 1 2 3 4; hear 1 0; act 1`,
		open: []protocol.Rank{1, 2, 3, 4, 5},
	},
	{
		name: "a view that another chose", world: Membership{P: 3, Joiners: 1, Fanout: 8, Suspicions: 1, EagerTimers: true},
		// p1 suspects p0 and has what p0 proposed, {0 1 2 3}, chosen. Then it hears p0, which is the
		// one to open it.
		steps: `begin 3; act 3; hear 0 3; act 0; hear 1 0; act 1; suspect 1 0; act 1; hear 2 1; act 2; hear 1 2; act 1
			hear 2 1; act 2; hear 1 2; act 1; time; act 0; hear 1 0; act 1`,
		open: []protocol.Rank{0, 1, 2, 3},
	},
	{
		name: "a joiner of a view that was not chosen", world: Membership{P: 3, Joiners: 1, Fanout: 8, Crashes: 3, Suspicions: 1, EagerTimers: true},
		// p3 has accepted what p0 proposed, {0 1 2 3}; 1 and 2 open {1 2}. They accept a proposal to
		// add 3, too, and all but 3 crash: what 0 recorded is the only record of a view 2.
		steps: `begin 3; act 3; hear 0 3; act 0; hear 3 0; act 3; suspect 1 0; act 1; settle 1 2
			time; act 3; hear 1 3; act 1; hear 2 1; act 2
			crash 0; crash 1; crash 2; lose 1 3; tell 3 0; tell 3 1; tell 3 2; act 3`,
	},
}

// director makes a run follow a script.
type director struct {
	*memberWorld
	t      *testing.T
	strict bool // the step must be possible
}

// direct makes the run of a schedule and returns what it violates.
func direct(t *testing.T, d directed, cfg memberConfig) ([]string, error) {
	w := newWorld(&cfg)
	w.script = &script[memberMessage]{}
	w.choices.fromScript([]uint64{free})
	if err := w.reset(); err != nil {
		t.Fatal(err)
	}
	dir := director{memberWorld: w, t: t}
	dir.all(func(e event) bool { return e.kind() == next })
	for _, step := range strings.FieldsFunc(d.steps, func(r rune) bool { return r == ';' || r == '\n' }) {
		words := strings.Fields(step)
		if len(words) == 0 {
			continue
		}
		// With a mistake planted, the run may take another course.
		dir.strict = os.Getenv(plant.Variable) == "" && !strings.HasSuffix(step, "?")
		dir.do(words)
		if w.verdict != nil {
			return w.script.lines, w.verdict
		}
	}
	if err := w.run(); err != nil {
		return w.script.lines, err
	}
	for _, r := range d.open {
		if s := w.State(r); !s.Open() || s.Hopeless() {
			return w.script.lines, fmt.Errorf("%w: p%d, at %v", errStuck, r, w.State(r).View())
		}
	}
	return w.script.lines, nil
}

// do makes one step. A step that ends with a question mark need not be possible.
func (d director) do(words []string) {
	var ranks []int
	for _, word := range words[1:] {
		n, err := strconv.Atoi(strings.TrimSuffix(word, "?"))
		if err != nil {
			d.t.Fatalf("%v: %v", words, err)
		}
		ranks = append(ranks, n)
	}
	at := func(i int) int { return append(ranks, 0, 0)[i] }
	switch words[0] {
	case "act": // until it rests
		d.all(func(e event) bool { return e.at() == at(0) && (e.kind() == next || e.kind() == workDone) })
	case "next": // as often as the second number says
		for range at(1) {
			d.take(happening(next, at(0), 0))
		}
	case "hear":
		d.take(happening(receive, at(0), at(1)))
	case "lose": // messages from a crashed process
		ch := &d.channels[at(0)*d.p+at(1)]
		if ch.len() > 0 {
			ch.clear()
			d.drop(happening(receive, at(1), at(0)))
		}
	case "tell":
		d.take(happening(death, at(0), at(1)))
	case "suspect":
		d.take(happening(suspicion, at(0), at(1)))
	case "suspected": // because of a cut
		d.take(happening(suspect, at(0), at(1)))
	case "begin":
		d.take(happening(input, at(0), 0))
	case "crash":
		d.take(happening(crash, at(0), 0))
	case "heal":
		d.take(happening(heal, 0, 0))
	case "time":
		d.take(happening(pass, 0, 0))
	case "cut":
		mask := uint64(0)
		for _, r := range ranks {
			mask |= 1 << r
		}
		d.take(happening(cut, 0, 0), mask-1)
	case "settle": // everything due at these processes and from them
		d.all(func(e event) bool {
			from := e.kind() == receive || e.kind() == death || e.kind() == suspect
			return slices.Contains(ranks, e.at()) && (!from || slices.Contains(ranks, e.from()))
		})
	default:
		d.t.Fatalf("no such step: %v", words)
	}
}

// all takes the oldest event that is due and fits, until none does.
func (d director) all(fits func(event) bool) {
	for range 10_000 {
		menu, due := d.menu(nil)
		i := slices.IndexFunc(menu[:due], fits)
		if i < 0 || d.verdict != nil {
			return
		}
		d.take(menu[i])
	}
	d.t.Fatal("does not settle")
}

// take makes e happen, if it can, with the choices it needs.
func (d director) take(e event, choices ...uint64) {
	menu, _ := d.menu(nil)
	i := slices.Index(menu, e)
	if d.strict && i < 0 {
		d.t.Fatalf("kind %d at p%d from p%d cannot happen after\n%s", e.kind(), e.at(), e.from(), strings.Join(d.script.lines, "\n"))
	}
	if i < 0 || d.verdict != nil {
		return
	}
	if len(menu) > 1 {
		d.choices.script = append(d.choices.script, uint64(i))
	}
	d.choices.script = append(d.choices.script, choices...)
	d.advance()
}

func TestSchedulesThatBrokeDraftsOfTheViewRule(t *testing.T) {
	for _, d := range schedules {
		t.Run(d.name, func(t *testing.T) {
			cfg, err := d.world.Config()
			if err != nil {
				t.Fatal(err)
			}
			lines, err := direct(t, d, cfg)
			if err != nil {
				t.Errorf("%s\n=> %v", strings.Join(lines, "\n"), err)
			} else if testing.Verbose() {
				t.Log("\n" + strings.Join(lines, "\n"))
			}
		})
	}
}
