package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/coppice-go/coppice/protocol"
)

// Crash points: one schedule, the ordinary one, in which the event that is due longest happens next, and in
// it every way in which up to Config.Crashes processes crash, one after the other, each right before an event
// at it. A crash at any other moment looks like one of these to all other processes, except for the time from
// which they may be notified of it.

// points explores crash points. It has one world for every number of crashes.
type points[S, M any] struct {
	cfg    *Config[S, M]
	worlds []*World[S, M]
	path   []uint64 // choices made
	report Report
	err    error
}

// CrashPoints runs, in one schedule, every case in which up to cfg.Crashes processes
// crash. It needs states that can be cloned, as Exhaustive does.
func CrashPoints[S, M any](config Config[S, M]) (Report, error) {
	cfg := &config
	if err := cmp.Or(cfg.validate(), searchable(cfg)); err != nil {
		return Report{}, err
	}
	begin := time.Now()
	x := &points[S, M]{cfg: cfg, path: []uint64{free}}
	for range cfg.Crashes + 1 {
		x.worlds = append(x.worlds, newWorld(cfg))
	}
	w := x.worlds[0]
	w.choices.fromScript(x.path)
	if err := w.reset(); err != nil {
		return Report{}, err
	}
	x.play(0)
	x.report.Seconds = time.Since(begin).Seconds()
	return x.report, x.err
}

// play runs the world with the given number of crashes to its end. Before each event it also runs the worlds
// in which the event's process crashes instead. A panic of the protocol or of a check is a violation.
func (x *points[S, M]) play(crashes int) {
	defer func() {
		if v := recover(); v != nil {
			x.violated(fmt.Errorf("%w: %v", ErrPanic, v))
		}
	}()
	w := x.worlds[crashes]
	for x.err == nil {
		menu, _ := w.menu(w.fate.menu[:0])
		w.fate.menu = menu
		e := menu[0]
		if at := protocol.Rank(e.at()); e.kind() != pass && crashes < x.cfg.Crashes && (x.cfg.MayCrash == nil || x.cfg.MayCrash(at)) {
			x.crash(crashes, len(menu), slices.Index(menu, happening(crash, e.at(), 0)), e.at())
		}
		if x.err != nil {
			return
		}
		if len(menu) > 1 {
			x.path = append(x.path, 0)
		}
		x.report.States++
		x.report.Transitions++
		goesOn := w.take(e)
		if err := x.verdict(w, goesOn); err != nil {
			x.violated(err)
		}
		if !goesOn {
			x.report.Schedules++
			return
		}
	}
}

// crash runs the worlds in which a process crashes now: with none of its messages lost and, if crashes are
// lossy, with all of them lost.
func (x *points[S, M]) crash(crashes, of, choice, at int) {
	n := len(x.path)
	for _, lost := range []uint64{0, 1 << 30} {
		if choice < 0 || x.err != nil || lost > 0 && !x.cfg.LossyCrashes {
			break
		}
		w := x.worlds[crashes+1]
		w.become(x.worlds[crashes])
		for r := range w.procs {
			w.procs[r].state = clone(&w.procs[r].state)
		}
		w.snapshot = false // nothing else shares these states
		if of > 1 {
			x.path = append(x.path, uint64(choice))
		}
		w.choices.fromScript(slices.Repeat([]uint64{lost}, len(w.procs)))
		w.take(happening(crash, at, 0))
		x.path = append(x.path, w.choices.made...)
		w.choices.fromScript(nil)
		x.play(crashes + 1)
		if x.err == nil {
			x.path = x.path[:n]
		}
	}
}

// verdict returns what is wrong after a transition.
func (x *points[S, M]) verdict(w *World[S, M], goesOn bool) error {
	switch {
	case w.verdict != nil:
		return w.verdict
	case w.steps >= w.stepsMax:
		return fmt.Errorf("%w: no end after %d steps", ErrLivelock, w.steps)
	case goesOn || x.cfg.Check == nil:
		return nil
	}
	return x.cfg.Check(w)
}

// violated ends the exploration: the path violates something.
func (x *points[S, M]) violated(err error) {
	x.err = newWorld(x.cfg).violation(trimmed(x.path), err, &x.report)
}
