// Source: the thesis, sections 6.1.2 and 6.1.3.
//
// The thesis saw stabilization rise in a line between the sizes at which the tree
// grows a level, took that for messages that the switch handles one after the
// other, measured the latency of a message while so many nodes talk, and put it in
// the place of L in equation 4.1. Its curves are not in the text; what it says of
// them is, and this is the least that behaves so:
//
//   - A node's link passes one message each Port: what a parent sends to its
//     children follows one another, and so do their answers. This is LogP's g. It
//     makes the latency rise up to a+1 nodes, a parent and its children, and no
//     further (6.1.2: up to 3 nodes for a = 2, 5 for a = 4; then constant on
//     Myrinet).
//   - The switch passes one message each Packet, whosever it is. Nobody notices
//     until it is busy all the time; then latency rises in a line with the number
//     of nodes (6.1.3: pairs of nodes from twelve on).
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
//   - what the busiest switch needs to pass all messages, down and up. Where it is
//     busy all the time answers do wait, for the questions to others, and T_s grows
//     with the number of members rather than its logarithm.
//
// Where switches are connected by another one, a message between two of them waits
// in three.
//
// Cost: StabilizationSwitched looks at each member once.

package model

import "github.com/coppice-go/coppice/topology"

// Switched is a network of one switch, or of several and one that connects them.
type Switched struct {
	Port   float64 // a link is busy with a message
	Packet float64 // a switch is busy with a message
	Nodes  int     // on each switch, by rank; 0: all are on one
	Uplink float64 // between a switch and the one that connects them
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
// what they cost the busiest switch, if that is more.
func (s Switched) StabilizationSwitched(a, n int, m Machine) (float64, error) {
	tree, err := topology.Radix(a, n)
	if err != nil {
		return 0, err
	}
	levels := make([]levelLoad, Levels(a, n)-1)
	var all levelLoad
	for r := 1; r < n; r++ {
		from, to := s.of(tree.Parent(r)), s.of(r)
		levels[tree.Level(r)-1].add(from, to)
		all.add(from, to)
	}
	t := m.Ocp * float64(len(levels)+1)
	parents := 1
	for _, l := range levels {
		children := (l.messages + parents - 1) / parents // of the parent that has most
		t += 2*m.L + float64(children-1)*s.Port + l.wait(s)
		parents *= a
	}
	if n == 1 {
		return t, nil
	}
	// The first message is at the switch at once, the last has L to go.
	busiest := max(all.most(), all.crossing)
	return max(t, m.Ocp+float64(2*busiest-1)*s.Packet+m.L), nil
}

// of is the switch of a member.
func (s Switched) of(r int) int {
	if s.Nodes == 0 {
		return 0
	}
	return r / s.Nodes
}

// levelLoad is what the messages of one level of links, in one direction, are to
// the network.
type levelLoad struct {
	messages int
	switches map[int]int // how many of them pass each switch
	crossing int         // … and the one that connects them
}

func (l *levelLoad) add(from, to int) {
	if l.switches == nil {
		l.switches = map[int]int{}
	}
	l.messages++
	l.switches[from]++
	if from != to {
		l.switches[to]++
		l.crossing++
	}
}

// wait is how much longer the last of them takes, there and back: it waits for all
// others of its switch; where there are several, also in the one between and on the
// other side, and it passes the links between them, which its answer does again.
func (l levelLoad) wait(s Switched) float64 {
	t := float64(l.most()-1) * s.Packet
	if l.crossing > 0 {
		t += t + float64(l.crossing-1)*s.Packet + 4*s.Uplink
	}
	return t
}

// most is how many messages the busiest of the switches passes, but for the one that
// connects them.
func (l levelLoad) most() (most int) {
	for _, messages := range l.switches {
		most = max(most, messages)
	}
	return most
}
