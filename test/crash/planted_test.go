package crash_test

import (
	"testing"

	"github.com/coppice-go/coppice/internal/plant"
)

// TestMistakesOfTheExecutorAreFound plants a mistake in the code that carries messages of agreements: a
// repetition of their machines' calls (chaos/oracle) reveals it.
func TestMistakesOfTheExecutorAreFound(t *testing.T) {
	const test = "^TestTracesOfKilledJobs$"
	(&plant.Garden{Machine: "../../internal/node", Package: "node", Healthy: test, Mistakes: []plant.Mistake{
		{
			Name: "a message of an agreement is sent twice", File: "agree.go",
			Old: `	q.send(e, value, nil)
`,
			New: `	q.send(e, value, nil)
	if wrong("a message of an agreement is sent twice") {
		q.send(e, value, nil)
	}
`,
			Test: test, By: []string{"which has not sent it, or once more"},
		},
	}}).Find(t)
}
