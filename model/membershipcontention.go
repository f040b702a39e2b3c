// Source: the thesis, sections 6.1.2 and 6.1.3.
//
// The thesis saw stabilization rise in a line between the sizes at which the tree grows a level, took that for messages
// that the switch handles one after the other, measured the latency of a message while that many nodes talk, and put it
// in the place of L in equation 4.1. Its curves are not in the text; what it says of them is, and this is the least that
// behaves so:
//
//   - A node's link passes one message each Port: what a parent sends to its
//     children follows one another, and so do their answers. This is LogP's g. It
//     makes the latency rise up to a+1 nodes, a parent and its children, and no
//     further (6.1.2: up to 3 nodes for a = 2, 5 for a = 4; then constant on
//     Myrinet).
//   - The switch passes one message each Packet, from any sender. It has no effect until the switch is busy all the time;
//     then latency rises in a line with the number of nodes (6.1.3: pairs of nodes from twelve on).
//
// Two models follow. ContentionLatency is that of groups that go on talking, a
// parent with a children each, as the thesis measured it; StabilizationContention
// puts it into equation 4.2, as the thesis does, and charges the same at all
// levels, the crowded and the empty. StabilizationSwitched is the larger of two
// times:
//
//   - what the levels cost, each by its own messages: on the way down all of them
//     reach the switch at once, and the last waits for the others; answers come back
//     as far apart as the switch let the questions through, and wait no more. So it
//     rises by the same for each member that the last level gains, which is the line
//     that the thesis found and did not explain;
//   - what the switch needs to pass all messages, down and up. Where it is
//     busy all the time answers do wait, for the questions to others, and T_s grows
//     with the number of members rather than its logarithm.
//
// Cost: StabilizationSwitched looks at each level once.

package model

import "github.com/coppice-go/coppice/topology"

// Switched is a network of one switch.
type Switched struct {
	Port   float64 // a link is busy with a message
	Packet float64 // the switch is busy with a message
}

// ContentionLatency is half the time in which a parent has sent to its a children
// and has all answers, while n nodes on one switch do the same; a = 1: pairs. The
// links alone make it L + (a−1)·Port/2; the switch passes 2·a messages for each
// a+1 nodes meanwhile.
func (s Switched) ContentionLatency(a, n int, l float64) float64 {
	children := min(a, n-1)
	if children < 1 {
		return l
	}
	links := l + float64(children-1)*s.Port/2
	groups, rest := n/(a+1), n%(a+1)
	busy := groups*a + max(rest-1, 0)
	return max(links, float64(busy)*s.Packet)
}

// StabilizationContention is T_s of the thesis's contention model: equation 4.2
// with the latency under contention of that many nodes.
func (s Switched) StabilizationContention(a, n int, m Machine) float64 {
	return StabilizationBase(a, n, s.ContentionLatency(a, n, m.L), m.Ocp)
}

// StabilizationSwitched is T_s with what the messages of each level cost, or with
// what all of them cost the switch, if that is more.
func (s Switched) StabilizationSwitched(a, n int, m Machine) (float64, error) {
	if _, err := topology.Radix(a, n); err != nil {
		return 0, err
	}
	t := m.Ocp * float64(Levels(a, n))
	left := n - 1 // members below the levels so far
	for parents := 1; left > 0; parents *= a {
		messages := min(parents*a, left)
		children := ceilDiv(messages, parents) // of the parent that has most
		t += 2*m.L + float64(children-1)*s.Port + float64(messages-1)*s.Packet
		left -= messages
	}
	if n == 1 {
		return t, nil
	}
	// The first message is at the switch at once, the last has L to go.
	return max(t, m.Ocp+float64(2*(n-1)-1)*s.Packet+m.L), nil
}
