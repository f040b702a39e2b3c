package runtime

import (
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/transport"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
)

// A process that was stopped has lost no patience meanwhile: what the others said
// waits to be read.
func TestAPauseIsNoPatience(t *testing.T) {
	p, err := newProcess(Config{Rank: 0, Size: 3})
	if err != nil {
		t.Fatal(err)
	}
	p.lock()
	defer p.unlock()
	before := p.viewNow()
	p.began = p.began.Add(-time.Minute) // as if a minute had passed in which nothing ran
	p.time = 0
	after := p.viewNow()
	if after < before || time.Duration(after-before) > time.Second {
		t.Errorf("%v became %v", time.Duration(before), time.Duration(after))
	}
	for range 20 { // a minute in which it runs
		p.began = p.began.Add(-3 * time.Second / 10)
		p.time = 0
		p.inspect()
	}
	if passed := time.Duration(p.viewNow() - after); passed < 5*time.Second || passed > 7*time.Second {
		t.Errorf("6 s became %v", passed)
	}
}

// What comes after the end is answered, but opens nothing.
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

// A process that leaves because its part has ended is dead to the others.
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
