// Package replay runs a whole job in one thread, for package chaos: processes whose tasks run a Program, real
// bytes through collective.Store, on the machines that the runtime drives as well: the views of package
// membership, the rules of package recovery, the end of package ending. Its API may change.
//
// A Job is a protocol.Protocol. Its programs have Saves, all tasks at the same points, and Once, whose values
// depend on the process that draws them. The coordinator either is part of a process, and moves when that
// process dies (Config.Inside), or has the last rank, apart from all processes, and never dies.
package replay

import (
	"fmt"
	"math"
	"slices"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/grant"
	"github.com/coppice-go/coppice/protocol/membership"
	"github.com/coppice-go/coppice/protocol/recovery"
)

// Config is the configuration that all processes of a job share.
type Config struct {
	Program   *Program
	Processes int
	Joiners   int // processes that may join, on a Begin notice; their ranks follow

	// Owners lists, by task, the process that owns it in the first view. Processes that own no task are
	// spares. nil: task t belongs to process t modulo their number.
	Owners []protocol.Rank

	// Called lets processes of the first view wait for a Begin notice, whose Value is the number of their
	// life, before they run tasks. In a later life they join.
	Called bool

	// Cancels are contexts that have ended before the job begins; see Cancel.Notice for others.
	Cancels []Cancel

	// Moves lets Save move tasks of live processes.
	Moves bool

	// Whole sends every copy in one message. Otherwise some copies are sent in parts.
	Whole bool

	// Copies is how many processes, besides its own, keep what a task saves. 0: one.
	Copies int

	// Hosts is the number of hosts that the processes are spread over in turn: what a task saves is kept
	// on other hosts first. 0: hosts do not matter.
	Hosts int

	// Stored keeps what tasks save in files that all processes read, instead of in copies. The files
	// belong to the job: do not use it with schedules that go back.
	Stored bool

	// Inside makes the coordinator part of a process: the lowest member of a view. Otherwise it has a
	// rank of its own.
	Inside bool

	// Gather says that processes of the first view may begin late, and that a Heard notice reports each
	// one that has begun.
	Gather bool

	// Fanout is the fanout of the membership's tree.
	Fanout int
}

// Job is the protocol of a job's processes and, at the rank that follows theirs unless it is Inside, of
// its coordinator. It implements protocol.Protocol[State, Message].
type Job struct {
	program   *Program
	processes int // joiners included
	members   *membership.Protocol
	first     *membership.View
	rules     recovery.Config
	cancels   []Cancel
	called    bool
	moves     bool
	parts     bool // some copies are sent in parts
	hosts     int
	inside    bool
	memory    *Memory
	files     map[recovery.Key]*Copy // for each key that of the latest attempt; nil: there are no files
}

// New returns the protocol of a job.
func New(cfg Config) (*Job, error) {
	if cfg.Copies < 0 {
		return nil, fmt.Errorf("copies at %d processes; allowed: 0 or more", cfg.Copies)
	}
	if cfg.Program == nil || cfg.Processes < 1 || cfg.Joiners < 0 {
		return nil, fmt.Errorf("a job of %d processes and %d joiners; allowed: 1 or more, 0 or more, and a program", cfg.Processes, cfg.Joiners)
	}
	owners := cfg.Owners
	if owners == nil {
		owners = cfg.Program.memory.ranks.list(cfg.Program.Tasks)
		for t := range owners {
			owners[t] = protocol.Rank(t % cfg.Processes)
		}
	}
	if len(owners) != cfg.Program.Tasks {
		return nil, fmt.Errorf("owners of %d tasks; allowed: %d", len(owners), cfg.Program.Tasks)
	}
	for t, o := range owners {
		if o < 0 || int(o) >= cfg.Processes {
			return nil, fmt.Errorf("task %d of process %d; allowed: 0 to %d", t, o, cfg.Processes-1)
		}
	}
	first := membership.First(cfg.Processes, owners)
	members, err := membership.New(membership.Config{First: first, Fanout: cfg.Fanout, Adopt: true, Gather: cfg.Gather, Letter: cfg.Program.memory.letter})
	if err != nil {
		return nil, err
	}
	j := &Job{
		program: cfg.Program, processes: cfg.Processes + cfg.Joiners, members: members, first: first, cancels: cfg.Cancels,
		called: cfg.Called, moves: cfg.Moves, parts: !cfg.Whole, hosts: cfg.Hosts, inside: cfg.Inside, memory: cfg.Program.memory,
		rules: recovery.Config{First: first, Adopts: true, Copies: max(cfg.Copies, 1), Saves: cfg.Program.keeps(), Aborts: cfg.Program.agreed},
	}
	if cfg.Hosts > 0 {
		j.rules.Ring = j.ring
	}
	if cfg.Stored {
		j.files = map[recovery.Key]*Copy{}
	}
	return j, nil
}

// First returns the first view.
func (j *Job) First() *membership.View { return j.first }

// Program returns the program that the job's tasks run.
func (j *Job) Program() *Program { return j.program }

// Stored reports whether what tasks save is kept in files.
func (j *Job) Stored() bool { return j.files != nil }

// Copies returns how many processes, besides its own, keep what a task saves.
func (j *Job) Copies() int { return j.rules.Copies }

// Coordinator returns the coordinator's rank, if it has one; it follows those of the processes.
func (j *Job) Coordinator() protocol.Rank { return protocol.Rank(j.processes) }

// Inside reports whether the coordinator is part of a process.
func (j *Job) Inside() bool { return j.inside }

// Ranks returns the number of ranks: those of the processes, joiners included, and the coordinator's if it
// has one.
func (j *Job) Ranks() int {
	if j.inside {
		return j.processes
	}
	return j.processes + 1
}

// State is the state of one process.
type State struct {
	members membership.State
	part
}

// part is the part of the state outside the membership.
type part struct {
	job     *Job
	self    protocol.Rank
	now     protocol.Time
	rest    protocol.Time    // before it the membership has nothing to do, unless something comes for it
	view    *membership.View // open, or the last that was; nil: the process has not joined yet
	tasks   []*task          // tasks that it owns, by number
	held    []said           // messages for tasks that it does not own yet
	changes uint64           // count of changes in what tasks wait for, besides messages
	told    uint64           // the view in which it has told the coordinator that all tasks have returned
	ended   bool

	rules   *recovery.Machine
	effects []recovery.Effect   // memory for those of the rules
	kept    []*Copy             // copies that the rules want kept
	asked   []grant.Out[*Frame] // by process: messages of which the rest waits for a grant
	pieces  []*piece            // messages whose rest has not come
	room    grant.Room          // for messages that no task has asked for
	parcels []parcel            // messages to go before those of tasks
	events  []Message           // to be delivered
	cancels []uint64            // contexts that have ended
	wish    bool                // it has asked for a view that moves tasks
	lost    *Copy               // of a task that no process can run anymore

	seen    Seen
	over    error // why the group has ended for the process
	left    bool  // it has asked to be killed since
	retired bool  // it leaves, before the end
	called  bool  // it may run tasks
	end     *end  // the coordinator's, if it has a rank
	inside  inside
}

// Members returns the process's part in the membership, for reading.
func (s *State) Members() *membership.State { return &s.members }

// Rules returns the process's part in recovery, for reading.
func (s *State) Rules() *recovery.Machine { return s.rules }

// View returns the view that is open, or the last that was; nil: the process has not joined yet.
func (s *State) View() *membership.View { return s.view }

// Out reports whether the group has ended for the process: it is excluded, or there is no quorum.
func (s *State) Out() bool { return s.over != nil }

// Err returns what went wrong in a process, or nil.
func (s *State) Err() error {
	if s.over != nil {
		return s.over
	}
	for _, t := range s.tasks {
		if t.err != nil {
			return fmt.Errorf("task %d, operation %d: %w", t.number, t.op, t.err)
		}
	}
	return nil
}

// Runs reports whether the process runs a task, and since which view.
func (s *State) Runs(number protocol.Rank) (since uint64, ok bool) {
	if t := s.find(number); t != nil && s.called {
		return t.view, true
	}
	return 0, false
}

func (s *State) find(number protocol.Rank) *task {
	for _, t := range s.tasks {
		if t.number == number {
			return t
		}
	}
	return nil
}

// Init implements protocol.Protocol.
func (j *Job) Init(s *State, self protocol.Rank, seed uint64) {
	if !j.memory.again() {
		*s = State{}
	}
	s.part = part{
		job: j, self: self, changes: 1, tasks: s.tasks[:0], held: s.held[:0], effects: s.effects, kept: s.kept[:0],
		parcels: s.parcels[:0], events: s.events[:0], cancels: s.cancels[:0],
		asked: s.asked, pieces: s.pieces[:0], room: grant.Room{Max: roomMax}, inside: s.inside,
	}
	for i := range s.asked {
		s.asked[i].Reset()
	}
	if self == j.Coordinator() {
		s.end = j.memory.ends.one()
		*s.end = end{job: s.end.job, memory: j.memory, processes: j.processes}
		s.end.job.Reset(j.first)
		return
	}
	s.inside.reset(j.first)
	j.members.Init(&s.members, self, seed)
	for _, c := range j.cancels {
		if c.At == self {
			s.cancels = append(s.cancels, c.Notice().Value)
		}
	}
	s.called = !j.called
	s.begin(1)
	for t, owner := range j.first.Owners {
		if owner == self {
			s.tasks = append(s.tasks, j.newTask(protocol.Rank(t), j.first.Number))
		}
	}
}

// begin begins a life.
func (s *State) begin(incarnation uint32) {
	self := membership.Member{ID: s.self, Incarnation: incarnation}
	s.rules = s.job.memory.machines.one()
	s.rules.Reset(&s.job.rules, self)
	if s.view = s.rules.View(); s.view != nil {
		s.rules.Hold(s.hold())
	}
	s.job.carryOut(s)
}

// ring returns the order in which the other members of a view get copies: those on other hosts first.
func (j *Job) ring(v *membership.View, self membership.Member) []protocol.Rank {
	at, all := slices.Index(v.Members, self), j.memory.ranks.list(len(v.Members))[:0]
	for _, near := range []bool{false, true} {
		for i := 1; i < len(v.Members); i++ {
			id := v.Members[(at+i)%len(v.Members)].ID
			if (int(id-self.ID)%j.hosts == 0) == near {
				all = append(all, id)
			}
		}
	}
	return all
}

// Receive implements protocol.Protocol.
func (j *Job) Receive(s *State, now protocol.Time, from protocol.Rank, m Message) {
	switch {
	case j.inside && m.Kind.concernsEnd():
		s.endCame(membership.Member{ID: from, Incarnation: m.Letter.From}, m)
		return
	case m.Kind != View && s.gone(from, m.Letter):
		return
	}
	for _, k := range m.Drawn {
		s.rules.Drew(k)
		j.carryOut(s)
	}
	if m.Kind != View && m.Kind != Data || len(m.Drawn) > 0 {
		s.changes++
	}
	switch {
	case m.Kind == View:
		if s.end == nil {
			if l := m.Letter.Letter; j.inside && l != nil && l.Kind == membership.Join && s.inside.joinCame(l.Who) {
				return
			}
			s.rest = 0
			j.members.Receive(&s.members, now, from, m.Letter)
		}
	case m.Kind == Data || m.Kind == Credit:
		j.accept(s, said{m.Frame, membership.Member{ID: from, Incarnation: m.Letter.From}})
	case m.Kind == Beginning:
		j.beginningCame(s, membership.Member{ID: from, Incarnation: m.Letter.From}, m)
	case m.Kind == Rest:
		j.restCame(s, membership.Member{ID: from, Incarnation: m.Letter.From}, m)
	case m.Kind == Grant || m.Kind == Refusal:
		j.answered(s, from, m)
	case m.Kind == Returned:
		s.end.returned(from, m.Letter.Base)
	case m.Kind == End:
		s.ended = true
	case m.Kind == Begins:
		j.begins(s, membership.Member{ID: from, Incarnation: m.Letter.From}, m)
	case m.Kind == Wants && m.Holders[0] == s.members.Self(): // another life has not begun to send it
		s.mail(from, Rule, m.Rule, m.Copy)
	case m.Kind == Rule:
		if m.Copy != nil {
			s.keep(m.Copy)
		}
		s.rules.Receive(membership.Member{ID: from, Incarnation: m.Letter.From}, *m.Rule)
		j.carryOut(s)
	}
}

// accept hands a message to its task.
func (j *Job) accept(s *State, f said) {
	switch t := s.find(f.To); {
	case t != nil && f.Op < 0:
		j.flows(s, t, f)
		return
	case t != nil && j.program.limits.Operations > 0 && !j.counts(s, t, f):
		return
	case t != nil:
		t.accept(j.program, f.Frame)
		return
	}
	s.held = append(s.held, f)
}

// counts records a message in the account of its epoch. It returns false if the task must not take the
// message now: its epoch is over, or has not begun.
func (j *Job) counts(s *State, t *task, f said) bool {
	switch epoch := uint64(f.Epoch); {
	case 0 < epoch && epoch < t.epoch:
		return false
	case epoch > t.epoch:
		t.later = append(t.later, f)
		return false
	}
	if f.by.ID == s.view.Owners[f.From] { // how far another attempt has come says nothing about this one
		t.heeds(j.program, s.view, f.Frame)
	}
	return true
}

// Notify implements protocol.Protocol.
func (j *Job) Notify(s *State, now protocol.Time, n protocol.Notice) {
	s.rest = 0
	s.changes++
	switch {
	case s.end != nil:
	case n == Logless:
		s.rules.Logless()
		for _, t := range s.tasks {
			t.logs = nil
		}
	case n == Drain:
		j.members.Leave(&s.members, now, 0)
	case n.Kind == protocol.Heard:
		j.members.Heard(&s.members, now, membership.Member{ID: n.Rank, Incarnation: uint32(n.Value)})
	case n.Kind == protocol.Cancel:
		s.cancels = append(slices.Clip(s.cancels), n.Value)
	case n.Kind == protocol.Begin:
		if s.called = true; n.Value > 1 {
			s.tasks = nil
			s.begin(uint32(n.Value))
		}
		j.members.Notify(&s.members, now, n)
	default:
		if j.inside && n.Kind == protocol.Death {
			s.inside.job.Died(membership.Member{ID: n.Rank, Incarnation: uint32(n.Value)})
		}
		j.members.Notify(&s.members, now, n)
	}
}

// Next implements protocol.Protocol.
func (j *Job) Next(s *State, now protocol.Time) protocol.Action[Message] {
	switch {
	case s.end != nil:
		return s.end.next()
	case s.ended:
		return protocol.Action[Message]{Kind: protocol.Done}
	case s.inside.end > 0:
		return s.depart()
	case s.over != nil || s.retired:
		return s.leave()
	}
	s.now = now
	for {
		if len(s.events) > 0 {
			return s.happened()
		}
		if now >= s.rest {
			switch a := j.members.Next(&s.members, now); a.Kind {
			case protocol.Idle:
				s.rest = protocol.Never
			case protocol.Wait:
				s.rest = a.At
			default:
				if a.Kind == protocol.Deliver {
					j.news(s, a.Msg)
				}
				m := j.memory.message(View)
				m.Letter = a.Msg
				return protocol.Action[Message]{Kind: a.Kind, To: a.To, Msg: m}
			}
		}
		if j.inside && s.called {
			if a := j.finish(s); a.Kind != protocol.Idle {
				return a
			}
		}
		at := s.rest
		if until := s.inside.job.Until(); now < until {
			at = min(at, until)
		}
		if s.view != nil && s.called {
			if b := j.work(s); b.Kind != protocol.Idle {
				return s.addressed(b)
			}
			if j.wishes(s) {
				continue
			}
			for _, t := range s.tasks {
				at = min(at, t.wake)
			}
		}
		if at == protocol.Never {
			return protocol.Action[Message]{Kind: protocol.Idle}
		}
		return protocol.Action[Message]{Kind: protocol.Wait, At: at}
	}
}

// balance lets the membership balance tasks with an epoch; 0: no longer.
func (j *Job) balance(s *State, epoch uint64) {
	s.rest = 0
	j.members.Balance(&s.members, s.view.Number, epoch)
}

// news handles the membership's report that a view is open, or that there will be none.
func (j *Job) news(s *State, m membership.Message) {
	switch m.Kind {
	case membership.Opened:
		j.opened(s, m.Base)
	case membership.Excluded, membership.NoQuorum:
		if s.inside.end = s.inside.process.Sure(); s.inside.end > 0 { // the missing processes have left
			s.seen |= EndsAlone
			return
		}
		if s.members.Free() && m.Kind == membership.Excluded { // as it wanted to be
			s.retired = true
			return
		}
		s.over = fmt.Errorf("process %d: %v", s.self, m.Kind)
	}
}

// leave kills a process for which the group has ended, as real ones exit.
func (s *State) leave() protocol.Action[Message] {
	if s.left {
		return protocol.Action[Message]{Kind: protocol.Idle}
	}
	s.left = true
	m := s.job.memory.message(View)
	m.Letter.Letter = s.job.memory.letters.one()
	*m.Letter.Letter = membership.Letter{Kind: membership.Fence, Who: s.members.Self()}
	return protocol.Action[Message]{Kind: protocol.Work, Msg: m}
}

// opened does what a new view demands.
func (j *Job) opened(s *State, v *membership.View) {
	before := s.view
	s.view, s.wish = v, false
	s.changes++
	for r := range s.asked {
		if m, in := v.Find(protocol.Rank(r)); !in || before == nil || !before.Has(m) {
			s.asked[r].Reset() // no answer will come
		}
	}
	s.rules.Opened(v, s.hold())
	j.carryOut(s)
	for _, t := range s.tasks {
		t.askInView()
	}
	held := s.held
	s.held = nil
	for _, f := range held {
		j.accept(s, f)
	}
}

// Logless makes a process drop its log, as one does whose log is too large.
var Logless = protocol.Notice{Kind: protocol.Cancel, Value: math.MaxUint64}

// Drain makes a process leave, with time to do so. A process that has not joined has nothing to hand over,
// and goes on.
var Drain = protocol.Notice{Kind: protocol.Cancel, Value: math.MaxUint64 - 1}

// Retired reports whether the process has left: no process needed it anymore, or all were to leave.
func (s *State) Retired() bool { return s.retired }

// addressed adds to a message the lives of its sender and receiver, and what it may follow from.
func (s *State) addressed(a protocol.Action[Message]) protocol.Action[Message] {
	if a.Kind == protocol.Send && !(s.job.inside && a.Msg.Kind.concernsEnd()) { // those may go to a process that has not joined
		to, _ := s.view.Find(a.To)
		a.Msg.Letter.From, a.Msg.Letter.To = s.members.Self().Incarnation, to.Incarnation
		if a.Msg.Kind == Data || a.Msg.Kind == Beginning {
			a.Msg.Drawn = s.rules.Owes(a.To)
		}
	}
	return a
}

// happened delivers the next event to the driver, before anything that depends on it.
func (s *State) happened() protocol.Action[Message] {
	return protocol.Action[Message]{Kind: protocol.Deliver, Msg: pop(&s.events)}
}

// work runs the tasks until there is something to do for the driver.
func (j *Job) work(s *State) protocol.Action[Message] {
	for moved := true; moved; {
		moved = false
		if len(s.pieces) > 0 {
			j.lookPieces(s)
		}
		if len(s.events) > 0 {
			return s.happened()
		}
		for _, t := range s.tasks {
			if len(s.parcels) > 0 && s.mailed() {
				return s.deliver()
			}
			if len(t.out) > 0 {
				moved = true
				if f, to := j.post(s, t); f != nil {
					return protocol.Action[Message]{Kind: protocol.Send, To: to, Msg: j.beginning(s, f, to)}
				}
			}
			if s.now >= t.wake {
				t.idle = 0
			}
			if t.idle == s.changes {
				continue // nothing has come for it since
			}
			if j.step(s, t) {
				moved = true
			} else {
				t.idle = s.changes
			}
			if t.returned && !t.announced {
				t.announced = true
				m := j.memory.message(Result)
				m.Result = j.memory.attempts.one()
				*m.Result = Attempt{Task: t.number, View: t.view, Digests: t.digests, Aborted: t.aborted, Onces: t.onces}
				return protocol.Action[Message]{Kind: protocol.Deliver, Msg: m}
			}
		}
	}
	if s.mailed() {
		return s.deliver()
	}
	if s.told < s.view.Number && s.returned() {
		s.told = s.view.Number
		if j.inside {
			return j.saysReturned(s)
		}
		m := j.memory.message(Returned)
		m.Letter.Letter = j.memory.letters.one()
		*m.Letter.Letter = membership.Letter{Base: s.view}
		return protocol.Action[Message]{Kind: protocol.Send, To: j.Coordinator(), Msg: m}
	}
	return protocol.Action[Message]{Kind: protocol.Idle}
}

// step makes a task's next step. It returns false if the task waits or has returned.
func (j *Job) step(s *State, t *task) bool {
	if t.wake = protocol.Never; t.err != nil || s.lost != nil {
		return false
	}
	if len(t.casts) > 0 && t.spread(s.now, func(f *Frame) { j.send(s, t, f) }) {
		return true
	}
	if !t.begun && !t.returned && j.program.keeps() {
		if moved, ok := j.before(s, t); !ok {
			if moved {
				s.changes++
			}
			return moved
		}
	}
	if j.program.agreed {
		switch j.vote(s, t) {
		case recovery.Wait:
			return false
		case recovery.Abandon:
			s.changes++
			if j.program.Calls[t.op].part > 0 {
				s.seen |= AbortedInParts
			}
			t.abort(j.program)
			return true
		}
	}
	if t.blocked(j.program) {
		return false
	}
	return t.advance(j.program, func(f *Frame) { j.send(s, t, f) })
}

// returned reports whether all tasks of the process have returned.
func (s *State) returned() bool {
	return !slices.ContainsFunc(s.tasks, func(t *task) bool { return !t.returned })
}

// send hands a message to a task of this process, or logs it and queues it for sending.
func (j *Job) send(s *State, t *task, f *Frame) {
	has, free := t.spends(j.program, f)
	if s.view.Owners[f.To] != s.self {
		t.keep(f, has, free)
		return
	}
	if j.moves && f.Epoch == 0 {
		t.record(f)
	}
	switch {
	case f.Op == streamed:
		t.leave(f)
	case !has:
		j.accept(s, said{f, s.members.Self()})
	}
}

// post returns what a task has to send next, and its destination, skipping messages for tasks that this
// process has adopted; nil: nothing.
func (j *Job) post(s *State, t *task) (*Frame, protocol.Rank) {
	for len(t.out) > 0 {
		f := pop(&t.out)
		if owner := s.view.Owners[f.To]; owner != s.self {
			return f, owner
		}
		j.accept(s, said{f, s.members.Self()})
	}
	return nil, 0
}
