package recovery

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/coppice-go/coppice/chaos"
	"github.com/coppice-go/coppice/chaos/replay"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
	rules "github.com/coppice-go/coppice/protocol/recovery"
)

// Situations that the rules of recovery exist for, and that schedules seldom lead to. Zero violations say
// something about those rules only if the situations have occurred.

// situation is the number of a situation.
type situation uint8

const (
	diesResending situation = iota
	diesInOnce
	joinerAlone
	commitsAborting
	diesSending
	targetDies
	viewsUnheard
	removedReturns
	adoptedTwice
	firstGone
	commitDies
	abortDies
	stateLost
	valueLost
	cameBack
	takenBack
	frozenOut
	frozenDead
	diesHolding
	diesTelling
	creditOfOther
	fromFile
	diesHalfway
	abortedInParts
	passedOnEarly
	askedInVain
	diesCorrecting
	heldBack
	notSentAgain
	repeatsWait
	refused
	noRoom
	diesGranted
	diesAfterOver
	diesLettingLeave
	onlyKnowerDies
	toldByOther
	endsAlone
	givenAfterOver
	joinsAfterOver
	handedOver
	holdersLeave
	diesLeaving
	proposerLeaves
	allLeave
	diesGathering
	removedLate
	situations // how many there are
)

var situationNames = [situations]string{
	diesResending:   "a proposer dies between two resends",
	diesInOnce:      "a successor dies in Once",
	joinerAlone:     "a joiner survives alone",
	commitsAborting: "an epoch commits while an abort is under way",
	diesSending:     "a process dies before the copy that it sends is whole",
	targetDies:      "the target of a move dies before it opens the view",
	viewsUnheard:    "a view opens before the one before is acknowledged",
	removedReturns:  "a task returns while its process is removed",
	adoptedTwice:    "a task is adopted twice",
	firstGone:       "all first processes die after a joiner is in",
	commitDies:      "the only process dies that knows of a commit",
	abortDies:       "the only process dies that knows of an abort",
	stateLost:       "a task is lost for want of its state",
	valueLost:       "a task is lost for want of a value of Once",
	cameBack:        "a process comes back and runs a task",
	takenBack:       "a task moves back before its process has opened the view",
	frozenOut:       "a majority goes on without frozen processes",
	frozenDead:      "frozen processes are found dead",
	diesHolding:     "a sender dies with messages that wait for credit",
	diesTelling:     "a receiver dies while credit is on its way",
	creditOfOther:   "credit comes from a process that does not run the receiver",
	fromFile:        "a task goes on from the file of another process",
	diesHalfway:     "a sender dies between the parts of a message",
	abortedInParts:  "an operation is aborted for a task that has completed a part of it",
	passedOnEarly:   "a broadcast is passed on for a task that has not come to it",
	askedInVain:     "a task that is run again is asked for a value that it has not yet",
	heldBack:        "a task waits for others that are far behind",
	notSentAgain:    "a task that is run again does not send what an earlier attempt has sent",
	repeatsWait:     "what is sent again waits until its receiver has come far enough",
	refused:         "the rest of a message is refused",
	noRoom:          "there is no room for a message that nobody has asked for",
	diesGranted:     "a sender dies before the rest of a message has come that was granted",
	diesCorrecting:  "a process dies that corrects what its task has got",

	diesAfterOver:    "the coordinator dies between Over and End",
	diesLettingLeave: "the coordinator dies when it has told some to leave",
	onlyKnowerDies:   "the only process dies that knows that the job is over",
	toldByOther:      "who takes the coordinator's place learns from another process that the job is over",
	endsAlone:        "a process that knows that the job is over has no quorum any more, and ends well",
	givenAfterOver:   "a process that knows that the job is over is given a task",
	handedOver:       "a process hands its tasks over in Save, and leaves",
	holdersLeave:     "a task's owner leaves, and so do all others that have its state",
	diesLeaving:      "a process dies before it has handed over what it has",
	proposerLeaves:   "the lowest process of a view leaves",
	allLeave:         "all processes of a view leave",
	diesGathering:    "a process dies while others have yet to begin",
	removedLate:      "a process begins after a view has removed it",
	joinsAfterOver:   "a process is let in by one that knows that the job is over",
}

// tally counts the runs in which each situation has occurred.
type tally [situations]atomic.Uint64

// list returns the tally with names.
func (t *tally) list() (all []chaos.Situation) {
	for i, name := range situationNames {
		all = append(all, chaos.Situation{Name: name, Runs: t[i].Load()})
	}
	return all
}

// recorder is the job of one run, and what an observer sees of it.
type recorder struct {
	*replay.Job
	run    Job
	counts *tally
	strict bool              // otherwise values of Once may be drawn again, with other bits
	said   map[uint64]uint64 // the bits of all messages; see says
	seen   uint64            // situations, a bit each
	sights replay.Seen       // situations that processes have recorded
	procs  []process
	since  []uint64 // by task, the view that gave it to its owner
	moves  []int    // by task, how often it was adopted
	lost   bool     // a process that died knew that a task is lost
	safe   bool     // no task may be lost
	deaths int      // of processes that did not leave, or left because all did
	err    error
}

// process is what the recorder sees of a process.
type process struct {
	state   *replayState
	alive   bool
	opened  *membership.View // latest
	resent  uint64           // the view in which it last resent something
	credits int              // Credit messages that it has sent and that have not arrived
	owned   bool             // it has owned a task
	free    uint64           // the view as of which it has said that no process needs it
}

// said identifies bits by a message's name and what its sender knows to be aborted.
func said(f *replay.Frame) uint64 { return protocol.Mix(f.Key(), f.Past) }

// newRecorder resets a worker's recorder for another run.
func newRecorder(own *own, run Job, job *replay.Job, counts *tally) *recorder {
	l, tasks := &own.recorder, job.Program().Tasks
	clear(l.said)
	*l = recorder{
		Job: job, run: run, counts: counts, said: l.said,
		procs: zeros(l.procs, int(job.Coordinator())), since: zeros(l.since, tasks), moves: zeros(l.moves, tasks),
	}
	return l
}

// zeros returns a list of n zeros, in the memory of another list if that is large enough.
func zeros[T any](list []T, n int) []T {
	list = slices.Grow(list[:0], n)[:n]
	clear(list)
	return list
}

// observer returns the recorder of a run; nil: it has none.
func observer(w *replayWorld) *recorder {
	if l, ok := w.Protocol().(interface{ itself() *recorder }); ok {
		return l.itself()
	}
	return nil
}

func (l *recorder) itself() *recorder { return l }

// saw records a situation.
func (l *recorder) saw(s situation) { l.seen |= 1 << s }

// looks records the situations that a process has been in.
func (l *recorder) looks(s *replayState) { l.sights |= s.Seen() }

// sights maps situations to those that processes record themselves.
var sights = [situations]replay.Seen{
	abortedInParts: replay.AbortedInParts, passedOnEarly: replay.PassedOnEarly, askedInVain: replay.AskedInVain,
	heldBack: replay.HeldBack, notSentAgain: replay.NotSentAgain, repeatsWait: replay.RepeatsWait,
	refused: replay.Refused, noRoom: replay.NoRoom, toldByOther: replay.ToldByOther, endsAlone: replay.EndsAlone, allLeave: replay.Disbanded,
}

// Init implements protocol.Protocol.
func (l *recorder) Init(s *replayState, self protocol.Rank, seed uint64) {
	l.Job.Init(s, self, seed)
	if self < l.Coordinator() {
		l.procs[self] = process{state: s, alive: true, opened: s.View()}
		for t := range l.Program().Tasks {
			_, owns := s.Runs(protocol.Rank(t))
			l.procs[self].owned = l.procs[self].owned || owns
		}
	}
}

// Receive implements protocol.Protocol.
func (l *recorder) Receive(s *replayState, now protocol.Time, from protocol.Rank, m replayMessage) {
	if m.Kind == replay.Credit {
		l.procs[from].credits--
		if v := s.View(); v != nil && v.Owners[m.Frame.From] != from {
			l.saw(creditOfOther)
		}
	}
	if m.Kind != replay.Rule {
		l.Job.Receive(s, now, from, m)
		return
	}
	if m.Rule.Kind == rules.Again {
		l.saw(takenBack)
	}
	before := s.Rules().Committed()
	l.Job.Receive(s, now, from, m)
	if s.Rules().Committed() > before {
		l.commits(s)
	}
}

// Next implements protocol.Protocol. It records messages and situations.
func (l *recorder) Next(s *replayState, now protocol.Time) protocol.Action[replayMessage] {
	a := l.Job.Next(s, now)
	l.frees(s)
	switch {
	case a.Kind == protocol.Send && (a.Msg.Kind == replay.Data || a.Msg.Kind == replay.Rest):
		l.says(s, a.Msg)
	case a.Kind == protocol.Send && a.Msg.Kind == replay.Credit:
		l.procs[s.Members().Self().ID].credits++
	case a.Kind != protocol.Deliver:
	case a.Msg.Result != nil:
		l.returns(s)
	case a.Msg.Kind == replay.Loss && (l.safe || l.onlyLeft()):
		l.fails(fmt.Errorf("%w: the %v", errWithout, a.Msg.Copy.Key))
	case a.Msg.Kind == replay.Loss && a.Msg.Copy.Name > 0:
		l.saw(valueLost)
	case a.Msg.Kind == replay.Loss:
		if l.saw(stateLost); l.Stored() && !l.lost && l.err == nil { // a process that died may have gone on without the task
			l.err = fmt.Errorf("%w: the %v is stored", errLoss, a.Msg.Copy.Key)
		}
	case a.Msg.Kind == replay.Resumed && !s.Holds(a.Msg.Copy):
		l.saw(fromFile)
	case a.Msg.Kind == replay.View && a.Msg.Letter.Kind == membership.Opened:
		l.opens(s, a.Msg.Letter.Base)
	}
	return a
}

// says checks a message between tasks: its bits are those of its name.
func (l *recorder) says(s *replayState, m replayMessage) {
	sum, name := m.Frame.Sum(), said(m.Frame)
	before, again := l.said[name]
	switch {
	case !again:
		l.said[name] = sum
		return
	case before != sum && l.strict && l.err == nil:
		l.err = fmt.Errorf("%w: %v has other bits than before", chaos.ErrClaims, m)
	}
	if at, ok := s.Stands(m.Frame.From); ok && at.First {
		l.procs[s.Members().Self().ID].resent = s.View().Number
	}
}

// opens checks a process that opens a view.
func (l *recorder) opens(s *replayState, v *membership.View) {
	self := s.Members().Self()
	p := &l.procs[self.ID]
	if last := p.opened; last != nil && l.reruns(last, self.ID) {
		for _, m := range last.Members {
			if m != self && s.Rules().Word(m.ID) < last.Number {
				l.saw(viewsUnheard)
			}
		}
	}
	if p.opened != nil && p.opened.Epoch < v.Epoch && v.Epoch == s.Rules().Committed() {
		l.commits(s)
	}
	if knows := s.KnowsOver() > 0; knows && p.opened != nil {
		for _, m := range v.Members {
			if !p.opened.Has(m) {
				l.saw(joinsAfterOver)
			}
		}
		for t, owner := range v.Owners {
			if owner == self.ID && v.Since[t] == v.Number {
				l.saw(givenAfterOver)
			}
		}
	}
	l.leaving(s, p.opened, v)
	p.opened = v
	for t, owner := range v.Owners {
		p.owned = p.owned || owner == self.ID
		if v.Since[t] > max(l.since[t], 1) {
			l.since[t] = v.Since[t]
			if l.moves[t]++; l.moves[t] > 1 {
				l.saw(adoptedTwice)
			}
		}
		if owner == self.ID && self.Incarnation > 1 {
			l.saw(cameBack)
		}
	}
}

// reruns reports whether a process runs a task again in a view, and waits for the words of others.
func (l *recorder) reruns(v *membership.View, r protocol.Rank) bool {
	for t, owner := range v.Owners {
		if owner == r && v.Since[t] > 1 {
			return l.Program().Saves()+l.Program().Onces() > 0 || l.run.Cancels > 0
		}
	}
	return false
}

// returns checks a process in which a task returns.
func (l *recorder) returns(s *replayState) {
	for i := range l.procs {
		if v := l.procs[i].opened; l.procs[i].alive && v != nil && v.Number > s.View().Number && !v.Has(s.Members().Self()) {
			l.saw(removedReturns)
		}
	}
}

// commits checks a process that learns that an epoch is committed: an abort is under way unless all members
// of its view know the same aborts.
func (l *recorder) commits(s *replayState) {
	if l.run.Cancels == 0 || s.View() == nil {
		return
	}
	known := s.Rules().Records()
	for _, m := range s.View().Members {
		if p := &l.procs[m.ID]; p.alive && p.opened != nil && !slices.Equal(later(p.state, s), known) {
			l.saw(commitsAborting)
		}
	}
}

// later returns the operations that a process knows to be aborted, and that another has not dropped.
func later(s, than *replayState) []rules.Op {
	all := s.Rules().Records()
	if s.Rules().Committed() >= than.Rules().Committed() {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(op rules.Op) bool {
		return 0 < op.Epoch && op.Epoch < than.Rules().Committed()
	})
}

// dies checks a process that is about to die.
func (l *recorder) dies(w *replayWorld, r protocol.Rank) {
	if !w.Awaited(r) && w.Awaits() {
		l.saw(diesGathering)
	}
	p := &l.procs[r]
	p.alive, l.lost = false, l.lost || p.state.Lost() != nil
	if l.retires(r, p) {
		return
	}
	if p.state.Leaves() > 0 {
		l.looks(p.state)
		return
	}
	if settled, sure := w.Settled(); settled {
		switch {
		case !w.Frozen(r) && sure && !p.state.Members().Leaving() && p.opened != nil && l.err == nil && w.Life(r) == 1 && w.Rest(r) != chaos.Done: // or it had ended
			l.err = fmt.Errorf("%w: p%d, which nobody suspected, is killed", chaos.ErrStalled, r)
		case w.Frozen(r) && w.Found():
			l.saw(frozenDead)
		case w.Frozen(r):
			l.saw(frozenOut)
		}
	}
	if p.state.Sure() && p.state.Out() && l.err == nil {
		l.err = fmt.Errorf("%w: p%d: %w", errBadly, r, p.state.Err())
	}
	l.looks(p.state)
	if p.opened == nil {
		return
	}
	if l.Inside() {
		l.endsTelling(p)
	}
	if p.opened.Members[0].ID == r && p.resent == p.opened.Number && l.resends(p) {
		l.saw(diesResending)
	}
	for t := range protocol.Rank(l.Program().Tasks) {
		if at, ok := p.state.Stands(t); ok && !at.First && at.Drawing {
			l.saw(diesInOnce)
		}
		if p.state.Holding(t) {
			l.saw(diesHolding)
		}
		if p.state.Halfway(t) {
			l.saw(diesHalfway)
		}
		if p.state.Correcting(t) {
			l.saw(diesCorrecting)
		}
	}
	if p.credits > 0 {
		l.saw(diesTelling)
	}
	l.bereaves(p.state)
}

// endsTelling records what a process that is about to die knows of the end.
func (l *recorder) endsTelling(p *process) {
	over, leave := p.state.Telling()
	if leave {
		l.saw(diesLettingLeave)
	} else if over {
		l.saw(diesAfterOver)
	}
	if p.state.KnowsOver() > 0 && slices.ContainsFunc(l.procs, func(q process) bool { return q.alive && q.opened != nil }) &&
		!slices.ContainsFunc(l.procs, func(q process) bool { return q.alive && q.state.KnowsOver() > 0 }) {
		l.saw(onlyKnowerDies)
	}
}

// resends reports whether a process is about to resend what a task has sent before.
func (l *recorder) resends(p *process) bool {
	for t := range protocol.Rank(l.Program().Tasks) {
		if at, ok := p.state.Stands(t); !ok || !at.First {
			continue
		}
		for _, f := range p.state.Outgoing(t) {
			if _, again := l.said[said(f)]; again {
				return true
			}
		}
	}
	return false
}

// bereaves records what the survivors lose with a process.
func (l *recorder) bereaves(s *replayState) {
	self := s.Members().Self()
	first, joiner, heirs := false, false, 0
	commit := s.Rules().Committed()
	records := slices.Clone(s.Rules().Records())
	for i := range l.procs {
		p := &l.procs[i]
		if !p.alive {
			continue
		}
		first = first || i < l.run.P && p.state.Members().Self().Incarnation == 1
		if p.opened == nil {
			continue
		}
		heirs++
		joiner = joiner || i >= l.run.P
		if p.state.Rules().Awaits(self) {
			l.saw(diesSending)
		}
		if p.state.Begun(self) {
			l.saw(diesGranted)
		}
		if l.movesTo(p.opened, s) {
			l.saw(targetDies)
		}
		if p.state.Rules().Committed() >= commit {
			commit = 0
		}
		records = slices.DeleteFunc(records, func(op rules.Op) bool {
			return p.state.Rules().Aborted(op) || 0 < op.Epoch && op.Epoch < p.state.Rules().Committed()
		})
	}
	if !first && joiner && int(self.ID) < l.run.P {
		l.saw(firstGone)
	}
	if heirs > 0 && commit > 0 {
		l.saw(commitDies)
	}
	if heirs > 0 && len(records) > 0 {
		l.saw(abortDies)
	}
}

// movesTo reports whether a view moves a task, with an epoch, to a process that has not opened it.
func (l *recorder) movesTo(v *membership.View, s *replayState) bool {
	if v.Epoch == 0 || s.View() == nil || s.View().Number >= v.Number {
		return false
	}
	for t, owner := range v.Owners {
		if owner == s.Members().Self().ID && v.Since[t] == v.Number {
			return true
		}
	}
	return false
}

// ends checks the end of a run, and counts what was seen in it.
func (l *recorder) ends(w *replayWorld) {
	var left []protocol.Rank
	for r := range l.Coordinator() {
		if w.Frozen(r) {
			l.saw(frozenOut)
		} else if w.Alive(r) && l.procs[r].opened != nil && !w.State(r).Out() {
			left = append(left, r)
		}
	}
	if len(left) == 1 && int(left[0]) >= l.run.P && len(l.procs[left[0]].opened.Members) == 1 {
		l.saw(joinerAlone)
	}
	for i := range l.procs {
		l.looks(l.procs[i].state)
	}
	for i, sight := range &sights {
		if l.seen>>i&1 == 1 || l.sights&sight != 0 {
			l.counts[i].Add(1)
		}
	}
}
