package membership

import (
	"errors"
	"strings"
	"testing"

	"github.com/coppice-go/coppice/protocol"
	"pgregory.net/rapid"
)

// five is a view of five processes after one of six was removed. Process 4 has come back.
func five() *View {
	return NewView(7, []Member{{0, 1}, {1, 1}, {2, 1}, {3, 1}, {4, 2}}, []Member{{5, 3}}, nil)
}

// orders lists letters that may prove that a process can be killed.
var orders = []struct {
	name   string
	letter Letter
	who    Member
	known  *View
	why    string // part of the refusal; "": it may be killed
}{
	{"three of five have promised", Letter{Route: ids(0, 1, 2)}, Member{3, 1}, nil, ""},
	{"two of the three that may be alive have promised", Letter{Route: ids(0, 1), Missing: ids(2, 4)}, Member{3, 1}, nil, ""},
	{"the view is the latest", Letter{Route: ids(0, 1, 2)}, Member{3, 1}, five(), ""},
	{"an earlier view is known", Letter{Route: ids(0, 1, 2)}, Member{3, 1}, First(5, nil), ""},
	{"too few: a minority", Letter{Route: ids(0, 1)}, Member{3, 1}, nil, "2 of the 5 members of view 7 {0 1 2 3 4.2} that may be alive have promised"},
	{"too few: half of those that may be alive", Letter{Route: ids(0, 1), Missing: ids(2)}, Member{3, 1}, nil, "2 of the 4 members"},
	{"too few: the proposer alone", Letter{Route: ids(0)}, Member{3, 1}, nil, "1 of the 5 members"},
	{"forged: the dead have promised", Letter{Route: ids(0, 1, 2), Missing: ids(1, 2)}, Member{3, 1}, nil, "1 of the 3 members"},
	{"forged: processes outside the view have promised", Letter{Route: ids(0, 1, 5, 6, 7)}, Member{3, 1}, nil, "2 of the 5 members"},
	{"forged: one has promised three times", Letter{Route: ids(0, 0, 0)}, Member{3, 1}, nil, "1 of the 5 members"},
	{"forged: without its proposer", Letter{Route: ids(1, 2, 4)}, Member{3, 1}, nil, "the proposer of ballot 1.0 is not among those"},
	{"forged: about another process", Letter{Route: ids(0, 1, 2), Who: Member{3, 1}}, Member{4, 2}, nil, "it is about 3, not about 4.2"},
	{"a later incarnation", Letter{Route: ids(0, 1, 2), Who: Member{3, 2}}, Member{3, 2}, nil, "has no member 3.2"},
	{"an earlier incarnation", Letter{Route: ids(0, 1, 2), Who: Member{4, 1}}, Member{4, 1}, nil, "has no member 4"},
	{"not a member", Letter{Route: ids(0, 1, 2), Who: Member{5, 3}}, Member{5, 3}, nil, "has no member 5.3"},
	{"stale: a later view is known", Letter{Route: ids(0, 1, 2)}, Member{3, 1}, five().Without(is(4), false), "is out of date, view 8 is chosen"},
	{"another view of that number", Letter{Route: ids(0, 1, 2)}, Member{3, 1}, NewView(7, five().Members[1:], nil, nil), "is not the view 7 {1 2 3 4.2}"},
	{"without a view", Letter{Kind: Fence, Route: ids(0, 1, 2)}, Member{3, 1}, nil, "a fence without a view"},
	{"a wish", Letter{Kind: Wish, Base: five(), Route: ids(0, 1, 2)}, Member{3, 1}, nil, "a wish is no order"},

	{"the last two: the suspect", pair(0, 3), Member{3, 1}, nil, ""},
	{"the last two: the proposer", pair(0, 3), Member{0, 1}, nil, ""},
	{"the last two: one of the dead", pair(0, 3), Member{4, 2}, nil, "4.2 is not one of the last two"},
	{"the last two are three", Letter{Kind: Fence, Base: five(), Ballot: ballot(1, 0), Route: ids(0), Missing: ids(1, 2), Who: Member{3, 1}}, Member{3, 1}, nil, "3 members of view 7 {0 1 2 3 4.2} may be alive"},
	{"the last two: an earlier incarnation", pair(0, 4), Member{4, 1}, nil, "has no member 4"},

	{"a view has removed it", *Removal(five()), Member{5, 3}, nil, ""},
	{"a view has removed it, in an earlier life", *Removal(five()), Member{4, 1}, five(), ""},
	{"the view has it", *Removal(five()), Member{3, 1}, nil, "view 7 {0 1 2 3 4.2} has it"},
	{"the view has removed an earlier life", *Removal(five()), Member{5, 4}, nil, "has not removed 5.4"},
	{"the view does not know it", *Removal(five()), Member{6, 1}, nil, "has not removed 6"},
	{"stale: it is in a later view", *Removal(five()), Member{5, 3}, five().With([]Member{{5, 4}}, false), "is out of date"},
	{"the view is not open", Letter{Kind: Decided, Base: five()}, Member{5, 3}, nil, "a decided is no order"},
}

func ids(list ...protocol.Rank) []protocol.Rank { return list }

// is returns a function that finds a member by its id.
func is(id protocol.Rank) func(Member) bool { return func(m Member) bool { return m.ID == id } }

// pair is the order of a proposer that is alone with a suspect.
func pair(by, suspect protocol.Rank) Letter {
	l := Letter{Kind: Fence, Base: five(), Ballot: ballot(1, by), Route: ids(by)}
	for _, m := range five().Members {
		if m.ID == suspect {
			l.Who = m
		} else if m.ID != by {
			l.Missing = append(l.Missing, m.ID)
		}
	}
	return l
}

func TestOnlyAQuorumCondemns(t *testing.T) {
	for _, c := range orders {
		t.Run(c.name, func(t *testing.T) {
			l := c.letter
			if l.Kind == Prepare { // the order of a majority
				l.Kind, l.Base, l.Certain, l.Ballot = Fence, five(), true, ballot(1, 0)
				if l.Who == (Member{}) {
					l.Who = Member{3, 1}
				}
			}
			err := l.Condemns(c.who, c.known)
			if c.why == "" && err != nil || c.why != "" && (!errors.Is(err, ErrUnproven) || !strings.Contains(err.Error(), c.why)) {
				t.Errorf("got %v, want %q", err, c.why)
			}
		})
	}
}

// TestNoTwoSidesPrevail: of two sides that share no member, and know of the same deaths, at most one may kill the other.
// What is left then is a quorum: every member that may be alive has promised.
func TestNoTwoSidesPrevail(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 9).Draw(t, "n")
		var sides [2]tally
		var after tally
		for range n {
			dead := rapid.Bool().Draw(t, "dead and known to be")
			side := rapid.IntRange(0, 2).Draw(t, "side") // 2: has promised to neither
			for i := range sides {
				sides[i].count(side == i, dead, dead)
			}
			after.count(side == 0, side != 0, side != 0)
		}
		if sides[0].prevails() && sides[1].prevails() {
			t.Fatalf("both prevail: %+v", sides)
		}
		if sides[0].prevails() && !after.quorum(false, false) {
			t.Fatalf("no quorum, though all others are dead: %+v", after)
		}
	})
}

// TestAPromiseOfTheDeadDoesNotPrevail: three of six have promised, and two of these have died since. The three others
// are a majority of those that may be alive.
func TestAPromiseOfTheDeadDoesNotPrevail(t *testing.T) {
	var left, right tally
	for id := range 6 {
		dead := id == 1 || id == 2
		left.count(id < 3, dead, dead)
		right.count(id >= 3, dead, dead)
	}
	if left.prevails() || !right.prevails() {
		t.Errorf("left %v, right %v", left.prevails(), right.prevails())
	}
}

// TestWhatIsLeftIsAskedForAgain: the wish of a minority becomes an order when enough of the others are certainly dead.
func TestWhatIsLeftIsAskedForAgain(t *testing.T) {
	c := newCluster(t, 4, 0)
	c.cut = func(a, b protocol.Rank) bool { return true }
	for r := range protocol.Rank(3) {
		c.suspect(0, r+1)
	}
	c.settle()
	if len(c.fenced) > 0 {
		t.Fatalf("one of four has %v killed", c.fenced)
	}
	for r := range protocol.Rank(2) {
		c.kill(r + 1)
		c.notice(r + 1)
	}
	c.settle()
	if len(c.fenced) != 1 || c.fenced[0].ID != 3 {
		t.Fatalf("of the last two %v is to be killed, want 3", c.fenced)
	}
}

// TestAProofOfNobodyIsNoLetter: a letter has an id below 0 only where a place of its tree is empty. Whoever counts the ids of a proof,
// such as the coordinator and the agent of a host, would panic.
func TestAProofOfNobodyIsNoLetter(t *testing.T) {
	for name, l := range map[string]Letter{
		"the dead":          {Kind: Fence, Route: ids(0, 1, 2), Missing: ids(gap)},
		"those who promise": {Kind: Fence, Route: ids(0, 1, 2, gap)},
		"an answer":         {Kind: Accept, Missing: ids(gap)},
	} {
		if l.Kind == Fence {
			l.Who, l.Certain, l.Number, l.Base, l.Ballot, l.Bits = Member{3, 1}, true, 7, five(), ballot(1, 0), 1
		}
		if m, err := Decode(Message{Letter: &l}.Append(nil)); err == nil {
			t.Errorf("%s: %v is a letter", name, m)
		}
	}
}
