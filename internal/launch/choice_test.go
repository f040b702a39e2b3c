//go:build unix

package launch

import (
	"strings"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/control"
)

func TestTheCheaperWayIsChosen(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name string
		s    situation
		want string
	}{
		{
			"a short job",
			situation{tasks: 4, live: 3, ran: 20 * ms, start: 40 * ms, saves: true},
			"no: running through costs 0.020 s (2 tasks for a process instead of 1), a start 0.040 s",
		},
		{
			"a long one",
			situation{tasks: 4, live: 3, ran: 2100 * ms, start: 40 * ms, saves: true},
			"yes: running through would cost 2.1 s (2 tasks for a process instead of 1), a start 0.040 s",
		},
		{
			"a spare takes the task",
			situation{tasks: 4, live: 4, ran: time.Hour, start: 40 * ms, saves: true},
			"no: running through costs 0.0 s (1 task for a process instead of 1), a start 0.040 s",
		},
		{
			"many tasks spread well",
			situation{tasks: 100, live: 9, ran: 10 * time.Second, start: 40 * ms, saves: true},
			"yes: running through would cost 2.0 s (12 tasks for a process instead of 10), a start 0.040 s",
		},
		{
			"the last but one",
			situation{tasks: 8, live: 1, ran: 10 * time.Second, start: 40 * ms, saves: true},
			"yes: running through would cost 10 s (8 tasks for a process instead of 4), a start 0.040 s",
		},
		{
			"slow starts",
			situation{tasks: 2, live: 1, ran: 3 * time.Second, start: 4 * time.Second, saves: true},
			"no: running through costs 3.0 s (2 tasks for a process instead of 1), a start 4.0 s",
		},
		{
			"nobody was ever ready",
			situation{tasks: 4, live: 3, ran: 30 * ms, saves: true},
			"no: running through costs 0.030 s (2 tasks for a process instead of 1), a start 0.030 s",
		},
		{
			"tasks move soon",
			situation{tasks: 4, live: 3, ran: 10 * time.Second, start: 40 * ms, save: 2 * time.Second, saves: true},
			"yes: running through would cost 10 s (2 tasks for a process instead of 1), a start and the move of tasks 2.0 s",
		},
		{
			"tasks move too late",
			situation{tasks: 4, live: 3, ran: 10 * time.Second, start: 40 * ms, save: 11 * time.Second, saves: true},
			"no: running through costs 10 s (2 tasks for a process instead of 1), a start and the move of tasks 10 s",
		},
		{
			"much to move",
			situation{tasks: 4, live: 3, ran: 2 * time.Second, start: 40 * ms, state: 5 << 30, saves: true},
			"no: running through costs 2.0 s (2 tasks for a process instead of 1), a start and the move of tasks 4.3 s",
		},
		{
			"nothing is saved, however long",
			situation{tasks: 4, live: 3, ran: time.Hour, start: 40 * ms},
			"no: it would get no tasks before another one dies, since the tasks have saved nothing",
		},
		{
			"no room, however short",
			situation{tasks: 4, live: 3, ran: ms, start: time.Second, full: true},
			"yes: the others have no memory for its tasks",
		},
		{
			"no room, but a spare's",
			situation{tasks: 2, live: 3, ran: ms, start: time.Second, full: true},
			"yes: the others have no memory for its tasks",
		},
		{"not a job", situation{tasks: 4, live: 3, ran: ms, alone: true}, "yes: nobody takes its task over"},
	} {
		respawn, why := c.s.choose()
		got := "no: " + why
		if respawn {
			got = "yes: " + why
		}
		if got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

// TestMoreTimeNeverSpeaksAgainstARespawn: once it pays, it pays in a longer job.
func TestMoreTimeNeverSpeaksAgainstARespawn(t *testing.T) {
	for tasks := 1; tasks <= 20; tasks++ {
		for live := 1; live <= 20; live++ {
			paid := false
			for ran := time.Millisecond; ran < time.Hour; ran *= 2 {
				pays, why := situation{tasks: tasks, live: live, ran: ran, start: 50 * time.Millisecond, saves: true, save: time.Second, state: 1 << 20}.choose()
				if paid && !pays {
					t.Fatalf("%d tasks, %d live, after %v: %s", tasks, live, ran, why)
				}
				paid = pays
			}
			if more := ceil(tasks, live) > ceil(tasks, live+1); paid != more {
				t.Errorf("%d tasks, %d live: respawned %v in a job of an hour", tasks, live, paid)
			}
		}
	}
}

func TestPausesGrow(t *testing.T) {
	var got []string
	for short := range 10 {
		got = append(got, pause(short).String())
	}
	if want := "0s 100ms 200ms 400ms 800ms 1.6s 3.2s 6.4s 10s 10s"; strings.Join(got, " ") != want {
		t.Errorf("%q, want %s", got, want)
	}
	if pause(1_000_000) != pauseMax {
		t.Error(pause(1_000_000))
	}
}

func TestTheClockMeasuresStartsAndSaves(t *testing.T) {
	c, now := newClock(), time.Now()
	if c.start() != 0 || c.save() != 0 || c.saves() {
		t.Errorf("%v, %v, %v of nothing", c.start(), c.save(), c.saves())
	}
	for rank, ago := range []time.Duration{time.Hour, 2 * time.Hour, 9 * time.Hour, 100 * time.Hour} {
		c.begin(now.Add(-ago), control.Identity{uint64(rank), 1})
	}
	announce := func(rank int, life uint64) {
		c.hear(control.Event{Type: control.EventAnnounced, Rank: rank, Attrs: map[string]any{"incarnation": life}})
	}
	near := func(what string, got, want time.Duration) {
		t.Helper()
		if got < want-time.Minute || got > want+time.Minute {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	announce(3, 2) // another life
	near("none", c.start(), 0)
	for _, rank := range []int{2, 0, 1} {
		announce(rank, 1)
		announce(rank, 1) // again, after a broken connection
	}
	near("the median", c.start(), 2*time.Hour)
	near("never saved", c.save(), 0)
	c.saved = now.Add(-30 * time.Hour)
	c.hear(control.Event{Type: control.EventEpoch})
	near("saved just now", c.save(), 30*time.Hour)
	if !c.saves() {
		t.Error("saved, and not known to be")
	}
	c.saved = now.Add(-10 * time.Hour)
	near("saved before", c.save(), 20*time.Hour)
	c.saved = now.Add(-40 * time.Hour)
	near("late", c.save(), 0)
}
