package replay_test

import "github.com/coppice-go/coppice/internal/plant"

// Mistakes at the end of a job whose coordinator is part of a process.

// The errors that reveal them.
const (
	unaware  = "a process leaves, and one that lives does not know that the job is over"
	otherEnd = "the job has ended twice, and not with the same"
	badly    = "a process knows that all know that the job is over, and ends with an error"
)

// endingMistakes are the mistakes in package ending.
func endingMistakes(test func(where string) string) []plant.Mistake {
	return []plant.Mistake{
		{
			Name: "they are let go before all know", File: "ending.go",
			Old:  `		case j.inside == 0 || j.until > 0 && now >= j.until:`,
			New:  `		case j.inside == 0 || j.until > 0 && now >= j.until || wrong("they are let go before all know"):`,
			Test: test("three inside"), By: []string{unaware},
		},
		{
			Name: "who joins need not know", File: "ending.go",
			Old:  `		if l.joined && !l.dead`,
			New:  `		if l.joined && !wrong("who joins need not know") && !l.dead`,
			Test: test("three and joiners inside"), By: []string{unaware, otherEnd},
		},
		{
			Name: "the next coordinator does not learn that the job is over", File: "ending.go",
			Old: `func (j *Job) Learn(view uint64) { j.over = max(j.over, view) }`,
			New: `func (j *Job) Learn(view uint64) {
	if !wrong("the next coordinator does not learn that the job is over") {
		j.over = max(j.over, view)
	}
}`,
			Test: test("four inside that save"),
		},
		{
			Name: "who knows takes it that all do", File: "ending.go",
			Old:  `	if !p.sure {`,
			New:  `	if !p.sure && !wrong("who knows takes it that all do") {`,
			Test: test("four inside of whom one has the task"), By: []string{otherEnd},
		},
		{
			Name: "a process forgets that the job is over", File: "ending.go",
			Old: `	p.over, p.sure = max(p.over, view), p.sure || known`,
			New: `	if !wrong("a process forgets that the job is over") {
		p.over, p.sure = max(p.over, view), p.sure || known
	}`,
			Test: test("three inside"),
		},
	}
}

// insideMistakes are the mistakes in the processes.
var insideMistakes = []mistake{
	{
		name: "the next coordinator is not told that the job is over", file: "inside.go",
		old:   `over > 0 && e.told < s.view.Number {`,
		new:   `over > 0 && e.told < s.view.Number && (e.told == 0 || !wrong("the next coordinator is not told that the job is over")) {`,
		found: "four inside that save",
	},
	{
		name: "the next coordinator is not told what has returned", file: "process.go",
		old:   `	if s.told < s.view.Number && s.returned() {`,
		new:   `	if s.told < s.view.Number && s.returned() && (s.told == 0 || !wrong("the next coordinator is not told what has returned")) {`,
		found: "three inside", by: noEnd,
	},
	{
		name: "who joins is let in before it is told that the job is over", file: "inside.go",
		old:   `	if e.process.Over() == 0 || e.job.Aware(who) {`,
		new:   `	if e.process.Over() == 0 || e.job.Aware(who) || wrong("who joins is let in before it is told that the job is over") {`,
		found: "two that come back inside", by: otherEnd,
	},
	{
		name: "without a quorum a process fails, though the job is over", file: "process.go",
		old: `		if s.inside.end = s.inside.process.Sure(); s.inside.end > 0 {`,
		new: `		if s.inside.end = s.inside.process.Sure(); wrong("without a quorum a process fails, though the job is over") {
			s.inside.end = 0
		}
		if s.inside.end > 0 {`,
		found: "four inside, suspected and cut", by: badly,
	},
}
