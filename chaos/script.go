package chaos

import (
	"errors"
	"fmt"

	"github.com/coppice-go/coppice/protocol"
)

// script records a run, one line per step. Steps in which nothing happens (Next is called and the process
// rests) have no line.
type script[M any] struct {
	lines []string
}

func (s *script[M]) add(format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

// loopLines is how many lines of an endless run are shown: more would repeat them.
const loopLines = 300

// shortened returns the lines to show of a run that violates something.
func (s *script[M]) shortened(err error) []string {
	if n := len(s.lines) - loopLines; n > 0 && errors.Is(err, ErrLivelock) {
		return append(s.lines[:loopLines:loopLines], fmt.Sprintf("… and so on, for %d more lines", n))
	}
	return s.lines
}

// note records a rare event, if the run has a script.
func (w *World[S, M]) note(format string, args ...any) {
	if w.script != nil {
		w.script.add(format, args...)
	}
}

func (s *script[M]) crashed(e event) {
	if e.kind() == fenced {
		s.add("p%d is killed for p%d", e.at(), e.from())
		return
	}
	s.add("p%d crashes", e.at())
}

func (s *script[M]) cut(one, other []int, oneWay bool) {
	if oneWay {
		s.add("%v hears nothing of %v any more", one, other)
		return
	}
	s.add("%v is cut from %v", one, other)
}

func (s *script[M]) froze(frozen []bool, dead bool) {
	var list []int
	for r, is := range frozen {
		if is {
			list = append(list, r)
		}
	}
	if dead {
		s.add("there are no more faults; %v stand still, and will be found dead", list)
	} else {
		s.add("there are no more faults; %v stand still, and will be suspected", list)
	}
}

func (s *script[M]) passed(now protocol.Time) { s.add("time passes to %d", now) }

func (s *script[M]) received(e event, m M) { s.add("p%d receives %v from p%d", e.at(), m, e.from()) }

func (s *script[M]) notified(e event, n protocol.Notice) {
	switch n.Kind {
	case protocol.Begin:
		s.add("p%d is told to begin (%d)", e.at(), n.Value)
	case protocol.Cancel:
		s.add("p%d is told to cancel (%d)", e.at(), n.Value)
	case protocol.WorkDone:
		s.add("p%d has done its work", e.at())
	case protocol.Death:
		s.add("p%d is told that p%d is dead%s", e.at(), n.Rank, inLife(n))
	case protocol.Suspect:
		s.add("p%d is told that p%d may be dead%s", e.at(), n.Rank, inLife(n))
	case protocol.NewView:
		s.add("p%d is told of view %d", e.at(), n.Value)
	case protocol.Heard:
		s.add("p%d hears of p%d%s", e.at(), n.Rank, inLife(n))
	default:
		s.add("p%d is told %+v", e.at(), n)
	}
}

// inLife names the life in a notice, unless it is the first.
func inLife(n protocol.Notice) string {
	if n.Value <= 1 {
		return ""
	}
	return fmt.Sprintf(" in its life %d", n.Value)
}

// acted records the answer to Next, before it takes effect.
func (s *script[M]) acted(at int, a protocol.Action[M], lost bool) {
	switch a.Kind {
	case protocol.Send, protocol.Correct:
		if lost {
			s.add("p%d sends %v to p%d, where nobody is left", at, a.Msg, a.To)
		} else {
			s.add("p%d sends %v to p%d", at, a.Msg, a.To)
		}
	case protocol.Deliver:
		s.add("p%d delivers %v", at, a.Msg)
	case protocol.Wait:
		if a.At != protocol.Never {
			s.add("p%d waits until %d", at, a.At)
		}
	case protocol.Work:
		s.add("p%d works on %v", at, a.Msg)
	case protocol.Done:
		s.add("p%d is done", at)
	}
}
