package flow

import (
	"testing"

	"github.com/coppice-go/coppice/internal/plant"
)

// TestMistakesAreFound plants mistakes in the machine; a run of every schedule must find them.
func TestMistakesAreFound(t *testing.T) {
	const (
		test   = "^TestEverySchedule$"
		hang   = "waits for ever"
		window = "messages wait at the receiver"
	)
	(&plant.Garden{Machine: ".", Package: "flow", Healthy: test, Mistakes: []plant.Mistake{
		{
			Name: "another copy of a message is dropped", File: "stream.go",
			Old:  `	case slices.Contains(i.begun, number):`,
			New:  `	case slices.Contains(i.begun, number) && !wrong("another copy of a message is dropped"):`,
			Test: test, By: []string{hang},
		},
		{
			Name: "a receiver that is run again has what the one before has taken", File: "stream.go",
			Old:  `		o.consumed = 0`,
			New:  `		if !wrong("a receiver that is run again has what the one before has taken") { o.consumed = 0 }`,
			Test: test, By: []string{hang},
		},
		{
			Name: "a receiver that is run again where it was has taken nothing since", File: "stream.go",
			Old:  `; !again {`,
			New:  `; !again || wrong("a receiver that is run again where it was has taken nothing since") {`,
			Test: "^TestEveryScheduleAfterTheEnd$", By: []string{hang},
		},
		{
			Name: "a receiver that is run again gets only what is new", File: "stream.go",
			Old:  `	if o.next = o.last - uint64(held)`,
			New:  `	if wrong("a receiver that is run again gets only what is new") { held = 0 }; if o.next = o.last - uint64(held)`,
			Test: test, By: []string{hang},
		},
		{
			Name: "a sender that is run again does not believe that more was taken than it has sent", File: "stream.go",
			Old:  `	if again {`,
			New:  `	if again && !wrong("a sender that is run again does not believe that more was taken than it has sent") {`,
			Test: test, By: []string{hang},
		},
		{
			Name: "what is held goes one message too early", File: "stream.go",
			Old:  `	if o.next == o.last || o.next+1 > o.consumed+window {`,
			New:  `	if o.next == o.last || o.next+1 > o.consumed+window && !(o.next == o.consumed+window && wrong("what is held goes one message too early")) {`,
			Test: test, By: []string{window},
		},
		{
			Name: "the receiver tells too rarely how far it is", File: "stream.go",
			Old:  `	return i.taken-i.told >= window/2`,
			New:  `	return i.taken-i.told >= window/2 && !(i.taken-i.told < 2*window && wrong("the receiver tells too rarely how far it is"))`,
			Test: test, By: []string{hang},
		},
		{
			Name: "a message counts as soon as its beginning is here", File: "stream.go",
			Old:  `		i.begun = append(i.begun, number)`,
			New:  `		if !wrong("a message counts as soon as its beginning is here") { i.begun = append(i.begun, number) }`,
			Test: test, By: []string{hang},
		},
	}}).Find(t)
}
