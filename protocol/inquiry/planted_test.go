package inquiry

import (
	"testing"

	"github.com/coppice-go/coppice/internal/plant"
)

// TestMistakesAreFound plants mistakes in the machine; a run of every schedule must find them.
func TestMistakesAreFound(t *testing.T) {
	const (
		hang   = "waits for ever"
		untrue = "that nobody has the value"
		handed = "corrections of"
	)
	in := func(scene string) string { return "^TestEverySchedule$/^" + scene + "$" }
	(&plant.Garden{Machine: ".", Package: "inquiry", Healthy: in("three_tasks"), Mistakes: []plant.Mistake{
		{
			Name: "nobody is asked again when another one dies", File: "inquiry.go",
			Old:  `!r.dead && r.answered < len(s.dead) {`,
			New:  `!r.dead && r.answered < len(s.dead) && !(r.answered > 0 && wrong("nobody is asked again when another one dies")) {`,
			Test: in("four_tasks"), By: []string{untrue},
		},
		{
			Name: "who does not know of the death answers", File: "inquiry.go",
			Old:  `	case a.Dead, `,
			New:  `	case a.Dead || wrong("who does not know of the death answers"), `,
			Test: in("three_tasks"), By: []string{untrue},
		},
		{
			Name: "a question to the root names a death", File: "inquiry.go",
			Old:  `		return s.root, Nobody, ok`,
			New:  `		if wrong("a question to the root names a death") { return s.root, s.dead[0], ok }; return s.root, Nobody, ok`,
			Test: in("three_tasks"), By: []string{hang, untrue},
		},
		{
			Name: "one answer is enough", File: "inquiry.go",
			Old:  `		r.answered++`,
			New:  `		r.answered++; for i := range s.ranks { if wrong("one answer is enough") { s.ranks[i].answered = r.answered } }`,
			Test: in("four_tasks"), By: []string{untrue},
		},
		{
			Name: "only the root is asked", File: "inquiry.go",
			Old:  `	case !s.ranks[s.root].dead:`,
			New:  `	case !s.ranks[s.root].dead || s.rootAsked && wrong("only the root is asked"):`,
			Test: in("four_tasks"), By: []string{hang},
		},
		{
			Name: "who has promised the value is not asked", File: "promises.go",
			Old:  `	for p.Asked < len(p.All) {`,
			New:  `	for p.Asked < len(p.All) && !wrong("who has promised the value is not asked") {`,
			Test: in("promises_and_a_restart"), By: []string{hang},
		},
		{
			Name: "who has promised the value and is run again is not asked again", File: "promises.go",
			Old:  `return q.From == rank })`,
			New:  `return q.From == rank && !wrong("who has promised the value and is run again is not asked again") })`,
			Test: in("promises_and_a_restart"), By: []string{hang},
		},
		{
			Name: "corrections are forgotten when one is asked about", File: "promises.go",
			Old: `		if !yield(p.All[p.Asked-1].From) {`,
			New: `		to := p.All[p.Asked-1].From
		if wrong("corrections are forgotten when one is asked about") { p.All, p.Asked = p.All[p.Asked:], 0 }
		if !yield(to) {`,
			Test: in("promises_and_a_death"), By: []string{handed},
		},
		{
			Name: "corrections count once more with another copy of the value", File: "promises.go",
			Old:  `	p.All, p.Asked = p.All[:0], 0`,
			New:  `	if !wrong("corrections count once more with another copy of the value") { p.All, p.Asked = p.All[:0], 0 }`,
			Test: in("promises_and_a_death"), By: []string{handed},
		},
		{
			Name: "the dead are waited for", File: "inquiry.go",
			Old:  `i != s.self && !r.dead && r.answered`,
			New:  `i != s.self && (!r.dead || i != s.root && wrong("the dead are waited for")) && r.answered`,
			Test: in("three_tasks"), By: []string{hang},
		},
	}}).Find(t)
}
