package logp_test

// The examples that the papers draw, run and compared with every fact that the text states about them. Our
// copies are scans without the drawings: of Figure 5 of Corrected Trees the labels remain, of the others only
// captions and prose. Each test says what had to be filled in.

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/coppice-go/coppice/logp"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
	"github.com/coppice-go/coppice/topology"
)

type ranks = []protocol.Rank

// sight is a trace with methods for what the figures show.
type sight struct {
	logp.Result
	records []logp.Record
}

// see runs a broadcast among p processes once.
func see(t *testing.T, spec broadcast.Spec, net logp.Network, failed ...protocol.Rank) sight {
	t.Helper()
	runs := logp.Runs{Runs: 1, Seed: 1, Faults: logp.Sampling{Fixed: logp.Faults{Failed: failed}}}
	records, result, err := logp.TraceBroadcast(spec, net, runs, 0)
	if err != nil {
		t.Fatal(err)
	}
	return sight{result, records}
}

// uncolored returns the live processes without the message.
func (s sight) uncolored(p int, failed ...protocol.Rank) (left ranks) {
	has := map[protocol.Rank]bool{}
	for _, r := range s.records {
		if r.Kind == logp.Received || r.Kind == logp.Delivered {
			has[r.To] = true
		}
	}
	for r := range protocol.Rank(p) {
		if !has[r] && !slices.Contains(failed, r) {
			left = append(left, r)
		}
	}
	return left
}

// sends lists the processes to which each process disseminates, in order.
func (s sight) sends() map[protocol.Rank]ranks {
	to := map[protocol.Rank]ranks{}
	for _, r := range s.records {
		if r.Kind == logp.Sent && !r.Correction {
			to[r.From] = append(to[r.From], r.To)
		}
	}
	return to
}

// lines returns the records for which keep reports true, in a form that is easy to compare.
func (s sight) lines(keep func(logp.Record) bool) (lines []string) {
	for _, r := range s.records {
		if keep(r) {
			lines = append(lines, fmt.Sprintf("%d %v %d→%d until %d", r.At, r.Kind, r.From, r.To, r.Until))
		}
	}
	return lines
}

// TestCorrectedTreesFigure3: the binary tree, in-order with 4 failed and
// interleaved with 2 failed (§3.2, §3.2.1). That it has 7 processes follows from
// the ranks named. The paper counts a gap without the failed process beside it,
// 5 and 6 in-order, 4 and 6 interleaved; GapMax counts the dead as well.
func TestCorrectedTreesFigure3(t *testing.T) {
	net := logp.Network{P: 7, L: 2, O: 1}
	for _, c := range []struct {
		order     topology.Order
		failed    protocol.Rank
		children  map[protocol.Rank]ranks
		uncolored ranks
		gapMax    int
	}{
		{topology.InOrder, 4, map[protocol.Rank]ranks{0: {1, 4}, 1: {2, 3}, 4: {5, 6}}, ranks{5, 6}, 3},
		{topology.Interleaved, 2, map[protocol.Rank]ranks{0: {1, 2}, 1: {3, 5}, 2: {4, 6}}, ranks{4, 6}, 1},
	} {
		t.Run(c.order.String(), func(t *testing.T) {
			spec := broadcast.Spec{Tree: "kary:2", Order: c.order, Correction: "none"}
			if got := see(t, spec, net).sends(); !reflect.DeepEqual(got, c.children) {
				t.Errorf("without failures %v, want %v", got, c.children)
			}
			hurt := see(t, spec, net, c.failed)
			want := maps.Clone(c.children)
			delete(want, c.failed) // failed processes send no messages
			if got := hurt.sends(); !reflect.DeepEqual(got, want) {
				t.Errorf("%d failed: %v, want %v", c.failed, got, want)
			}
			if got := hurt.uncolored(7, c.failed); !slices.Equal(got, c.uncolored) || hurt.GapMax != c.gapMax {
				t.Errorf("%d failed: uncolored %v, gap %d; want %v, %d", c.failed, got, hurt.GapMax, c.uncolored, c.gapMax)
			}
			spec.Correction, spec.Synchronized = "checked", true
			if got := see(t, spec, net, c.failed).uncolored(7, c.failed); got != nil {
				t.Errorf("after correction along the chain uncolored %v, want none", got)
			}
		})
	}
}

// TestCorrectedTreesFigure3OneMessage: on the interleaved tree one correction
// message a process, k−1, is enough for one failure, less than k (§3.2.1).
func TestCorrectedTreesFigure3OneMessage(t *testing.T) {
	net := logp.Network{P: 7, L: 2, O: 1}
	spec := broadcast.Spec{Tree: "kary:2", Correction: "opportunistic:1", Synchronized: true}
	for _, side := range []broadcast.Side{broadcast.ToLeft, broadcast.ToRight} {
		spec.Ring = broadcast.Ring{OneSided: true, First: side}
		for failed := protocol.Rank(1); failed < 7; failed++ {
			if got := see(t, spec, net, failed); got.Uncolored != 0 {
				t.Errorf("%d failed, side %d: uncolored %v", failed, side, got.uncolored(7, failed))
			}
		}
	}
}

// TestCorrectedTreesFigure4: the binomial tree of height 3, made of two trees of
// height 2, interleaved as the children's formula of §3.2.2 has it. The text
// gives the subtree of 1; the in-order numbers are those of a depth-first walk.
func TestCorrectedTreesFigure4(t *testing.T) {
	net := logp.Network{P: 8, L: 2, O: 1}
	for _, c := range []struct {
		order    topology.Order
		children map[protocol.Rank]ranks
	}{
		{topology.InOrder, map[protocol.Rank]ranks{0: {1, 5, 7}, 1: {2, 4}, 2: {3}, 5: {6}}},
		{topology.Interleaved, map[protocol.Rank]ranks{0: {1, 2, 4}, 1: {3, 5}, 2: {6}, 3: {7}}},
	} {
		spec := broadcast.Spec{Tree: "binomial", Order: c.order, Correction: "none"}
		tree := see(t, spec, net).sends()
		if !reflect.DeepEqual(tree, c.children) {
			t.Errorf("%v: %v, want %v", c.order, tree, c.children)
		}
		// T₃ = T₂•T₂: the root's first child heads a tree like the rest.
		child := tree[0][0]
		rest := maps.Clone(tree)
		rest[0] = rest[0][1:]
		if got, want := shape(tree, child), shape(rest, 0); got != want || got != "((())())" {
			t.Errorf("%v: shape %s below %d, %s of the rest; want twice T₂", c.order, got, child, want)
		}
		if got := shape(tree, 0); got != "(((())())(())())" {
			t.Errorf("%v: shape %s, want T₃", c.order, got)
		}
	}
	spec := broadcast.Spec{Tree: "binomial", Correction: "none"}
	hurt := see(t, spec, net, 1)
	if got := hurt.uncolored(8, 1); !slices.Equal(got, ranks{3, 5, 7}) || hurt.GapMax != 1 {
		t.Errorf("without 1: uncolored %v, gap %d; want its subtree 3, 5, 7, every other on the ring", got, hurt.GapMax)
	}
}

// shape writes a tree as brackets, children in order.
func shape(tree map[protocol.Rank]ranks, root protocol.Rank) string {
	s := "("
	for _, child := range tree[root] {
		s += shape(tree, child)
	}
	return s + ")"
}

// TestCorrectedTreesFigure5: the timeline of the Lamé tree of order 3 with 9
// processes, L = o = 1. The labels of the drawing (processes 0 to 8; the tree
// with 1, 5, 7, 2, 8, 3, 4, 6 below 0) and the prose of §3.2.2 give every
// message; iteration i is time i, since o = 1.
func TestCorrectedTreesFigure5(t *testing.T) {
	net := logp.Network{P: 9, L: 1, O: 1}
	spec := broadcast.Spec{Tree: "lame:3", Correction: "none"}
	run := see(t, spec, net)
	want := []string{
		// Process 0 sends to R(i+2) at each iteration i: 1, 2, 3, 4, 6.
		"0 sent 0→1 until 3",
		"1 sent 0→2 until 4",
		"2 sent 0→3 until 5",
		"3 sent 0→4 until 6",
		"3 sent 1→5 until 6", // process 1 sends for the first time at iteration 3
		"4 sent 0→6 until 7",
		"4 sent 1→7 until 7",
		"4 sent 2→8 until 7", // process 2 can send at iteration 4
	}
	if got := run.lines(func(r logp.Record) bool { return r.Kind == logp.Sent }); !slices.Equal(got, want) {
		t.Errorf("messages\n%q, want\n%q", got, want)
	}
	if run.Coloring != 7 {
		t.Errorf("colored at %d, want 7", run.Coloring)
	}
	// With L = o = 1 it is optimal, 2o+L = k: no tree is faster, and the
	// optimal tree is this one.
	for _, tree := range []string{"binomial", "kary:1", "kary:2", "kary:3", "kary:8", "lame:1", "lame:2", "lame:4", "lame:5"} {
		if other := see(t, broadcast.Spec{Tree: tree, Correction: "none"}, net); other.Coloring < run.Coloring {
			t.Errorf("%s takes %d, less than %d", tree, other.Coloring, run.Coloring)
		}
	}
	spec.Tree = "optimal"
	if optimal := see(t, spec, net); !reflect.DeepEqual(optimal.records, run.records) {
		t.Errorf("the optimal tree does %v", optimal.sends())
	}
	// If the network changes, the tree stays the same but is no longer optimal.
	slow := logp.Network{P: 9, L: 4, O: 1}
	spec.Tree = "lame:3"
	other := see(t, spec, slow)
	if got, want := other.sends(), run.sends(); !reflect.DeepEqual(got, want) {
		t.Errorf("L=4: %v, want %v", got, want)
	}
	spec.Tree = "optimal"
	if optimal := see(t, spec, slow); optimal.Coloring >= other.Coloring {
		t.Errorf("L=4: the optimal tree takes %d, the Lamé tree %d", optimal.Coloring, other.Coloring)
	}
}

// script is a dissemination in which every process sends to given partners, one after the other, before the
// time until: a gossip with known outcome. Ranks count from the root.
type script struct {
	partners map[protocol.Rank]ranks
	until    protocol.Time
}

func (script) Fit(int) error { return nil }

func (script) Color(*broadcast.Spreading, protocol.Rank, uint16) {}

func (script) Acknowledge(*broadcast.Spreading, protocol.Rank, protocol.Rank) {}

func (g script) Next(s *broadcast.Spreading, self protocol.Rank, now protocol.Time) protocol.Action[broadcast.Message[broadcast.None]] {
	if now >= g.until || int(s.Next) == len(g.partners[self]) {
		return protocol.Action[broadcast.Message[broadcast.None]]{Kind: protocol.Done}
	}
	s.Next++
	return protocol.Action[broadcast.Message[broadcast.None]]{Kind: protocol.Send, To: g.partners[self][s.Next-1]}
}

// gossips runs one broadcast among 10 nodes, L = O = 1, without a queue of
// receives, as Corrected Gossip has it: gossip by a script until T, correction
// from T+L+O on.
func gossips[C, E any](t *testing.T, g script, root protocol.Rank, correction broadcast.Correction[C, E]) sight {
	t.Helper()
	p, err := broadcast.New(broadcast.Config{P: 10, Root: root, Spread: g, Synchronized: true, Start: g.until + 2}, correction)
	if err != nil {
		t.Fatal(err)
	}
	records, result, err := logp.Trace(p, logp.Network{P: 10, L: 1, O: 1, NoQueue: true}, 1, logp.Faults{})
	if err != nil {
		t.Fatal(err)
	}
	return sight{result, records}
}

var forwardFirst = broadcast.Ring{First: broadcast.ToRight}

// TestCorrectedGossipFigure2: OCG among 10 nodes, L = O = 1, T = 2, C = 6, from
// node 1, leaves node 8 out (§III.B). With T = 2 only the root gossips, twice.
//
// The drawing, and so the root's partners, is not in the scan, nor what C
// counts. Claim 2's reading, C = K̄·O + L + O, gives each g-node K̄ = 4 messages,
// two to each side; then node 8 alone is left out if and only if 5 is a g-node
// and the root's other message goes to 2, 3, 4 or 5 (all 81 pairs are tried).
// Algorithm 1's clock, which stops sends at 6 and so after two messages, leaves
// out no set that consists of 8 alone.
func TestCorrectedGossipFigure2(t *testing.T) {
	for a := range protocol.Rank(10) {
		for b := range protocol.Rank(10) {
			if a == 1 || b == 1 {
				continue
			}
			g := script{partners: map[protocol.Rank]ranks{0: {(a + 9) % 10, (b + 9) % 10}}, until: 2}
			run := gossips(t, g, 1, &broadcast.Opportunistic{Ring: forwardFirst, D: 2})
			others := []protocol.Rank{a, b}
			want := slices.Contains(others, 5) && min(a, b) >= 2 && max(a, b) <= 5
			if got := slices.Equal(run.uncolored(10), ranks{8}); got != want {
				t.Errorf("gossip to %d and %d: uncolored %v", a, b, run.uncolored(10))
			}
			run = gossips(t, g, 1, &broadcast.Opportunistic{Ring: forwardFirst, D: 1})
			if slices.Equal(run.uncolored(10), ranks{8}) {
				t.Errorf("gossip to %d and %d: two correction messages leave out 8 alone", a, b)
			}
		}
	}
}

// TestCorrectedGossipFigure2Timeline: one of these cases, message by message:
// gossip starts at 0 and 1 and is over at T+L+O = 4, correction goes forward and
// backward in turn and is over at 4+C = 10.
func TestCorrectedGossipFigure2Timeline(t *testing.T) {
	g := script{partners: map[protocol.Rank]ranks{0: {4, 2}}, until: 2} // nodes 5 and 3
	run := gossips(t, g, 1, &broadcast.Opportunistic{Ring: forwardFirst, D: 2})
	sent := func(from protocol.Rank) func(logp.Record) bool {
		return func(r logp.Record) bool { return r.Kind == logp.Sent && r.From == from }
	}
	for _, c := range []struct {
		from protocol.Rank
		want []string
	}{
		{1, []string{
			"0 sent 1→5 until 3", "1 sent 1→3 until 4",
			"4 sent 1→2 until 7", "5 sent 1→0 until 8", "6 sent 1→3 until 9", "7 sent 1→9 until 10",
		}},
		{5, []string{"4 sent 5→6 until 7", "5 sent 5→4 until 8", "6 sent 5→7 until 9", "7 sent 5→3 until 10"}},
		{3, []string{"4 sent 3→4 until 7", "5 sent 3→2 until 8", "6 sent 3→5 until 9", "7 sent 3→1 until 10"}},
		{0, nil},
		{2, nil},
		{4, nil},
		{6, nil},
		{7, nil},
		{8, nil},
		{9, nil}, // c-nodes do not send
	} {
		if got := run.lines(sent(c.from)); !slices.Equal(got, c.want) {
			t.Errorf("node %d: %q, want %q", c.from, got, c.want)
		}
	}
	if got := run.uncolored(10); !slices.Equal(got, ranks{8}) || run.Quiescence != 10 {
		t.Errorf("uncolored %v, over at %d; want 8, at 10", got, run.Quiescence)
	}
}

// TestCorrectedGossipFigure4: CCG among 10 nodes, L = O = 1, T = 4: all nodes
// are reached after 2 correction steps (+L/O+1), and the algorithm exits after 5
// (+L/O+1), when all g-nodes have received a message from their closest g-nodes
// in both directions (§III.C). Step n is the n-th message of a g-node.
//
// The scan does not show which nodes are g-nodes. With T = 4 there are up to 6:
// the root, four partners of its and one of the first of these. Of all such
// sets, the two facts hold for those with gaps of two nodes at most, at least
// one of two, where the g-node after each gap of two has the next one beside it:
// it then knows so in time to send its third message backward at step 5.
func TestCorrectedGossipFigure4(t *testing.T) {
	const start = 4 + 2 // T+L+O
	found := 0
	for set := 1; set < 1<<10; set += 2 { // the root is 0
		g, ok := scriptFor(set)
		if !ok {
			continue
		}
		run := gossips(t, g, 0, &broadcast.Checked{Ring: forwardFirst})
		reached, exits := run.Coloring-start, lastSend(run)+1-start
		got := reached == 2+2 && exits == 5+2
		want := true
		for node := range 10 {
			if set>>node&1 == 1 {
				ahead := distanceTo(set, node, 1)
				want = want && ahead <= 3 && (distanceTo(set, node, -1) < 3 || ahead == 1)
			}
		}
		want = want && slices.ContainsFunc([]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, func(node int) bool {
			return set>>node&1 == 1 && distanceTo(set, node, 1) == 3
		})
		if got != want {
			t.Errorf("g-nodes %010b: reached after %d, exits after %d; expected as drawn: %v", set, reached, exits, want)
		}
		if got {
			found++
		}
	}
	if found == 0 {
		t.Error("no set of g-nodes is as drawn")
	}
}

// lastSend returns when the last send starts.
func lastSend(s sight) (last protocol.Time) {
	for _, r := range s.records {
		if r.Kind == logp.Sent {
			last = r.At
		}
	}
	return last
}

// distanceTo returns the distance to the next g-node, ahead (1) or behind (−1).
func distanceTo(set, node, step int) int {
	for n := 1; ; n++ {
		if set>>((node+n*step+10*n)%10)&1 == 1 {
			return n
		}
	}
}

// scriptFor returns the gossip with T = 4 that gives a set of 2 to 6 g-nodes.
func scriptFor(set int) (script, bool) {
	var others ranks
	for node := protocol.Rank(1); node < 10; node++ {
		if set>>node&1 == 1 {
			others = append(others, node)
		}
	}
	if len(others) < 1 || len(others) > 5 {
		return script{}, false
	}
	g := script{partners: map[protocol.Rank]ranks{0: others[:min(len(others), 4)]}, until: 4}
	if len(others) == 5 {
		g.partners[others[0]] = others[4:]
	}
	return g, true
}

// TestCorrectedGossipFigure4Tuples: one of these sets, 0, 1, 4, 5, 8 and 9, with
// the pairs (m◁, m▷) that the figure writes beside each g-node: how far away the
// senders of its first backward and forward messages are, which are its closest
// g-nodes ahead and behind.
func TestCorrectedGossipFigure4Tuples(t *testing.T) {
	g, _ := scriptFor(0b11_0011_0011)
	run := gossips(t, g, 0, &broadcast.Checked{Ring: forwardFirst})
	got := map[protocol.Rank][2]protocol.Rank{}
	for _, r := range run.records {
		if r.Kind != logp.Received || !r.Correction {
			continue
		}
		pair := got[r.To]
		switch {
		case r.Message == broadcast.Left && pair[0] == 0:
			pair[0] = (r.From - r.To + 10) % 10
		case r.Message == broadcast.Right && pair[1] == 0:
			pair[1] = (r.To - r.From + 10) % 10
		}
		got[r.To] = pair
	}
	for node, want := range map[protocol.Rank][2]protocol.Rank{
		0: {1, 1}, 1: {3, 1}, 4: {1, 3}, 5: {3, 1}, 8: {1, 3}, 9: {1, 1},
	} {
		if got[node] != want {
			t.Errorf("node %d: (m◁, m▷) = %v, want %v", node, got[node], want)
		}
	}
	// A g-node starts with i+1, i−1, i+2, i−2; its number of sends shows how far it had to go.
	to := map[protocol.Rank]ranks{}
	for _, r := range run.records {
		if r.Kind == logp.Sent && r.Correction {
			to[r.From] = append(to[r.From], r.To)
		}
	}
	want := map[protocol.Rank]ranks{
		0: {1, 9, 2, 3}, 9: {0, 8, 1, 2},
		1: {2, 0, 3, 4, 5, 6, 7}, 5: {6, 4, 7, 8, 9, 0, 1},
		4: {5, 3, 6, 2, 1, 0}, 8: {9, 7, 0, 6, 5, 4},
	}
	if !reflect.DeepEqual(to, want) {
		t.Errorf("sent %v, want %v", to, want)
	}
}

// TestCorrectedGossipFigure6: FCG among 10 nodes, L = O = 1, f = 1: node 3
// terminates after receiving F(0,1), B(4) and B(5), and before that it sends
// final messages (§III.D). In parentheses are the nodes in a message, its sender
// included, so 0, 1, 3, 4 and 5 are g-nodes and 2 is not. Nor is 6, in our
// reading: 5 would know of it before it sends to 3, and name it. The scan shows
// neither T nor whether 7, 8 and 9 are g-nodes: all sets of them are tried.
func TestCorrectedGossipFigure6(t *testing.T) {
	for more := range 1 << 3 {
		g := script{partners: map[protocol.Rank]ranks{0: {1, 3, 4, 5}}, until: 7}
		for node := protocol.Rank(7); node < 10; node++ {
			if more>>(node-7)&1 == 1 {
				g.partners[0] = append(g.partners[0], node)
			}
		}
		run := gossips(t, g, 0, &broadcast.FailureProof{Ring: forwardFirst, F: 1, Timeout: 100})
		ends, got, finals := run.partOf(3)
		last := protocol.Time(0)
		for _, message := range []string{"F(0,1)", "B(4)", "B(5)"} {
			at, ok := got[message]
			if !ok || at > ends {
				t.Errorf("more g-nodes %03b: node 3 ends at %d, %s received: %v at %d", more, ends, message, ok, at)
			}
			last = max(last, at)
		}
		// It knows two g-nodes on each side, so it may stop behind them: one
		// more step after what it heard last.
		if ends != last+1 {
			t.Errorf("more g-nodes %03b: node 3 ends at %d, the last of the three came at %d", more, ends, last)
		}
		// Its final messages go to all as far as the second g-node on each
		// side; backward they name those ahead, forward those behind, as far
		// as it knows them by then.
		want := map[protocol.Rank]string{2: "B(3,4)", 1: "B(3,4,5)", 0: "B(3,4,5)", 4: "F(1,3)", 5: "F(1,3)"}
		if !reflect.DeepEqual(finals, want) {
			t.Errorf("more g-nodes %03b: final messages %v, want %v", more, finals, want)
		}
	}
}

// partOf returns a node's part in failure-proof correction with f = 1: when it delivers, which it does last;
// when each message first came, as the figure writes them; and its last final message to each node, one that
// names f others.
func (s sight) partOf(node protocol.Rank) (ends protocol.Time, got map[string]protocol.Time, finals map[protocol.Rank]string) {
	ends = protocol.Never
	got, finals = map[string]protocol.Time{}, map[protocol.Rank]string{}
	for _, r := range s.records {
		switch {
		case r.Kind == logp.Delivered && r.To == node:
			ends = r.At
		case r.Kind == logp.Received && r.Correction && r.To == node:
			if _, again := got[asDrawn(r)]; !again {
				got[asDrawn(r)] = r.At
			}
		case r.Kind == logp.Sent && r.Correction && r.From == node && len(r.Names) >= 1:
			finals[r.To] = asDrawn(r)
		}
	}
	return ends, got, finals
}

// asDrawn writes a message as the figure does: the direction, and the nodes in it
// in rising order.
func asDrawn(r logp.Record) string {
	nodes := append(ranks{r.From}, r.Names...)
	slices.Sort(nodes)
	text := "F("
	if r.Message == broadcast.Left {
		text = "B("
	}
	for i, node := range nodes {
		if i > 0 {
			text += ","
		}
		text += fmt.Sprint(node)
	}
	return text + ")"
}
