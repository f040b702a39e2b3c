package membership

import (
	"testing"

	"github.com/coppice-go/coppice/internal/plant"
)

// TestMistakesAreFound plants mistakes in the rules that say which process may be killed, and how long processes wait for those that
// begin late. Package chaos plants those in views.
func TestMistakesAreFound(t *testing.T) {
	const table = "^TestOnlyAQuorumCondemns$"
	(&plant.Garden{Machine: ".", Package: "membership", Healthy: table, Tests: []string{"quorum_test.go", "gather_test.go", "cluster_test.go"}, Mistakes: []plant.Mistake{
		{
			Name: "half of them prevail", File: "quorum.go",
			Old:  ` > t.alive }`,
			New:  ` > t.alive || wrong("half of them prevail") && 2*t.promised == t.alive }`,
			Test: table, By: []string{"half of those", "half_of_those"},
		},
		{
			Name: "promises of the dead count", File: "quorum.go",
			Old:  `prevails() bool { return`,
			New:  `prevails() bool { return wrong("promises of the dead count") && 2*t.answered > t.alive ||`,
			Test: "^TestAPromiseOfTheDeadDoesNotPrevail$",
		},
		{
			Name: "the proposer is believed", File: "quorum.go",
			Old:  `case l.Certain && !t.prevails():`,
			New:  `case l.Certain && !t.prevails() && !wrong("the proposer is believed"):`,
			Test: table, By: []string{"a_minority"},
		},
		{
			Name: "any incarnation will do", File: "quorum.go",
			Old:  `case !v.Has(who):`,
			New:  `case !v.Has(who) && !(wrong("any incarnation will do") && v.Last(who.ID) > 0):`,
			Test: table, By: []string{"incarnation"},
		},
		{
			Name: "an order never becomes stale", File: "quorum.go",
			Old:  `v.Number < known.Number:`,
			New:  `v.Number < known.Number && !wrong("an order never becomes stale"):`,
			Test: table, By: []string{"stale"},
		},
		{
			Name: "a process that a view does not know was removed", File: "quorum.go",
			Old:  `case l.Base.Last(who.ID) < who.Incarnation:`,
			New:  `case l.Base.Last(who.ID) < who.Incarnation && !wrong("a process that a view does not know was removed"):`,
			Test: table, By: []string{"does not know it", "does_not_know_it"},
		},
		{
			Name: "three are taken for two", File: "quorum.go",
			Old:  `return t.alive == 2 }`,
			New:  `return t.alive == 2 || wrong("three are taken for two") && t.alive == 3 }`,
			Test: table, By: []string{"are three", "are_three"},
		},
		{
			Name: "a member that begins late is asked again as seldom as before", File: "gather.go",
			Old: `		c.retryAt, c.wait = now, p.cfg.Retry
`,
			New: `		if c.retryAt = now; !wrong("a member that begins late is asked again as seldom as before") {
			c.wait = p.cfg.Retry
		}
`,
			Test: "^TestMembersThatBeginLateAreAskedAgainSoon$",
		},
	}}).Find(t)
}
