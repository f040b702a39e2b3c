package node

import (
	"errors"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/transport"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
)

// A pause of a process does not count as time that it waited for others: what they said waits to be
// read.
func TestAPauseIsNoPatience(t *testing.T) {
	p, err := newProcess(Config{Rank: 0, Size: 3})
	if err != nil {
		t.Fatal(err)
	}
	p.engine.Lock()
	defer p.engine.Unlock()
	before := p.viewNow()
	p.engine.Skip(time.Minute)
	after := p.viewNow()
	if after < before || time.Duration(after-before) > time.Second {
		t.Errorf("%v became %v", time.Duration(before), time.Duration(after))
	}
	for range 20 { // a minute in which it runs
		p.engine.Skip(3 * time.Second / 10)
		p.inspect(1)
	}
	if passed := time.Duration(p.viewNow() - after); passed < 5*time.Second || passed > 7*time.Second {
		t.Errorf("6 s became %v", passed)
	}
}

// A process answers what arrives after its end, but opens no view.
func TestNoViewOpensAfterTheEnd(t *testing.T) {
	j := start(t, transport.Unix, 3, nil)
	p := j.ps[1]
	p.End(ErrNoQuorum)
	for _, r := range []int{0, 1} {
		j.ps[r].Tell(Death{Rank: 2, Certain: true, How: "for the test"})
	}
	deadline := time.Now().Add(20 * time.Second)
	for j.ps[0].Sight().View.Number != 2 && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	if v := j.ps[0].Sight().View; v.Number != 2 || !v.Has(membership.Member{ID: protocol.Rank(1), Incarnation: 1}) {
		t.Errorf("process 0 is in %v", v)
	}
	if v := p.Sight().View; v.Number != 1 {
		t.Errorf("process 1 has seen %v after its end", v)
	}
}

// A process may learn of a peer's next incarnation before the crash of the first: the views learn of
// the crash all the same, and until then no process owns what the crashed one had.
func TestADeathAfterTheNextLife(t *testing.T) {
	for _, known := range []bool{false, true} { // whether the address of the first incarnation is known
		j := startWithout(t, transport.Unix, 3, 2, func(c *Config) { c.Adopt = func(int, int, int) {} })
		at := j.ps[0].Endpoint().Addresses()[0]
		at.Path += "nowhere"
		for _, p := range j.ps[:2] {
			if known {
				p.Peers(Address{Rank: 2, Incarnation: 1, At: at})
			}
			p.Peers(Address{Rank: 2, Incarnation: 2, At: at})
			p.engine.Lock()
			if !p.roster.Status(2).Orphan {
				t.Errorf("known %v: task 2 is %+v", known, p.roster.Status(2))
			}
			p.engine.Unlock()
		}
		for _, p := range j.ps[:2] { // the first may have the second open the next view
			p.PeersReturned([]int{2}, 1, "") // a report of its first incarnation
			p.PeersReturned([]int{2}, 2, "") // a report of its next one, which has no tasks
			p.Tell(Death{Rank: 2, Incarnation: 1, Certain: true, How: "for the test"})
		}
		deadline := time.Now().Add(20 * time.Second)
		for j.ps[1].Sight().View.Number != 2 && time.Now().Before(deadline) {
			j.ps[1].engine.Lock()
			if j.ps[1].roster.Status(2).Returned {
				t.Errorf("known %v: task 2 has returned", known)
			}
			j.ps[1].engine.Unlock()
			time.Sleep(time.Millisecond)
		}
		if v := j.ps[1].Sight().View; v.Number != 2 || len(v.Members) != 2 {
			t.Errorf("known %v: view %v", known, v)
		}
	}
}

// Messages to a member of the open view are not sent to its next incarnation, which has not received
// the values of Once that they follow from.
func TestWhatIsForTheDeadDoesNotReachTheNextLife(t *testing.T) {
	j := startWithout(t, transport.Unix, 3, 2, func(c *Config) { c.Adopt = func(int, int, int) {} })
	p := j.ps[0]
	at := p.Endpoint().Addresses()[0]
	at.Path += "nowhere"
	sent := func(op uint8) bool {
		p.engine.Lock()
		defer p.engine.Unlock()
		q := p.peerAt(2)
		before := q.link == nil || q.link.Room(linkRoom)
		q.send(envelope{plan: Plan{op: op}}, make([]byte, 1000), nil)
		return before && (q.link != nil && !q.link.Room(linkRoom))
	}
	if !sent(opSend) {
		t.Error("nothing is sent to a member of the view")
	}
	p.Peers(Address{Rank: 2, Incarnation: 2, At: at})
	if sent(opSend) {
		t.Error("its next life is sent what was for it")
	}
	if !sent(opView) {
		t.Error("its next life is not sent letters about views")
	}
}

// A view waits longer for a process that has not begun than for one that does not answer, until that
// process counts as dead.
func TestAViewWaitsForWhoHasNotBegun(t *testing.T) {
	t.Parallel() // it waits
	j := startWithout(t, transport.Unix, 5, 4, func(c *Config) { c.Silence = time.Second })
	for _, p := range j.ps[:3] {
		p.Tell(Death{Rank: 3, Certain: true, How: "for the test"})
	}
	time.Sleep(viewPatienceMin + time.Second)
	for _, p := range j.ps[:3] {
		if v := p.Sight().View; v.Number != 1 || p.Ended() != nil {
			t.Errorf("%v, ended %v, before all have begun", v, p.Ended())
		}
		p.Tell(Death{Rank: 4, How: "never joined"})
	}
	deadline := time.Now().Add(20 * time.Second)
	for _, p := range j.ps[:3] {
		for len(p.Sight().View.Members) != 3 && p.Ended() == nil && time.Now().Before(deadline) {
			time.Sleep(time.Millisecond)
		}
		if v := p.Sight().View; len(v.Members) != 3 || p.Ended() != nil {
			t.Errorf("%v, ended %v", v, p.Ended())
		}
	}
	for _, w := range j.hosts { // a busy machine may have caused suspicions
		w.mu.Lock()
		w.suspects = nil
		w.mu.Unlock()
	}
}

// Only the owner of a task can report that it has returned: another process may only know that its
// first owner has returned.
func TestWhoHasNoTaskDoesNotSpeakForIt(t *testing.T) {
	p, err := newProcess(Config{Rank: 0, Size: 3})
	if err != nil {
		t.Fatal(err)
	}
	p.PeersReturned([]int{1}, 1, "")
	if !p.roster.Status(1).Returned || p.hasReturned(1) {
		t.Errorf("task 1: %+v, ours %v", p.roster.Status(1), p.hasReturned(1))
	}
	p.Returned(0, "")
	if !p.hasReturned(0) {
		t.Error("task 0 has returned here")
	}
}

// A process that leaves because its part has ended counts as dead for the others.
func TestWhoLeavesBeforeTheEndIsDead(t *testing.T) {
	j := start(t, transport.Unix, 2, nil)
	meetAll(patience(t), j)
	j.ps[1].End(ErrNoQuorum)
	if err := j.ps[1].Close(); err != nil {
		t.Fatal(err)
	}
	j.ps[0].Tell(Death{Rank: 1, Certain: true, How: "left before the end"})
	deadline := time.Now().Add(20 * time.Second)
	for j.ps[0].Sight().View.Number != 2 && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	if v := j.ps[0].Sight().View; len(v.Members) != 1 {
		t.Errorf("process 0 is in %v", v)
	}
}

// TestJoinerGivesUp: a process that asks to join when no member is left ends, though nothing else
// happens meanwhile.
func TestJoinerGivesUp(t *testing.T) {
	p, err := New(
		Config{Rank: 1, Size: 2, Silence: 200 * time.Millisecond, Joins: true, Host: &witness{}, HostName: "here"},
		Socket{Job: testJob, Key: testKey, Incarnation: 2, Places: []transport.Place{place("", transport.TCP, 1)}},
	)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	p.Tell(Death{Rank: 0, Incarnation: 1, Certain: true, How: "killed"})
	select {
	case <-p.Out():
	case <-time.After(hangTime):
		t.Fatal("it asks for ever")
	}
	if err := p.Ended(); !errors.Is(err, ErrNoQuorum) {
		t.Errorf("%v; want %v", err, ErrNoQuorum)
	}
}
