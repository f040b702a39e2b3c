package recovery

import (
	"fmt"
	"slices"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
)

// Copies. What a task saves, and what Once gave it, is kept by its owner and by k others,
// its neighbours on the ring of the view; if there are fewer, by all. The rule:
//
//  1. A value is used when enough processes of the present view have said that they have it:
//     a task has saved then, and Once returns.
//  2. When a view opens, the owner of a task has copies made again until enough have them.
//  3. Who has copies of a task that has a new owner sends them to it, and then its word
//     that these were all, as of that view (aborts.go). Before it has all words, the new
//     owner has no copies made and draws no value of Once.
//  4. A copy has a name: task, epoch, name. No other ever takes its place.
//  5. Before a process sends another one anything, it tells it of the values of Once that it
//     knows to have been returned: here, or to whom sent it something. So whoever has anything
//     that follows from a value knows of it. If nobody in the view has a copy of a value, but
//     somebody knows of it, the task is lost. If nobody does, it is as if it had never been: it
//     is drawn anew.
//  6. Who is sent a state of an epoch that is committed is told that it is. What the state follows
//     from, such as an abort before the epoch, is dropped then, and nobody else need know of it. If
//     the epoch were saved once more, by tasks for which all that never was, the state would be
//     taken for one of theirs.
//  7. With an epoch that is committed, values of Once and aborts of those before are dropped, though
//     what is sent in it follows from them. Who drops any passes on, as it does with a value (5), that
//     the epoch is committed. Otherwise who has got something of the epoch, and lives on alone, would
//     save it once more, with other values.
//
// So a state of an epoch that is committed is lost only if all die who had it when there
// were enough copies the last time: its owner and k others, or everybody in that view.

// Key names what is kept of a task.
type Key struct {
	Task  protocol.Rank
	Epoch uint64
	Name  uint64 // 0: the state at the beginning of the epoch; odd: a value of Once; even: a backup, which nobody waits for
}

// commitment names, among the values of which processes tell each other, that an epoch is committed, as of a view.
func commitment(epoch, view uint64) Key { return Key{Task: everybody, Epoch: epoch, Name: view} }

// everybody stands where a task is expected.
const everybody protocol.Rank = -1

// Commitment reports whether the key says that an epoch is committed.
func (k Key) Commitment() bool { return k.Task == everybody }

// Backup reports whether the copy is one that helps, and that nobody waits for.
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

// replica is a copy that is here.
type replica struct {
	Key
	stored   bool                // it is kept elsewhere: no copies are made
	asked    []membership.Member // who was sent it, or has it: the owner's knowledge
	holders  []membership.Member // who has it
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

// Holds reports whether a copy is here.
func (m *Machine) Holds(k Key) bool { return m.copy(k) != nil }

// store takes note of a copy that is here.
func (m *Machine) store(k Key) {
	if i, ok := m.search(k); !ok && !m.dropped(k.Epoch) {
		m.copies = slices.Insert(m.copies, i, replica{Key: k, asked: m.list(), holders: m.list()})
	}
}

// drop forgets the copies of epochs of which nothing is kept any more, or all.
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

// Kept says that a task of this process has saved, or drawn, what the caller keeps: copies
// are made of it. stored: it is kept elsewhere, and needs none.
func (m *Machine) Kept(k Key, stored bool) {
	m.store(k)
	if r := m.copy(k); r != nil {
		r.stored = stored
		m.remake(r)
	}
	m.settle()
}

// Coming says that the beginning of a copy has come, for the new owner of a task, and that the
// rest will, unless its sender dies. Declined or not, Receive is called in the end.
func (m *Machine) Coming(from membership.Member, k Key) {
	m.coming = append(m.coming, coming{k, from})
}

// Awaits reports whether only the beginning of a copy has come from a process.
func (m *Machine) Awaits(from membership.Member) bool {
	return slices.ContainsFunc(m.coming, func(c coming) bool { return c.from == from })
}

// came forgets that a copy is on its way.
func (m *Machine) came(from membership.Member, k Key) {
	m.coming = slices.DeleteFunc(m.coming, func(c coming) bool { return c == coming{k, from} })
}

// Told reports whether a copy is here, or all have told what copies they have and this is not
// among them.
func (m *Machine) Told(k Key) bool {
	if m.Holds(k) {
		return true
	}
	return m.Heard() && !slices.ContainsFunc(m.coming, func(c coming) bool { return c.Key == k })
}

// has takes note that a process has a copy.
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

// wanted is how many others must have a copy.
func (m *Machine) wanted() int { return min(m.cfg.Copies, len(m.view.Members)-1) }

// Enough reports whether so many have.
func (m *Machine) Enough(k Key) bool {
	r := m.copy(k)
	return r != nil && m.enough(r)
}

func (m *Machine) enough(r *replica) bool {
	return m.view != nil && (r.stored || m.count(r.holders) >= m.wanted())
}

// count is how many of some are in the view.
func (m *Machine) count(some []membership.Member) (n int) {
	for _, o := range some {
		if m.view.Has(o) {
			n++
		}
	}
	return n
}

// Holders returns who has a copy, this process not included, for all that is known.
func (m *Machine) Holders(k Key) []membership.Member {
	if r := m.copy(k); r != nil {
		return r.holders
	}
	return nil
}

// remakeAll has copies made of all that tasks of this process need.
func (m *Machine) remakeAll() {
	for i := range m.copies {
		m.remake(&m.copies[i])
	}
}

// remake has copies made until there are enough, unless it is not known yet who has any.
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

// spread sends a copy to as many neighbours as must have one.
func (m *Machine) spread(r *replica) {
	n := m.count(r.asked)
	if r.stored || n >= m.wanted() {
		return
	}
	for _, id := range m.ring() {
		o, in := m.view.Find(id)
		if n == m.wanted() {
			return
		}
		if !in || slices.Contains(r.asked, o) {
			continue
		}
		r.asked = append(r.asked, o)
		m.sendCopy(id, Keep, r.Key)
		n++
	}
}

// sendCopy sends a copy. If it is a state of what is committed, the receiver is told so before.
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

// ring lists the others in the order in which they are given copies.
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
	if m.committed > 0 { // what it is sent follows from it, and of states in files there are no copies
		m.tellCommitted(to)
	}
	for i := range m.copies {
		if r := &m.copies[i]; m.view.Owners[r.Task] == to && moved(before, m.view, r.Task) {
			m.sendCopy(to, Have, r.Key)
		}
	}
}

// Recollection is what is known of a value of Once that a task comes to.
type Recollection uint8

// What may be known of it.
const (
	Unknown Recollection = iota // it has to wait until more is
	Fresh                       // it is to be drawn
	Here                        // it is here, and there are enough copies
	Missing                     // others know what followed from it, and nobody has it: the task is lost
)

// Recall says what is known of a value.
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
	}
	return Fresh
}

// Drew takes note that something may follow from a value, or from an epoch that is committed: the value is
// returned, or another process has told of it.
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

// Owes returns what Drew was called for and a process was not told of, and takes note that it is now.
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
