//go:build unix

package control_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/coppice-go/coppice/internal/control"
)

// stage is a job on which a script is played: three processes, and up to two that
// join, of which the first has.
type stage struct {
	t       *testing.T
	s       *control.Server
	clients []*control.Client
	seen    *recorder // the events
	views   []*opened // that processes have reported
	ticks   int
}

func newStage(t *testing.T) *stage {
	st := &stage{t: t, seen: newRecorder()}
	st.s = serve(t, control.ServerConfig{Size: 3, Grow: 2, Events: func(e control.Event) {
		st.seen.note("%s %d", e.Type, e.Rank)
	}})
	st.clients, _ = crew(t, st.s, 3)
	joiner, _ := join(t, reserve(t, st.s, -1))
	st.clients = append(st.clients, joiner)
	return st
}

// heard waits until the coordinator has heard all that a process has said.
func (st *stage) heard(rank int) {
	st.t.Helper()
	st.ticks++
	tick := fmt.Sprint("tick", st.ticks)
	st.clients[rank].Emit(control.Event{Type: tick})
	st.seen.expect(st.t, tick)
}

// step is a line of a script.
type step struct {
	name string
	play func(*stage)
}

func returns(rank, view int) step { return returnsWith(rank, view, "", false) }

func fails(rank, view int) step { return returnsWith(rank, view, "boom", false) }

// reports is what a process says where nothing is adopted.
func reports(rank, view int) step { return returnsWith(rank, view, "", true) }

func returnsWith(rank, view int, failure string, report bool) step {
	return step{fmt.Sprintf("%d returns in %d %s", rank, view, failure), func(st *stage) {
		st.clients[rank].Returned(uint64(view), failure, report)
		st.heard(rank)
	}}
}

func resumes(rank, view int) step {
	return step{fmt.Sprintf("%d resumes in %d", rank, view), func(st *stage) {
		st.clients[rank].Resumed(uint64(view))
		st.heard(rank)
	}}
}

func dies(rank int) step {
	return step{fmt.Sprintf("%d dies", rank), func(st *stage) {
		st.clients[rank].Close()
		st.seen.expect(st.t, fmt.Sprint("died ", rank))
		st.s.Status() // waits until what follows from that is done
	}}
}

// opened is a view that a process has reported.
type opened struct {
	number        int
	owners, since []int
}

// since says in which views the tasks got their owners, if there is none between this one and
// the reported ones.
func (st *stage) since(number int, owners []int) (since []int) {
	before := &opened{1, []int{0, 1, 2}, []int{1, 1, 1}}
	for _, v := range st.views {
		if v.number > before.number && v.number < number && v.owners != nil {
			before = v
		}
	}
	for t, owner := range owners {
		since = append(since, number)
		if t < len(before.owners) && owner == before.owners[t] {
			since[t] = before.since[t]
		}
	}
	return since
}

// opens has the lowest of some members, all in their first life, tell of a view.
func opens(number int, members, owners []int) step { return opensSince(number, members, owners, nil) }

// opensSince also says in which views the tasks got their owners.
func opensSince(number int, members, owners, since []int) step {
	return step{fmt.Sprintf("view %d of %v opens", number, members), func(st *stage) {
		since := since
		if since == nil {
			since = st.since(number, owners)
		}
		st.views = append(st.views, &opened{number, owners, since})
		ids := make([][2]uint64, len(members))
		for i, m := range members {
			ids[i] = [2]uint64{uint64(m), 1}
		}
		event := view(number, ids, owners)
		event.Attrs["since"] = since
		st.clients[members[0]].Emit(event)
		st.heard(members[0])
	}}
}

// withdraws frees the place of one that was started and did not come.
func withdraws() step {
	return step{"one is started, and not", func(st *stage) { st.s.Withdraw(reserve(st.t, st.s, -1)) }}
}

// TestJobEndsWithItsLastTask: in each of these scripts the job has finished after
// the last line, and not before.
func TestJobEndsWithItsLastTask(t *testing.T) {
	for _, c := range []struct {
		name   string
		script []step
	}{
		{"without a death", []step{returns(0, 1), returns(2, 1), returns(1, 1)}},
		{"a death is adopted", []step{
			returns(0, 1), dies(2), returns(1, 1),
			opens(2, []int{0, 1}, []int{0, 1, 0}), returns(1, 2), resumes(0, 2), returns(0, 2),
		}},
		{"the view is told last", []step{returns(0, 1), returns(1, 1), dies(2), resumes(0, 2), returns(1, 2), returns(0, 2), opens(2, []int{0, 1}, []int{0, 1, 0})}},
		{"who returned and died has returned", []step{returns(2, 1), dies(2), returns(0, 1), returns(1, 1)}},
		{"who returned and died is replaced", []step{
			returns(2, 1), dies(2), returns(1, 1), opens(2, []int{0, 1}, []int{0, 1, 0}), returns(0, 1), returns(0, 2),
		}},
		{"the adopter has not said yet that it resumed", []step{
			returns(0, 1), dies(2), opens(2, []int{0, 1}, []int{0, 1, 0}), returns(1, 2), resumes(0, 2), returns(0, 2),
		}},
		{"the adopter dies", []step{
			dies(2), returns(0, 1), returns(1, 1), opens(2, []int{0, 1}, []int{0, 1, 0}),
			resumes(0, 2), returns(1, 2), dies(0),
			opens(3, []int{1}, []int{1, 1, 1}), resumes(1, 3), returns(1, 3),
		}},
		{"the adopter dies when it has returned", []step{
			dies(2), opens(2, []int{0, 1}, []int{0, 1, 0}), returns(0, 2), dies(0), returns(1, 2),
		}},
		{"a joiner adopts", []step{
			dies(2), returns(0, 1), returns(1, 1), opens(2, []int{0, 1, 3}, []int{0, 1, 3}),
			returns(0, 2), returns(1, 2), returns(3, 2),
		}},
		{"a joiner that adopted dies", []step{
			dies(2), opens(2, []int{0, 1, 3}, []int{0, 1, 3}), returns(0, 2), returns(1, 2), returns(3, 1), dies(3),
			opens(3, []int{0, 1}, []int{0, 1, 1}), returns(0, 3), resumes(1, 3), returns(1, 3),
		}},
		{"tasks move to a joiner in a view that is told late", []step{
			opens(2, []int{0, 1, 2, 3}, []int{0, 1, 2}), returns(0, 3), returns(1, 3), returns(2, 3),
			opens(3, []int{0, 1, 2, 3}, []int{0, 1, 3}), returns(3, 3),
		}},
		{"tasks move to a joiner that has returned", []step{
			opens(2, []int{0, 1, 2, 3}, []int{0, 1, 2}), returns(3, 2), returns(0, 3), returns(1, 3), returns(2, 3),
			opens(3, []int{0, 1, 2, 3}, []int{0, 1, 3}), resumes(3, 3), returns(3, 3),
		}},
		{"a joiner dies before it is in", []step{dies(3), returns(0, 1), returns(1, 1), returns(2, 1)}},
		{"nobody can say who owns what", []step{
			opens(2, []int{0, 1, 2, 3}, nil), returns(0, 2), returns(1, 2), returns(2, 2), returns(3, 2),
		}},
		{"a view that only adds asks nothing of who has returned", []step{
			returns(0, 1), returns(1, 1), opens(2, []int{0, 1, 2, 3}, []int{0, 1, 2}), returns(2, 1),
		}},
		{"a view was skipped", []step{
			dies(2), returns(0, 2), returns(1, 2), opens(3, []int{0, 1}, []int{0, 1, 0}), returns(1, 3), returns(0, 3),
		}},
		{"a view was skipped, in which the task was taken over", []step{
			dies(2), returns(0, 2), returns(1, 2), opensSince(3, []int{0, 1, 3}, []int{0, 1, 0}, []int{1, 1, 2}),
		}},
		{"a view that only adds is told late", []step{
			dies(2), opens(2, []int{0, 1}, []int{0, 1, 0}), returns(0, 2), opens(4, []int{0, 1, 3}, []int{0, 1, 0}), opens(3, []int{0, 1, 3}, []int{0, 1, 0}), returns(1, 2),
		}},
		{"what is told late and shows nothing", []step{
			dies(2), returns(0, 2), returns(1, 2), opens(3, []int{0, 1}, []int{0, 1, 0}), opens(1, []int{0, 1, 2}, []int{0, 1, 2}),
			returns(1, 3), returns(0, 3),
		}},
		{"a return in a view before it resumed", []step{
			dies(2), returns(1, 2), opens(2, []int{0, 1}, []int{0, 1, 0}), resumes(0, 2), returns(0, 1), returns(0, 2),
		}},
		{"nobody survives", []step{returns(0, 1), dies(2), dies(1), dies(0)}},
		{"no quorum: who is left gives up", []step{dies(2), returns(0, 1), returns(1, 1), fails(0, 1), dies(0), dies(1)}},
		{"the only one left is in no view", []step{dies(2), dies(0), returns(3, 0), dies(1)}},
		{"who is excluded has returned", []step{
			returns(2, 1), opens(2, []int{0, 1}, []int{0, 1, 1}), returns(0, 2), returns(1, 1), returns(1, 2),
		}},
		{"who is excluded is not waited for", []step{
			opens(2, []int{0, 1}, []int{0, 1, 1}), returns(0, 2), returns(1, 2),
		}},
		{"nothing is adopted", []step{dies(2), reports(0, 1), reports(1, 1)}},
		{"nothing is adopted, and the view is there", []step{
			dies(2), reports(0, 1), opens(2, []int{0, 1}, []int{0, 1, -1}), reports(1, 2),
		}},
		{"nothing is adopted, and none knows of the death yet", []step{reports(0, 1), reports(1, 1), dies(2)}},
		{"a place that was not taken", []step{withdraws(), dies(2), returns(0, 1), returns(1, 1), opens(2, []int{0, 1}, []int{0, 1, 1}), withdraws(), returns(0, 2), returns(1, 2)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := newStage(t)
			for i, s := range c.script {
				s.play(st)
				finished := false
				select {
				case <-st.s.Done():
					finished = true
				default:
				}
				if last := i == len(c.script)-1; finished != last {
					t.Fatalf("after %q, line %d: finished %v", s.name, i+1, finished)
				}
			}
		})
	}
}

// TestTheEndSaysItsView: who goes on in a later view, since it took those for dead that had ended,
// knows that this does not count.
func TestTheEndSaysItsView(t *testing.T) {
	st := &stage{t: t, seen: newRecorder()}
	st.s = serve(t, control.ServerConfig{Size: 3, Events: func(e control.Event) { st.seen.note("%s %d", e.Type, e.Rank) }})
	var notes []*recorder
	st.clients, notes = crew(t, st.s, 3)
	for _, s := range []step{dies(2), opens(2, []int{0, 1}, []int{0, 1, 0}), returns(0, 2), returns(1, 2)} {
		s.play(st)
	}
	notes[0].expect(t, "finished")
	if view := notes[0].ended.Load(); view != 2 {
		t.Errorf("the job ended in view %d, want 2", view)
	}
}

// TestNobodyIsLeftWithTheTasks: who has joined, and is in no view that was told of, does not
// take that for an end of all tasks.
func TestNobodyIsLeftWithTheTasks(t *testing.T) {
	s := serve(t, control.ServerConfig{Size: 2, Grow: 2})
	clients, _ := crew(t, s, 2)
	_, left := join(t, reserve(t, s, -1))
	clients[1].Close()
	clients[0].Close()
	left.expect(t, "finished all processes that had tasks have ended")
}

// TestLostTasksAreNoted: by whoever knows, and why in the fewest words.
func TestLostTasksAreNoted(t *testing.T) {
	st := newStage(t)
	for rank, why := range []string{"task 2 failed: no copy", "no copy", "save: no copy"} {
		st.clients[rank].Emit(control.Event{Type: control.EventLost, Attrs: map[string]any{"task": 2, "why": why}})
		st.heard(rank)
	}
	st.clients[0].Emit(control.Event{Type: control.EventLost, Attrs: map[string]any{"task": "none"}})
	st.heard(0)
	if got := fmt.Sprint(st.s.Outcome().Lost); got != "map[2:no copy]" {
		t.Errorf("lost: %s", got)
	}
}

// TestReturnIsToldAgain: the others learn who has returned again, after it was at work again; a failure is final.
func TestReturnIsToldAgain(t *testing.T) {
	st := newStage(t)
	_, watcher := join(t, reserve(t, st.s, -1))
	for _, s := range []step{
		returns(0, 1), resumes(0, 1), returns(0, 1), fails(1, 1), dies(2), opens(2, []int{0, 1}, []int{0, 1, 0}),
		resumes(0, 2), resumes(1, 2), returns(1, 2), returns(0, 2),
	} {
		s.play(st)
	}
	watcher.expect(t, "finished")
	var notes []string
	for _, n := range watcher.notes {
		if strings.HasSuffix(n, "0") || strings.Contains(n, " 1") {
			notes = append(notes, n)
		}
	}
	slices.SortStableFunc(notes, func(a, b string) int { return strings.Compare(strings.Fields(a)[1], strings.Fields(b)[1]) })
	want := []string{"returned 0", "returned 0", "returned 0", "returned 1 boom", "returned 1 boom"}
	if !slices.Equal(notes, want) {
		t.Errorf("told %q, want %q", notes, want)
	}
	if s := st.s.Status()[1]; s.State != control.Returned || s.Failure != "boom" || s.FailedAt.IsZero() {
		t.Errorf("%+v", s)
	}
}

func TestWhoIsAtWorkAgainIsPresent(t *testing.T) {
	st := newStage(t)
	for _, c := range []struct {
		step
		want control.State
	}{{returns(0, 1), control.Returned}, {resumes(0, 2), control.Present}, {resumes(0, 3), control.Present}, {returns(0, 2), control.Present}, {returns(0, 3), control.Returned}} {
		c.play(st)
		if got := st.s.Status()[0].State; got != c.want {
			t.Errorf("after %q: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestNewcomersAreToldHowThingsStand(t *testing.T) {
	st := newStage(t)
	for _, s := range []step{returns(0, 1), resumes(0, 2), returns(0, 2)} {
		s.play(st)
	}
	late, told := join(t, reserve(t, st.s, -1)) // is told how things stand, not how they came to
	late.Announce(nil, "here")
	told.expect(t, "returned 0")
	for _, s := range []step{returns(0, 4), resumes(0, 5), returns(0, 5)} {
		s.play(st)
	}
	told.await(t, "the second return", func() bool { return len(told.notes) > 1 })
	if !slices.Equal(told.notes, []string{"returned 0", "returned 0"}) {
		t.Errorf("told %q", told.notes)
	}
}

// TestAnEarlierReturnIsNotSaidAgain: who was at work again when its connection broke
// still is on the next.
func TestAnEarlierReturnIsNotSaidAgain(t *testing.T) {
	st := newStage(t)
	c := st.clients[0]
	for _, say := range []struct {
		play func()
		want string
	}{
		{func() { c.Returned(1, "", false) }, `{"type":"returned","view":1}`},
		{func() { c.Resumed(3) }, `{"type":"resumed","view":3}`},
		{func() { c.Returned(2, "", false) }, `{"type":"resumed","view":3}`},
		{func() { c.Resumed(2) }, `{"type":"resumed","view":3}`},
		{func() { c.Returned(3, "no", true) }, `{"type":"returned","why":"no","view":3,"report":true}`},
		{func() { c.Returned(0, "", true) }, `{"type":"returned","why":"no","view":3,"report":true}`},
	} {
		say.play()
		if got := c.Standing(); got != say.want {
			t.Errorf("says %s, want %s", got, say.want)
		}
	}
}

// TestReturnsAreNewsOnce: a return is passed on once, and so is the next one of a process that has been at work again.
func TestReturnsAreNewsOnce(t *testing.T) {
	const zero, again = `{"type":"returned","ranks":[0,1]}`, `{"type":"returned","ranks":[0],"turn":1}`
	for _, c := range []struct {
		told, want []string
	}{
		{[]string{zero, zero}, []string{"returned 0"}}, // the client is rank 1
		{[]string{zero, again, again}, []string{"returned 0", "returned 0"}},
		{[]string{zero, `{"type":"returned","ranks":[0],"turn":3,"why":"boom"}`}, []string{"returned 0", "returned 0 boom"}},
		{[]string{again, `{"type":"died","incarnation":1,"certain":true}`, zero}, []string{"returned 0", "died 0.1 true ", "returned 0"}}, // its next life
		{[]string{`{"type":"returned","ranks":[-1,1,99999999],"turn":1}`}, nil},
	} {
		r := newRecorder()
		control.Hear(1, r, c.told...)
		if !slices.Equal(r.notes, c.want) {
			t.Errorf("%q: %q, want %q", c.told, r.notes, c.want)
		}
	}
}

// TestStandingOutlivesBrokenConnections: views and returns get through
// whenever connections break, and nobody is told twice.
func TestStandingOutlivesBrokenConnections(t *testing.T) {
	descriptors(t)
	const rounds = 12
	s := serve(t, control.ServerConfig{Size: rounds + 2})
	clients, notes := crew(t, s, rounds+2)
	clients[0].Returned(1, "", false)
	clients[1].Returned(1, "", false)
	notes[1].expect(t, "returned 0")
	for round := range rounds {
		dead := rounds + 1 - round
		clients[dead].Close()
		notes[0].expect(t, fmt.Sprintf("died %d.1", dead))
		members, owners := make([][2]uint64, dead), make([]int, rounds+2)
		for i := range members {
			members[i] = [2]uint64{uint64(i), 1}
			owners[i] = i
		}
		number := uint64(round + 2)
		var both sync.WaitGroup
		both.Go(func() {
			clients[0].Emit(view(int(number), members, owners))
			clients[0].Resumed(number)
			clients[0].Break()
			if round == rounds-1 {
				clients[0].Returned(number, "", false)
				clients[0].Break()
			}
		})
		both.Go(func() {
			clients[1].Break()
			clients[1].Returned(number, "", false)
			clients[1].Break()
		})
		both.Wait()
	}
	notes[0].expect(t, "finished")
	notes[1].expect(t, "finished")
	var turns []string
	for _, n := range notes[1].notes {
		if strings.HasSuffix(n, " 0") {
			turns = append(turns, n)
		}
	}
	if want := []string{"returned 0", "returned 0"}; !slices.Equal(turns, want) {
		t.Errorf("rank 1 was told %q, want %q", turns, want)
	}
	if s.View().Number != rounds+1 {
		t.Errorf("%+v", s.View())
	}
}

// TestDeathWhileFinishing: whatever comes first, the job ends, and a death that came
// first is one.
func TestDeathWhileFinishing(t *testing.T) {
	left := 0
	for range 40 {
		s := serve(t, control.ServerConfig{Size: 2})
		clients, notes := crew(t, s, 2)
		clients[1].Returned(1, "", false)
		var both sync.WaitGroup
		both.Go(func() { clients[0].Returned(1, "", false) })
		both.Go(clients[1].Close)
		both.Wait()
		notes[0].expect(t, "finished")
		if !notes[0].has("died") {
			left++
		}
		if st := s.Status()[1]; st.State == control.Dead && st.Left == notes[0].has("died") {
			t.Errorf("%+v; told %q", st, notes[0].notes)
		}
		s.Close()
	}
	t.Logf("the end came first %d times of 40", left)
}

// TestRemovedLeaveTheirTasks: by the view before, or if nobody told of one by their
// ranks.
func TestRemovedLeaveTheirTasks(t *testing.T) {
	for _, c := range []struct {
		name   string
		script []step
		want   string
	}{
		{"nobody", []step{opens(1, []int{0, 1, 2}, []int{0, 1, 2}), dies(2)}, "map[]"},
		{"the first view is not told", []step{dies(2), opens(2, []int{0, 1}, []int{0, 1, 0})}, "map[2:[2]]"},
		{"nor how tasks were spread", []step{dies(2), opens(2, []int{0, 1}, []int{0, 1, 0, 0})}, "map[2:[]]"},
		{"several tasks", []step{opens(1, []int{0, 1, 2}, []int{0, 0, 1, 1, 2, 2}), dies(2), opens(2, []int{0, 1}, []int{0, 0, 1, 1, 0, 1})}, "map[2:[4 5]]"},
		{"twice", []step{dies(2), opens(2, []int{0, 1, 3}, []int{0, 1, 3}), dies(3), dies(1), opens(3, []int{0}, []int{0, 0, 0})}, "map[1:[1] 2:[2] 3:[2]]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := newStage(t)
			for _, s := range c.script {
				s.play(st)
			}
			if got := fmt.Sprint(st.s.Outcome().Removed); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}
