package recovery

import (
	"fmt"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
	rules "github.com/coppice-go/coppice/protocol/recovery"
)

// What must hold when processes leave: if no process has died otherwise, nothing is lost and nothing is run
// again from before.

// onlyLeft reports whether no process has died so far, except by leaving, and the run has no suspicions.
func (l *recorder) onlyLeft() bool {
	return l.deaths == 0 && l.run.Suspicions+l.run.Cuts+l.run.Frozen+l.run.Late == 0 && !l.run.Logless
}

// fails records the first error.
func (l *recorder) fails(err error) {
	if l.err == nil {
		l.err = err
	}
}

// leaving checks a process that opens a view, in which some processes may leave.
func (l *recorder) leaving(s *replayState, before, v *membership.View) {
	for t, owner := range v.Owners {
		task := protocol.Rank(t)
		given := before != nil && v.Since[t] == v.Number
		if given && owner >= 0 && v.Leaves(owner) && len(v.Leaving) < len(v.Members) {
			l.fails(fmt.Errorf("%w: task %d goes to p%d, in %v", errGiven, task, owner, v))
		}
		if given && v.Number == before.Number+1 && v.Epoch == before.Epoch && l.onlyLeft() {
			l.fails(fmt.Errorf("%w: task %d at p%d, in %v", errAgain, task, owner, v))
		}
		if owner >= 0 && v.Leaves(owner) && s.Rules().Committed() > 0 && !l.Stored() && l.onlyLeavers(v, rules.Key{Task: task, Epoch: s.Rules().Committed()}) {
			l.saw(holdersLeave)
		}
	}
}

// onlyLeavers reports whether all processes that have a copy leave.
func (l *recorder) onlyLeavers(v *membership.View, k rules.Key) bool {
	some := false
	for i := range l.procs {
		if p := &l.procs[i]; p.alive && p.state.Rules().Holds(k) {
			if some = true; !v.Leaves(protocol.Rank(i)) {
				return false
			}
		}
	}
	return some
}

// frees checks a process that says, as of its view, that no process needs it anymore: every owner in the same
// view has what its tasks have saved, and so do as many of the processes that stay as required. If the owner dies, one of them has the
// state of the latest epoch that any of them knows to be committed.
func (l *recorder) frees(s *replayState) {
	v, self := s.View(), s.Members().Self().ID
	if v == nil || self >= l.Coordinator() || !s.Members().Free() || l.procs[self].free == v.Number {
		return
	}
	l.procs[self].free = v.Number
	if l.Stored() || !l.onlyLeft() {
		return
	}
	for t, owner := range v.Owners {
		if owner < 0 || owner == self || !l.procs[owner].alive || l.procs[owner].opened != v || l.procs[owner].state.Lost() != nil {
			continue
		}
		k := rules.Key{Task: protocol.Rank(t), Epoch: l.procs[owner].state.Rules().Committed()}
		stay, have := 0, 0
		known, kept := rules.Key{Task: k.Task}, false
		for _, m := range v.Members {
			if m.ID != owner && !v.Leaves(m.ID) {
				known.Epoch = max(known.Epoch, l.procs[m.ID].state.Rules().Committed())
			}
		}
		for _, m := range v.Members {
			if m.ID == owner || v.Leaves(m.ID) {
				continue
			}
			kept = kept || l.procs[m.ID].state.Rules().Holds(known)
			if stay++; l.procs[m.ID].state.Rules().Holds(k) || l.procs[m.ID].state.Rules().Committed() > k.Epoch { // or it has a later one
				have++
			}
		}
		if k.Epoch > 0 && (!l.procs[owner].state.Rules().Holds(k) || have < min(l.Copies(), stay)) {
			l.fails(fmt.Errorf("%w: p%d, in %v; %d of %d who stay have the %v", errFree, self, v, have, stay, k))
		}
		if known.Epoch > 0 && !kept && l.Copies() > 0 {
			l.fails(fmt.Errorf("%w: p%d, in %v; p%d may die, and none of the others has the %v", errFree, self, v, owner, known))
		}
	}
}

// retires checks a process that is about to end, and reports whether it leaves.
func (l *recorder) retires(r protocol.Rank, p *process) bool {
	all := p.opened != nil && len(p.opened.Leaving) == len(p.opened.Members)
	if !p.state.Retired() || all {
		l.deaths++ // also at the end of the job, when all leave
		l.safe = l.safe && p.state.Leaves() == 0
		if p.opened != nil && p.opened.Leaves(r) && !all {
			l.saw(diesLeaving)
		}
		return false
	}
	l.looks(p.state)
	for t, owner := range p.opened.Owners {
		if owner == r {
			l.fails(fmt.Errorf("%w: p%d, task %d, in %v", errLeft, r, t, p.opened))
		}
	}
	if p.owned {
		l.saw(handedOver)
	}
	if p.opened.Members[0].ID == r {
		l.saw(proposerLeaves)
	}
	return true
}
