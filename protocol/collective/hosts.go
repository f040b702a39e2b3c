// Two levels: tasks of several hosts, each with tasks of consecutive ranks. One task of each host, the root or else the first, is its
// leader. Leaders exchange what others need of their hosts, and pass it on to the tasks of their own, which share its memory. So each
// byte crosses the network once on its way to a host, in as few messages as there can be.
//
// Broadcast: a binomial tree of the leaders, a star within each host, whose tasks copy at once. Reduce, all-reduce: binomial trees, whose
// tasks share the work. Gather, scatter: stars, so that nothing crosses the network twice. All-gather, all-to-all, reduce-scatter: leaders meet each other in the order of a 1-factorization. In all-to-all tasks
// of one host exchange their blocks without the leader.

package collective

import (
	"fmt"
	"slices"
)

// checkHosts returns what is wrong with where the tasks are.
func checkHosts(spec Spec) error {
	for i, first := range spec.Hosts {
		if i == 0 && first != 0 || i > 0 && first <= spec.Hosts[i-1] || int(first) >= spec.P {
			return fmt.Errorf("hosts that begin with tasks %v of %d; allowed: 0, then ever higher ones", spec.Hosts, spec.P)
		}
	}
	return nil
}

// hostsOf says where tasks are.
type hostsOf struct {
	first []Rank
	p     int
}

// of returns the number of a task's host.
func (h hostsOf) of(r Rank) Rank {
	i, found := slices.BinarySearch(h.first, r)
	if !found {
		i--
	}
	return Rank(i)
}

// tasks returns the tasks of n hosts from host i on.
func (h hostsOf) tasks(i, n int32) (lo, count int32) {
	end := int32(h.p)
	if int(i+n) < len(h.first) {
		end = int32(h.first[i+n])
	}
	lo = int32(h.first[i])
	return lo, end - lo
}

// hostTree is a tree within each host, and another among their leaders.
func hostTree(hosts []Rank, within, among edges) edges {
	return func(p int, self, root Rank) (es []edge) {
		h := hostsOf{hosts, p}
		leader := func(host Rank) Rank {
			if host == h.of(root) {
				return root
			}
			return hosts[host]
		}
		host := h.of(self)
		lo, n := h.tasks(int32(host), 1)
		es = within(int(n), self-Rank(lo), leader(host)-Rank(lo))
		for i := range es {
			es[i].peer += Rank(lo)
			es[i].lo += lo
		}
		if self != leader(host) {
			return es
		}
		for _, e := range among(len(hosts), host, h.of(root)) {
			e.peer = leader(e.peer)
			e.lo, e.n = h.tasks(e.lo, e.n)
			es = append(es, e)
		}
		return es
	}
}

// sumTree combines all values at the root, in the order in which the edges are, piece by piece. With all, the result then goes down to all
// tasks.
func sumTree(tree edges, all bool) maker {
	return func(p int, self, root Rank, spans int) Program {
		es := tree(p, self, root)
		g := Program{Slots: (1 + len(es)) * spans, Segments: spans, In: []int32{0}}
		if all || self == root {
			g.Out = []int32{0}
		}
		for s := range spans {
			for i, e := range es {
				g.along(e, false, s*lanesTree+laneUp, span(int32(up(e, 1+i)*spans+s), 1))
				if !e.up {
					g.fold(span(int32(s), 1), span(int32((1+i)*spans+s), 1), false)
				}
			}
		}
		if all {
			for s := range spans {
				g.down(es, s)
			}
		}
		return g.delivers()
	}
}

// up is the version that goes along an edge: what the task has goes up, another comes.
func up(e edge, version int) int {
	if e.up {
		return 0
	}
	return version
}

// leaders lists the other hosts in the order in which a leader meets them.
func (h hostsOf) leaders(host Rank) []Rank { return partners(len(h.first), host) }

// twoLevelAllGather: slot r has the block of task r.
func twoLevelAllGather(hosts []Rank) maker {
	return func(p int, self, _ Rank, _ int) Program {
		h := hostsOf{hosts, p}
		host := h.of(self)
		lo, n := h.tasks(int32(host), 1)
		g := Program{Slots: p, In: span(int32(self), 1), Out: span(0, int32(p))}
		if leader := Rank(lo); self != leader {
			g.send(leader, laneUp, span(int32(self), 1))
			g.recv(leader, laneDown, span(0, int32(p)))
			return g.delivers()
		}
		for r := lo + 1; r < lo+n; r++ {
			g.recv(Rank(r), laneUp, span(r, 1))
		}
		for _, other := range h.leaders(host) {
			g.send(hosts[other], laneUp, span(lo, n))
		}
		for _, other := range h.leaders(host) {
			g.recv(hosts[other], laneUp, span(h.tasks(int32(other), 1)))
		}
		for r := lo + 1; r < lo+n; r++ {
			g.send(Rank(r), laneDown, span(0, int32(p)))
		}
		return g.delivers()
	}
}

// laneHost is the lane of blocks that stay on a host.
const laneHost = lanesTree

// twoLevelAllToAll: slot r has the block for task r, slot P+r that of task r. At a leader further slots have what the others of its host send
// to other hosts, and then what they get from there.
func twoLevelAllToAll(hosts []Rank) maker {
	return func(p int, self, _ Rank, _ int) Program {
		h := hostsOf{hosts, p}
		host := h.of(self)
		lo, n := h.tasks(int32(host), 1)
		g := Program{Slots: 2 * p, In: span(0, int32(p)), Out: span(int32(p), int32(p))}
		g.Out[self] = int32(self)
		away := slices.Concat(span(0, lo), span(lo+n, int32(p)-lo-n)) // the tasks of other hosts
		from := func(base int32, of []int32) (slots []int32) {
			for _, r := range of {
				slots = append(slots, base+r)
			}
			return slots
		}
		leader := Rank(lo)
		if self != leader {
			g.send(leader, laneUp, away)
		}
		for r := lo; r < lo+n; r++ {
			if Rank(r) != self {
				g.send(Rank(r), laneHost, span(r, 1))
			}
		}
		// At a leader, where what a task of its host sends, and gets, begins.
		outgoing, incoming := make([]int32, n), make([]int32, n)
		incoming[0] = int32(p)
		if self == leader {
			for i := int32(1); i < n; i++ {
				outgoing[i], incoming[i] = int32(g.Slots), int32(g.Slots+p)
				g.Slots += 2 * p
				g.recv(Rank(lo+i), laneUp, from(outgoing[i], away))
			}
			for _, other := range h.leaders(host) {
				g.send(hosts[other], laneUp, h.bundle(outgoing, other))
			}
			for _, other := range h.leaders(host) {
				g.recv(hosts[other], laneUp, transposed(h.bundle(incoming, other), int(n)))
			}
			for i := int32(1); i < n; i++ {
				g.send(Rank(lo+i), laneDown, from(incoming[i], away))
			}
		}
		for r := lo; r < lo+n; r++ {
			if Rank(r) != self {
				g.recv(Rank(r), laneHost, span(int32(p)+r, 1))
			}
		}
		if self != leader {
			g.recv(leader, laneDown, from(int32(p), away))
		}
		return g.delivers()
	}
}

// bundle returns the slots of all blocks between the tasks of a host, given where those of each begin, and the tasks of another, by the
// former.
func (h hostsOf) bundle(begin []int32, other Rank) (slots []int32) {
	lo, n := h.tasks(int32(other), 1)
	for _, at := range begin {
		slots = append(slots, span(at+lo, n)...)
	}
	return slots
}

// transposed returns what was listed row by row column by column.
func transposed(list []int32, rows int) (by []int32) {
	columns := len(list) / rows
	for c := range columns {
		for r := range rows {
			by = append(by, list[r*columns+c])
		}
	}
	return by
}
