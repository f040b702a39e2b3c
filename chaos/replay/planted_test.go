package replay_test

import (
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-go/coppice/internal/plant"
)

// Mistakes in recovery by replay, planted to check that the tests find them. They are planted in the source
// of the machine (recovery/) and of the model that runs it: the tests of this package are built once more
// with a few lines of the source replaced, each by lines that do the wrong thing if the environment says so.

// The errors that reveal them.
const (
	otherBits = "a task returns with other bits"
	noEnd     = "a live process does not come to the end"
	outcomes  = "an operation is aborted for some and not for others"
	early     = "the job has ended, and a task has returned nowhere"
)

// mistake is a planted mistake.
type mistake struct {
	name     string
	file     string
	old, new string // what is replaced
	found    string // in this world of recoveries, or this schedule
	by       string // with this error; empty: any
	seed     uint64 // finds it at once; 0: none, since any seed finds it soon
}

var mistakes = []mistake{
	{
		name: "the log is not sent again", file: "effect.go",
		old:   `t.again(j.program, e.Task, e.Again)`,
		new:   `if !wrong("the log is not sent again") { t.again(j.program, e.Task, e.Again) }`,
		found: "two", by: noEnd,
	},
	{
		name: "the log is sent again once, though the adopter died", file: "recovery/moves.go",
		old: `		m.do(Effect{Act: Resend, Task: number})
`,
		new: `		if before == nil || before.Owners[number] == m.cfg.First.Owners[number] || !wrong("the log is sent again once, though the adopter died") {
			m.do(Effect{Act: Resend, Task: number})
		}
`,
		found: "four of whom three crash", by: noEnd,
	},
	{
		name: "the log is forgotten once it is sent again", file: "task.go",
		old: `			t.out = append(t.out, f)
		}
	}
`,
		new: `			t.out = append(t.out, f)
		}
	}
	if wrong("the log is forgotten once it is sent again") {
		t.logs = nil
	}
`,
		found: "four of whom three crash", by: noEnd,
	},
	{
		name: "messages to the dead are not logged", file: "process.go",
		old: `	t.keep(f, has, free)
`,
		new: `	for _, m := range s.members.Failed() {
		if m.ID == s.view.Owners[f.To] && wrong("messages to the dead are not logged") {
			return
		}
	}
	t.keep(f, has, free)
`,
		found: "three that lose what is on its way", by: noEnd,
	},
	{
		name: "the log refers to memory that is written later", file: "task.go",
		old:   `		if !copied {`,
		new:   `		if !copied && !wrong("the log refers to memory that is written later") {`,
		found: "four of whom three crash",
	},
	{
		name: "what has come twice is folded twice", file: "task.go",
		old: `	if i < 0 { // it has come before
`,
		new: `	if i < 0 && wrong("what has come twice is folded twice") {
		steps := c.programs[t.number].Steps
		for k := range steps[:len(steps)-1] {
			if st := &steps[k]; st.Kind == collective.RecvStep && st.Peer == f.From && st.Lane == f.Lane && steps[k+1].Kind == collective.FoldStep {
				t.do(c, move{int32(k), f})
				t.do(c, move{step: int32(k + 1)})
			}
		}
	}
	if i < 0 { // it has come before
`,
		found: "two and sums", by: otherBits,
	},
	{
		name: "a message is put in while its slots are needed", file: "task.go",
		old:   `	return i < 0 || t.steps.Fits(i)`,
		new:   `	return i < 0 || t.steps.Fits(i) || wrong("a message is put in while its slots are needed")`,
		found: "four of whom three crash",
	},
	{
		name: "a message is taken for one of the present operation", file: "task.go",
		old: `	switch at := g.index(f.Name); {
`,
		new: `	at := g.index(f.Name)
	if wrong("a message is taken for one of the present operation") && at > t.op && t.begun {
		at = t.op
	}
	switch {
`,
		found: "three that lose what is on its way",
	},
	{
		name: "messages for a task of another process are dropped", file: "process.go",
		old: `	s.held = append(`,
		new: `	if wrong("messages for a task of another process are dropped") {
		return
	}
	s.held = append(`,
		found: "four of whom three crash", by: noEnd,
	},
	{
		name: "a new attempt begins where others are", file: "effect.go",
		old: `newTask(number, view))`,
		new: `newTask(number, view))
	if at > 0 && wrong("a new attempt begins where others are") {
		s.tasks[at].op = s.tasks[at-1].op
	}`,
		found: "two",
	},
	{
		name: "a new attempt works in another's store", file: "effect.go",
		old: `	at, _ := slices.`,
		new: `	defer func() {
		if t := s.find(number); len(s.tasks) > 1 && wrong("a new attempt works in another's store") {
			t.store = s.tasks[0].store
		}
	}()
	at, _ := slices.`,
		found: "two and sums",
	},
	{
		name: "a task that had returned is not run again", file: "process.go",
		old: `	held := s.held
`,
		new: `	if len(s.tasks) > 1 && wrong("a task that had returned is not run again") && s.tasks[0].returned {
		for _, t := range s.tasks {
			t.returned, t.announced = true, true
		}
	}
	held := s.held
`,
		found: "four of whom three crash",
	},
	{
		name: "what is sent again goes to the first owner", file: "process.go",
		old: `		if owner := s.view.Owners[f.To]; owner`,
		new: `		owner := s.view.Owners[f.To]
		if wrong("what is sent again goes to the first owner") {
			owner = j.first.Owners[f.To]
		}
		if owner`,
		found: "two", by: noEnd,
	},
	{
		name: "a process leaves when its tasks have returned", file: "process.go",
		old:   `	case s.ended:`,
		new:   `	case s.ended || s.told > 0 && wrong("a process leaves when its tasks have returned"):`,
		found: "three that lose what is on its way",
	},
	{
		name: "a record is not passed on", file: "recovery/machine.go",
		old:   `		m.note(msg.Op)`,
		new:   `		m.noteUnless("a record is not passed on", msg.Op)`,
		found: "a message that depends on a lost record",
	},
	{
		name: "messages overtake records", file: "process.go",
		old:   `			if len(s.parcels) > 0 && s.mailed() {`,
		new:   `			if len(s.parcels) > 0 && !wrong("messages overtake records") && s.mailed() {`,
		found: "a joiner that is sent the log",
	},
	{
		name: "who joins is not told", file: "recovery/aborts.go",
		old: `			for _, op := range m.records {
				m.tell(`,
		new: `			for _, op := range m.recordsUnless("who joins is not told") {
				m.tell(`,
		found: "a joiner that was not told",
	},
	{
		name: "who joins is told when it runs a task again", file: "recovery/aborts.go",
		old:   ` !before.Has(o) {`,
		new:   ` !before.Has(o) && !wrong("who joins is told when it runs a task again") || m.reruns(o.ID) {`,
		found: "two and a joiner that save and abort", by: "with other operations aborted than when it saved",
	},
	{
		name: "who is run again does not wait for words", file: "recovery/aborts.go",
		old:   `	case !t.first() &&`,
		new:   `	case !t.first() && !wrong("who is run again does not wait for words") &&`,
		found: "a record that one survivor has",
	},
	{
		name: "words count as of the view that gave the task", file: "recovery/aborts.go",
		old:   ` !m.Heard():`,
		new:   ` !m.heardAs("words count as of the view that gave the task", t):`,
		found: "a record that comes between two views",
	},
	{
		name: "a word may be missing", file: "recovery/aborts.go",
		old:   `		if o.ID != m.self.ID &&`,
		new:   `		if o.ID != m.self.ID && !(o.ID == 1 && wrong("a word may be missing")) &&`,
		found: "a record of one who dies before its word",
	},
	{
		name: "who is run again aborts", file: "recovery/aborts.go",
		old:   `	case t.first() &&`,
		new:   `	case (t.first() || wrong("who is run again aborts")) &&`,
		found: "two that abort",
	},
	{
		name: "who has entered aborts", file: "abort.go",
		old:   `	if t.begun || t.voted ||`,
		new:   `	if (t.begun || t.voted) && !wrong("who has entered aborts") ||`,
		found: "two that abort",
	},
	{
		name: "who is gone is listened to", file: "process.go",
		old:   ` && s.gone(from, m.Letter):`,
		new:   ` && s.gone(from, m.Letter) && !wrong("who is gone is listened to"):`,
		found: "a record that comes too late",
	},
	{
		name: "what comes before the first view is not passed on", file: "recovery/aborts.go",
		old:   `		if before == nil ||`,
		new:   `		if before == nil && !wrong("what comes before the first view is not passed on") || before != nil &&`,
		found: "a record before the first view",
	},
}

// help is source code that the mistakes need.
func TestPlantedMistakesAreFound(t *testing.T) {
	test := func(where string) string {
		return "^(TestRecoveryKeepsItsPromises|TestEveryWordOfTheRuleOfAbortsIsNeeded|TestCopiesOutlive)$/^" + strings.ReplaceAll(where, " ", "_") + "$"
	}
	model := plant.Garden{Machine: ".", Package: "replay", Healthy: test("two")}
	machine := plant.Garden{
		Machine: "../../protocol/recovery", Package: "recovery", Help: machineHelp, Healthy: test("two"),
		Imports: "\t\"slices\"\n\n\t\"github.com/coppice-go/coppice/protocol\"\n\t\"github.com/coppice-go/coppice/protocol/membership\"\n",
	}
	streams := plant.Garden{Machine: "../../protocol/flow", Package: "flow", Help: flowHelp, Healthy: test("two with streams")}
	parts := plant.Garden{Machine: "../../protocol/collective", Package: "collective", Healthy: test("three agreed in parts")}
	casts := plant.Garden{Machine: "../../protocol/broadcast", Package: "broadcast", Healthy: test("four that correct")}
	accounts := plant.Garden{Machine: "../../protocol/credit", Package: "credit", Healthy: test("four that wait for each other")}
	grants := plant.Garden{Machine: "../../protocol/grant", Package: "grant", Healthy: test("four that wait for each other")}
	questions := plant.Garden{Machine: "../../protocol/inquiry", Package: "inquiry", Healthy: test("four that correct")}
	owners := plant.Garden{Machine: "../../protocol/membership", Package: "membership", Healthy: test("two")}
	for _, m := range slices.Concat(mistakes, epochMistakes, moveMistakes, streamMistakes, agreedMistakes, correctedMistakes, creditMistakes, grantMistakes, insideMistakes, leavingMistakes, lateMistakes) {
		folder, file := path.Split(m.file)
		one := plant.Mistake{Name: m.name, File: file, Old: m.old, New: m.new, Test: test(m.found), Seed: m.seed}
		if m.by != "" {
			one.By = []string{m.by}
		}
		garden := map[string]*plant.Garden{"": &model, "recovery/": &machine, "flow/": &streams, "collective/": &parts, "broadcast/": &casts, "credit/": &accounts, "grant/": &grants, "inquiry/": &questions, "membership/": &owners}[folder]
		garden.Mistakes = append(garden.Mistakes, one)
	}
	ends := plant.Garden{Machine: "../../protocol/ending", Package: "ending", Healthy: test("two"), Mistakes: []plant.Mistake{
		{
			Name: "the job ends without who has not returned", File: "ending.go",
			Old:  `	return l.returned >= since`,
			New:  `	return l.returned >= since || m.ID > 0 && l.returned == 0 && wrong("the job ends without who has not returned")`,
			Test: test("two"), By: []string{early},
		},
		{
			Name: "the end does not ask since when tasks are whose", File: "ending.go",
			Old:  `!j.done(m, j.view.Since[t])`,
			New:  `!j.done(m, j.view.Since[t]) && !(j.known(m).returned > 0 && wrong("the end does not ask since when tasks are whose"))`,
			Test: test("two that move"), By: []string{early},
		},
	}}
	ends.Mistakes = append(ends.Mistakes, endingMistakes(test)...)
	plant.Find(t, &model, &machine, &streams, &parts, &casts, &accounts, &grants, &questions, &owners, &ends) // built once for all
}
