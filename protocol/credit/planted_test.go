package credit

import (
	"testing"

	"github.com/coppice-go/coppice/internal/plant"
)

// TestMistakesAreFound plants mistakes in the machine; a run of every schedule must find them.
func TestMistakesAreFound(t *testing.T) {
	const (
		hang   = "waits for ever"
		bound  = "messages wait at the receiver"
		memory = "which is still to be sent"
		grant  = "bytes go without a grant"
	)
	in := func(scene string) string { return "^TestEverySchedule$/^" + scene + "$" }
	(&plant.Garden{Machine: ".", Package: "credit", Healthy: in("both_send"), Mistakes: []plant.Mistake{
		{
			Name: "who is run again is told only when it is heard", File: "credit.go",
			Old: `	a.settle(r, was)
	a.makeDue(to)`,
			New: `	a.settle(r, was)
	if !wrong("who is run again is told only when it is heard") { a.makeDue(to) }`,
			Test: in("run_again,_one_sends"), By: []string{hang},
		},
		{
			Name: "what is sent again is in the order of the log", File: "credit.go",
			Old:  `n.messages[at-1].Sequence() > m.Sequence() {`,
			New:  `n.messages[at-1].Sequence() > m.Sequence() && !wrong("what is sent again is in the order of the log") {`,
			Test: in("run_again,_one_sends"), By: []string{hang},
		},
		{
			Name: "what is sent again does not wait", File: "credit.go",
			Old:  ` || n.sent > a.ranks[to].done+a.Operations {`,
			New:  ` || n.sent > a.ranks[to].done+a.Operations && !wrong("what is sent again does not wait") {`,
			Test: in("run_again,_a_long_log"), By: []string{bound},
		},
		{
			Name: "who is run again where it was has completed nothing since", File: "credit.go",
			Old:  `	if again {`,
			New:  `	if again && !wrong("who is run again where it was has completed nothing since") {`,
			Test: in("run_again_where_it_was,_another_elsewhere"), By: []string{hang},
		},
		{
			Name: "who has returned has all that was sent to it", File: "credit.go",
			Old:  `	r.gone = true`,
			New:  `	r.gone = true; if wrong("who has returned has all that was sent to it") { r.done = never }`,
			Test: in("returns"), By: []string{memory},
		},
		{
			Name: "who has given up has all that was sent to it", File: "credit.go",
			Old:  `&& !a.ranks[to].loose`,
			New:  `&& (!a.ranks[to].loose || wrong("who has given up has all that was sent to it"))`,
			Test: in("giving_up"), By: []string{memory},
		},
		{
			Name: "what is passed on is a reason to wait", File: "credit.go",
			Old:  `a.late(r) && seq >= r.done+a.Operations {`,
			New:  `a.late(r) && (seq >= r.done+a.Operations || wrong("what is passed on is a reason to wait")) {`,
			Test: in("crossed"), By: []string{hang},
		},
		{
			Name: "who has sent much more is not due", File: "credit.go",
			Old:  `	r.due = r.asked || r.heard >= a.completed+a.step()`,
			New:  `	r.due = r.asked || r.heard >= a.completed+a.step() && !wrong("who has sent much more is not due")`,
			Test: in("chain"), By: []string{hang},
		},
		{
			Name: "a task tells too rarely how far it is", File: "credit.go",
			Old:  `	return a.completed >= r.told+a.step() ||`,
			New:  `	return a.completed >= r.told+a.step() && !(a.completed < r.told+2*a.Operations && wrong("a task tells too rarely how far it is")) ||`,
			Test: in("one_sends"), By: []string{hang},
		},
		{
			Name: "a task waits one operation too late", File: "credit.go",
			Old:  `r.sent > r.done+a.Operations }`,
			New:  `r.sent > r.done+a.Operations && !(r.sent == r.done+a.Operations+1 && wrong("a task waits one operation too late")) }`,
			Test: in("one_sends"), By: []string{bound},
		},
		{
			Name: "one that is dead is waited for", File: "credit.go",
			Old:  `return !r.gone &&`,
			New:  `return (!r.gone || wrong("one that is dead is waited for")) &&`,
			Test: in("returns"), By: []string{hang},
		},
		{
			Name: "bytes are not counted", File: "credit.go",
			Old:  `	r.sentBytes += bytes`,
			New:  `	if !wrong("bytes are not counted") { r.sentBytes += bytes }`,
			Test: in("much_is_sent"), By: []string{grant},
		},
	}}).Find(t)
}
