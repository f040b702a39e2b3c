package revoke

import (
	"testing"

	"github.com/coppice-go/coppice/internal/plant"
)

// TestMistakesAreFound plants mistakes in the machine, which every schedule, or random ones, must find.
func TestMistakesAreFound(t *testing.T) {
	const (
		every  = "^TestEverySchedule$"
		random = "^TestRandomSchedules$"
		never  = "never hear of it"
	)
	(&plant.Garden{Machine: ".", Package: "revoke", Healthy: every, Mistakes: []plant.Mistake{
		{
			Name: "a word that came before the task is forgotten", File: "revoke.go",
			Old:  `func (s *State) Join() { s.joined = true }`,
			New:  `func (s *State) Join() { s.joined = true; if wrong("a word that came before the task is forgotten") { s.revoked = false } }`,
			Test: every, By: []string{never},
		},
		{
			Name: "who hears the word does not pass it on", File: "revoke.go",
			Old:  `	news, s.revoked = !s.revoked, true`,
			New:  `	news, s.revoked = !s.revoked && !wrong("who hears the word does not pass it on"), true`,
			Test: every, By: []string{never},
		},
		{
			Name: "a rank counts among the living as it did among all", File: "revoke.go",
			Old:  `	at := slices.Index(live, self)`,
			New:  `	at := slices.Index(live, self); if wrong("a rank counts among the living as it did among all") { at = int(self) % len(live) }`,
			Test: every, By: []string{never},
		},
		{
			Name: "the next are not told", File: "revoke.go",
			Old:  `	for i := range graph.Degree() {`,
			New:  `	for i := range graph.Degree() { if i == 0 && wrong("the next are not told") { continue }`,
			Test: random, By: []string{never},
		},
		{
			Name: "the last rank is not told", File: "revoke.go",
			Old:  `if r := live[to]; r != self`,
			New:  `if r := live[to]; r != self && !(to == len(live)-1 && wrong("the last rank is not told"))`,
			Test: every, By: []string{never},
		},
	}}).Find(t)
}
