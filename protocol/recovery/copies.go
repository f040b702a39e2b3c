package recovery

import (
	"fmt"
	"slices"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
)

// Copies. What a task saves, and what Once returned to it, is kept by its owner and by k other processes,
// its neighbours on the ring of the view; if there are fewer, by all. The rule:
//
//  1. A value is used when enough processes of the current view have confirmed that they have it:
//     then a task has saved, and Once returns.
//  2. When a view opens, the owner of a task replaces copies until enough processes have them. Leaving processes
//     are not counted as enough (leaving.go).
//  3. A process that has copies of a task with a new owner sends them to the owner, and then its word
//     that these were all, as of that view (aborts.go). Before it has all words, the new
//     owner replaces no copies and draws no value of Once.
//  4. A copy has a name: task, epoch, name. No other copy ever takes its place.
//  5. Before a process sends anything to another process, it tells that process of the values of Once that it
//     knows to have been returned, here or at a process that sent it something. So a process that has anything
//     that follows from a value knows of the value. If no process in the view has a copy of a value, but
//     one knows of it, the task is lost. If none does, it is as if the value had never been drawn: the task
//     draws it again.
//  6. A process that sends a state of a committed epoch first tells the receiver that the epoch is committed. What the state follows
//     from, such as an abort before the epoch, is dropped then, and no other process need know of it. If
//     the epoch were saved once more, by tasks for which none of that happened, the state would be
//     taken for one of theirs.
//  7. When an epoch is committed, values of Once and aborts of earlier epochs are dropped, although
//     messages in the epoch follow from them. A process that drops any tells others that the epoch is committed, in the same way
//     as it tells of a value (5). Otherwise a process that has received something of the epoch, and survives alone, would
//     save the epoch once more, with other values.
//
// So a state of a committed epoch is lost only if all processes die that had it when there
// were last enough copies: its owner and k others, or all processes of that view.

// Key names what is kept of a task.
type Key struct {
	Task  protocol.Rank
	Epoch uint64
	Name  uint64 // 0: the state at the beginning of the epoch; odd: a value of Once; even: a backup, for which no process waits
}

// commitment returns the key by which processes tell each other that an epoch is committed, as of a view.
func commitment(epoch, view uint64) Key { return Key{Task: everybody, Epoch: epoch, Name: view} }

// everybody stands in place of a task.
const everybody protocol.Rank = -1

// Commitment reports whether the key says that an epoch is committed.
func (k Key) Commitment() bool { return k.Task == everybody }

// Backup reports whether the copy is a backup, which helps but is not waited for.
func (k Key) Backup() bool { return k.Name != 0 && k.Name%2 == 0 }

func (k Key) compare(o Key) int {
	switch {
	case k == o:
		return 0
	case k.less(&o):
		return -1
	}
	return 1
}

func (k *Key) less(o *Key) bool {
	switch {
	case k.Epoch != o.Epoch:
		return k.Epoch < o.Epoch
	case k.Task != o.Task:
		return k.Task < o.Task
	}
	return k.Name < o.Name
}

// replica is a copy at this process.
type replica struct {
	Key
	stored   bool                // it is kept elsewhere: no copies are needed
	asked    []membership.Member // processes that were sent it, or have it, as far as the owner knows
	holders  []membership.Member // processes that have it
	complete uint64              // the last view in which there were enough
}

// coming is a copy that is on its way, from a process that has said so.
type coming struct {
	Key
	from membership.Member
}

// copy returns what is kept under a key; nil: nothing.
func (m *Machine) copy(k Key) *replica {
	if i, ok := m.search(k); ok {
		return &m.copies[i]
	}
	return nil
}

func (m *Machine) search(k Key) (int, bool) {
	at, end := 0, len(m.copies)
	for at < end {
		if mid := int(uint(at+end) / 2); m.copies[mid].less(&k) {
			at = mid + 1
		} else {
			end = mid
		}
	}
	return at, at < len(m.copies) && m.copies[at].Key == k
}

// Holds reports whether a copy is at this process.
func (m *Machine) Holds(k Key) bool { return m.copy(k) != nil }

// store records a copy at this process.
func (m *Machine) store(k Key) {
	if i, ok := m.search(k); !ok && !m.dropped(k.Epoch) {
		m.copies = slices.Insert(m.copies, i, replica{Key: k, asked: m.list(), holders: m.list()})
	}
}

// drop forgets the copies of epochs of which nothing is kept any more, or all copies.
func (m *Machine) drop(all bool) {
	kept := m.copies[:0]
	for _, r := range m.copies {
		if all || m.dropped(r.Epoch) {
			m.spare = append(m.spare, r.asked[:0], r.holders[:0])
		} else {
			kept = append(kept, r)
		}
	}
	m.copies = kept
}

// list returns memory for a list of members; nil: there is none left.
func (m *Machine) list() (some []membership.Member) {
	if last := len(m.spare) - 1; last >= 0 {
		some, m.spare = m.spare[last], m.spare[:last]
	}
	return some
}

// Kept says that a task of this process has saved, or drawn, what the caller keeps: the machine
// makes copies of it. stored: it is kept elsewhere, and needs none.
func (m *Machine) Kept(k Key, stored bool) {
	m.store(k)
	if r := m.copy(k); r != nil {
		r.stored = stored
		m.remake(r)
	}
	m.settle()
}

// Coming says that the beginning of a copy has arrived, for the new owner of a task, and that the
// rest will, unless its sender dies. Declined or not, Receive is called in the end.
func (m *Machine) Coming(from membership.Member, k Key) {
	m.coming = append(m.coming, coming{k, from})
}

// Awaits reports whether only the beginning of a copy has arrived from a process.
func (m *Machine) Awaits(from membership.Member) bool {
	return slices.ContainsFunc(m.coming, func(c coming) bool { return c.from == from })
}

// came forgets that a copy is on its way.
func (m *Machine) came(from membership.Member, k Key) {
	m.coming = slices.DeleteFunc(m.coming, func(c coming) bool { return c == coming{k, from} })
}

// Told reports whether a copy is here, or all processes have reported what copies they have and this is not among them.
func (m *Machine) Told(k Key) bool {
	if m.Holds(k) {
		return true
	}
	return m.Heard() && !slices.ContainsFunc(m.coming, func(c coming) bool { return c.Key == k })
}

// has records that a process has a copy.
func (m *Machine) has(k Key, who membership.Member) {
	r := m.copy(k)
	if r == nil || slices.Contains(r.holders, who) {
		return
	}
	r.holders = append(r.holders, who)
	if !slices.Contains(r.asked, who) {
		r.asked = append(r.asked, who)
	}
	m.remake(r)
}

// Enough reports whether enough processes have a copy.
func (m *Machine) Enough(k Key) bool {
	r := m.copy(k)
	return r != nil && m.enough(r)
}

func (m *Machine) enough(r *replica) bool {
	return m.view != nil && (r.stored || m.reaches(r.holders))
}

// reaches reports whether some processes are as many as must have a copy.
func (m *Machine) reaches(some []membership.Member) bool {
	all, stay := m.number(some)
	wantAll, wantStay := m.wanted()
	return all >= wantAll && stay >= wantStay
}

// Holders returns the other processes that have a copy, as far as is known.
func (m *Machine) Holders(k Key) []membership.Member {
	if r := m.copy(k); r != nil {
		return r.holders
	}
	return nil
}

// remakeAll replaces missing copies of everything that tasks of this process need.
func (m *Machine) remakeAll() {
	for i := range m.copies {
		m.remake(&m.copies[i])
	}
}

// remake makes copies until there are enough, unless it is not known yet which processes have some.
func (m *Machine) remake(r *replica) {
	if r == nil || m.view == nil || r.Backup() {
		return
	}
	t := m.find(r.Task)
	if t == nil {
		return
	}
	if t.first() || m.Heard() {
		m.spread(r)
	}
	if r.complete < m.view.Number && m.enough(r) {
		r.complete = m.view.Number
		m.do(Effect{Act: Complete, Key: r.Key})
	}
}

// spread sends a copy to as many neighbours as must have one: to those that stay first.
func (m *Machine) spread(r *replica) {
	if r.stored || m.reaches(r.asked) {
		return
	}
	all, stay := m.number(r.asked)
	wantAll, wantStay := m.wanted()
	ring := m.ring()
	for _, leaves := range []bool{false, true} {
		for _, id := range ring {
			if leaves && all >= wantAll || !leaves && stay >= wantStay {
				break
			}
			o, in := m.view.Find(id)
			if !in || m.view.Leaves(id) != leaves || slices.Contains(r.asked, o) {
				continue
			}
			r.asked = append(r.asked, o)
			m.sendCopy(id, Keep, r.Key)
			all++
			if !leaves {
				stay++
			}
		}
	}
}

// sendCopy sends a copy. If it is a state of the committed epoch, the receiver first learns that the epoch is committed.
func (m *Machine) sendCopy(to protocol.Rank, kind Kind, k Key) {
	if epoch, _ := m.sweep.Committed(); k.Name == 0 && k.Epoch == epoch {
		m.tellCommitted(to)
	}
	m.do(Effect{Act: SendCopy, To: to, Key: k, Msg: Message{Kind: kind, Key: k}})
}

// tellCommitted tells a process which epoch is committed, as far as is known here.
func (m *Machine) tellCommitted(to protocol.Rank) {
	epoch, balance := m.sweep.Committed()
	m.tell(to, Message{Kind: Sweeping, Sweep: SweepMessage{View: m.view.Number, Saved: epoch, Committed: epoch, Balance: balance}})
}

// ring lists the other processes in the order in which they get copies.
func (m *Machine) ring() []protocol.Rank {
	if m.cfg.Ring != nil {
		return m.cfg.Ring(m.view, m.self)
	}
	members := m.view.Members
	at, all := slices.Index(members, m.self), make([]protocol.Rank, 0, len(members))
	for i := 1; i < len(members); i++ {
		all = append(all, members[(at+i)%len(members)].ID)
	}
	return all
}

// handOver sends the new owner of tasks what is kept of them.
func (m *Machine) handOver(before *membership.View, to protocol.Rank) {
	if to == m.self.ID {
		return
	}
	if m.committed > 0 { // what is sent follows from the commit, and states in files have no copies
		m.tellCommitted(to)
	}
	for i := range m.copies {
		if r := &m.copies[i]; m.view.Owners[r.Task] == to && moved(before, m.view, r.Task) {
			m.sendCopy(to, Have, r.Key)
		}
	}
}

// Recollection is what is known of a value of Once that a task reaches.
type Recollection uint8

// What may be known of it.
const (
	Unknown Recollection = iota // the task has to wait until more is known
	Fresh                       // the task draws it
	Here                        // it is here, and there are enough copies
	Missing                     // others know what followed from it, and no process has it: the task is lost
)

// Recall returns what is known of a value.
func (m *Machine) Recall(k Key) Recollection {
	t := m.find(k.Task)
	r := m.copy(k)
	switch {
	case t == nil:
		return Unknown
	case r != nil:
		if m.enough(r) && (t.first() || m.Heard()) {
			return Here
		}
		return Unknown
	case t.first():
		return Fresh
	case !m.Told(k):
		return Unknown
	case m.Drawn(k):
		return Missing
	case m.over:
		return Unknown
	}
	return Fresh
}

// Drew records that something may follow from a value, or from a committed epoch: the value is returned, or another
// process has reported it.
func (m *Machine) Drew(k Key) {
	i, is := slices.BinarySearchFunc(m.known, k, Key.compare)
	if is || m.dropped(k.Epoch) {
		return
	}
	m.known = slices.Insert(m.known, i, k)
	m.drawn = append(m.drawn, k)
	if k.Commitment() {
		m.sweep.Receive(m.self.ID, SweepMessage{View: k.Name, Saved: k.Epoch, Committed: k.Epoch})
		m.settle()
	}
}

// Drawn reports whether something may follow from a value that is known here.
func (m *Machine) Drawn(k Key) bool {
	_, is := slices.BinarySearchFunc(m.known, k, Key.compare)
	return is
}

// Owing reports whether a process does not know of some values yet.
func (m *Machine) Owing(to protocol.Rank) bool {
	return len(m.drawn) > 0 && (int(to) >= len(m.owed) || m.owed[to] < len(m.drawn))
}

// Owes returns the keys passed to Drew that a process does not know yet, and records that it knows them now.
func (m *Machine) Owes(to protocol.Rank) []Key {
	if len(m.drawn) == 0 {
		return nil
	}
	for len(m.owed) <= int(to) {
		m.owed = append(m.owed, 0)
	}
	told := m.owed[to]
	m.owed[to] = len(m.drawn)
	return m.drawn[told:]
}

func (k Key) String() string {
	if k.Commitment() {
		return fmt.Sprintf("commitment of epoch %d as of view %d", k.Epoch, k.Name)
	}
	if k.Name > 0 {
		return fmt.Sprintf("value %d of task %d in epoch %d", k.Name, k.Task, k.Epoch)
	}
	return fmt.Sprintf("state of task %d in epoch %d", k.Task, k.Epoch)
}
