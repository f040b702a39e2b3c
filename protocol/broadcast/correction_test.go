package broadcast_test

import (
	"slices"
	"testing"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
	"github.com/coppice-go/coppice/topology"
)

// machine is one process, driven by hand.
type machine[C, E any] struct {
	*testing.T
	p     *broadcast.Protocol[C, E]
	state broadcast.State[C]
	now   protocol.Time
}

// corrector is a process that got the message from its parent and has already
// sent it to its children: what it sends next is correction.
func corrector[C, E any](t *testing.T, p int, self protocol.Rank, c broadcast.Correction[C, E]) *machine[C, E] {
	t.Helper()
	tree, err := topology.KAry(1, p, topology.Interleaved)
	if err != nil {
		t.Fatal(err)
	}
	proto, err := broadcast.New(broadcast.Config{P: p, Spread: &broadcast.Tree{Tree: tree}}, c)
	if err != nil {
		t.Fatal(err)
	}
	m := &machine[C, E]{T: t, p: proto}
	proto.Init(&m.state, self, 1)
	if self != 0 {
		m.receive(self-1, broadcast.Message[E]{})
	}
	for m.next().Msg.Kind != broadcast.Spread {
	}
	return m
}

func (m *machine[C, E]) receive(from protocol.Rank, msg broadcast.Message[E]) {
	m.p.Receive(&m.state, m.now, from, msg)
}

// next is the machine's next Send, Wait, Idle or Done.
func (m *machine[C, E]) next() protocol.Action[broadcast.Message[E]] {
	for {
		if a := m.p.Next(&m.state, m.now); a.Kind != protocol.Deliver {
			return a
		}
	}
}

// sends lists the ranks that the machine sends to until it does something else.
func (m *machine[C, E]) sends() (to []protocol.Rank) {
	for {
		a := m.next()
		if a.Kind != protocol.Correct {
			return to
		}
		to = append(to, a.To)
	}
}

func (m *machine[C, E]) wantSends(want ...protocol.Rank) {
	m.Helper()
	if got := m.sends(); !slices.Equal(got, want) {
		m.Errorf("sends to %v, want %v", got, want)
	}
}

type plain = broadcast.Message[broadcast.None]

var (
	left  = plain{Kind: broadcast.Left}
	right = plain{Kind: broadcast.Right}
)

// §3.1 of Corrected Trees: process 23 hears from 19 and 28.
func TestCheckedSendsAsFarAsTheNearestItHeardFrom(t *testing.T) {
	m := corrector(t, 64, 23, &broadcast.Checked{})
	m.receive(19, right)
	m.receive(28, left)
	m.receive(30, left)
	m.wantSends(22, 24, 21, 25, 20, 26, 19, 27, 28)
}

// A stop rule that took the message's direction for the sender's side (as
// Algorithm 2, line 14, of Corrected Gossip can be read) would stop here.
func TestCheckedStopsOnlyTheSideItHeardFrom(t *testing.T) {
	m := corrector(t, 10, 5, &broadcast.Checked{})
	m.receive(6, left)
	m.wantSends(4, 6, 3, 2, 1, 0, 9, 8, 7, 6) // left all the way: with the right, P messages
}

func TestCheckedGoesOnceAroundAlone(t *testing.T) {
	for _, p := range []int{1, 2, 3, 8, 9} {
		m := corrector(t, p, 0, &broadcast.Checked{})
		got := m.sends()
		want := p
		if p == 1 {
			want = 0
		}
		if len(got) != want || slices.Contains(got, 0) {
			t.Errorf("P=%d: sends to %v, want %d messages and none to itself", p, got, want)
		}
	}
}

func TestOpenRingEndsAtTheRoot(t *testing.T) {
	corrector(t, 6, 0, &broadcast.Checked{Ring: broadcast.Ring{Open: true}}).wantSends(1, 2, 3, 4, 5)
	corrector(t, 6, 4, &broadcast.Checked{Ring: broadcast.Ring{Open: true}}).wantSends(3, 5, 2, 1, 0)
}

func TestFirstDirectionAndOneSide(t *testing.T) {
	corrector(t, 9, 4, &broadcast.Opportunistic{D: 2}).wantSends(3, 5, 2, 6)
	corrector(t, 9, 4, &broadcast.Opportunistic{D: 2, Ring: broadcast.Ring{First: broadcast.ToRight}}).wantSends(5, 3, 6, 2)
	corrector(t, 9, 1, &broadcast.Opportunistic{D: 3, Ring: broadcast.Ring{OneSided: true}}).wantSends(0, 8, 7)
	corrector(t, 9, 7, &broadcast.Opportunistic{D: 3, Ring: broadcast.Ring{OneSided: true, First: broadcast.ToRight}}).wantSends(8, 0, 1)
	corrector(t, 9, 7, &broadcast.Opportunistic{D: 3, Ring: broadcast.Ring{OneSided: true, First: broadcast.ToRight, Open: true}}).wantSends(8)
}

// §3.3 of Corrected Trees: 19 hears 23, d=8.
func TestPapersOptimizationLeavesTheRestToTheNeighbour(t *testing.T) {
	m := corrector(t, 64, 19, &broadcast.Optimized{D: 8, Paper: true})
	m.receive(23, left)
	m.wantSends(14, 13, 12, 11)
}

func TestOptimizedOwesNothingToTheSideItHeardFrom(t *testing.T) {
	m := corrector(t, 64, 19, &broadcast.Optimized{D: 8})
	m.next() // to 18
	m.next() // to 20
	m.receive(23, left)
	m.wantSends(17, 16, 15, 14, 13, 12, 11)
	m = corrector(t, 64, 19, &broadcast.Optimized{D: 8, Ring: broadcast.Ring{OneSided: true}})
	m.receive(23, left)
	m.wantSends(14, 13, 12, 11)
}

func TestDelayedSendsOneMessageIfItsNeighbourDoes(t *testing.T) {
	m := corrector(t, 16, 5, &broadcast.Delayed{Delay: 10})
	m.wantSends(4)
	if a := m.next(); a.Kind != protocol.Wait || a.At != 10 {
		t.Errorf("after its message: %+v, want to wait until 10", a)
	}
	m.receive(6, left)
	if a := m.next(); a.Kind != protocol.Idle {
		t.Errorf("after its neighbour's message: %+v, want idle", a)
	}
	m.receive(3, right) // 4 is dead, and 3 looks for another process
	m.wantSends(3)
}

func TestDelayedSearchesUntilSomebodyAnswers(t *testing.T) {
	m := corrector(t, 16, 5, &broadcast.Delayed{Delay: 10})
	m.wantSends(4)
	m.now = 10
	for want := protocol.Rank(6); want < 9; want++ {
		if a := m.next(); a.Kind != protocol.Correct || a.To != want {
			t.Fatalf("%+v, want a message to %d", a, want)
		}
	}
	m.receive(8, left)
	if a := m.next(); a.Kind != protocol.Idle {
		t.Errorf("after the answer: %+v, want idle", a)
	}
}

// Corrected Gossip, Figure 6: N=10, f=1. Node 3 hears F(0,1), B(4) and B(5).
func TestFailureProofFigure6(t *testing.T) {
	m := corrector(t, 10, 3, &broadcast.FailureProof{F: 1, Ring: broadcast.Ring{First: broadcast.ToRight}})
	m.receive(1, broadcast.Message[broadcast.Known]{Kind: broadcast.Right, Extra: broadcast.Known{1}}) // from 1, which knows 0
	m.receive(4, broadcast.Message[broadcast.Known]{Kind: broadcast.Left})
	m.receive(5, broadcast.Message[broadcast.Known]{Kind: broadcast.Left})
	// Final messages up to 5, the second ahead, and 0, the second behind.
	m.wantSends(4, 2, 5, 1, 0)
	if a := m.next(); a.Kind != protocol.Done {
		t.Errorf("%+v, want done", a)
	}
}

// Once F correctors are known on a side, the machine sends to the other side again from the start, with F+1 names: the
// sender and those behind it.
func TestFailureProofTellsTheOtherSideAgain(t *testing.T) {
	m := corrector(t, 20, 10, &broadcast.FailureProof{F: 1})
	for _, want := range []protocol.Rank{9, 11, 8, 12} {
		if a := m.next(); a.To != want || a.Msg.Extra != (broadcast.Known{}) {
			t.Fatalf("%+v, want a message to %d that names nobody", a, want)
		}
	}
	m.receive(13, broadcast.Message[broadcast.Known]{Kind: broadcast.Left})
	if a := m.next(); a.To != 9 || a.Msg.Extra[0] != 3 {
		t.Errorf("%+v, want a final message to 9 that names the one at distance 3", a)
	}
}

func TestFailureProofCriesForHelpAlone(t *testing.T) {
	m := corrector(t, 5, 2, &broadcast.FailureProof{F: 1})
	sos := map[protocol.Rank]bool{}
	for a := m.next(); a.Kind == protocol.Correct; a = m.next() {
		if a.Msg.Kind == broadcast.SOS {
			sos[a.To] = true
		}
	}
	if len(sos) != 4 || sos[2] {
		t.Errorf("SOS to %v, want to all others", sos)
	}
}

// A corrected process rests only when it knows F+1 correctors, and cries for
// help when it does not learn of them.
func TestFailureProofCorrectedWaitsForFinalMessage(t *testing.T) {
	tree, err := topology.Binomial(8, topology.Interleaved)
	if err != nil {
		t.Fatal(err)
	}
	p, err := broadcast.New(broadcast.Config{P: 8, Spread: &broadcast.Tree{Tree: tree}, Synchronized: true, Start: 5},
		&broadcast.FailureProof{F: 1, Timeout: 100})
	if err != nil {
		t.Fatal(err)
	}
	for _, final := range []bool{true, false} {
		m := &machine[broadcast.Proving, broadcast.Known]{T: t, p: p, now: 6}
		p.Init(&m.state, 4, 1)
		m.receive(3, broadcast.Message[broadcast.Known]{Kind: broadcast.Right})
		if a := p.Next(&m.state, m.now); a.Kind != protocol.Wait || a.At != 106 {
			t.Fatalf("knows one corrector: %+v, want to wait until 106", a)
		}
		if final {
			m.receive(3, broadcast.Message[broadcast.Known]{Kind: broadcast.Right, Extra: broadcast.Known{1}})
			if a := p.Next(&m.state, m.now); a.Kind != protocol.Deliver {
				t.Errorf("knows two: %+v, want to deliver", a)
			}
			continue
		}
		m.now = 106
		if n := len(m.sends()); n != 7 {
			t.Errorf("after the time-out: %d messages, want SOS to all 7", n)
		}
	}
}

// What does not belong to a protocol is ignored: on sockets a peer may send
// anything.
func TestStrangeMessagesAreIgnored(t *testing.T) {
	for kind := broadcast.MessageKind(0); kind < 20; kind++ {
		m := corrector(t, 16, 5, &broadcast.Checked{})
		m.receive(7, plain{Kind: kind})
		d := corrector(t, 16, 5, &broadcast.Delayed{Delay: 1})
		d.receive(7, plain{Kind: kind})
		o := corrector(t, 16, 5, &broadcast.Optimized{D: 2})
		o.receive(7, plain{Kind: kind})
		if kind > broadcast.Right && len(m.sends()) != 16 {
			t.Errorf("%v changes what is sent", kind)
		}
		_ = kind.String()
	}
}

func TestOnePartServesOneGroupSize(t *testing.T) {
	c := &broadcast.Checked{}
	corrector(t, 8, 1, c)
	corrector(t, 8, 2, c)
	tree, err := topology.Binomial(9, topology.Interleaved)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := broadcast.New(broadcast.Config{P: 9, Spread: &broadcast.Tree{Tree: tree}}, c); err == nil {
		t.Error("a correction of 8 processes is taken for 9, which would change the first")
	}
}
