package node

import (
	"context"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/revoke"
)

// Where the dead stay dead, a task that cannot go on revokes the group: all that the
// others call there fails, too, but for agreements. Package revoke says who tells whom.

// Revoke revokes the group. It tells whether there is such a thing.
func (m *Member) Revoke() bool {
	p := m.p
	p.engine.Lock()
	defer p.engine.Unlock()
	if p.replays() {
		return false
	}
	if m.usable("") == nil {
		m.revoke()
	}
	return true
}

// revoke takes note that the group is revoked.
func (m *Member) revoke() {
	if m.p.replays() || !m.revoking.Revoke() {
		return
	}
	m.flood()
	if m.known {
		m.fail(func(*operation) *Failure { return &Failure{Err: ErrRevoked} })
		m.p.roomAgain()
	}
}

// flood passes the word on, if there is reason to: as soon as that is so, and again in every view.
func (m *Member) flood() {
	if !m.revoking.Floods() {
		return
	}
	for _, r := range revoke.Told(protocol.Rank(m.rank), m.living(m.p.view())) {
		e := m.to(int(r))
		e.plan = Plan{op: opRevoke}
		m.peer(int(r)).send(e, nil, nil)
	}
}

// Shrink makes a group of the tasks that live, in the same order: all of them call it,
// and agree who they are.
func (m *Member) Shrink(ctx context.Context) (*Member, error) {
	d, err := m.Agree(ctx, Call{Value: []byte{didWell}, Sign: shrinkSign, Kind: outcomes})
	if err != nil {
		return nil, err
	}
	failed := map[int]bool{}
	for _, r := range d.Failed {
		failed[r] = true
	}
	m.p.engine.Lock()
	defer m.p.engine.Unlock()
	var tasks []int32
	for r := range m.Size() {
		if !failed[r] {
			tasks = append(tasks, int32(m.taskOf(r)))
		}
	}
	number := m.seq // of the agreement: an operation
	if !m.p.replays() {
		number = m.agreements.Called()
	}
	g := m.p.enterGroup(m.beside(protocol.Mix(protocol.Mix(m.group, shrinkSign), number)), m.task, tasks)
	g.forked = true
	return g, nil
}

// shrinkSign tells an agreement for Shrink from others.
const shrinkSign = 1 << 40

// Failed lists the ranks whose tasks are lost, as far as is known.
func (m *Member) Failed() (ranks []int) {
	m.p.engine.Lock()
	defer m.p.engine.Unlock()
	v := m.p.view()
	for r := range m.Size() {
		if t := m.taskOf(r); v.Owners[t] < 0 || m.p.roster.Status(t).Dead {
			ranks = append(ranks, r)
		}
	}
	return ranks
}
