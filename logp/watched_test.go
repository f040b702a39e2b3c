package logp_test

import (
	"math/bits"
	"testing"

	"github.com/coppice-go/coppice/logp"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
)

// given is a dissemination whose outcome is given: the root sends to each process of a set, one after the
// other, and no other process sends. With a synchronized correction the set and the root are the g-nodes.
// Ranks count from the root.
type given ranks

func (given) Fit(int) error { return nil }

func (given) Color(*broadcast.Spreading, protocol.Rank, uint16) {}

func (given) Acknowledge(*broadcast.Spreading, protocol.Rank, protocol.Rank) {}

func (g given) Next(s *broadcast.Spreading, self protocol.Rank, _ protocol.Time) protocol.Action[broadcast.Message[broadcast.None]] {
	if self != 0 || int(s.Next) == len(g) {
		return protocol.Action[broadcast.Message[broadcast.None]]{Kind: protocol.Done}
	}
	s.Next++
	return protocol.Action[broadcast.Message[broadcast.None]]{Kind: protocol.Send, To: g[s.Next-1]}
}

// group is a set of at most 64 processes, a bit each.
type group uint64

func (g group) size() int { return bits.OnesCount64(uint64(g)) }

func (g group) ranks() (all ranks) {
	for ; g != 0; g &= g - 1 {
		all = append(all, protocol.Rank(bits.TrailingZeros64(uint64(g))))
	}
	return all
}

// subsets calls f for every subset of g, the empty one and g included.
func (g group) subsets(f func(group)) {
	for s := g; ; s = (s - 1) & g {
		f(s)
		if s == 0 {
			return
		}
	}
}

// seen is what the processes of one run did.
type seen struct {
	reached, delivered, again, ended, cried group // again: delivered more than once; cried: sent SOS
	sends                                   [16]uint8
}

// watched is a broadcast that records what its processes do.
type watched[C, E any] struct {
	broadcast *broadcast.Protocol[C, E]
	seen      *seen
}

type watchedState[C any] struct {
	broadcast.State[C]
	self protocol.Rank
}

func (w watched[C, E]) Init(s *watchedState[C], self protocol.Rank, seed uint64) {
	s.self = self
	w.broadcast.Init(&s.State, self, seed)
}

func (w watched[C, E]) Receive(s *watchedState[C], now protocol.Time, from protocol.Rank, m broadcast.Message[E]) {
	w.seen.reached |= 1 << s.self
	w.broadcast.Receive(&s.State, now, from, m)
}

func (w watched[C, E]) Notify(*watchedState[C], protocol.Time, protocol.Notice) {}

func (w watched[C, E]) Next(s *watchedState[C], now protocol.Time) protocol.Action[broadcast.Message[E]] {
	a := w.broadcast.Next(&s.State, now)
	self := group(1) << s.self
	switch {
	case a.Kind.Sends():
		w.seen.sends[s.self]++
		if a.Msg.Kind == broadcast.SOS {
			w.seen.cried |= self
		}
	case a.Kind == protocol.Deliver:
		w.seen.again |= w.seen.delivered & self
		w.seen.delivered |= self
	case a.Kind == protocol.Done:
		w.seen.ended |= self
	}
	return a
}

// timed runs one broadcast again and again in LogP time.
type timed[C, E any] struct {
	t      *testing.T
	engine *logp.Engine[watchedState[C], broadcast.Message[E]]
	p      int
	start  protocol.Time // of correction
	seen   seen          // of the last run
	result logp.Result   // of the last run
	runs   int
}

// newTimed prepares runs of p.
func newTimed[C, E any](t *testing.T, p *broadcast.Protocol[C, E], net logp.Network) *timed[C, E] {
	t.Helper()
	x := &timed[C, E]{t: t, p: net.P, start: p.Start}
	engine, err := logp.NewEngine(watched[C, E]{p, &x.seen}, net)
	if err != nil {
		t.Fatal(err)
	}
	x.engine = engine
	return x
}

// afterGossip prepares runs of a correction that begins when the root has
// reached the others of gNodes, in the model of Corrected Gossip.
func afterGossip[C, E any](t *testing.T, gNodes group, net logp.Network, correction broadcast.Correction[C, E]) *timed[C, E] {
	t.Helper()
	others := given((gNodes &^ 1).ranks())
	start := protocol.Time(max(len(others)-1, 0))*net.O + 2*net.O + net.L
	p, err := broadcast.New(broadcast.Config{P: net.P, Spread: others, Synchronized: true, Start: start}, correction)
	if err != nil {
		t.Fatal(err)
	}
	return newTimed(t, p, net)
}

func (x *timed[C, E]) run(seed uint64, faults logp.Faults) {
	x.seen = seen{}
	result, err := x.engine.Run(seed, faults)
	if err != nil {
		x.t.Fatalf("%+v: %v", faults, err)
	}
	x.result = result
	x.runs++
}

func (x *timed[C, E]) all() group { return 1<<x.p - 1 }

// allOrNone returns what is wrong with a run after which the given processes are dead: every live process
// that has the message must deliver it once and end; and if any live process has it, or a dead one delivered
// it, every live process must.
func (x *timed[C, E]) allOrNone(dead group) string {
	live := x.all() &^ dead
	has := live&(x.seen.reached|1) | x.seen.delivered
	switch {
	case x.seen.again != 0:
		return "delivered twice"
	case has == 0:
		return ""
	case live&^x.seen.delivered != 0:
		return "somebody has it, not all that live deliver it"
	case live&^x.seen.ended != 0:
		return "somebody does not come to an end"
	}
	return ""
}

// killings runs x with every way in which the victims can die during the run,
// in addition to faults, and calls check with all the dead after each.
//
// Other processes see only which sends came before a death, not its moment; so a victim dies after each
// number of its sends. 0 sends are a death before the run. A death after the Deliver changes nothing for
// others, and the run without it demands as much: the victim's delivery there promises the same.
// TestDeathTimesAddNothingToDeathsBySends compares.
func (x *timed[C, E]) killings(seed uint64, faults logp.Faults, dead group, victims ranks, check func(dead group)) (sent [16]uint8) {
	if len(victims) == 0 {
		x.run(seed, faults)
		check(dead)
		return x.seen.sends
	}
	v := victims[0]
	dead |= 1 << v
	for k := 0; ; k++ {
		f := logp.Faults{Failed: append(ranks{v}, faults.Failed...), Deaths: faults.Deaths}
		if k > 0 {
			f = logp.Faults{Failed: faults.Failed, Deaths: append([]logp.Death{{Rank: v, AfterSends: k}}, faults.Deaths...)}
		}
		most := x.killings(seed, f, dead, victims[1:], func(dead group) {
			if int(x.seen.sends[v]) < k {
				dead &^= 1 << v // it had fewer sends and lives
			}
			check(dead)
		})
		for r := range sent {
			sent[r] = max(sent[r], most[r])
		}
		if int(most[v]) < k {
			return sent
		}
	}
}

// upTo calls f for every subset of g with at most n members.
func (g group) upTo(n int, f func(group)) {
	g.subsets(func(s group) {
		if s.size() <= n {
			f(s)
		}
	})
}

// outcomes calls f for everything that gossip, and deaths before and during it, can leave of p processes:
// which processes are g-nodes, and which are dead. The root is a g-node, or dead after it has reached the
// others.
func outcomes(p int, f func(gNodes, dead group, rootDies bool)) {
	all := group(1)<<p - 1
	(all &^ 1).subsets(func(others group) {
		(all &^ 1 &^ others).subsets(func(dead group) {
			f(others|1, dead, false)
			f(others|1, dead, true)
		})
	})
}

// before returns the faults of an outcome of gossip.
func (x *timed[C, E]) before(dead group, rootDies bool) (logp.Faults, group) {
	f := logp.Faults{Failed: dead.ranks()}
	if rootDies {
		f.Deaths = []logp.Death{{Rank: 0, At: x.start}}
		dead |= 1
	}
	return f, dead
}
