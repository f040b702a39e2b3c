package membership

import (
	"errors"
	"fmt"
	"slices"
)

// Source: rules 1 and 2 of docs/design.md.
//
// This file is the only place that says what a quorum of a view is, and what proves that a process may be killed so
// that the others have one. A proposer counts its own answers. The one that is asked to kill a process, such as the
// agent of a host, counts the same answers in the proof that the request carries. So no process is killed on another
// host because of what one process or one coordinator believes. A proof protects against mistakes, not against processes
// that lie: all of them have the job's key.

// tally counts the members of a view by what they have answered to a ballot.
type tally struct {
	members  int
	answered int // have promised or accepted, though some may be dead by now
	unknown  int // have not answered, and what they recorded is not known
	alive    int // are not certainly dead
	promised int // have answered, and are not certainly dead
}

// count adds a member.
func (t *tally) count(answered, dead, testified bool) {
	t.members++
	if answered {
		t.answered++
	} else if !testified {
		t.unknown++
	}
	if !dead {
		t.alive++
		if answered {
			t.promised++
		}
	}
}

// quorum reports whether the answers are a quorum (rule 2). majorityOnly leaves out (a); named says that the arbiter has named the
// proposer, which has answered itself.
func (t tally) quorum(majorityOnly, named bool) bool {
	return t.unknown == 0 && !majorityOnly || 2*t.answered > t.members || named && 2*t.answered == t.members
}

// prevails reports whether the answers would be a quorum if the other members were dead, and whether no others that know of the same
// deaths can say the same: more than half of the members that are not certainly dead have promised.
func (t tally) prevails() bool { return 2*t.promised > t.alive }

// pair reports whether only two members may be alive. Then neither has a majority without the other.
func (t tally) pair() bool { return t.alive == 2 }

// tally counts what the proposer knows.
func (s *State) tally() (t tally) {
	for _, m := range s.view.Members {
		t.count(s.campaign.answered.has(m.ID), s.dead(m), s.testified(m))
	}
	return t
}

// proof returns the request of a proposer to have a process killed, with what proves that the proposer may ask for it. The ids
// of Route have promised or accepted the ballot, those of Missing are certainly dead.
func (p *Protocol) proof(s *State, kind Kind, who Member, t tally) *Letter {
	l := Letter{Kind: kind, Who: who, Certain: t.prevails(), Bits: p.bits, Number: s.view.Number, Base: s.view, Ballot: s.campaign.ballot}
	for _, m := range s.view.Members {
		switch {
		case s.dead(m):
			l.Missing = append(l.Missing, m.ID)
		case s.campaign.answered.has(m.ID):
			l.Route = append(l.Route, m.ID)
		}
	}
	return p.write(l)
}

// tally counts what a proof says.
func (l *Letter) tally() (t tally) {
	promised, dead := set(nil).with(l.Route, nil), set(nil).with(l.Missing, nil)
	for _, m := range l.Base.Members {
		t.count(promised.has(m.ID), dead.has(m.ID), dead.has(m.ID))
	}
	return t
}

// Removal returns what proves that an opened view has removed a process.
func Removal(v *View) *Letter {
	return &Letter{Kind: Decided, Open: true, Number: v.Number, Base: v}
}

// ErrUnproven is returned by Condemns if the letter does not prove that the process may be killed.
var ErrUnproven = errors.New("nothing proves that it may be killed")

// Condemns returns nil if the letter proves that this incarnation of a process may be killed:
//
//   - a Fence with Certain: members that have promised the ballot are more than half of those that are not certainly dead;
//   - a Fence without: only two members may be alive, of which one has promised; the caller decides which of the two goes;
//   - a Decided that is Open: the view has removed the process.
//
// known is the latest view that the caller knows to be chosen; nil: none. What an earlier view proves counts no more.
func (l *Letter) Condemns(who Member, known *View) error {
	if why := l.flaw(who, known); why != "" {
		return fmt.Errorf("%w: %s", ErrUnproven, why)
	}
	return nil
}

// flaw returns why the letter does not prove that a process may be killed; "": it does.
func (l *Letter) flaw(who Member, known *View) string {
	v := l.Base
	switch {
	case v == nil:
		return fmt.Sprintf("a %v without a view", l.Kind)
	case known != nil && v.Number < known.Number:
		return fmt.Sprintf("%v is out of date, view %d is chosen", v, known.Number)
	case known != nil && v.Number == known.Number && !slices.Equal(v.Members, known.Members):
		return fmt.Sprintf("%v is not the %v that is known here", v, known)
	case l.Kind == Decided && l.Open:
		return l.removalFlaw(who)
	case l.Kind != Fence:
		return fmt.Sprintf("a %v is no order", l.Kind)
	case !v.Has(who):
		return fmt.Sprintf("%v has no member %v", v, who)
	case !slices.Contains(l.Route, l.Ballot.By()):
		return fmt.Sprintf("the proposer of ballot %v is not among those that promised it", l.Ballot)
	}
	t := l.tally()
	switch {
	case l.Certain && l.Who != who:
		return fmt.Sprintf("it is about %v, not about %v", l.Who, who)
	case l.Certain && !t.prevails():
		return fmt.Sprintf("%d of the %d members of %v that may be alive have promised, which is no majority", t.promised, t.alive, v)
	case !l.Certain && (!t.pair() || t.promised < 1):
		return fmt.Sprintf("%d members of %v may be alive, not only two", t.alive, v)
	case !l.Certain && slices.Contains(l.Missing, who.ID):
		return fmt.Sprintf("%v is not one of the last two of %v", who, v)
	}
	return ""
}

// removalFlaw returns why an opened view does not prove that it has removed a process; "": it does.
func (l *Letter) removalFlaw(who Member) string {
	switch {
	case l.Base.Has(who):
		return fmt.Sprintf("%v has it", l.Base)
	case l.Base.Last(who.ID) < who.Incarnation:
		return fmt.Sprintf("%v has not removed %v", l.Base, who)
	}
	return ""
}
