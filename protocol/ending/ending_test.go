package ending

import (
	"testing"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
)

// A job is over when all processes that own tasks in the latest known view have returned, since they were given these
// tasks.
func TestVerdict(t *testing.T) {
	first := membership.First(3, []protocol.Rank{0, 1, 2})
	second := first.Without(func(m membership.Member) bool { return m.ID == 1 }, true)
	third := second.With([]membership.Member{{ID: 1, Incarnation: 2}}, true)
	fourth := third.Balanced(1, func(membership.Member) int { return 3 })
	type views = []*membership.View
	for _, d := range []struct {
		what     string
		in       views // by process: in which it has returned
		told     views
		dead     []protocol.Rank // of the first incarnations
		reported bool            // no process adopts
		want     Verdict
	}{
		{what: "at the beginning", in: views{nil, nil, nil}, want: Going},
		{what: "one has not returned", in: views{first, first, nil}, want: Going},
		{what: "all have returned", in: views{first, first, first}, want: Over},
		{what: "another has not returned", in: views{first, nil, first}, want: Going},
		{what: "task 1 is run again", in: views{first, first, second}, want: Going},
		{what: "it has returned again", in: views{second, nil, first}, want: Over},
		{what: "twice", in: views{second, first, second}, want: Over},
		{what: "a task has moved to who had returned", in: views{second, third, fourth}, want: Going},
		{what: "and returned there", in: views{second, fourth, first}, want: Over},
		{what: "one died before it returned", in: views{first, nil, first}, dead: []protocol.Rank{1}, want: Going},
		{what: "one died after it returned", in: views{first, first, first}, dead: []protocol.Rank{1}, want: Over},
		{what: "all died before they returned", in: views{first, nil, nil}, dead: []protocol.Rank{0, 1, 2}, want: Abandoned},
		{what: "all of the latest view died", in: views{first, nil, nil}, told: views{second, first}, dead: []protocol.Rank{0, 2}, want: Abandoned},
		{what: "nobody adopts, and one died", in: views{first, nil, first}, dead: []protocol.Rank{1}, reported: true, want: Over},
		{what: "nobody adopts, and one lives", in: views{first, nil, first}, reported: true, want: Going},
		{what: "nobody adopts, and a view goes on", in: views{first, nil, first}, told: views{second}, reported: true, want: Over},
	} {
		j := New(first)
		for r, v := range d.in {
			if v != nil {
				m, ok := v.Find(protocol.Rank(r))
				if !ok {
					t.Fatalf("%s: process %d is not in view %d", d.what, r, v.Number)
				}
				j.Viewed(v)
				j.Returned(m, v.Number)
			}
		}
		for _, v := range d.told {
			j.Viewed(v)
		}
		for _, r := range d.dead {
			j.Died(membership.Member{ID: r, Incarnation: 1})
		}
		if d.reported {
			j.Report()
		}
		if got := j.Clone().Verdict(); got != d.want {
			t.Errorf("%s: %v, want %v", d.what, got, d.want)
		}
	}
}

// A process that has returned in a view that no process has reported may have given its tasks to
// others. Those that live report that view, or a later one.
func TestAViewThatNobodyHasToldOf(t *testing.T) {
	j := New(membership.First(2, []protocol.Rank{0, 1}))
	one, two := membership.Member{ID: 0, Incarnation: 1}, membership.Member{ID: 1, Incarnation: 1}
	j.Returned(one, 2)
	j.Returned(two, 1)
	for _, d := range []struct {
		dies membership.Member
		want Verdict
	}{{membership.Member{ID: 9, Incarnation: 1}, Going}, {one, Going}, {two, Abandoned}} {
		if j.Died(d.dies); j.Verdict() != d.want {
			t.Errorf("%v has died: %v, want %v", d.dies, j.Verdict(), d.want)
		}
	}
}

// If no report says who owns what, every process has to return.
func TestOwnersThatAreNotKnown(t *testing.T) {
	j := New(membership.First(2, nil))
	for r, want := range []Verdict{Going, Over} {
		j.Returned(membership.Member{ID: protocol.Rank(r), Incarnation: 1}, 1)
		if got := j.Verdict(); got != want {
			t.Errorf("after %d: %v, want %v", r, got, want)
		}
	}
}

// patience is how long a coordinator waits.
const patience = 100

func inside(j *Job) { j.Inside(patience) }

// A coordinator that is part of a process tells all processes that the job is over, and lets them leave when all know
// that all do; one that is apart lets them leave at once. What it has found stays so in later views.
func TestStep(t *testing.T) {
	first := membership.First(2, []protocol.Rank{0, 1})
	second := first.Without(func(m membership.Member) bool { return m.ID == 1 }, true)
	for _, d := range []struct {
		what string
		do   func(*Job)
		want Step
	}{
		{"apart", func(*Job) {}, LetLeave},
		{"inside", inside, TellOver},
		{"all know", func(j *Job) {
			inside(j)
			for _, m := range first.Members {
				j.Knows(m)
			}
		}, TellKnown},
		{"all but one know that", func(j *Job) {
			inside(j)
			j.Sure(first.Members[0])
			j.Knows(first.Members[1])
		}, TellKnown},
		{"all know that", func(j *Job) {
			inside(j)
			for _, m := range first.Members {
				j.Sure(m)
			}
		}, LetLeave},
	} {
		j := New(first)
		d.do(j)
		if j.Step(1) != Wait || j.Until() != 0 {
			t.Errorf("%s: nobody has returned, and it does not wait", d.what)
		}
		for _, m := range first.Members {
			j.Returned(m, 1)
		}
		if got := j.Step(1); got != d.want {
			t.Errorf("%s: %v, want %v", d.what, got, d.want)
		}
		j.Viewed(second) // with a task that has not returned there
		if j.Verdict() != Over || j.Latest() != 1 {
			t.Errorf("%s: %v in view %d after another view, want %v in view 1", d.what, j.Verdict(), j.Latest(), Over)
		}
	}
	j := New(first)
	for _, m := range first.Members {
		j.Died(m)
	}
	if inside(j); j.Step(1) != LetLeave {
		t.Error("nobody lives, and it waits")
	}
}

// It does not wait forever for processes that do not confirm a step: from the first one on, whichever that is.
func TestStepWaits(t *testing.T) {
	first := membership.First(2, []protocol.Rank{0, 1})
	for _, knows := range []bool{false, true} {
		j := New(first)
		inside(j)
		for _, m := range first.Members {
			j.Returned(m, 1)
			if knows {
				j.Knows(m)
			}
		}
		for now, want := range map[protocol.Time]bool{5 + patience - 1: true, 5 + patience: false} {
			k := j.Clone()
			k.Step(5)
			if waits := k.Step(now) != LetLeave; waits != want || k.Until() != 5+patience {
				t.Errorf("all know: %v; at %d it waits: %v, until %d", knows, now, waits, k.Until())
			}
		}
	}
}

// A process keeps the latest of what it has heard, and ends well by itself only if it knows that all know.
func TestProcess(t *testing.T) {
	var p Process
	if p.Over() != 0 || p.Sure() != 0 {
		t.Error("it knows of an end that nobody told it of")
	}
	if p.Hear(3, false); p.Over() != 3 || p.Sure() != 0 {
		t.Errorf("over in view %d, sure of %d; want 3 and 0", p.Over(), p.Sure())
	}
	p.Hear(4, true)
	if p.Hear(3, false); p.Over() != 4 || p.Sure() != 4 {
		t.Errorf("over in view %d, sure of %d; want 4 and 4", p.Over(), p.Sure())
	}
}

// No process may leave before all live processes of the latest view know that the job is over, whichever found it out.
func TestKnown(t *testing.T) {
	first := membership.First(3, []protocol.Rank{0, 1, 2})
	j := New(first)
	if j.Learn(4); j.Verdict() != Over || j.Latest() != 4 {
		t.Errorf("what another coordinator has found: verdict %v in view %d, want %v in view 4", j.Verdict(), j.Latest(), Over)
	}
	for _, m := range first.Members[:2] {
		if j.Known() {
			t.Errorf("before process %d knows, all do", m.ID)
		}
		j.Knows(m)
	}
	if j.Known() {
		t.Error("all know, though the last does not")
	}
	died := j.Clone()
	if died.Died(first.Members[2]); died.Known() {
		t.Error("one that died without knowing may have gone on in another view, and that is not waited for")
	}
	knew := j.Clone()
	knew.Knows(first.Members[2])
	if knew.Died(first.Members[2]); !knew.Known() {
		t.Error("one that died and knew is waited for")
	}
	second := first.Without(func(m membership.Member) bool { return m.ID == 2 }, true)
	if died.Viewed(second); !died.Known() {
		t.Error("a dead one that a view has removed is waited for")
	}
	if j.Viewed(second); !j.Known() {
		t.Error("one that a view has removed is waited for")
	}
	if j.Joined(first.Members[2]); !j.Known() {
		t.Error("one that a view has removed is waited for, since it had joined")
	}
	joiner := membership.Member{ID: 2, Incarnation: 2}
	if j.Joined(joiner); j.Known() {
		t.Error("all know, though one that has joined does not")
	}
	j.Viewed(second.With([]membership.Member{joiner}, true))
	if j.Known() {
		t.Error("all know, though one that was let in does not")
	}
	if j.Knows(joiner); !j.Known() {
		t.Error("one that has joined knows, and is waited for")
	}
}
