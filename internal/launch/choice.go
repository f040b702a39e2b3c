package launch

import (
	"fmt"
	"time"
)

// This file decides whether a process that died is worth a new one. The survivors can run its
// tasks beside their own, which makes the busiest of them slower for the rest of the
// job. Or the launcher starts a new process, which costs its start, and takes over tasks of
// live processes only when they next save. Stengler's thesis (Darmstadt 2017, section 6.2) names
// the two cases in which a new process is better, too little memory and too many
// deaths, and leaves the choice as future work.

// situation is what the launcher knows when a process has died.
type situation struct {
	tasks int           // tasks of the job
	live  int           // surviving processes; 1 or more
	ran   time.Duration // how long the job has run; the estimate is that it runs as long again
	start time.Duration // from the start of a process until it is ready; 0: none ever was
	state int64         // bytes that a new process would receive; 0: unknown
	saves bool          // all tasks have saved: those of live processes move when they next save
	save  time.Duration // until then
	full  bool          // the survivors have no room for the tasks of the dead
	alone bool          // no process takes over anything: the processes do not know of each other
}

// moveRate is the assumed rate at which state moves, in bytes a second: what a network of
// 10 Gbit/s carries.
const moveRate = 10e9 / 8

// choose decides whether to start a new process, and returns why.
func (s situation) choose() (respawn bool, why string) {
	switch {
	case s.alone:
		return true, "nobody takes its task over"
	case s.full:
		return true, "the others have no memory for its tasks"
	case !s.saves: // survivors take over the tasks of the dead, and tasks of live processes stay
		return false, "it would get no tasks before another one dies, since the tasks have saved nothing"
	}
	through, again := s.through(), s.again()
	before, after := s.busiest()
	would, start := "costs", "a start"
	if respawn = again < through; respawn {
		would = "would cost"
	}
	if s.state > 0 || s.save > 0 {
		start = "a start and the move of tasks"
	}
	return respawn, fmt.Sprintf("running through %s %s (%s for a process instead of %d), %s %s",
		would, seconds(through), counted(after, "task", "tasks"), before, start, seconds(again))
}

// busiest returns how many tasks the busiest process has, before the death and after
// it, if tasks are spread evenly.
func (s situation) busiest() (before, after int) {
	return ceil(s.tasks, s.live+1), ceil(s.tasks, s.live)
}

func ceil(a, b int) int { return (a + b - 1) / b }

// slower returns how much longer work takes without the dead process, as a fraction of the time that it
// takes with it.
func (s situation) slower() float64 {
	before, after := s.busiest()
	return float64(after-before) / float64(max(before, 1))
}

// through returns the time that the job loses if no process is started.
func (s situation) through() time.Duration { return share(s.slower(), s.ran) }

// again returns the time that the job loses if a process is started. If none was ever ready, a start
// takes at least as long as the job has run.
func (s situation) again() time.Duration {
	start := s.start
	if start == 0 {
		start = s.ran
	}
	move := share(float64(s.state)/moveRate, time.Second)
	return start + move + share(s.slower(), min(s.save, s.ran))
}

func share(part float64, of time.Duration) time.Duration { return time.Duration(part * float64(of)) }

// seconds formats a time with two significant digits.
func seconds(d time.Duration) string {
	s := d.Seconds()
	switch {
	case s >= 10:
		return fmt.Sprintf("%.0f s", s)
	case s >= 1 || s == 0:
		return fmt.Sprintf("%.1f s", s)
	case s >= 0.1:
		return fmt.Sprintf("%.2f s", s)
	}
	return fmt.Sprintf("%.3f s", s)
}
