// Package inquiry ends the wait for the value of a corrected broadcast that does not come. The runtime
// and the tests of this package run it. Its API may change.
//
// Correction reaches all live tasks without knowing the dead ones, as long as the root lived to begin and gaps are not
// too large. Otherwise a task that waits while others are dead asks: the root, or all tasks if the root is dead. A task
// that has the value sends it. What a dead task has sent is handled before its death is. So a task that has nothing when
// it knows of a death will get nothing of that dead task; and if the root is dead, and all live tasks have said so of
// each dead one, no task will ever have the value. A question names one dead rank, and is not answered before that death
// is known. It costs one question and one answer for each pair of a live and a dead task.
//
// The caller's duties: links deliver in order; the death of a rank is handled after all that the dead rank has sent;
// deaths that one process knows of become known to all; and questions that are held are looked at again when a death
// becomes known, when the task comes to the operation or leaves it, and when its result is there.
package inquiry

// Nobody stands for no dead rank.
const Nobody = -1

// Verdict is what a search has come to.
type Verdict uint8

// The verdicts.
const (
	Open      Verdict = iota
	Unreached         // the root is dead, and no live task has the value
	Forgotten         // the root lives, but has the value no more, or never will
)

// Search is the search of one task, for the value of one operation.
type Search struct {
	self, root int
	ranks      []rank
	dead       []int // in the order in which that was learned
	rootAsked  bool
	rootLacks  bool
}

// rank is what is known of one rank.
type rank struct {
	dead     bool
	asked    int // about this many dead ranks
	answered int // of these questions, that it has nothing
}

// New returns the search of a rank in a group of size ranks.
func New(self, size, root int) *Search {
	return &Search{self: self, root: root, ranks: make([]rank, size)}
}

// Died notes that a rank is dead.
func (s *Search) Died(r int) {
	if !s.ranks[r].dead {
		s.ranks[r].dead = true
		s.dead = append(s.dead, r)
	}
}

// Restart notes that a rank is run again: it knows of no question.
func (s *Search) Restart(r int) {
	s.ranks[r].asked, s.ranks[r].answered = 0, 0
	if r == s.root {
		s.rootAsked, s.rootLacks = false, false
	}
}

// Next returns the next question: which rank to ask, and about which dead one.
func (s *Search) Next() (to, about int, ok bool) {
	switch {
	case len(s.dead) == 0:
		return 0, 0, false
	case !s.ranks[s.root].dead:
		ok, s.rootAsked = !s.rootAsked, true
		return s.root, Nobody, ok
	}
	for to := range s.ranks {
		if r := &s.ranks[to]; to != s.self && !r.dead && r.asked < len(s.dead) {
			r.asked++
			return to, s.dead[r.asked-1], true
		}
	}
	return 0, 0, false
}

// Lacks notes the answer of a rank that it has nothing, to a question about a dead one.
func (s *Search) Lacks(from, about int) {
	switch r := &s.ranks[from]; {
	case about == Nobody:
		s.rootLacks = s.rootLacks || from == s.root && s.rootAsked
	case r.answered < r.asked:
		r.answered++
	}
}

// Verdict says what the search has come to.
func (s *Search) Verdict() Verdict {
	if !s.ranks[s.root].dead {
		if s.rootLacks {
			return Forgotten
		}
		return Open
	}
	for i := range s.ranks {
		if r := &s.ranks[i]; i != s.self && !r.dead && r.answered < len(s.dead) {
			return Open
		}
	}
	return Unreached
}

// Reply is what to do with a question.
type Reply uint8

// The replies.
const (
	Hold Reply = iota // until more is known
	Give              // the value
	Lack              // say that there is nothing
)

// Asked is what is known where a question about a dead rank arrives.
type Asked struct {
	About int
	Has   bool // the value is here
	Dead  bool // the rank that the question is about is known to be dead; if it is about Nobody, the root is
	Never bool // the value will not come here: the task has returned, or is over with the operation
}

// Reply says what to do. What a dead rank has sent may still come: a task may have no use for it, but others may ask for
// it.
func (a Asked) Reply() Reply {
	switch {
	case a.Has:
		return Give
	case a.Dead, a.Never && a.About == Nobody:
		return Lack
	}
	return Hold
}
