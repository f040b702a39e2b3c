// Package recovery decides how a process recovers from the crashes of others: which tasks it
// runs again and gives up, what it resends, what is aborted, what is saved and
// committed, which processes keep copies, and when a task is lost. The runtime and the chaos driver
// run it. Its API may change.
//
// Source: message logging at the sender with deterministic re-execution (Johnson,
// Zwaenepoel, Sender-Based Message Logging, FTCS 1987; Elnozahy, Alvisi, Wang, Johnson, A
// Survey of Rollback-Recovery Protocols, 2002, section 4), between tasks instead of
// processes, and without its record of the order of receipt: a task receives by name, so its
// bits do not depend on that order. Rules 3, 5, 6 and 9 of docs/design.md.
//
// # The rule
//
//   - A message between tasks has a name: operation, from, to, lane. Its bits are a
//     function of its name, since programs are deterministic and schedules depend on
//     tasks, not on their owners.
//   - Every process logs what its tasks send to tasks of other processes. What tasks of one
//     process send each other is not logged: they die together. (If tasks may move, in Save, it
//     is logged before the first Save.)
//   - When a view gives a task to another process, the new owner runs it from the
//     top, and every process sends what its log has for that task to the new owner.
//   - A task takes a message that it misses and drops a message that it has had. A process keeps a message to a
//     task that it does not own: the view that gives it the task is
//     on its way.
//   - Nothing else happens. A task that waits for a message of a dead task keeps waiting.
//   - A process serves its log until the job ends (package ending).
//
// Deaths during recovery are handled the same way. Something is lost only if no process is left; with
// Save, also if all processes that have a task's state die before it is copied again. The rules for operations that
// may be aborted, Save, copies and owners are in their files: aborts.go, epochs.go,
// copies.go, moves.go, leaving.go.
//
// While no process dies, recovery costs the log's memory, and for each Save 2k messages a task and 2 a
// process. A death costs a view, the run of the lost tasks, and at most as many messages as
// were ever sent to and by them.
//
// # The machine
//
// A Machine is the part of one process. It has no bytes, no clock and no goroutine: what
// tasks send, save and keep stays with the caller, which names it by a Key. Every method may
// leave effects, which the caller takes (Effects) and carries out in their order before it
// calls the next method. Tasks that wait for something may find it after any call.
//
// The caller's duties:
//
//  1. Links deliver in order, and nothing arrives from an incarnation that a view has removed.
//  2. Before the caller sends anything else to a process, including tasks' messages, it tells that process of the
//     values that Owes returns for it. A Kept may go before: nothing in it follows from them.
//  3. The caller keeps a copy that has arrived before it calls Receive for it.
package recovery

import (
	"fmt"
	"slices"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
)

// Config is what a machine knows from the beginning.
type Config struct {
	First  *membership.View // the view that the job begins with
	Copies int              // how many other processes keep what a task saves
	Adopts bool             // whether tasks of dead processes are run again
	Saves  bool             // whether tasks save their state or draw values
	Aborts bool             // whether tasks may abort operations

	// Ring lists the other members of a view in the order in which a member gives them copies.
	// nil: the order of the view, beginning with the next member.
	Ring func(v *membership.View, self membership.Member) []protocol.Rank `json:"-"`

	// Nobodys returns why a view gives a task no owner.
	Nobodys func(v *membership.View) string `json:"-"`
}

// Machine is the part of one process.
type Machine struct {
	cfg     *Config
	self    membership.Member
	view    *membership.View // the open view; nil: the process is in none yet
	tasks   []task           // tasks that the process owns, by number
	lost    []loss           // tasks that no process can run any more
	logless bool             // the process has given up its log
	over    bool             // all processes know that the job is over

	records []Op     // aborted operations, in order
	words   []uint64 // by rank: the view of its latest word

	sweep     Sweep
	committed uint64  // the epoch on which this machine has acted
	wish      uint64  // the epoch for which the machine asked for a view that moves tasks
	sparing   spare   // what this machine has said to leaving processes
	spares    []spare // by rank: the same of others
	departed  uint64  // the view in which this machine has departed, or disbanded
	copies    []replica
	coming    []coming
	drawn     []Key // values of Once from which something known here may follow, in the order in which they arrived
	known     []Key // the same values, sorted
	owed      []int // by rank: how many of drawn it knows

	effects []Effect
	spare   [][]membership.Member // memory for lists of copies
}

// task is a task that the process owns.
type task struct {
	number  protocol.Rank
	since   uint64 // the view that gave it to the process
	at      uint64 // its epoch
	to      uint64 // the epoch that it saves; 0: none
	balance int64  // messages that it has sent in the epoch, less those that it has received
}

// loss is a task that no process can run any more.
type loss struct {
	task protocol.Rank
	why  string
}

// first reports whether this is the first attempt of the task.
func (t *task) first() bool { return t.since == firstView }

// firstView is the number of the view in which all first attempts begin.
const firstView = 1

// Act is what an Effect asks for.
type Act uint8

// What a machine asks the caller to do.
const (
	Tell     Act = iota // send Msg to To
	SendCopy            // send To what is kept under Key, as a message of Msg's kind
	GiveUp              // stop running Task: another process owns it now, or it is run again here
	Resend              // send Task, at its owner, what it was sent before; Again: once more, to the same attempt
	Adopt               // run Task from the top
	Commit              // Epoch is committed, with Balance: tasks that have saved it continue; what is kept of earlier epochs is dropped, except for epoch 0
	Move                // ask for a view that commits Epoch and moves tasks; if there will be none, call Unmoved
	Lose                // no process can run Task any more, for Why
	Complete            // enough processes have what is kept under Key, for the first time in this view
	Depart              // ask for a view without this process: no process needs it any more, as of view Epoch
	Disband             // leave at once: all others do, too
)

// Effect is something to be done.
type Effect struct {
	Act     Act
	Again   bool
	To      protocol.Rank
	Task    protocol.Rank
	Msg     Message
	Key     Key
	Epoch   uint64
	Balance int64
	Why     string
}

// Kind is the kind of a Message.
type Kind uint8

// The kinds of messages.
const (
	Record   Kind = iota // Op is aborted
	Word                 // these were all records and copies, as of View
	Sweeping             // a message of the sweep
	Keep                 // a copy of Key, to be kept
	Kept                 // Key is kept
	Have                 // a copy of Key, to the new owner of the task
	Again                // Task is run again where it was before, since View: what it was sent before may have been dropped
	Lost                 // no process can run Task any more, for Why
	Spare                // as of View, tasks of the sender need nothing from leaving processes; it knows Key.Epoch to be committed
)

// Message is what machines send each other.
type Message struct {
	Kind  Kind
	Op    Op
	View  uint64
	Key   Key
	Task  protocol.Rank
	Sweep SweepMessage
	Why   string
}

// New returns the machine of a process of the first view, or of a process that joins later, if it is
// not in that view.
func New(cfg *Config, self membership.Member) *Machine {
	m := new(Machine)
	m.Reset(cfg, self)
	return m
}

// Reset makes m what New returns, in the memory that it has. Nothing that m has returned may be used any more, nor a
// copy of it.
func (m *Machine) Reset(cfg *Config, self membership.Member) {
	m.drop(true)
	*m = Machine{
		cfg: cfg, self: self, sweep: m.sweep, tasks: m.tasks[:0], lost: m.lost[:0], records: m.records[:0], words: m.words[:0], spares: m.spares[:0],
		copies: m.copies[:0], coming: m.coming[:0], drawn: m.drawn[:0], known: m.known[:0], owed: m.owed[:0], effects: m.effects[:0], spare: m.spare,
	}
	if !cfg.First.Has(self) {
		m.sweep.Init(self.ID, 0, nil)
		return
	}
	m.view = cfg.First
	m.sweep.Init(self.ID, m.view.Number, ids(m.view))
	for t, owner := range m.view.Owners {
		if owner == self.ID {
			m.tasks = append(m.tasks, task{number: protocol.Rank(t), since: firstView})
		}
	}
	m.settle()
}

// Hold says whether tasks move in the open view.
func (m *Machine) Hold(on bool) {
	m.sweep.Hold(on)
	m.settle()
}

func ids(v *membership.View) []protocol.Rank {
	all := make([]protocol.Rank, len(v.Members))
	for i, m := range v.Members {
		all[i] = m.ID
	}
	return all
}

// Effects returns the effects to carry out, and forgets them.
func (m *Machine) Effects() []Effect { return m.Exchange(nil) }

// Exchange is Effects, and provides memory for the next ones.
func (m *Machine) Exchange(room []Effect) []Effect {
	all := m.effects
	m.effects = room[:0]
	return all
}

func (m *Machine) do(e Effect) { m.effects = append(m.effects, e) }

// tell sends a message to a process.
func (m *Machine) tell(to protocol.Rank, msg Message) {
	if to != m.self.ID {
		m.do(Effect{Act: Tell, To: to, Msg: msg})
	}
}

// tellAll sends a message to all other members of the view, if the process is in one.
func (m *Machine) tellAll(msg Message) {
	if m.view == nil {
		return
	}
	m.effects = slices.Grow(m.effects, len(m.view.Members)-1)
	for _, o := range m.view.Members {
		m.tell(o.ID, msg)
	}
}

// View returns the open view; nil: the process is in none yet.
func (m *Machine) View() *membership.View { return m.view }

// find returns a task that the process owns.
func (m *Machine) find(number protocol.Rank) *task {
	for i := range m.tasks {
		if m.tasks[i].number == number {
			return &m.tasks[i]
		}
	}
	return nil
}

// Opened says that a view is open. hold: tasks move in it.
func (m *Machine) Opened(v *membership.View, hold bool) {
	before := m.view
	m.view, m.wish = v, 0
	if m.self, _ = v.Find(m.self.ID); m.self.Incarnation == 0 {
		panic(fmt.Sprintf("recovery: a view is opened by a process that is not in it: %v", v)) // membership excludes it
	}
	m.sweep.Commit(v.Epoch)
	m.sweep.NewView(v.Number, ids(v))
	m.sweep.Hold(hold)
	for _, o := range v.Members {
		if (before == nil || !before.Has(o)) && int(o.ID) < len(m.owed) {
			m.owed[o.ID] = 0 // it is another incarnation
		}
	}
	m.coming = slices.DeleteFunc(m.coming, func(c coming) bool { return !v.Has(c.from) })
	m.assign(before)
	if !m.cfg.Adopts {
		return
	}
	m.assure(before) // before anything that may follow from it
	m.reassign(before)
	m.remakeAll()
	m.settle()
}

// Receive takes a message from a process.
func (m *Machine) Receive(from membership.Member, msg Message) {
	switch msg.Kind {
	case Record:
		m.note(msg.Op)
	case Word:
		m.hear(from.ID, msg.View)
	case Sweeping:
		m.sweep.Receive(from.ID, msg.Sweep)
	case Keep:
		m.came(from, msg.Key)
		if m.store(msg.Key); !msg.Key.Backup() {
			m.tell(from.ID, Message{Kind: Kept, Key: msg.Key})
		}
	case Kept:
		m.has(msg.Key, from)
	case Have:
		m.came(from, msg.Key)
		m.store(msg.Key)
		m.has(msg.Key, from)
		m.remake(m.copy(msg.Key))
	case Again:
		if m.view != nil && m.view.Since[msg.Task] == msg.View {
			m.do(Effect{Act: Resend, Task: msg.Task, Again: true})
		}
	case Lost:
		m.lose(msg.Why, msg.Task)
	case Spare:
		m.sparedBy(from.ID, msg.View, msg.Key.Epoch)
	}
	m.settle()
}

// settle does what follows from what has changed.
func (m *Machine) settle() {
	if m.cfg.Saves {
		m.settleEpochs()
	}
	m.leaving()
}

// settleEpochs does what follows for epochs.
func (m *Machine) settleEpochs() {
	m.say()
	for to, msg, ok := m.sweep.Next(); ok; to, msg, ok = m.sweep.Next() {
		m.tell(to, Message{Kind: Sweeping, Sweep: msg})
	}
	if epoch, balance := m.sweep.Committed(); epoch > m.committed {
		m.commit(epoch, balance)
	}
	if epoch, ok := m.sweep.Complete(); ok && m.wish < epoch {
		m.wish = epoch
		m.do(Effect{Act: Move, Epoch: epoch})
	}
}

// Lose gives up tasks that have no state to continue from, or that were sent something
// of which this process has no log.
func (m *Machine) Lose(why string, tasks ...protocol.Rank) {
	m.lose(why, tasks...)
	m.settle()
}

// lose gives up tasks and tells all processes: nothing that follows from it may arrive before it.
func (m *Machine) lose(why string, tasks ...protocol.Rank) {
	for _, number := range tasks {
		if !m.IsLost(number) {
			m.tellAll(Message{Kind: Lost, Task: number, Why: why})
		}
	}
	m.noteLost(why, tasks...)
}

// noteLost records that no process can run some tasks any more.
func (m *Machine) noteLost(why string, tasks ...protocol.Rank) {
	for _, number := range tasks {
		if !m.IsLost(number) {
			m.lost = append(m.lost, loss{number, why})
			m.do(Effect{Act: Lose, Task: number, Why: why})
		}
	}
}

// IsLost reports whether no process can run a task any more.
func (m *Machine) IsLost(number protocol.Rank) bool {
	return slices.ContainsFunc(m.lost, func(l loss) bool { return l.task == number })
}

// Over says that all processes know that the job is over, so any of them may have left, with its copies. No task is run again
// any more: every task has returned, and it would draw values of Once anew from which that followed.
func (m *Machine) Over() { m.over = true }

// Logless says that the process has given up its log: a task to which it has sent something
// cannot be run again.
func (m *Machine) Logless() { m.logless = true }

// String describes the message.
func (m Message) String() string {
	switch m.Kind {
	case Record:
		return fmt.Sprintf("record of %d.%d", m.Op.Epoch, m.Op.Seq)
	case Word:
		return fmt.Sprintf("word as of view %d", m.View)
	case Sweeping:
		if m.Sweep.Up {
			return fmt.Sprintf("sweep of view %d: saved %d, committed %d", m.Sweep.View, int64(m.Sweep.Saved), m.Sweep.Committed)
		}
		return fmt.Sprintf("sweep of view %d: committed %d", m.Sweep.View, m.Sweep.Committed)
	case Keep:
		return fmt.Sprintf("keep the %v", m.Key)
	case Kept:
		return fmt.Sprintf("kept the %v", m.Key)
	case Have:
		return fmt.Sprintf("have the %v", m.Key)
	case Again:
		return fmt.Sprintf("task %d is run again since view %d", m.Task, m.View)
	case Spare:
		return fmt.Sprintf("nothing is needed of who leaves in view %d; committed %d", m.View, m.Key.Epoch)
	}
	return fmt.Sprintf("task %d is lost: %s", m.Task, m.Why)
}
