package chaos

import (
	"fmt"

	"github.com/coppice-go/coppice/protocol"
)

// script writes a run down, one line a step. Steps in which nothing happens
// (a process is asked and rests) have no line.
type script[M any] struct {
	lines []string
}

func (s *script[M]) add(format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

func (s *script[M]) failed(r int) { s.add("p%d is dead from the start", r) }

func (s *script[M]) crashed(r int) { s.add("p%d crashes", r) }

func (s *script[M]) lost(from, to, n int) {
	s.add("… and the last of its messages to p%d are lost: %d", to, n)
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
		s.add("p%d is told that p%d is dead", e.at(), n.Rank)
	case protocol.Suspect:
		s.add("p%d is told that p%d may be dead", e.at(), n.Rank)
	case protocol.NewView:
		s.add("p%d is told of view %d", e.at(), n.Value)
	default:
		s.add("p%d is told %+v", e.at(), n)
	}
}

// acted writes down the answer to Next, before it takes effect.
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
		s.add("p%d works", at)
	case protocol.Done:
		s.add("p%d is done", at)
	}
}
