package roster

import (
	"testing"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
)

func view(number uint64, owners []protocol.Rank, since []uint64) *membership.View {
	return &membership.View{Number: number, Owners: owners, Since: since}
}

func TestOrphansWaitForAView(t *testing.T) {
	tab := New(0, []int32{0, 1, 1}, false, true)
	tab.Returned(1, "")
	tab.Died(1, "killed")
	for _, n := range []int{1, 2} {
		if got, want := tab.Status(n), (Status{Orphan: true, Why: "killed"}); got != want {
			t.Errorf("task %d: %+v, want %+v: what it owes others will not come", n, got, want)
		}
	}
	changed := tab.Assign(view(2, []protocol.Rank{0, 2, -1}, []uint64{1, 2, 2}))
	if len(changed) != 1 || changed[0] != 1 || tab.Owner(1) != 2 || tab.Attempt(1) != 1 || tab.Status(1) != (Status{}) {
		t.Errorf("view 2 changes %v, task 1 is %d's and %+v", changed, tab.Owner(1), tab.Status(1))
	}
	if news := tab.Lose("nobody has it", 2, 2); len(news) != 1 {
		t.Errorf("%v are lost, want task 2 once", news)
	}
	tab.Assign(view(3, []protocol.Rank{0, 2, 2}, []uint64{1, 2, 3}))
	if !tab.Status(2).Dead {
		t.Error("a lost task lives again")
	}
}

func TestTheDeadStayDeadWhereNobodyAdopts(t *testing.T) {
	tab := New(0, []int32{0, 1}, false, false)
	tab.Died(1, "given up")
	tab.Named(1, "killed")
	if got, want := tab.Status(1), (Status{Dead: true, Why: "killed"}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if tab.Returned(1, "") {
		t.Error("a dead task returns")
	}
}

// TestOnlyTheOwnerReturnsATask: a report of another process counts once a view has made it the owner.
func TestOnlyTheOwnerReturnsATask(t *testing.T) {
	tab := New(0, []int32{0, 1, 2}, false, true)
	if tab.Told(1, 2, "failed") || tab.Status(1).Returned {
		t.Error("a task has returned at a process that does not own it")
	}
	tab.Died(1, "killed")
	tab.Assign(view(2, []protocol.Rank{0, 2, 2}, []uint64{1, 2, 1}))
	if !tab.Early(1) || tab.Status(1) != (Status{Returned: true, Why: "failed"}) {
		t.Errorf("its new owner has told before: %+v", tab.Status(1))
	}
	if tab.Early(1) {
		t.Error("it is told twice")
	}
	tab.Left([]int{2}, "left")
	if tab.Status(1).Why != "failed" || !tab.Status(2).Returned || tab.Status(2).Why != "" {
		t.Errorf("tasks %+v, %+v: of several each answers for itself", tab.Status(1), tab.Status(2))
	}
}

func TestAJoinerOwnsNothing(t *testing.T) {
	tab := New(1, []int32{0, 1}, true, true)
	if tab.Mine(1) || !tab.Rests() {
		t.Error("an earlier life's task")
	}
}
