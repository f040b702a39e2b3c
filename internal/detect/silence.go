package detect

import (
	"fmt"
	"slices"
	"time"
)

// Silence suspects processes that are silent for too long: one that is stopped
// or swaps, one whose host or network is lost. It is the part of one process in
// a ring of all the living: it beats to its two successors and watches its two
// predecessors. It has no clock, timer or goroutine; the caller has them, and
// calls one method at a time.
//
// The caller's duties:
//
//  1. Call Tick at once, and then at the moment that the last Todo names.
//  2. Send the Beats that Todo lists at once: a frame each, nothing in it.
//  3. Call Heard for every frame that arrives, beat or not.
//  4. Call Gone for every process that is certainly dead or has left: the ring
//     closes around it. Call Joined for one that comes back.
//
// With a silence of S, what it promises:
//
//   - Two beats per process go out every S/8.
//   - A process is suspected when nothing was heard of it for S or a little
//     longer: at most min(S/8, 0.35 s), as much as its gaps of late exceeded two
//     beats. With S = 3 s and a caller that is not late by more than S/64, that
//     is 3.0 to 3.5 s after its last frame.
//   - It is one of the two watchers that says so. If both fall silent as well,
//     the next ones begin to watch when these are gone, with a fresh allowance.
//   - A pause of this process blames nobody: if Tick comes late, the time by
//     which it is late does not count as anybody's silence. And since what was
//     sent during a pause may not have been read yet, nobody is suspected
//     before a second look a moment later.
//
// A suspicion is not a proof: who must be certain has the suspect killed.
type Silence struct {
	self    int
	silence time.Duration
	ring    ring

	followers []int   // whom it beats to
	watches   []watch // whom it watches
	beatAt    time.Time
	due       time.Time // when Tick should come
}

// watch is what is known of a process that is watched.
type watch struct {
	rank   int
	heard  time.Time // last, or when the watch began; later by own pauses since
	paused time.Duration
	fresh  bool // nothing was heard yet
	stage  stage
	lookAt time.Time // the second look, when overdue

	usual  time.Duration // mean of the gaps of late
	worst  time.Duration // largest gap of this window …
	before time.Duration // … and of the one before
	turnAt time.Time     // the end of this window
}

type stage uint8

const (
	heard     stage = iota
	warned          // silent for unusually long
	overdue         // for longer than allowed
	suspected       // and so again at the second look
)

// watchers is how many processes watch each one, and how many each one watches.
// Two: one may fail together with the process it watches.
const watchers = 2

// SilenceMin is the shortest silence: it keeps the parts of a silence well above what a timer is late by.
const SilenceMin = 50 * time.Millisecond

// NewSilence returns the part of process self, one of n, all of which live.
func NewSilence(self, n int, silence time.Duration, now time.Time) (*Silence, error) {
	if n < 1 {
		return nil, fmt.Errorf("silence among %d processes; allowed: 1 and more", n)
	}
	if self < 0 || self >= n {
		return nil, fmt.Errorf("silence seen by process %d; allowed: 0 to %d", self, n-1)
	}
	if silence < SilenceMin {
		return nil, fmt.Errorf("silence of %v; allowed: %v and more", silence, SilenceMin)
	}
	s := &Silence{self: self, silence: silence, ring: newRing(n), beatAt: now, due: now}
	s.watch(now)
	return s, nil
}

// Everything is a part of the silence.
func (s *Silence) beat() time.Duration   { return s.silence / 8 }
func (s *Silence) slack() time.Duration  { return min(s.beat(), 350*time.Millisecond) }
func (s *Silence) late() time.Duration   { return s.beat() / 8 }  // more is a pause
func (s *Silence) look() time.Duration   { return s.beat() / 16 } // until the second look
func (s *Silence) window() time.Duration { return 10 * s.silence }

// Todo is what Tick asks of its caller.
type Todo struct {
	Beats    []int    // processes to beat to now
	Warnings []Silent // for the log: unusually long silences
	Suspects []Silent
	At       time.Time // when to call Tick again, at most an eighth of the silence from now
}

// Silent is a process that has been silent for long. It is told once, and again
// only if it has been heard in between.
type Silent struct {
	Rank int
	For  time.Duration // without the pauses of this process
	Why  string        // in words, one line
}

// Tick says what to do now.
func (s *Silence) Tick(now time.Time) Todo {
	s.awake(now)
	var todo Todo
	if !now.Before(s.beatAt) {
		todo.Beats = slices.Clone(s.followers)
		s.beatAt = now.Add(s.beat())
	}
	todo.At = s.beatAt
	for i := range s.watches {
		if at := s.judge(&s.watches[i], now, &todo); at.Before(todo.At) {
			todo.At = at
		}
	}
	s.due = todo.At
	return todo
}

// Heard notes that a frame of process from has arrived.
func (s *Silence) Heard(from int, now time.Time) {
	s.awake(now)
	for i := range s.watches {
		if w := &s.watches[i]; w.rank == from {
			w.hear(now, s.window())
		}
	}
}

// Gone notes that a process is dead or has left.
func (s *Silence) Gone(rank int, now time.Time) {
	if rank != s.self && s.ring.set(rank, true) {
		s.watch(now)
	}
}

// Joined notes that a process that was gone is there again.
func (s *Silence) Joined(rank int, now time.Time) {
	if s.ring.set(rank, false) {
		s.watch(now)
	}
}

// Grow makes room on the ring for processes up to the n-th. New ones are on it
// from the start.
func (s *Silence) Grow(n int, now time.Time) {
	if n <= len(s.ring.gone) {
		return
	}
	gone := s.ring.gone
	s.ring = newRing(n)
	copy(s.ring.gone, gone)
	s.watch(now)
}

// watch looks to the predecessors on the ring as it is now. Whom it watched
// before it goes on watching, a new one begins with all of its allowance.
func (s *Silence) watch(now time.Time) {
	s.followers = s.ring.along(s.self, s.ring.stride, watchers)
	var watches []watch
	for _, rank := range s.ring.along(s.self, -s.ring.stride, watchers) {
		i := slices.IndexFunc(s.watches, func(w watch) bool { return w.rank == rank })
		if i >= 0 {
			watches = append(watches, s.watches[i])
		} else {
			watches = append(watches, watch{rank: rank, heard: now, fresh: true, turnAt: now.Add(s.window())})
		}
	}
	s.watches = watches
}

// awake finds out whether this process was paused: then Tick is late. The
// silence of the others is taken back by as much.
func (s *Silence) awake(now time.Time) {
	pause := now.Sub(s.due)
	if pause <= s.late() {
		return
	}
	s.due = now
	for i := range s.watches {
		w := &s.watches[i]
		back := min(pause, now.Sub(w.heard))
		if back <= 0 || w.stage == suspected {
			continue
		}
		w.heard = w.heard.Add(back)
		w.paused += back
		if w.stage == overdue {
			w.stage = warned
		}
	}
}

// judge adds to todo what there is to say of w, and returns when to look again.
func (s *Silence) judge(w *watch, now time.Time, todo *Todo) time.Time {
	silent := now.Sub(w.heard)
	allowed := s.allowed(w)
	if w.stage == heard && silent >= s.unusual(w) {
		w.stage = warned
		todo.Warnings = append(todo.Warnings, Silent{w.rank, silent, w.words(silent)})
	}
	if w.stage == overdue && !now.Before(w.lookAt) {
		w.stage = suspected
		why := fmt.Sprintf("%s, allowed %.2f s", w.words(silent), allowed.Seconds())
		todo.Suspects = append(todo.Suspects, Silent{w.rank, silent, why})
	}
	if w.stage == warned && silent >= allowed {
		w.stage = overdue
		w.lookAt = now.Add(s.look())
	}
	switch w.stage {
	case heard:
		return w.heard.Add(s.unusual(w))
	case warned:
		return w.heard.Add(allowed)
	case overdue:
		return w.lookAt
	}
	return s.beatAt
}

// allowed is how long w may be silent: who has been irregular of late has more.
func (s *Silence) allowed(w *watch) time.Duration {
	return s.silence + min(max(w.worstGap()-2*s.beat(), 0), s.slack())
}

// unusual is how long a silence of w has to be for a warning: longer by half
// than any of late.
func (s *Silence) unusual(w *watch) time.Duration {
	return min(max(w.worstGap()*3/2, 2*s.beat()), 6*s.beat())
}

func (w *watch) worstGap() time.Duration { return max(w.worst, w.before) }

// hear ends a silence and takes it into account as a gap, if it was one: the
// time from the beginning of a watch is none.
func (w *watch) hear(now time.Time, window time.Duration) {
	gap := now.Sub(w.heard)
	if gap < 0 {
		return // a frame that was read earlier, told later
	}
	if !now.Before(w.turnAt) {
		w.before, w.worst = w.worst, 0
		w.turnAt = now.Add(window)
	}
	if !w.fresh {
		w.worst = max(w.worst, gap)
		if w.usual == 0 {
			w.usual = gap
		}
		w.usual += (gap - w.usual) / 8
	}
	w.heard, w.paused, w.fresh, w.stage = now, 0, false, heard
}

// words says how long w has been silent.
func (w *watch) words(silent time.Duration) string {
	text := fmt.Sprintf("task %d has been silent for %.2f s", w.rank, silent.Seconds())
	if w.fresh {
		text += ", since it is watched"
	} else if w.usual > 0 {
		text += fmt.Sprintf(", usually %.2f s", w.usual.Seconds())
	}
	if w.paused > 0 {
		text += fmt.Sprintf(", not counting %.2f s in which this task was paused", w.paused.Seconds())
	}
	return text
}
