// Failure-proof correction in brief, for simulations: the names in a message
// are packed into one word, where FailureProof has room for all that it may
// ever name. Such a message stays in registers on its way through a simulator,
// which makes runs several times as fast. All else is FailureProof's.

package broadcast

import (
	"math/bits"

	"github.com/coppice-go/coppice/protocol"
)

// Names holds the distances of a Known in equal parts of a word, the nearest in
// the lowest.
type Names uint64

// Briefs is what Brief makes of Provers.
type Briefs = Protocol[Proving, Names]

// Brief returns a broadcast that does the same as p, with messages of one word;
// there is none if F+1 distances do not fit in, or if its correction is not
// FailureProof itself.
func Brief(p *Provers) (b *Briefs, ok bool) {
	c, ok := p.correction.(*FailureProof)
	if !ok {
		return nil, false
	}
	width := min(64/(c.F+1), 63)
	if bits.Len(uint(p.P-1)) > width {
		return nil, false
	}
	b, err := New(p.Config, &brief{FailureProof: c, width: width})
	return b, err == nil
}

// brief is failure-proof correction with messages in brief.
type brief struct {
	*FailureProof
	width int // of a name in bits, below 64
}

// Receive implements Correction.
func (c *brief) Receive(s *Proving, self Rank, _ Time, from Rank, m Message[Names]) {
	k, n := c.hear(s, self, from, m.Kind)
	if k == nil {
		return
	}
	for names := m.Extra; names != 0; names >>= c.width & 63 {
		c.learn(k, c.past(n, int32(names&(1<<(c.width&63)-1))))
	}
}

// Next implements Correction.
func (c *brief) Next(s *Proving, self Rank, now Time, corrected bool) protocol.Action[Message[Names]] {
	a := c.next(s, self, now, corrected)
	names := Names(0)
	if k := s.behind(a.Msg.Kind); k != nil {
		for i := c.F; i >= 0; i-- {
			names = names<<(c.width&63) | Names(k[i])
		}
	}
	return protocol.Action[Message[Names]]{At: a.At, To: a.To, Kind: a.Kind, Msg: Message[Names]{Kind: a.Msg.Kind, Extra: names}}
}
