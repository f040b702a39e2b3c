package replay

import (
	"testing"

	"github.com/coppice-go/coppice/protocol"
)

// TestAFileOfAnAttemptThatIsOver: a process that does not know yet that a view has removed it aborts an
// operation for itself, and saves what follows where the new owner of its task has saved.
func TestAFileOfAnAttemptThatIsOver(t *testing.T) {
	const slow = 3
	plans, err := Plans(AllReduce, 4)
	if err != nil {
		t.Fatal(err)
	}
	program := NewProgram(4, 1, Call{Plan: plans[0], Elems: 2, Agreed: true}, Call{Plan: shifts(4)[0], Elems: 2}, Call{Plan: shifts(4)[1], Elems: 2}).Saved(1)
	c := newCrew(t, Config{Program: program, Processes: 4, Stored: true, Cancels: []Cancel{{At: slow, Task: slow}}})
	c.dead[slow] = true // for a while
	for r := range slow {
		c.job.Notify(&c.states[r], 0, protocol.Notice{Kind: protocol.Suspect, Rank: slow, Value: 1})
	}
	committed := func() bool {
		for r := range slow {
			if c.states[r].rules.Committed() < 1 {
				return false
			}
		}
		return true
	}
	for !committed() {
		if !c.round() {
			t.Fatal("the epoch is not committed")
		}
	}
	for range 100 { // it goes on alone: no process hears it
		c.job.Next(&c.states[slow], 0)
	}
	for r := range protocol.Rank(slow) {
		if _, runs := c.states[r].Runs(slow); runs {
			c.kill(r)
			break
		}
	}
	for c.round() {
	}
	for r := range c.states {
		if err := c.states[r].Err(); err != nil && !c.dead[r] {
			t.Error(err)
		}
	}
	c.check(t)
}
