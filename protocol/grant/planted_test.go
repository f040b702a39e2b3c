package grant

import (
	"testing"

	"github.com/coppice-go/coppice/internal/plant"
)

// TestMistakesAreFound plants mistakes in the machine; a run of every schedule must find them.
func TestMistakesAreFound(t *testing.T) {
	const (
		hang  = "waits for ever"
		early = "come early"
		count = "count as early"
		write = "after it was complete"
		holds = "holds"
	)
	in := func(scene string) string { return "^TestEverySchedule$/^" + scene + "$" }
	(&plant.Garden{Machine: ".", Package: "grant", Healthy: in("a_death"), Mistakes: []plant.Mistake{
		{
			Name: "what there is no room for is never wanted", File: "grant.go",
			Old: `r.used+size > r.Max {
`,
			New: `r.used+size > r.Max {
		if wrong("what there is no room for is never wanted") { in.state = granted }
`,
			Test: in("nothing"), By: []string{hang},
		},
		{
			Name: "room is not counted", File: "grant.go",
			Old:  `	r.used += size`,
			New:  `	if !wrong("room is not counted") { r.used += size } else { in.early = 0 }`,
			Test: in("nothing"), By: []string{early, count},
		},
		{
			Name: "one value too many comes early", File: "grant.go",
			Old:  `r.used+size > r.Max {`,
			New:  `r.used+size > r.Max && !(r.used == r.Max && wrong("one value too many comes early")) {`,
			Test: in("nothing"), By: []string{early},
		},
		{
			Name: "who does without tells nobody", File: "grant.go",
			Old: `		in.state = refused
		return true`,
			New: `		in.state = refused
		return !wrong("who does without tells nobody")`,
			Test: in("giving_up"), By: []string{holds},
		},
		{
			Name: "what is done without still has a place", File: "grant.go",
			Old:  `		in.state = void`,
			New:  `		if !wrong("what is done without still has a place") { in.state = void }`,
			Test: in("run_again"), By: []string{write},
		},
		{
			Name: "what is done without is complete when it is here", File: "grant.go",
			Old:  `	if in.state != void {`,
			New:  `	if in.state != void || wrong("what is done without is complete when it is here") {`,
			Test: in("run_again"), By: []string{"went nowhere"},
		},
		{
			Name: "what is done without uses room", File: "grant.go",
			Old:  `	in.Free(r)`,
			New:  `	if !wrong("what is done without uses room") { in.Free(r) }`,
			Test: in("giving_up"), By: []string{count},
		},
		{
			Name: "what is freed twice is counted twice", File: "grant.go",
			Old:  `	in.early = 0`,
			New:  `	if !wrong("what is freed twice is counted twice") { in.early = 0 }`,
			Test: in("giving_up"), By: []string{count},
		},
		{
			Name: "copies have the same number", File: "grant.go",
			Old:  `	return o.last`,
			New:  `	if wrong("copies have the same number") { o.last = 0; return 1 }; return o.last`,
			Test: in("nothing"), By: []string{hang, holds, write},
		},
		{
			Name: "what was answered waits", File: "grant.go",
			Old:  `	delete(o.waits, number)`,
			New:  `	if !wrong("what was answered waits") { delete(o.waits, number) }`,
			Test: in("a_death"), By: []string{holds},
		},
	}}).Find(t)
}
