package chaos

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/coppice-go/coppice/internal/extent"
	"github.com/coppice-go/coppice/internal/plant"
)

// Mistakes that membership protocols have, planted to check that the tests find them. They are planted in the
// machine's own source: the tests of this package are built once more with a few of its lines replaced, each
// by one that does the wrong thing if the environment says so.

// mistake is a planted mistake.
type mistake struct {
	name     string
	file     string // of protocol/membership
	old, new string // the line that is replaced; wrong("name") reports whether to go wrong
	found    string // by this test: "schedule name" or "world name"
	by       error  // with this error; nil: any
}

var mistakes = []mistake{
	{
		name: "quorum without the dead", file: "quorum.go",
		old: `return t.unknown == 0 && !majorityOnly`,
		new: `if wrong("quorum without the dead") {
		t.answered += t.members - t.alive - (t.answered - t.promised)
	}
	return t.unknown == 0 && !majorityOnly`,
		found: "schedule quorum without the dead",
	},
	{
		name: "union instead of re-proposal", file: "campaign.go",
		old: `	if v == nil {
		v = p.change(s)
	}
	if v == nil { // the reason has gone`,
		new: `	if v == nil || wrong("union instead of re-proposal") && p.change(s) != nil {
		v = p.change(s)
	}
	if v == nil { // the reason has gone`,
		found: "world five of whom two are suspected",
	},
	{
		name: "reset taken as death", file: "membership.go",
		old: `p.failed(s, now, failure{who: who})
		}
	case protocol.WorkDone`,
		new: `if wrong("reset taken as death") {
				p.failed(s, now, failure{who: who, certain: true, will: &Letter{Kind: Will}})
			}
			p.failed(s, now, failure{who: who})
		}
	case protocol.WorkDone`,
		found: "world three cut in two",
	},
	{
		name: "notices without the record", file: "membership.go",
		old:   `p.willed(s, now, Member{from, m.From}, m.Letter)`,
		new:   `p.willed(s, now, Member{from, m.From}, forgotten("notices without the record", m.Letter))`,
		found: "schedule notices that carry only a number",
	},
	{
		name: "joins without the record", file: "membership.go",
		old: `case m.Kind == Will:`,
		new: `case m.Kind == Will && wrong("joins without the record"):
		p.willed(s, now, Member{from, m.From}, &Letter{Kind: Will})
		return
	case m.Kind == Will:`,
		found: "schedule joins without the record",
	},
	{
		name: "no incarnation check", file: "membership.go",
		old: `	case protocol.Death:
`,
		new: `	case protocol.Death:
		if m, in := s.view.findIn(who.ID); in && wrong("no incarnation check") {
			who = m
		}
`,
		found: "world three with a crash and a return", by: errNobody,
	},
	{
		name: "stale stable notice", file: "membership.go",
		old: `	case p.outlived(s, from, m):
`,
		new: `	case m.Kind == Stable && s.stage == inside && wrong("stale stable notice"):
		p.opened(s)
		return
	case p.outlived(s, from, m):
`,
		found: "schedule a notice that comes late", by: errAccepted,
	},
	{
		name: "two values in one ballot", file: "campaign.go",
		old: `	if again {
		c.attempt++`,
		new: `	if v := p.change(s); wrong("two values in one ballot") && again && c.phase == proposing && v != nil {
		c.value = v
	}
	if again {
		c.attempt++`,
		found: "world four cut in two with a crash",
	},
	{
		name: "view that can never open", file: "campaign.go",
		old:   `case v == nil && !s.anyFailed() && !s.open:`,
		new:   `case v == nil && !s.anyFailed() && !s.open && !wrong("view that can never open"):`,
		found: "schedule a view that another chose", by: errStuck,
	},
	{
		name: "opening before all have accepted", file: "campaign.go",
		old:   `return !s.campaign.answered.has(m.ID) && !s.dead(m) })`,
		new:   `return !s.campaign.answered.has(m.ID) && !s.dead(m) && !wrong("opening before all have accepted") })`,
		found: "world five of whom two are suspected", by: errAccepted,
	},
	{
		name: "a broken promise", file: "sweep.go",
		old:   `if l.Ballot < s.promised {`,
		new:   `if l.Ballot < s.promised && !wrong("a broken promise") {`,
		found: "world five of whom two are suspected",
	},
	{
		name: "a proposal sent before it is recorded", file: "campaign.go",
		old: `p.propose(s, now, c.ballot, v)
	return true`,
		new: `if wrong("a proposal sent before it is recorded") {
		b, attempt := c.ballot, c.attempt+1
		s.campaign = campaign{phase: proposing, ballot: b, value: v, attempt: attempt,
			answered: set(nil).with([]protocol.Rank{s.self.ID}, nil), began: now}
		p.ask(s, now, false)
		p.accept(s, b, s.view, v)
		return true
	}
	p.propose(s, now, c.ballot, v)
	return true`,
		found: "schedule a proposal sent before it is recorded",
	},
	{
		name: "excluded and silent", file: "membership.go",
		old: `case s.stage == excluded:
		if m.Kind != Decided {`,
		new: `case s.stage == excluded:
		if m.Kind != Decided && !wrong("excluded and silent") {`,
		found: "schedule excluded and silent",
	},
	{
		name: "nobody left", file: "failure.go",
		old: `	if s.stage == inside && will.Value.Number == s.view.Number+1 {`,
		new: `	if wrong("nobody left") && s.stage == inside && will.Value.Number > s.view.Number {
		p.learn(s, now, will.Value.Without(func(m Member) bool { return m == s.self }, false), false)
		return
	}
	if s.stage == inside && will.Value.Number == s.view.Number+1 {`,
		found: "schedule nobody left",
	},
	{
		name: "a joiner of a view that was not chosen", file: "join.go",
		old: `case w.Value == nil || w.Value.Number <= base.Number:`,
		new: `case w.Value == nil || w.Value.Number != base.Number+1 && wrong("a joiner of a view that was not chosen"):
		case w.Value.Number <= base.Number:`,
		found: "schedule a joiner of a view that was not chosen", by: ErrClaims,
	},
}

// membershipHelp is source code that the mistakes need.
const membershipHelp = `
func (v *View) findIn(id protocol.Rank) (Member, bool) {
	if v == nil {
		return Member{}, false
	}
	return v.Find(id)
}

func forgotten(name string, l *Letter) *Letter {
	if wrong(name) {
		return &Letter{Kind: Will}
	}
	return l
}
`

// worlds are the worlds in which the tests look for mistakes.
var worlds = []struct {
	name  string
	world Membership
	runs  int
}{
	{"three cut in two", Membership{P: 3, Cuts: 1}, 20_000},
	{"three with a crash and a return", Membership{P: 3, Crashes: 1, Restarts: 1}, 60_000},
	{"six of whom three crash", Membership{P: 6, Crashes: 3}, 20_000},
	{"three and a joiner with a crash", Membership{P: 3, Joiners: 1, Crashes: 1}, 20_000},
	{"four of whom two crash", Membership{P: 4, Crashes: 2}, 20_000},
	{"four cut in two with a crash", Membership{P: 4, Cuts: 1, Crashes: 1}, 60_000},
	{"five of whom two are suspected", Membership{P: 5, Suspicions: 2, Crashes: 1}, 60_000},
	{"three and two joiners cut and suspected twice", Membership{P: 3, Joiners: 2, Crashes: 3, Suspicions: 2, Cuts: 2}, 100_000},
}

// orFewer returns the number of runs to make: few where no mistake is planted, since CI runs many more with
// the command.
func orFewer(t *testing.T, runs int) int {
	t.Helper()
	if os.Getenv(plant.Variable) == "" {
		return extent.Of(t, runs/40, runs/12)
	}
	return runs
}

func TestMembershipKeepsItsPromises(t *testing.T) {
	for _, w := range worlds {
		t.Run(w.name, func(t *testing.T) {
			report, err := w.world.Random(1, orFewer(t, w.runs), 0)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d schedules in %.1f s", report.Schedules, report.Seconds)
		})
	}
}

// test is the test that must find m, as an argument of -test.run.
func (m *mistake) test() string {
	kind, name, _ := strings.Cut(m.found, " ")
	outer := map[string]string{"schedule": "TestSchedulesThatBrokeDraftsOfTheViewRule", "world": "TestMembershipKeepsItsPromises"}[kind]
	return fmt.Sprintf("^%s$/^%s$", outer, strings.ReplaceAll(name, " ", "_"))
}

func gardenOfMembership() *plant.Garden {
	garden := &plant.Garden{
		Machine: "../protocol/membership", Package: "membership", Help: membershipHelp,
		Imports: "\t\"github.com/coppice-go/coppice/protocol\"\n",
		Healthy: "^TestSchedulesThatBrokeDraftsOfTheViewRule$",
		Tests:   []string{"planted_membership_test.go", "directed_test.go"},
	}
	for _, m := range mistakes {
		one := plant.Mistake{Name: m.name, File: m.file, Old: m.old, New: m.new, Test: m.test()}
		if m.by != nil {
			one.By = []string{m.by.Error()}
		}
		garden.Mistakes = append(garden.Mistakes, one)
	}
	return garden
}

func TestMistakesPlantedInMachinesAreFound(t *testing.T) {
	plant.Find(t, gardenOfMembership(), gardenOfAgreement())
}
