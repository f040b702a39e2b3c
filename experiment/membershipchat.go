package experiment

import (
	"context"
	"fmt"

	"github.com/coppice-go/coppice/logp"
	"github.com/coppice-go/coppice/protocol"
)

// chat is how the thesis measured latency under contention (6.1.3), as we read it: nodes form groups of a
// parent and its children, by rank; the parent sends to each, each answers, and when all have answered the
// parent starts the next round. All groups talk at once and no group waits for another.
type chat struct {
	n, children int
	rounds      int
}

type chatState struct {
	self    protocol.Rank
	parent  protocol.Rank
	ours    int // children of a parent; 0: it is none
	sent    int
	answers int
	round   int
	owed    bool // a child owes its answer
	told    bool // a parent has sent its round
}

// Init implements protocol.Protocol.
func (c *chat) Init(s *chatState, self protocol.Rank, _ uint64) {
	group := protocol.Rank(c.children + 1)
	*s = chatState{self: self, parent: self / group * group}
	if s.self == s.parent {
		s.ours = min(c.children, c.n-1-int(self))
	}
}

// Receive implements protocol.Protocol.
func (c *chat) Receive(s *chatState, _ protocol.Time, _ protocol.Rank, _ int) {
	if s.self != s.parent {
		s.owed = true
		return
	}
	if s.answers++; s.answers == s.ours {
		s.sent, s.answers, s.told = 0, 0, true
		s.round++
	}
}

// Notify implements protocol.Protocol.
func (c *chat) Notify(*chatState, protocol.Time, protocol.Notice) {}

// Next implements protocol.Protocol.
func (c *chat) Next(s *chatState, _ protocol.Time) protocol.Action[int] {
	switch {
	case s.owed:
		s.owed = false
		return protocol.Action[int]{Kind: protocol.Send, To: s.parent}
	case s.told:
		s.told = false
		return protocol.Action[int]{Kind: protocol.Deliver, Msg: s.round}
	case s.sent < s.ours && s.round < c.rounds:
		s.sent++
		return protocol.Action[int]{Kind: protocol.Send, To: s.self + protocol.Rank(s.sent)}
	}
	return protocol.Action[int]{Kind: protocol.Idle}
}

// How many rounds to simulate, and from which on they count: by then the groups have found their turns.
const (
	chatWarmup = 20
	chatRounds = 60
)

// chatLatency returns half a round of a group, as the mean of all groups, in µs.
func chatLatency(ctx context.Context, n, children int, net logp.Network) (float64, error) {
	net.P = n
	first, last := map[protocol.Rank]protocol.Time{}, map[protocol.Rank]protocol.Time{} // of the rounds that count, by group
	delivered := func(at protocol.Time, r protocol.Rank, round int) {
		switch round {
		case chatWarmup:
			first[r] = at
		case chatRounds:
			last[r] = at
		}
	}
	if _, err := observed(ctx, &chat{n: n, children: children, rounds: chatRounds}, net, logp.Observer[int]{Delivered: delivered}, logp.Faults{}); err != nil {
		return 0, err
	}
	if len(last) == 0 {
		return 0, fmt.Errorf("nobody talks among %d", n)
	}
	sum := protocol.Time(0)
	for r, at := range last {
		sum += at - first[r]
	}
	return inUS(sum) / float64(len(last)) / (chatRounds - chatWarmup) / 2, nil
}
